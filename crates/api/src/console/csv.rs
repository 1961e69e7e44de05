//! Tables as CSV (RFC 4180).

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use dashboard::{Count, Texts};
use domain::money::Usd;
use domain::time::Timestamp;
use gateway::{Error, cell_text};
use http_body_util::BodyExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::app::App;

/// The most rows of a list's file.
const MOST_ROWS: usize = 10_000;
/// The most bytes of a list's file, which is held until it is sent.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// The longest time that a list is read for its file, after which it has the rows that were read.
const LONGEST_READ: Duration = Duration::from_secs(20);
/// The rows of a list that are read at once for its file.
pub(super) const READ: i64 = 500;

/// A file with a head and rows.
pub(super) fn file(name: &str, head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Response {
    let mut text = String::new();
    line(&mut text, head.iter().copied());
    for row in rows {
        line(&mut text, row.iter().map(String::as_str));
    }
    response(name, text)
}

/// The place of one list's file among those that are made or sent.
pub(super) struct Place(
    #[expect(dead_code, reason = "it is given back when it is dropped")] OwnedSemaphorePermit,
);

impl Place {
    /// Takes a place: a file is held whole, and its list is read at length.
    pub(super) fn take(app: &App) -> Result<Self, Error> {
        let place = app.list_files.clone().try_acquire_owned();
        place
            .map(Self)
            .map_err(|_| Error::Busy { why: "Other lists are being downloaded", retry_after: 5 })
    }
}

/// The file of a whole list, which is read page by page, up to the most rows of a file.
pub(super) struct ListFile {
    place: Place,
    name: &'static str,
    columns: usize,
    text: String,
    rows: usize,
    is_cut: bool,
    ends: Instant,
}

impl ListFile {
    pub(super) fn new(place: Place, name: &'static str, head: &[&str]) -> Self {
        let mut text = String::new();
        line(&mut text, head.iter().copied());
        let (columns, ends) = (head.len(), Instant::now() + LONGEST_READ);
        Self { place, name, columns, text, rows: 0, is_cut: false, ends }
    }

    /// Ends the file here, although the list has more. False if it has no row: that it cannot be had now is told.
    pub(super) fn cut(&mut self) -> bool {
        self.is_cut = self.rows > 0;
        self.is_cut
    }

    /// Adds rows, as far as the file takes them. Returns whether it takes more.
    pub(super) fn add(&mut self, rows: impl IntoIterator<Item = Vec<String>>) -> bool {
        for row in rows {
            if self.rows >= MOST_ROWS || self.text.len() >= MOST_BYTES {
                self.is_cut = true;
                return false;
            }
            line(&mut self.text, row.iter().map(String::as_str));
            self.rows += 1;
        }
        true
    }

    /// Adds a page of a list of which there may be more. Returns whether there may be more that the file takes.
    pub(super) fn add_page(
        &mut self,
        rows: impl IntoIterator<Item = Vec<String>>,
        has_more: bool,
    ) -> bool {
        let takes_more = self.add(rows) && has_more;
        if takes_more && Instant::now() >= self.ends {
            self.is_cut = true;
        }
        takes_more && !self.is_cut
    }

    /// Adds what one read of a list has given, of at most so many rows: after fewer there are no more. Returns whether
    /// there may be more that the file takes.
    pub(super) fn add_read(
        &mut self,
        rows: impl ExactSizeIterator<Item = Vec<String>>,
        most: i64,
    ) -> bool {
        let is_full = rows.len() as i64 == most;
        self.add_page(rows, is_full)
    }

    /// The file. If it is cut, its last line says so in the first column. Its place is given back once it has left.
    pub(super) fn response(mut self, t: &Texts) -> Response {
        if self.is_cut {
            let rows = Count(i64::try_from(self.rows).unwrap_or(i64::MAX));
            let note = t.words.file_is_cut(rows);
            let empty = std::iter::repeat_n("", self.columns.saturating_sub(1));
            line(&mut self.text, std::iter::once(&*note).chain(empty));
        }
        let place = self.place;
        response(self.name, self.text).map(|body| {
            Body::new(body.map_err(move |error| {
                let _until_then = &place;
                error
            }))
        })
    }
}

/// The cell of an amount in US dollars.
pub(super) fn amount(amount: Usd) -> String {
    amount.dollars().to_string()
}

/// The cell of a time; empty without one.
pub(super) fn time(at: Option<Timestamp>) -> String {
    at.map(|at| at.to_string()).unwrap_or_default()
}

/// The cell of what may be missing.
pub(super) fn maybe(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The cell of a list.
pub(super) fn listed(values: impl IntoIterator<Item = impl ToString>) -> String {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    values.join(" ")
}

fn response(name: &str, text: String) -> Response {
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
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn cells_are_quoted_and_are_no_formulas() {
        let mut text = String::new();
        line(&mut text, ["plain", "a,b", "say \"hi\"", "=1+1", "two\nlines", ""].into_iter());
        assert_eq!(text, "plain,\"a,b\",\"say \"\"hi\"\"\",\"'=1+1\",\"two\nlines\",\r\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_cut_says_so() {
        let rows = |count: usize, cell: &str| vec![vec![cell.to_owned(), String::new()]; count];
        let text = async |file: ListFile| {
            let body = file.response(&dashboard::ENGLISH).into_body();
            let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            String::from_utf8(bytes.to_vec()).unwrap()
        };
        let places = Arc::new(Semaphore::new(4));
        let file = || {
            let place = Place(places.clone().try_acquire_owned().unwrap());
            ListFile::new(place, "list", &["head", "more"])
        };
        let mut whole = file();
        assert!(whole.add_page(rows(MOST_ROWS - 1, "a"), true));
        assert!(!whole.add_page(rows(1, "last"), false), "the list has no more");
        let whole = text(whole).await;
        assert_eq!(whole.lines().count(), 1 + MOST_ROWS);
        assert!(whole.starts_with("head,more\r\na,\r\n") && whole.ends_with("\r\nlast,\r\n"));

        let mut long = file();
        assert!(!long.add_page(rows(MOST_ROWS + 1, "a"), true));
        let long = text(long).await;
        assert_eq!(long.lines().count(), 1 + MOST_ROWS + 1);
        let note = "\"The file ends here: it has the first 10,000 rows of the list, which has more.\",\r\n";
        assert!(long.ends_with(note), "{}", &long[long.len() - 100..]);

        let mut large = file();
        assert!(!large.add(rows(10, &"a".repeat(MOST_BYTES / 2))));
        assert!(text(large).await.contains("it has the first 2 rows"));

        let mut slow = file();
        assert!(slow.add_page(rows(1, "a"), true));
        tokio::time::advance(LONGEST_READ).await;
        assert!(!slow.add_page(rows(1, "a"), true));
        assert!(text(slow).await.contains("it has the first 2 rows"));

        let mut refused = file();
        assert!(!refused.cut(), "it has no row");
        refused.add(rows(1, "a"));
        assert!(refused.cut() && text(refused).await.contains("it has the first 1 rows"));
        let sent = file().response(&dashboard::ENGLISH);
        assert_eq!(places.available_permits(), 3, "it has not left yet");
        drop(sent);
        assert_eq!(places.available_permits(), 4);
    }
}
