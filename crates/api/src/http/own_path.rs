//! The path that a sign-in leads to.

use axum::extract::Request;

use crate::http::query::query_value;

/// The path of this console that a request wants to go on to.
pub(crate) fn next_of(request: &Request) -> String {
    query_value(request, "next").map_or_else(|| "/".to_owned(), |next| own_path(&next))
}

/// A path of this console: nothing that a browser would read as the address of another host.
pub(crate) fn own_path(path: &str) -> String {
    let is_path = path.starts_with('/')
        && !path.starts_with("//")
        && !path.contains(['\\', '\t', '\r', '\n'])
        && !path.contains(char::is_control);
    if is_path { path.to_owned() } else { "/".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_in_leads_to_no_other_host() {
        for (next, path) in [
            ("/traces?status=failed", "/traces?status=failed"),
            ("/", "/"),
            ("//evil.example", "/"),
            ("/\\evil.example", "/"),
            ("/\t/evil.example", "/"),
            ("https://evil.example", "/"),
            ("javascript:alert(1)", "/"),
            ("", "/"),
        ] {
            assert_eq!(own_path(next), path, "{next:?}");
        }
    }
}
