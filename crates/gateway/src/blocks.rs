//! Requests that were refused at the perimeter, as the audit tells them.
//!
//! Nothing that an attacker can repeat fills the disk: one row an address and minute, 60 a minute in all.
//! A row is written with the first block; what comes after it is counted here, and the row is told now and
//! then.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use domain::time::{MINUTE, Timestamp};
use serde_json::{Map, Value};

use crate::Gateway;
use crate::admit::Origin;
use crate::audit::{Event, Noted};
use crate::error::Error;
use crate::registry::lock;

/// Rows that may be written in a minute.
const ROWS_A_MINUTE: usize = 60;
/// Rows of past minutes that may still have to be told of what came after them.
const PAST_ROWS: usize = 10 * ROWS_A_MINUTE;

/// What has been refused lately.
#[derive(Debug, Default)]
pub(crate) struct Blocks(Mutex<Minute>);

#[derive(Debug, Default)]
struct Minute {
    started: Timestamp,
    /// The rows of this minute by address; IPv6 by /64.
    rows: HashMap<IpAddr, Row>,
    /// Rows of minutes before that do not say all.
    past: Vec<Row>,
    /// Blocks of addresses that found no room for a row, since the last row.
    others: u64,
}

/// A row of the audit, and how many blocks it stands for.
#[derive(Clone, Debug)]
struct Row {
    /// `None` until it is written.
    id: Option<i64>,
    metadata: Map<String, Value>,
    count: u64,
    told: u64,
}

impl Row {
    fn told(&mut self) -> Option<(i64, Map<String, Value>)> {
        let id = self.id.filter(|_| self.told < self.count)?;
        self.told = self.count;
        let mut metadata = self.metadata.clone();
        metadata.insert("count".to_owned(), self.count.into());
        Some((id, metadata))
    }
}

impl Blocks {
    /// Counts a block. What its row is to say, where one is due.
    fn note(
        &self,
        address: IpAddr,
        why: &'static str,
        now: Timestamp,
    ) -> Option<Map<String, Value>> {
        let mut minute = lock(&self.0);
        if now.since(minute.started) >= MINUTE {
            minute.started = now;
            let ended = std::mem::take(&mut minute.rows).into_values();
            minute.past.extend(ended.filter(|row| row.told < row.count));
            minute.past.truncate(PAST_ROWS);
        }
        if let Some(row) = minute.rows.get_mut(&network(address)) {
            row.count += 1;
            return None;
        }
        if minute.rows.len() >= ROWS_A_MINUTE {
            minute.others += 1;
            return None;
        }
        let mut metadata = Map::new();
        metadata.insert("why".to_owned(), why.into());
        metadata.insert("count".to_owned(), 1.into());
        if minute.others > 0 {
            metadata.insert("others".to_owned(), std::mem::take(&mut minute.others).into());
        }
        let row = Row { id: None, metadata: metadata.clone(), count: 1, told: 1 };
        minute.rows.insert(network(address), row);
        Some(metadata)
    }

    /// Notes that the row of an address is written.
    fn written(&self, address: IpAddr, id: i64) {
        if let Some(row) = lock(&self.0).rows.get_mut(&network(address)) {
            row.id = Some(id);
        }
    }

    /// The rows that do not say all yet, with what they are to say.
    fn untold(&self) -> Vec<(i64, Map<String, Value>)> {
        let mut minute = lock(&self.0);
        let past = std::mem::take(&mut minute.past);
        past.into_iter()
            .filter_map(|mut row| row.told())
            .chain(minute.rows.values_mut().filter_map(Row::told))
            .collect()
    }
}

impl Gateway {
    /// Notes a request that was refused at the perimeter.
    pub(crate) async fn note_perimeter_block(&self, origin: &Origin, why: &'static str) {
        metrics::counter!("sluice_perimeter_blocks_total").increment(1);
        let Some(metadata) = self.blocks.note(origin.address, why, self.clock.now()) else {
            return;
        };
        let written = async {
            let Some(org) = self.store.first_org().await? else { return Ok(()) };
            let noted =
                Noted { org, event: Event::PerimeterBlock, actor: None, target: None, metadata };
            let mut tx = self.store.begin().await?;
            let row = self.note(&mut tx, origin, noted).await?;
            tx.commit().await?;
            self.blocks.written(origin.address, row);
            Ok::<_, Error>(())
        };
        if let Err(error) = written.await {
            tracing::warn!(error = error.cause(), "a perimeter block was not recorded");
        }
    }

    /// Has the rows of perimeter blocks say how many there were.
    pub(crate) async fn tell_blocks(&self) {
        let untold = self.blocks.untold();
        if untold.is_empty() {
            return;
        }
        let told = async {
            let mut tx = self.store.begin().await?;
            for (row, metadata) in untold {
                tx.retell_audit(row, metadata).await?;
            }
            tx.commit().await
        };
        if let Err(error) = told.await {
            tracing::warn!(%error, "perimeter blocks were not counted");
        }
    }
}

/// What one customer of a provider has: an IPv4 address, or an IPv6 /64.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHY: &str = "invalid key";

    fn at(seconds: i64) -> Timestamp {
        Timestamp(1_000_000_000 + seconds * 1_000_000)
    }

    #[test]
    fn a_row_an_address_and_minute_counts_its_own() {
        let blocks = Blocks::default();
        let one: IpAddr = "10.0.0.1".parse().unwrap();
        let two: IpAddr = "2001:db8::1".parse().unwrap();
        let neighbour: IpAddr = "2001:db8::2".parse().unwrap();
        assert_eq!(blocks.note(one, WHY, at(0)).unwrap()["count"], 1);
        blocks.written(one, 7);
        assert!(blocks.untold().is_empty(), "the row says it");
        assert!(blocks.note(one, WHY, at(1)).is_none());
        assert!(blocks.note(one, WHY, at(2)).is_none());
        assert_eq!(blocks.note(two, WHY, at(2)).unwrap()["count"], 1);
        blocks.written(two, 8);
        let untold = blocks.untold();
        assert_eq!((untold.len(), untold[0].0, &untold[0].1["count"]), (1, 7, &3.into()));
        assert!(blocks.note(neighbour, WHY, at(3)).is_none());
        // What came at the end of a minute is told in the next.
        assert_eq!(blocks.note(one, WHY, at(61)).unwrap()["count"], 1);
        let untold = blocks.untold();
        assert_eq!((untold.len(), untold[0].0, &untold[0].1["count"]), (1, 8, &2.into()));
        assert!(blocks.untold().is_empty());
    }

    #[test]
    fn sixty_rows_a_minute_in_all() {
        let blocks = Blocks::default();
        let address = |n: u32| IpAddr::V4(n.into());
        let rows = (0..1000).filter(|&n| blocks.note(address(n), WHY, at(0)).is_some());
        assert_eq!(rows.count(), ROWS_A_MINUTE);
        assert_eq!(blocks.note(address(5000), WHY, at(60)).unwrap()["others"], 940);
    }
}
