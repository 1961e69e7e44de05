//! Rows of the audit about failures that strangers cause: so many a minute are written, or they would fill the disk.

use std::collections::VecDeque;
use std::sync::Mutex;

use domain::time::{MINUTE, Timestamp};
use serde_json::{Map, Value};

use crate::lock::lock;

/// Rows of each kind that are written in a minute.
const ROWS_A_MINUTE: usize = 60;

/// A kind of rows. Each has a count of its own: none hides another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FailureKind {
    /// One-time links and sign-ons that were not good, whatever address they came from.
    Link,
    /// Wrong passwords for made-up names.
    Name,
    /// Passkeys that nobody has.
    Passkey,
    /// People whom an issuer has named, or who have shown a passkey, and are refused. Strangers whom it has not
    /// take no part in this count.
    Named,
    /// Offers to link an account, which might be attempts to take one over: no refusal takes part.
    Offer,
}

/// The rows of the last minute.
#[derive(Debug, Default)]
pub(crate) struct FailureRows(Mutex<Kinds>);

#[derive(Debug, Default)]
struct Kinds {
    links: Rows,
    names: Rows,
    passkeys: Rows,
    named: Rows,
    offers: Rows,
}

impl Kinds {
    fn of(&mut self, kind: FailureKind) -> &mut Rows {
        match kind {
            FailureKind::Link => &mut self.links,
            FailureKind::Name => &mut self.names,
            FailureKind::Passkey => &mut self.passkeys,
            FailureKind::Named => &mut self.named,
            FailureKind::Offer => &mut self.offers,
        }
    }
}

/// The rows of a kind.
#[derive(Debug, Default)]
struct Rows {
    /// Their times.
    at: VecDeque<Timestamp>,
    /// The failures that found no room since the last row.
    others: u64,
}

/// Room for a row. Unless the row is known to be written, the failure counts among those that found no room. The room
/// stays taken: whoever hangs up while the row is written may leave it behind.
#[derive(Debug)]
pub(crate) struct RowPlace<'a> {
    /// `None` of a row that is always written.
    taken: Option<(&'a FailureRows, FailureKind)>,
    /// The failures that found no room before it.
    others: u64,
}

impl FailureRows {
    /// Room for one more row; `None` if there is none: then the failure is counted.
    pub(crate) fn place(&self, kind: FailureKind, now: Timestamp) -> Option<RowPlace<'_>> {
        let mut kinds = lock(&self.0);
        let rows = kinds.of(kind);
        // A clock that went back must not make them count for longer.
        for at in &mut rows.at {
            *at = (*at).min(now);
        }
        rows.at.retain(|at| now.since(*at) < MINUTE);
        if rows.at.len() >= ROWS_A_MINUTE {
            rows.others += 1;
            return None;
        }
        rows.at.push_back(now);
        let others = std::mem::take(&mut rows.others);
        Some(RowPlace { taken: Some((self, kind)), others })
    }
}

impl RowPlace<'_> {
    /// Room for a row about something that is bounded in another way.
    pub(crate) fn always() -> Self {
        Self { taken: None, others: 0 }
    }

    /// Adds how many failures found no room before this one.
    pub(crate) fn tell(&self, metadata: &mut Map<String, Value>) {
        if self.others > 0 {
            metadata.insert("others".to_owned(), self.others.into());
        }
    }

    /// The row is written.
    pub(crate) fn written(mut self) {
        self.taken = None;
    }
}

impl Drop for RowPlace<'_> {
    fn drop(&mut self) {
        let Some((rows, kind)) = self.taken.take() else { return };
        lock(&rows.0).of(kind).others += self.others + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of a hundred failures at a time have rows.
    fn written(rows: &FailureRows, kind: FailureKind, at: i64) -> usize {
        let place = |_: &i32| rows.place(kind, Timestamp(at)).map(RowPlace::written).is_some();
        (0..100).filter(place).count()
    }

    /// What the next row tells, which is written.
    fn others(rows: &FailureRows, kind: FailureKind, at: i64) -> Option<Value> {
        let place = rows.place(kind, Timestamp(at)).unwrap();
        let mut metadata = Map::new();
        place.tell(&mut metadata);
        place.written();
        metadata.remove("others")
    }

    #[test]
    fn sixty_rows_of_each_kind_a_minute_whatever_the_clock_does() {
        let rows = FailureRows::default();
        let kinds = [
            FailureKind::Link,
            FailureKind::Name,
            FailureKind::Passkey,
            FailureKind::Named,
            FailureKind::Offer,
        ];
        for kind in kinds {
            assert_eq!(written(&rows, kind, MINUTE), 60, "{kind:?}");
            assert_eq!(written(&rows, kind, MINUTE - 1), 0, "a request that began earlier");
            assert_eq!(written(&rows, kind, 2 * MINUTE - 2), 0, "{kind:?}");
            assert_eq!(others(&rows, kind, 2 * MINUTE), Some(240.into()), "{kind:?}");
            assert_eq!(others(&rows, kind, 2 * MINUTE), None, "they are told once");
        }
    }

    #[test]
    fn failures_whose_row_could_not_be_written_are_told_by_the_next() {
        let rows = FailureRows::default();
        let kind = FailureKind::Name;
        assert_eq!(written(&rows, kind, MINUTE), 60);
        // Its write fails: the 40 that it would have told, and itself.
        drop(rows.place(kind, Timestamp(2 * MINUTE)));
        assert_eq!(others(&rows, kind, 2 * MINUTE), Some(41.into()));
        // Its row may be there all the same: whoever hangs up finds no more room than others.
        let hang_up = |_: &i32| rows.place(kind, Timestamp(2 * MINUTE)).map(drop).is_some();
        assert_eq!((0..200).filter(hang_up).count(), 58);
        assert_eq!(others(&rows, kind, 3 * MINUTE), Some(200.into()));
        assert_eq!(written(&rows, kind, 3 * MINUTE), 59);
        // A row that is always written is none of them.
        drop(RowPlace::always());
        assert_eq!(others(&rows, kind, 4 * MINUTE), Some(41.into()));
    }
}
