//! The way out for a browser with several session cookies.
//!
//! None of them counts: another host of the domain may have set one, as may a proxy whose rules for cookies have
//! changed. All of them would be there again after the next sign-in, so the answer removes them.

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::SET_COOKIE;
use axum::response::Response;

use crate::app::App;
use crate::control::session::SESSION_COOKIE;
use crate::http::auth::SessionCookie;
use crate::http::cookie::Cookie;
use crate::http::cross_site;

/// The most domains above the host, and the most paths below the root, for which a cookie is removed. The headers
/// of an answer have to pass proxies.
const MOST: usize = 3;

/// The headers that remove all session cookies of a browser that has several; none of another browser.
pub(super) fn removals(app: &App, request: &Request) -> Vec<HeaderValue> {
    if !matches!(SessionCookie::read(request.headers()), SessionCookie::Several) {
        return Vec::new();
    }
    // A proxy may send a host of its own.
    let public = app.public_origin.as_ref().map(|own| own.host.as_str());
    let host = public.or_else(|| cross_site::host(request)).unwrap_or_default();
    let (domains, paths) = (domains(host), paths(request.uri().path()));
    let mut removals = Vec::new();
    for path in paths {
        let own = Cookie { path, ..SESSION_COOKIE }.removed(app);
        removals.extend(domains.iter().map(|domain| format!("{own}; Domain={domain}")));
        removals.push(own);
    }
    removals.into_iter().filter_map(|value| value.try_into().ok()).collect()
}

/// Puts removals before the cookies that an answer sets: a session that has just begun stays.
pub(super) fn put(removals: Vec<HeaderValue>, response: &mut Response) {
    if removals.is_empty() {
        return;
    }
    let headers = response.headers_mut();
    let set: Vec<HeaderValue> = headers.get_all(SET_COOKIE).iter().cloned().collect();
    headers.remove(SET_COOKIE);
    for value in removals.into_iter().chain(set) {
        headers.append(SET_COOKIE, value);
    }
}

/// The host without its port, and the domains above it.
fn domains(host: &str) -> Vec<&str> {
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let is_name = host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
        && host.bytes().any(|b| b.is_ascii_alphabetic());
    if !is_name {
        return Vec::new();
    }
    let above =
        std::iter::successors(Some(host), |host| host.split_once('.').map(|(_, rest)| rest));
    above.take_while(|domain| domain.contains('.')).take(1 + MOST).collect()
}

/// The paths of which cookies are sent to this one.
fn paths(path: &str) -> Vec<&str> {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
    let below = ends.map(|end| &path[..end]).filter(|path| path.len() > 1 && !path.contains(';'));
    std::iter::once("/").chain(below.take(MOST)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_removed_wherever_they_may_have_been_set() {
        let of_host = ["gate.dev.example.org", "dev.example.org", "example.org"];
        assert_eq!(domains("gate.dev.example.org:8443"), of_host);
        for host in ["127.0.0.1:80", "localhost", "[::1]:80", "a_b;.example", ""] {
            assert!(domains(host).is_empty(), "{host}");
        }
        assert_eq!(paths("/traces/7/steps/8"), ["/", "/traces", "/traces/7", "/traces/7/steps"]);
        assert_eq!(paths("/keys"), ["/", "/keys"]);
        assert_eq!(paths("/"), ["/"]);
    }
}
