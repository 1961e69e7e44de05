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
        let path = own_path(asked);
        let is_replaced = !asked.is_empty() && path != asked;
        Self { path, is_replaced }
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
fn own_path(path: &str) -> String {
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
