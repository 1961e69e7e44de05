//! Lists of which a page shows so many rows.

use std::fmt::Display;
use std::str::FromStr;

use dashboard::{Frame, Pages};
use domain::time::Timestamp;
use gateway::Error;

use crate::console::visit::{Visit, query_of, with_query};

/// The rows of a page.
const ROWS: usize = 50;
/// The rows that are read: one more tells whether there is another page.
pub(super) const READ: i64 = ROWS as i64 + 1;

/// A list of the console.
#[derive(Clone, Copy)]
pub(super) struct List {
    /// The path of its page.
    pub(super) path: &'static str,
    /// The parameter that names the last row of the page before.
    pub(super) parameter: &'static str,
}

impl List {
    /// The rows of a page, of which one more may have been read, and the pages beside it. `place` is the place of a
    /// row in the list.
    pub(super) fn page<T>(
        self,
        visit: &Visit,
        frame: &Frame,
        mut read: Vec<T>,
        place: impl Fn(&T) -> String,
    ) -> (Vec<T>, Pages) {
        let has_more = read.len() > ROWS;
        read.truncate(ROWS);
        // Another list of the page stays where it is.
        let after = |place: Option<String>| {
            let mut places = visit.places();
            places.retain(|(name, _)| *name != self.parameter);
            places.extend(place.as_deref().map(|place| (self.parameter, place)));
            frame.href(&with_query(self.path, &places))
        };
        let next = read.last().filter(|_| has_more).map(|last| after(Some(place(last))));
        let first = visit.get(self.parameter).map(|_| after(None));
        let is_beyond = read.is_empty() && first.is_some();
        (read, Pages { first, next, kept: query_of(&visit.places()), is_beyond })
    }
}

/// The place in a list that is sorted by time: the time and the id of a row.
pub(super) fn place(at: Timestamp, id: impl Display) -> String {
    format!("{}.{id}", at.0)
}

/// Reads a place.
pub(super) fn read_place<I: FromStr>(text: &str) -> Result<(Timestamp, I), Error> {
    let read = || {
        let (at, id) = text.split_once('.')?;
        Some((Timestamp(at.parse().ok()?), id.parse().ok()?))
    };
    read().ok_or_else(no_place)
}

/// The refusal of what is no place in a list.
pub(super) fn no_place() -> Error {
    Error::Malformed("The address of the page names no place in the list".to_owned())
}
