//! Cookies that the gateway sets. No script reads one, and over TLS none is sent in the clear.

use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};

use crate::app::App;

/// The most cookies of a name that are read of a request: Chromium and Firefox keep 180 cookies of a domain, so that its
/// other hosts hide none.
pub(crate) const MOST_OF_NAME: usize = 200;

/// A cookie of the gateway's.
#[derive(Clone, Copy)]
pub(crate) struct Cookie<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The path below which it is sent.
    pub(crate) path: &'a str,
    /// `Lax` or `Strict`: whether a page of another site may lead here with it.
    pub(crate) same_site: &'a str,
    /// Whether over TLS its name is one that no other host of the domain can set (`__Host-`). Browsers then
    /// want it for the whole host.
    pub(crate) is_bound: bool,
}

impl Cookie<'_> {
    /// The value of a header that sets it for so many seconds.
    pub(crate) fn lasting(self, app: &App, value: &str, max_age: i64) -> String {
        let Self { path, same_site, .. } = self;
        let (name, secure) = (self.full_name(app), if app.is_https { "; Secure" } else { "" });
        let path = if self.is_bound && app.is_https { "/" } else { path };
        format!(
            "{name}={value}; Path={path}; Max-Age={max_age}; HttpOnly; SameSite={same_site}{secure}"
        )
    }

    /// The value of the cookie in a request.
    pub(crate) fn read(self, app: &App, headers: &HeaderMap) -> Option<String> {
        cookies(headers, &self.full_name(app)).next().map(str::to_owned)
    }

    fn full_name(self, app: &App) -> String {
        let prefix = if self.is_bound && app.is_https { "__Host-" } else { "" };
        format!("{prefix}{}", self.name)
    }

    /// The value of a header that removes it.
    pub(crate) fn removed(self, app: &App) -> String {
        self.lasting(app, "", 0)
    }
}

/// A response that sets a cookie beside those that it sets already.
pub(crate) fn with_cookie(cookie: &str, response: impl IntoResponse) -> Response {
    let mut response = response.into_response();
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(SET_COOKIE, value);
    }
    response
}

/// The values of all cookies of a name. Browsers send bytes beyond ASCII as they are, and those of one cookie hide no
/// other.
pub(crate) fn cookies<'h>(
    headers: &'h HeaderMap,
    wanted: &'h str,
) -> impl Iterator<Item = &'h str> {
    headers
        .get_all(COOKIE)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b';'))
        .filter_map(move |pair| {
            // Other white space is part of the name, which any host may then set.
            let pair = pair.trim_ascii();
            let value = pair.strip_prefix(wanted.as_bytes())?.strip_prefix(b"=")?;
            std::str::from_utf8(value).ok()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_of_other_hosts_hide_none_and_stand_for_none() {
        let lines = [
            "name=Zo\u{eb}; own=1;\town=2 ; other=own=3",
            "\u{2000}own=4; \u{a0}own=5; ownother=6; own; own=",
        ];
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(COOKIE, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        headers.append(COOKIE, HeaderValue::from_bytes(b"name=\xff; own=\xff; own=7").unwrap());
        assert_eq!(cookies(&headers, "own").collect::<Vec<_>>(), ["1", "2", "", "7"]);
        assert_eq!(cookies(&headers, "name").collect::<Vec<_>>(), ["Zo\u{eb}"]);
    }
}
