//! The path that a sign-in leads to.

use axum::extract::Request;
use gateway::{Origin, PerimeterReason};

use crate::app::App;
use crate::http::query::query_value;

/// The path of this console that a browser wants to go on to after a sign-in.
pub(crate) struct Next {
    path: String,
    is_replaced: bool,
}

impl Next {
    /// The one in the query of a request.
    pub(crate) fn of(request: &Request) -> Self {
        Self::read(&query_value(request, "next").unwrap_or_default())
    }

    /// The one that a text names, `/` without any.
    pub(crate) fn read(asked: &str) -> Self {
        Self { path: own_path(asked), is_replaced: is_foreign(asked) }
    }

    /// The path; that the address of another host was asked for is noted.
    pub(crate) async fn noted(self, app: &App, origin: &Origin) -> String {
        if self.is_replaced {
            app.gateway.note_perimeter_block(origin, PerimeterReason::ForeignAddress).await;
        }
        self.path
    }
}

/// A path of this console: nothing that a browser would read as the address of another host.
pub(crate) fn own_path(path: &str) -> String {
    let is_path = path.starts_with('/')
        && !path.starts_with("//")
        // Browsers read one as a slash, but behind the path.
        && !path.split(['?', '#']).next().unwrap_or_default().contains('\\')
        && !path.contains(char::is_control);
    if is_path { path.to_owned() } else { "/".to_owned() }
}

/// Whether a browser would read a text as the address of another host: it has a scheme, or begins with two slashes
/// of either kind. Browsers pass over characters of control.
fn is_foreign(text: &str) -> bool {
    let read: String = text.chars().filter(|c| !c.is_control()).collect();
    let read = read.trim_start();
    let is_slash = |c: char| matches!(c, '/' | '\\');
    let has_host = read.chars().take(2).filter(|c| is_slash(*c)).count() == 2;
    let scheme = read.split_once(':').map(|(scheme, _)| scheme);
    has_host
        || scheme.is_some_and(|scheme| !scheme.contains(|c| is_slash(c) || c == '?' || c == '#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_in_leads_to_no_other_host() {
        for (next, path) in [
            ("/traces?status=failed", "/traces?status=failed"),
            ("/", "/"),
            ("/traces?x=a\\b", "/traces?x=a\\b"),
            ("/traces\\b", "/"),
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

    #[test]
    fn addresses_of_other_hosts_are_told_from_slips() {
        for next in [
            "//evil.example",
            "/\\evil.example",
            "\\/e",
            "/\t/evil.example",
            "https://e",
            "javascript:1",
        ] {
            assert!(is_foreign(next), "{next:?}");
        }
        for next in
            ["", "/", "traces", "/traces?x=a\\b", "/traces\\b", "/traces?at=10:00", "?a=b:c"]
        {
            assert!(!is_foreign(next), "{next:?}");
        }
    }
}
