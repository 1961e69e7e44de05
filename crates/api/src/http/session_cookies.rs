//! The cookies of a session.
//!
//! Clients know it as `sluice_session`, a name that another host of the domain can set too. Over TLS a second cookie
//! stands beside it, whose name no other host can set and whose value belongs to the session: browsers have to send
//! both. So a session that somebody else has planted is none, and of several the own one is known.
//!
//! Without TLS none of several sessions counts, and neither does any if the second cookie fits none of them. All of
//! them would be there again after the next sign-in, so the answer removes them.

use axum::extract::{Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::secret::Secret;

use crate::app::App;
use crate::http::cookie::{Cookie, MOST_OF_NAME, cookies, with_cookie};
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
/// The most bytes of headers that remove cookies: proxies pass on some kilobytes (nginx 4 KiB), of which the policy of
/// a page, its new cookies and the address that it leads to take some.
const MOST_BYTES: usize = 2560;
/// The longest path for which a cookie is removed: a longer one would leave no room for others.
const LONGEST_PATH: usize = 255;
/// The paths of which cookies are sent to the session's own routes and to no page.
const OF_API: [&str; 6] =
    ["/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/session", "/api/v1/session/"];

/// The session cookie of a request.
#[derive(Clone)]
pub(crate) enum SessionCookie {
    None,
    One(String),
    /// A browser has it, and not the cookie that belongs to it: another host has set it, or a proxy has dropped or
    /// changed the other.
    Planted,
    /// Several, and none is known as the own one.
    Several,
}

impl SessionCookie {
    /// That of a request, which [`removals`] may have read before.
    pub(crate) fn of(app: &App, request: &Request) -> Self {
        let known = request.extensions().get::<Self>();
        known.cloned().unwrap_or_else(|| Self::read(app, request.headers()))
    }

    fn read(app: &App, headers: &HeaderMap) -> Self {
        let own = if app.is_https { OWN.read(app, headers) } else { None };
        if let Some(own) = own
            && let Some(token) = own_token(headers, |token| app.gateway.is_own(token, &own))
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

/// The token to which the second cookie belongs. Nobody is known yet, so the work is bounded: each takes about a
/// microsecond.
fn own_token(headers: &HeaderMap, is_own: impl Fn(&str) -> bool) -> Option<&str> {
    let tokens = cookies(headers, COOKIE_NAME).filter(|token| gateway::has_own(token));
    tokens.take(MOST_OF_NAME).find(|token| is_own(token))
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
    mut request: Request,
    next: Next,
) -> Response {
    let removals = removals(&app, &mut request);
    let mut response = next.run(request).await;
    put(removals, &mut response);
    response
}

/// The headers that remove all session cookies of a browser that has several; none of another browser. The request
/// keeps what was read.
pub(crate) fn removals(app: &App, request: &mut Request) -> Vec<HeaderValue> {
    let cookie = SessionCookie::read(app, request.headers());
    let is_several = matches!(cookie, SessionCookie::Several);
    request.extensions_mut().insert(cookie);
    if !is_several {
        return Vec::new();
    }
    let request = &*request;
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

/// The paths of which cookies are sent to this one, each with and without a slash at its end: they are others. After
/// `/` the deepest comes first, which fewer other requests see. Then those that lead to the session's own routes, which
/// no page sees.
fn paths(path: &str) -> Vec<&str> {
    let slashes = path.match_indices('/').map(|(at, _)| at).skip(1);
    let above = slashes.flat_map(|at| [&path[..at], &path[..=at]]);
    let is_removed = |path: &&str| (2..=LONGEST_PATH).contains(&path.len()) && !path.contains(';');
    let own: Vec<&str> = above.chain([path]).filter(is_removed).collect();
    let mut paths: Vec<&str> = std::iter::once("/").chain(own.into_iter().rev()).collect();
    paths.extend(OF_API);
    let mut seen = std::collections::HashSet::new();
    paths.retain(|path| seen.insert(*path));
    paths
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use axum::http::header::COOKIE;

    use super::*;

    #[test]
    fn few_tokens_are_judged_and_only_those_of_the_right_shape() {
        let judged = |tokens: &[String]| {
            let all: Vec<_> = tokens.iter().map(|token| format!("{COOKIE_NAME}={token}")).collect();
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, HeaderValue::try_from(all.join("; ")).unwrap());
            let count = Cell::new(0);
            let is_own = |token: &str| {
                count.set(count.get() + 1);
                token.ends_with('7')
            };
            (own_token(&headers, is_own).is_some(), count.get())
        };
        let token = |digit: &str| format!("o{}", digit.repeat(64));
        let own = token("7");
        assert_eq!(judged(&[token("1"), own.clone(), token("2")]), (true, 2));
        let junk = [String::new(), "7".repeat(64), format!("{own}7"), "o7".to_owned(), token("g")];
        assert_eq!(judged(&junk), (false, 0));
        let junk: Vec<_> = junk.into_iter().cycle().take(5000).chain([own]).collect();
        assert_eq!(judged(&junk), (true, 1));
        let planted: Vec<_> = std::iter::repeat_with(|| token("1")).take(1000).collect();
        assert_eq!(judged(&planted), (false, MOST_OF_NAME));
    }

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
                    "/traces/7/steps/8",
                    "/traces/7/steps/",
                    "/traces/7/steps",
                    "/traces/7/",
                    "/traces/7",
                    "/traces/",
                    "/traces",
                ],
            ),
        ] {
            assert_eq!(paths(path), [own, &OF_API].concat(), "{path}");
        }
        let of_api = [
            "/",
            "/api/v1/session/passkeys",
            "/api/v1/session/",
            "/api/v1/session",
            "/api/v1/",
            "/api/v1",
            "/api/",
            "/api",
        ];
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
        assert!(bytes <= 2560, "{bytes}");
        assert!(removals_of("example.org", &"/a".repeat(4000)).len() > 5);
    }

    #[test]
    fn what_no_other_request_sees_is_removed_first() {
        let of_passkey = format!("/api/v1/session/passkeys/{}", "7".repeat(36));
        let of_step = format!("/traces/{}/steps/8", "7".repeat(36));
        for path in [&*of_passkey, "/api/v1/session/mfa/recovery-codes", &of_step] {
            let removals = removals_of("ai.internal.corp.example.com", path);
            // For the host alone, and for four domains.
            let own = format!("sluice_session=; Path={path}; Max-Age=0");
            let of_path =
                removals.iter().filter(|value| value.as_bytes().starts_with(own.as_bytes()));
            assert_eq!(of_path.count(), 5, "{removals:?}");
        }
    }
}
