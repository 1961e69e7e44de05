//! Requests that pages of other sites make in a browser: its cookie goes with them, without the
//! user's knowledge.

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN, REFERER};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use gateway::{Error, Origin, PerimeterReason};

use crate::app::App;
use crate::http::client;
use crate::http::error::Result;
use crate::http::web_origin::WebOrigin;

/// The header in which a browser says which page has it send a request.
pub(crate) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Whether a request changes something and may come from a page of another origin. A client that sends
/// neither `Origin` nor `Sec-Fetch-Site` is no browser, and has no cookie but its own.
pub fn is_foreign(app: &App, request: &Request) -> bool {
    if request.method().is_safe() {
        return false;
    }
    let headers = request.headers();
    let own = match &app.public_origin {
        Some(public) => Some(public.clone()),
        None => {
            let scheme = scheme(app, request);
            if scheme.is_none() && is_behind_tls(headers, host(request)) {
                return false;
            }
            // The gateway itself serves plain HTTP; a proxy in front may not.
            let is_https = scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
            host(request).and_then(|host| WebOrigin::of_authority(is_https, host))
        }
    };
    if is_of_own_page(headers, own.as_ref()) {
        return false;
    }
    tracing::info!(
        origin = ?request.headers().get(ORIGIN),
        site = ?request.headers().get(&FETCH_SITE),
        own = ?own,
        "a request from a page of another origin was refused; behind a proxy, public_url names the own one"
    );
    true
}

/// The origin of a request without a credential, which neither a page of another site nor an address that may
/// not call may send. (The request itself must not be held over the wait: its body is not `Sync`.)
pub fn open_origin<'a>(
    app: &'a App,
    request: &Request,
) -> impl Future<Output = Result<Origin>> + Send + use<'a> {
    let (is_foreign, origin) = (is_foreign(app, request), client::origin(app, request));
    async move {
        if is_foreign {
            app.gateway.note_perimeter_block(&origin, PerimeterReason::ForeignPage).await;
            return Err(Error::Forbidden.into());
        }
        app.gateway.check_address(&origin).await?;
        Ok(origin)
    }
}

/// The path and the query of the page that has a browser send a form, if that is a page of this gateway and the
/// browser names it.
pub(crate) fn own_page<'a>(app: &App, request: &'a Request) -> Option<&'a str> {
    if is_foreign(app, request) {
        return None;
    }
    let header = |name: HeaderName| request.headers().get(name)?.to_str().ok();
    // The origin is the gateway's own, or the request would be foreign.
    let (origin, page) = (WebOrigin::read(header(ORIGIN)?)?, header(REFERER)?);
    if WebOrigin::of_url(page)? != origin {
        return None;
    }
    let path = page.match_indices('/').nth(2);
    Some(path.map_or("/", |(at, _)| &page[at..]))
}

fn is_of_own_page(headers: &HeaderMap, own: Option<&WebOrigin>) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    // An opaque origin is `null`, and nothing equals it.
    let matches = match (origins.next(), origins.next()) {
        (None, _) => None,
        (Some(one), None) => {
            let origin = one.to_str().ok().and_then(WebOrigin::read);
            Some(origin.is_some() && origin.as_ref() == own)
        }
        (Some(_), Some(_)) => Some(false),
    };
    let sites = || headers.get_all(&FETCH_SITE).iter().map(HeaderValue::as_bytes);
    let is = |site: &[u8], word: &[u8]| site.trim_ascii().eq_ignore_ascii_case(word);
    if matches == Some(false) || sites().any(|site| is(site, b"cross-site")) {
        return false;
    }
    // `none`: the person did it, in the address line or a bookmark.
    matches == Some(true) || sites().all(|site| is(site, b"same-origin") || is(site, b"none"))
}

/// Whether the browser vouches for a page of the same origin, and that page is an `https` one of
/// this host: a proxy that is not configured here ends TLS. A page cannot set `Sec-Fetch-Site`, and
/// one of the same host under `http` is of another site.
fn is_behind_tls(headers: &HeaderMap, host: Option<&str>) -> bool {
    let mut sites = headers.get_all(&FETCH_SITE).iter();
    let (Some(site), None) = (sites.next(), sites.next()) else { return false };
    let own = || host.and_then(|host| WebOrigin::of_authority(true, host));
    site == "same-origin"
        && headers.contains_key(ORIGIN)
        && own().is_some_and(|own| is_of_own_page(headers, Some(&own)))
}

/// The scheme of the browser's own connection; `None` if nothing trusted shows it.
fn scheme<'a>(app: &App, request: &'a Request) -> Option<&'a str> {
    let forwarded =
        request.headers().get(&FORWARDED_PROTO).filter(|_| client::trusts_peer(app, request))?;
    // The first of several is that of the browser's own connection.
    let first = forwarded.to_str().unwrap_or_default().split(',').next();
    Some(first.unwrap_or_default().trim())
}

/// The host that a request is for. HTTP/2 has it in the address.
pub(crate) fn host(request: &Request) -> Option<&str> {
    let given = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    given.or(request.uri().authority().map(Authority::as_str))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn headers(given: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn origins_are_compared_by_scheme_host_and_port() {
        for (own, origin, same) in [
            ("https://ai.example", "https://ai.example", true),
            ("https://ai.example/", "https://ai.example:443", true),
            ("https://ai.example/gateway?x#y", "https://AI.example", true),
            ("http://ai.example:80", "http://ai.example", true),
            ("https://ai.example", "http://ai.example", false),
            ("https://ai.example", "http://ai.example:443", false),
            ("http://ai.example", "https://ai.example", false),
            ("http://ai.example", "https://ai.example:80", false),
            ("https://ai.example", "https://ai.example:8443", false),
            ("https://ai.example:8443", "https://ai.example", false),
            ("https://ai.example", "https://ai.example.", false),
            ("https://ai.example", "https://www.ai.example", false),
            ("https://ai.example", "https://ai.example.evil.test", false),
            ("https://ai.example", "https://ai.example/", false),
            ("https://ai.example", "https://ai.example/x", false),
            ("https://ai.example", "https://me@ai.example", false),
            ("https://ai.example", "https://ai.example:", false),
            ("https://ai.example", "https://ai.example:+443", false),
            ("https://ai.example", "https://ai.example:65979", false),
            ("https://ai.example", "https://ai.example https://evil.test", false),
            ("https://ai.example", "https:ai.example", false),
            ("https://ai.example", "ai.example", false),
            ("https://ai.example", "//ai.example", false),
            ("https://ai.example", "wss://ai.example", false),
            ("https://ai.example", "chrome-extension://ai.example", false),
            ("https://ai.example", "null", false),
            ("https://ai.example", "", false),
            ("http://[::1]:8080", "http://[::1]:8080", true),
            ("http://[::1]:8080", "http://[0:0::1]:8080", true),
            ("http://[::1]:8080", "http://[::1]", false),
            ("http://[::1]:8080", "http://::1:8080", false),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080", true),
            ("http://127.0.0.1:8080", "http://localhost:8080", false),
        ] {
            let own = WebOrigin::of_url(own).unwrap();
            assert_eq!(
                is_of_own_page(&headers(&[(ORIGIN, origin)]), Some(&own)),
                same,
                "{own:?} {origin}"
            );
            assert!(!is_of_own_page(&headers(&[(ORIGIN, origin)]), None), "{origin}");
        }
        for text in ["", "ai.example", "ftp://ai.example", "https://", "https:///x", "https://a b"]
        {
            assert_eq!(WebOrigin::of_url(text), None, "{text}");
        }
    }

    #[test]
    fn the_browser_says_which_page_asks() {
        let own = WebOrigin::of_url("https://ai.example").unwrap();
        let (same, foreign) = (Some("https://ai.example"), Some("https://www.ai.example"));
        for (site, origin, allowed) in [
            (&[][..], None, true),
            (&["same-origin"], None, true),
            (&["none"], None, true),
            (&["same-site"], None, false),
            (&["cross-site"], None, false),
            (&["something-new"], None, false),
            (&[""], None, false),
            (&["none", "same-site"], None, false),
            (&["none", "cross-site"], same, false),
            (&[], same, true),
            (&["same-origin"], same, true),
            (&["none"], same, true),
            (&["same-site"], same, true),
            (&["something-new"], same, true),
            (&["cross-site"], same, false),
            (&["CROSS-SITE"], same, false),
            (&[], foreign, false),
            (&["same-origin"], foreign, false),
            (&["none"], foreign, false),
            (&["same-site"], foreign, false),
            (&["same-origin"], Some("null"), false),
            (&["none"], Some("null"), false),
            (&["same-origin"], Some("http://ai.example"), false),
        ] {
            let mut given: Vec<_> = site.iter().map(|site| (FETCH_SITE, *site)).collect();
            given.extend(origin.map(|origin| (ORIGIN, origin)));
            assert_eq!(is_of_own_page(&headers(&given), Some(&own)), allowed, "{given:?}");
        }
        let twice = headers(&[(ORIGIN, "https://ai.example"), (ORIGIN, "https://ai.example")]);
        assert!(!is_of_own_page(&twice, Some(&own)), "a browser sends one");
        let mut odd = HeaderMap::new();
        odd.insert(ORIGIN, HeaderValue::from_bytes(b"https://ai.example\xff").unwrap());
        assert!(!is_of_own_page(&odd, Some(&own)), "what cannot be read is no origin");
    }

    #[test]
    fn tls_that_ends_in_front_is_believed_of_the_browser_alone() {
        for (host, sites, origins, allowed) in [
            ("ai.example", &["same-origin"][..], &["https://ai.example"][..], true),
            ("ai.example", &["same-origin"], &["https://ai.example:443"], true),
            ("ai.example:443", &["same-origin"], &["https://ai.example"], true),
            ("ai.example:8443", &["same-origin"], &["https://AI.example:8443"], true),
            ("[::1]:8443", &["same-origin"], &["https://[0::1]:8443"], true),
            ("ai.example", &["same-origin"], &["https://ai.example:8443"], false),
            ("ai.example:80", &["same-origin"], &["https://ai.example"], false),
            ("ai.example", &["same-origin"], &["https://www.ai.example"], false),
            ("ai.example", &["same-origin"], &["https://ai.example.evil.test"], false),
            ("ai.example", &["same-origin"], &["null"], false),
            ("ai.example", &["same-origin"], &[], false),
            ("ai.example", &["same-origin"], &["https://ai.example"; 2], false),
            ("ai.example", &["same-origin"; 2], &["https://ai.example"], false),
            ("ai.example", &["same-origin", "cross-site"], &["https://ai.example"], false),
            ("ai.example", &["Same-Origin"], &["https://ai.example"], false),
            ("ai.example", &["same-origin, none"], &["https://ai.example"], false),
            ("ai.example", &[], &["https://ai.example"], false),
            ("ai.example", &["none"], &["https://ai.example"], false),
            ("ai.example", &["same-site"], &["https://ai.example"], false),
            ("ai.example", &["cross-site"], &["https://ai.example"], false),
            ("me@ai.example", &["same-origin"], &["https://ai.example"], false),
        ] {
            let mut given: Vec<_> = sites.iter().map(|site| (FETCH_SITE, *site)).collect();
            given.extend(origins.iter().map(|origin| (ORIGIN, *origin)));
            assert_eq!(is_behind_tls(&headers(&given), Some(host)), allowed, "{host} {given:?}");
            assert!(!is_behind_tls(&headers(&given), None), "{given:?}");
        }
    }

    #[test]
    fn both_versions_of_http_name_the_host() {
        let request = |uri: &str| Request::builder().uri(uri).body(Body::empty()).unwrap();
        let mut first = request("/api/v1/session");
        assert_eq!(host(&first), None);
        first.headers_mut().insert(HOST, "one.example:8080".parse().unwrap());
        assert_eq!(host(&first), Some("one.example:8080"));
        assert_eq!(host(&request("http://two.example/api/v1/session")), Some("two.example"));
    }
}
