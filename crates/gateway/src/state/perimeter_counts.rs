//! Requests that were refused at the perimeter, counted by address, kind and minute.

use std::net::IpAddr;
use std::sync::Mutex;

use domain::time::{MINUTE, Timestamp};
use serde_json::{Map, Value};

use crate::lock::lock;

/// Rows that may be written in a minute.
const ROWS_A_MINUTE: usize = 60;
/// Those of them that no page can use up which has visitors' browsers send what is refused: they are for refused
/// credentials and addresses.
const KEPT: usize = 30;
/// The most rows of past minutes that may still have to be updated with later blocks.
const PAST_ROWS: usize = 10 * ROWS_A_MINUTE;

/// Why a request is refused at the perimeter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerimeterReason {
    /// The key is missing, malformed, unknown, wrong, expired or revoked.
    InvalidKey,
    /// The service token is malformed, unknown, wrong or revoked.
    InvalidToken,
    /// The service token has expired.
    ExpiredToken,
    /// The address may not call.
    BlockedAddress,
    /// A page of another site has had a browser send it.
    ForeignPage,
    /// A page of the gateway would be shown in a frame.
    FramedPage,
    /// The session is made up, stolen after its end, or was set by somebody else.
    UnknownSession,
    /// There are two session cookies: another host of the domain may have set one.
    SeveralSessions,
    /// A one-time link that was used, withdrawn or has expired is looked at again.
    SpentLink,
    /// A sign-in would lead to the address of another host.
    ForeignAddress,
}

impl PerimeterReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::InvalidKey => "invalid key",
            Self::InvalidToken => "invalid token",
            Self::ExpiredToken => "expired token",
            Self::BlockedAddress => "blocked address",
            Self::ForeignPage => "page of another site",
            Self::FramedPage => "framed page",
            Self::UnknownSession => "unknown session",
            Self::SeveralSessions => "several session cookies",
            Self::SpentLink => "spent link",
            Self::ForeignAddress => "address of another host",
        }
    }

    /// The row of a network and minute that counts it: refused credentials and addresses share one.
    fn group(self) -> Group {
        match self {
            Self::InvalidKey | Self::InvalidToken | Self::ExpiredToken | Self::BlockedAddress => {
                Group::Callers
            }
            reason => Group::Browsers(reason),
        }
    }
}

/// Reasons that share a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// Refused credentials and addresses.
    Callers,
    /// An attack on a browser.
    Browsers(PerimeterReason),
}

/// A number for callers, and one for attacks on browsers.
#[derive(Debug, Default)]
struct Each<T> {
    callers: T,
    browsers: T,
}

impl<T> Each<T> {
    fn of(&mut self, group: Group) -> &mut T {
        match group {
            Group::Callers => &mut self.callers,
            Group::Browsers(_) => &mut self.browsers,
        }
    }
}

/// The requests that were refused in the current minute, and rows that are not up to date.
#[derive(Debug, Default)]
pub(crate) struct PerimeterCounts(Mutex<CurrentMinute>);

#[derive(Debug, Default)]
struct CurrentMinute {
    /// The begin of the minute.
    minute: Timestamp,
    /// The number of rows begun in it.
    begun: Each<usize>,
    /// The rows of this minute, and those of earlier minutes with outdated counts.
    rows: Vec<Row>,
    /// Blocked requests that found no room for a row, since the last row.
    others: Each<u64>,
}

/// A row of the audit, and how many blocks it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    minute: Timestamp,
    /// IPv6 by /64.
    network: IpAddr,
    group: Group,
    /// `None` until it is written.
    pub(crate) id: Option<i64>,
    pub(crate) metadata: Map<String, Value>,
    count: u64,
    told: u64,
}

impl PerimeterCounts {
    /// Counts a block. Returns the row to write, if one is due.
    pub(crate) fn note(
        &self,
        address: IpAddr,
        reason: PerimeterReason,
        now: Timestamp,
    ) -> Option<Row> {
        let (network, group) = (network(address), reason.group());
        let mut current_minute = lock(&self.0);
        if now.since(current_minute.minute) >= MINUTE {
            current_minute.minute = now;
            current_minute.begun = Each::default();
            current_minute.rows.retain(|row| row.told < row.count);
            let too_many = current_minute.rows.len().saturating_sub(PAST_ROWS);
            let dropped: Vec<Row> = current_minute.rows.drain(..too_many).collect();
            for row in dropped {
                *current_minute.others.of(row.group) += row.count - row.told;
            }
        }
        let minute = current_minute.minute;
        let mut written = current_minute.rows.iter_mut().filter(|row| row.minute == minute);
        if let Some(row) = written.find(|row| row.network == network && row.group == group) {
            row.count += 1;
            return None;
        }
        let Each { callers, browsers } = current_minute.begun;
        let is_kept = matches!(group, Group::Callers) || browsers < ROWS_A_MINUTE - KEPT;
        if callers + browsers >= ROWS_A_MINUTE || !is_kept {
            *current_minute.others.of(group) += 1;
            return None;
        }
        *current_minute.begun.of(group) += 1;
        let mut metadata = Map::new();
        metadata.insert("why".to_owned(), reason.as_str().into());
        metadata.insert("count".to_owned(), 1.into());
        let others = std::mem::take(current_minute.others.of(group));
        if others > 0 {
            metadata.insert("others".to_owned(), others.into());
        }
        let row = Row { minute, network, group, id: None, metadata, count: 1, told: 1 };
        current_minute.rows.push(row.clone());
        Some(row)
    }

    /// Notes that a row is written, or that it cannot be: then the next block makes another, which tells the blocks
    /// of this one, and those that this one would have told.
    pub(crate) fn written(&self, row: &Row, id: Option<i64>) {
        let mut current_minute = lock(&self.0);
        let place = |row: &Row| (row.minute, row.network, row.group);
        let is_it = |known: &Row| place(known) == place(row);
        let at = current_minute.rows.iter().position(is_it);
        match (id, at) {
            (Some(_), Some(at)) => current_minute.rows[at].id = id,
            (Some(_), None) => {}
            (None, at) => {
                // It is gone after its minute: later blocks of its own have been counted by then.
                let known = at.map(|at| current_minute.rows.swap_remove(at));
                let count = known.map_or(row.count, |known| known.count);
                let others = row.metadata.get("others").and_then(Value::as_u64).unwrap_or_default();
                *current_minute.others.of(row.group) += count + others;
            }
        }
    }

    /// The rows with outdated counts, as they should be.
    pub(crate) fn unwritten(&self) -> Vec<Row> {
        let current_minute = lock(&self.0);
        let unwritten = |row: &&Row| row.id.is_some() && row.told < row.count;
        let mut rows: Vec<Row> = current_minute.rows.iter().filter(unwritten).cloned().collect();
        for row in &mut rows {
            row.metadata.insert("count".to_owned(), row.count.into());
        }
        rows
    }

    /// Notes that rows are up to date.
    pub(crate) fn told(&self, rows: &[Row]) {
        let mut current_minute = lock(&self.0);
        for row in rows {
            if let Some(known) = current_minute.rows.iter_mut().find(|known| known.id == row.id) {
                known.told = row.count;
            }
        }
    }
}

/// The network of one customer of a provider: an IPv4 address, or an IPv6 /64.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHY: PerimeterReason = PerimeterReason::InvalidKey;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(1_000_000_000 + seconds * 1_000_000)
    }

    #[test]
    fn a_row_an_address_and_minute_counts_its_own() {
        let blocks = PerimeterCounts::default();
        let one: IpAddr = "10.0.0.1".parse().unwrap();
        let two: IpAddr = "2001:db8::1".parse().unwrap();
        let neighbour: IpAddr = "2001:db8::2".parse().unwrap();
        // The counts to write, by the ids of their rows.
        let tell = || {
            let unwritten = blocks.unwritten();
            blocks.told(&unwritten);
            let told = unwritten.iter().map(|row| (row.id.unwrap(), row.metadata["count"].clone()));
            told.collect::<Vec<_>>()
        };
        let first = blocks.note(one, WHY, at(0)).unwrap();
        assert_eq!(first.metadata["count"], 1);
        blocks.written(&first, Some(7));
        assert!(tell().is_empty(), "the row says it");
        assert!(blocks.note(one, WHY, at(1)).is_none());
        assert!(blocks.note(one, WHY, at(2)).is_none());
        let other = blocks.note(two, WHY, at(2)).unwrap();
        assert_eq!(other.metadata["count"], 1);
        assert_eq!(tell(), [(7, 3.into())]);
        assert!(blocks.note(neighbour, WHY, at(3)).is_none());
        // Blocks at the end of a minute are written in the next, also if the row was written late.
        assert_eq!(blocks.note(one, WHY, at(61)).unwrap().metadata["count"], 1);
        blocks.written(&other, Some(8));
        assert_eq!(tell(), [(8, 2.into())]);
        assert!(tell().is_empty());
    }

    #[test]
    fn no_reason_hides_another() {
        let blocks = PerimeterCounts::default();
        let one: IpAddr = "10.0.0.1".parse().unwrap();
        let keys = blocks.note(one, WHY, at(0)).unwrap();
        let frames = blocks.note(one, PerimeterReason::FramedPage, at(0)).unwrap();
        assert_eq!(keys.metadata["why"], "invalid key");
        assert_eq!(frames.metadata["why"], "framed page");
        blocks.written(&frames, Some(8));
        blocks.written(&keys, Some(7));
        for reason in [WHY, PerimeterReason::FramedPage, WHY] {
            assert!(blocks.note(one, reason, at(1)).is_none());
        }
        let counts = blocks.unwritten();
        let counts: Vec<_> =
            counts.iter().map(|row| (row.id, row.metadata["count"].clone())).collect();
        assert_eq!(counts, [(Some(7), 3.into()), (Some(8), 2.into())]);
    }

    #[test]
    fn sixty_rows_a_minute_in_all() {
        let blocks = PerimeterCounts::default();
        let address = |n: u32| IpAddr::V4(n.into());
        let rows = (0..1000).filter(|&n| blocks.note(address(n), WHY, at(0)).is_some());
        assert_eq!(rows.count(), ROWS_A_MINUTE);
        assert_eq!(blocks.note(address(5000), WHY, at(60)).unwrap().metadata["others"], 940);
    }

    #[test]
    fn refused_credentials_share_a_row_that_no_page_uses_up() {
        let blocks = PerimeterCounts::default();
        let address = |n: u32| IpAddr::V4(n.into());
        let frames = |at| {
            let framed = |&n: &u32| blocks.note(address(n), PerimeterReason::FramedPage, at);
            (0..1000).filter_map(|n| framed(&n)).count()
        };
        assert_eq!(frames(at(0)), ROWS_A_MINUTE - KEPT);
        assert!(blocks.note(address(1), WHY, at(0)).is_some());
        for reason in [PerimeterReason::ExpiredToken, PerimeterReason::BlockedAddress] {
            assert!(blocks.note(address(1), reason, at(1)).is_none(), "counted in that row");
        }
        let callers = (0..1000).filter(|&n| blocks.note(address(n), WHY, at(1)).is_some());
        assert_eq!(callers.count(), KEPT - 1);
        // Each row reports those of its own kind.
        let later = blocks.note(address(5000), WHY, at(60)).unwrap();
        assert_eq!(later.metadata["others"], 970);
        let later = blocks.note(address(5000), PerimeterReason::SpentLink, at(60)).unwrap();
        assert_eq!(later.metadata["others"], 970);
    }

    #[test]
    fn a_row_that_could_not_be_written_is_tried_again() {
        let blocks = PerimeterCounts::default();
        let one: IpAddr = "10.0.0.1".parse().unwrap();
        let row = blocks.note(one, WHY, at(0)).unwrap();
        assert!(blocks.note(one, WHY, at(1)).is_none());
        blocks.written(&row, None);
        assert_eq!(blocks.note(one, WHY, at(2)).unwrap().metadata["others"], 2);
    }

    #[test]
    fn blocks_that_a_lost_row_would_have_told_are_told_by_the_next() {
        let blocks = PerimeterCounts::default();
        let address = |n: u32| IpAddr::V4(n.into());
        let rows = (0..100).filter_map(|n| blocks.note(address(n), WHY, at(0)));
        rows.for_each(|row| blocks.written(&row, Some(1)));
        let lost = blocks.note(address(200), WHY, at(60)).unwrap();
        assert_eq!(lost.metadata["others"], 40);
        assert!(blocks.note(address(200), WHY, at(61)).is_none());
        blocks.written(&lost, None);
        let lost = blocks.note(address(201), WHY, at(62)).unwrap();
        assert_eq!(lost.metadata["others"], 42);
        // A write may fail when its minute is over.
        let next = blocks.note(address(202), WHY, at(120)).unwrap();
        assert_eq!(next.metadata.get("others"), None);
        blocks.written(&lost, None);
        assert_eq!(blocks.note(address(203), WHY, at(121)).unwrap().metadata["others"], 43);
    }
}
