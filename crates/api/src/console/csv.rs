//! Tables as CSV (RFC 4180).

use std::borrow::Cow;
use std::fmt::Write as _;

use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use gateway::cell_text;

/// A file with a head and rows.
pub(super) fn file(name: &str, head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Response {
    let mut text = String::new();
    line(&mut text, head.iter().copied());
    for row in rows {
        line(&mut text, row.iter().map(String::as_str));
    }
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.csv\"")),
    ];
    (headers, text).into_response()
}

fn line<'t>(text: &mut String, cells: impl Iterator<Item = &'t str>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            text.push(',');
        }
        let cell = cell_text(cell);
        let is_plain = matches!(cell, Cow::Borrowed(_)) && !cell.contains([',', '"', '\r', '\n']);
        if is_plain {
            text.push_str(&cell);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "\"{}\"", cell.replace('"', "\"\""));
        }
    }
    text.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_are_no_formulas() {
        let mut text = String::new();
        line(&mut text, ["plain", "a,b", "say \"hi\"", "=1+1", "two\nlines", ""].into_iter());
        assert_eq!(text, "plain,\"a,b\",\"say \"\"hi\"\"\",\"'=1+1\",\"two\nlines\",\r\n");
    }
}
