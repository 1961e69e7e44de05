//! The cookies of a session.
//!
//! Clients know it as `sluice_session`, a name that another host of the domain can set too. Over TLS a second cookie
//! stands beside it, whose name no other host can set and whose value belongs to the session: browsers have to send
//! both. So a session that somebody else has planted is none, and of several the own one is known.
//!
//! Without TLS, or with none that fits, of several sessions none counts. All of them would be there again after the
//! next sign-in, so the answer removes them.

use axum::extract::{Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::secret::Secret;

use crate::app::App;
use crate::http::cookie::{Cookie, cookies, with_cookie};
use crate::http::cross_site;

/// The name by which clients know a session.
pub(crate) const COOKIE_NAME: &str = "sluice_session";
/// The cookie of a session.
const SESSION: Cookie<'static> =
    Cookie { name: COOKIE_NAME, path: "/", same_site: "Lax", is_bound: false };
/// The cookie beside it over TLS.
const OWN: Cookie<'static> =
    Cookie { name: "sluice_session_own", path: "/", same_site: "Lax", is_bound: true };

/// The most domains above the host for which a cookie is removed.
const MOST_DOMAINS: usize = 3;
/// The most bytes of headers that remove cookies: proxies pass on some kilobytes (nginx 4 KiB).
const MOST_BYTES: usize = 3 * 1024;
/// The paths of which cookies are sent to the session's own routes and to no page.
const OF_API: [&str; 6] =
    ["/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/session", "/api/v1/session/"];

/// The session cookie of a request.
pub(crate) enum SessionCookie {
    None,
    One(String),
    /// A browser has it, and not the cookie that belongs to it: another host has set it.
    Planted,
    /// Several, and none is known as the own one.
    Several,
}

impl SessionCookie {
    pub(crate) fn read(app: &App, headers: &HeaderMap) -> Self {
        let own = if app.is_https { OWN.read(app, headers) } else { None };
        if let Some(own) = own
            && let Some(token) =
                cookies(headers, COOKIE_NAME).find(|token| app.gateway.is_own(token, &own))
        {
            return Self::One(token.to_owned());
        }
        let mut tokens = cookies(headers, COOKIE_NAME);
        match (tokens.next(), tokens.next()) {
            (None, _) => Self::None,
            (Some(_), Some(_)) => Self::Several,
            (Some(token), None) => {
                let is_browser = headers.contains_key(cross_site::FETCH_SITE);
                let lacks_own = app.is_https && is_browser && gateway::has_own(token);
                if lacks_own { Self::Planted } else { Self::One(token.to_owned()) }
            }
        }
    }
}

/// An answer with the cookies of a session that has begun, and lasts for some microseconds.
pub(crate) fn with_session(
    app: &App,
    token: &Secret,
    lasts: i64,
    response: impl IntoResponse,
) -> Response {
    let (token, lasts) = (token.expose(), lasts / 1_000_000);
    let response = with_cookie(&SESSION.lasting(app, token, lasts), response);
    if !app.is_https {
        return response;
    }
    with_cookie(&OWN.lasting(app, &app.gateway.own_of(token), lasts), response)
}

/// An answer that removes them.
pub(crate) fn without_session(app: &App, response: impl IntoResponse) -> Response {
    let response = with_cookie(&SESSION.removed(app), response);
    if app.is_https { with_cookie(&OWN.removed(app), response) } else { response }
}

/// Removes session cookies of which there are several.
pub(crate) async fn several_removed(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Response {
    let removals = removals(&app, &request);
    let mut response = next.run(request).await;
    put(removals, &mut response);
    response
}

/// The headers that remove all session cookies of a browser that has several; none of another browser.
pub(crate) fn removals(app: &App, request: &Request) -> Vec<HeaderValue> {
    if !matches!(SessionCookie::read(app, request.headers()), SessionCookie::Several) {
        return Vec::new();
    }
    // A proxy may send a host of its own.
    let public = app.public_origin.as_ref().map(|own| own.host.as_str());
    let host = public.or_else(|| cross_site::host(request)).unwrap_or_default();
    removals_of(host, request.uri().path())
}

fn removals_of(host: &str, path: &str) -> Vec<HeaderValue> {
    const NAME: usize = "set-cookie: \r\n".len();
    let domains = domains(host);
    let mut removals = Vec::new();
    let mut bytes = 0;
    for path in paths(path) {
        let own = format!("{COOKIE_NAME}=; Path={path}; Max-Age=0");
        let of_domains = domains.iter().map(|domain| format!("{own}; Domain={domain}"));
        for removal in std::iter::once(own.clone()).chain(of_domains) {
            bytes += NAME + removal.len();
            if bytes > MOST_BYTES {
                return removals;
            }
            removals.extend(HeaderValue::try_from(removal));
        }
    }
    removals
}

/// Puts removals before the cookies that an answer sets: a session that has just begun stays.
pub(crate) fn put(removals: Vec<HeaderValue>, response: &mut Response) {
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
    above.take_while(|domain| domain.contains('.')).take(1 + MOST_DOMAINS).collect()
}

/// The paths of which cookies are sent to this one, each with and without a slash at its end: they are others. Then
/// those that lead to the session's own routes, which no page sees.
fn paths(path: &str) -> Vec<&str> {
    let slashes = path.match_indices('/').map(|(at, _)| at).skip(1);
    let above = slashes.flat_map(|at| [&path[..at], &path[..=at]]);
    let own = above.chain([path]).filter(|path| path.len() > 1 && !path.contains(';'));
    let mut paths: Vec<&str> = std::iter::once("/").chain(own).collect();
    paths.extend(OF_API);
    let mut seen = std::collections::HashSet::new();
    paths.retain(|path| seen.insert(*path));
    paths
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
        for (path, own) in [
            ("/", &["/"][..]),
            ("/keys", &["/", "/keys"]),
            (
                "/traces/7/steps/8",
                &[
                    "/",
                    "/traces",
                    "/traces/",
                    "/traces/7",
                    "/traces/7/",
                    "/traces/7/steps",
                    "/traces/7/steps/",
                    "/traces/7/steps/8",
                ],
            ),
        ] {
            assert_eq!(paths(path), [own, &OF_API].concat(), "{path}");
        }
        let of_api = [&["/"], &OF_API[..], &["/api/v1/session/passkeys"]].concat();
        assert_eq!(paths("/api/v1/session/passkeys"), of_api);
        let removals = removals_of("gate.example.org", "/keys");
        assert_eq!(removals.len(), 8 * 3);
        assert_eq!(removals[0], "sluice_session=; Path=/; Max-Age=0");
        assert_eq!(removals[2], "sluice_session=; Path=/; Max-Age=0; Domain=example.org");
    }

    #[test]
    fn proxies_pass_on_what_removes_them() {
        let path = format!("/traces/{}/steps/{}", "7".repeat(36), "8".repeat(20));
        let removals = removals_of("gate.of.the.team.example.org", &path);
        assert!(removals.len() > 20, "{removals:?}");
        let bytes: usize = removals.iter().map(|value| value.len() + 14).sum();
        assert!(bytes <= 3072, "{bytes}");
        assert!(removals_of("example.org", &"/a".repeat(4000)).len() > 20);
    }
}
