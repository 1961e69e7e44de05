//! The check of the chains of audit events, in the database or in a file that was exported.

use std::collections::BTreeMap;
use std::fmt;

use async_recursion::async_recursion as boxed;

use crate::Store;
use crate::audit::chain::{ChainHead, LinkHash, hash_of_heads};
use crate::audit::list::AuditRecord;
use crate::error::Result;

/// The most breaks that a report names.
const MOST_NAMED: usize = 10;

/// The findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainReport {
    /// Events that are links of a chain.
    pub chained: u64,
    /// Events of before there were chains.
    pub not_chained: u64,
    /// Those of them that come after a link: an older version wrote them, or somebody else did.
    pub late: u64,
    /// Chains.
    pub chains: usize,
    /// The last link.
    pub last: Option<ChainHead>,
    /// The first breaks.
    pub breaks: Vec<ChainBreak>,
    /// How many breaks there are in all.
    pub broken: u64,
}

/// A place where a chain does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainBreak {
    /// The node of the chain.
    pub node: i64,
    /// The number of the link.
    pub link: i64,
    /// The fault in it.
    pub fault: ChainFault,
}

/// The fault of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainFault {
    /// It is missing, and so are those up to the given one.
    Missing(i64),
    /// It does not follow the link before it, in the order in which events were written.
    OutOfOrder,
    /// The event, or the one before it, is not the one that was hashed.
    Changed,
    /// The event is sound, and the one before it is another than when it was written.
    Detached,
    /// The event is sound, and the chains are not those that were there when it was written: one has been
    /// taken away, or cut off at its end.
    OtherChains,
    /// The head of the chain is missing.
    NoHead,
    /// The head of the chain has another hash.
    OtherHead,
}

impl fmt::Display for ChainBreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}, link {}: ", self.node, self.link)?;
        match self.fault {
            ChainFault::Missing(last) if last == self.link => f.write_str("the event is missing"),
            ChainFault::Missing(last) => write!(f, "the events up to link {last} are missing"),
            ChainFault::OutOfOrder => f.write_str("the event is not in its place"),
            ChainFault::Changed => {
                f.write_str("its hash does not fit: the event was changed, or the one before it was")
            }
            ChainFault::Detached => {
                f.write_str("the event before it is another one than when it was written")
            }
            ChainFault::OtherChains => f.write_str(
                "when it was written, there was a chain that is missing now, or that has lost its last events",
            ),
            ChainFault::NoHead => f.write_str("the head of its chain is missing"),
            ChainFault::OtherHead => f.write_str("the head of its chain has another hash"),
        }
    }
}

impl Store {
    /// Checks the events of all organizations, and the heads of their chains, in one state of the database.
    #[boxed]
    pub async fn verify_audit(&self) -> Result<ChainReport> {
        let mut reader = self.read_audit_chain().await?;
        let heads = reader.heads().await?;
        let mut check = ChainCheck::new(false);
        loop {
            let records = reader.next().await?;
            if records.is_empty() {
                return Ok(check.end(Some(&heads)));
            }
            for record in &records {
                check.see(record);
            }
        }
    }
}

/// The check, as far as events were seen.
#[derive(Debug)]
pub struct ChainCheck {
    /// Whether events may be missing.
    filtered: bool,
    /// The last link of each chain.
    heads: BTreeMap<i64, ChainHead>,
    /// The last event.
    last_id: i64,
    report: ChainReport,
    /// The first breaks that another one may have caused: they are named after all others.
    consequences: Vec<ChainBreak>,
}

impl ChainCheck {
    /// A check that has seen nothing. Where events are `filtered`, some may be missing; those that are there
    /// are checked all the same.
    pub fn new(filtered: bool) -> Self {
        Self {
            filtered,
            heads: BTreeMap::new(),
            last_id: 0,
            report: ChainReport::default(),
            consequences: Vec::new(),
        }
    }

    /// Takes the next event, by the numbers of events.
    pub fn see(&mut self, record: &AuditRecord) {
        let in_order = record.id > self.last_id;
        self.last_id = record.id;
        let Some(place) = record.place else {
            self.report.not_chained += 1;
            self.report.late += u64::from(!self.heads.is_empty());
            return;
        };
        self.report.chained += 1;
        let (node, link) = (place.node, place.link);
        let before = self.heads.get(&node).copied();
        let expected = before.map_or(1, |head| head.link.saturating_add(1));
        if !in_order || link < expected {
            self.note(node, link, ChainFault::OutOfOrder);
        } else if link > expected && !self.filtered {
            self.note(node, expected, ChainFault::Missing(link - 1));
        }
        // The hash that the link has to continue, as far as that is known.
        let known = match before {
            Some(head) if link == expected => head.hash,
            None if link == 1 && !self.filtered => {
                Some(hash_of_heads(self.heads.values().copied()))
            }
            _ => place.previous,
        };
        let fits = |previous: Option<LinkHash>| {
            previous.is_some_and(|previous| record.hash_after(previous) == place.hash)
        };
        // The database has no hash of a link that is missing.
        let is_known = known.is_some() || link == expected || self.filtered;
        if is_known && !fits(known) {
            let fault = match (fits(place.previous), link) {
                (false, _) => ChainFault::Changed,
                (true, 1) => ChainFault::OtherChains,
                (true, _) => ChainFault::Detached,
            };
            self.note(node, link, fault);
        }
        let head = ChainHead { node, link, hash: place.hash };
        self.heads.insert(node, head);
        self.report.last = Some(head);
    }

    /// Ends the check, with the heads that the database has, by their nodes.
    pub fn end(mut self, heads: Option<&[ChainHead]>) -> ChainReport {
        self.report.chains = self.heads.len();
        if let Some(stored) = heads {
            self.check_heads(stored);
        }
        let breaks = &mut self.report.breaks;
        breaks.append(&mut self.consequences);
        breaks.truncate(MOST_NAMED);
        self.report
    }

    /// Holds the last links against the heads that the database has.
    fn check_heads(&mut self, stored: &[ChainHead]) {
        let mut found = std::mem::take(&mut self.heads);
        for head in stored {
            let (node, link) = (head.node, head.link);
            match found.remove(&node) {
                None => self.note(node, 1, ChainFault::Missing(link)),
                Some(found) if found.link < link => {
                    self.note(node, found.link + 1, ChainFault::Missing(link));
                }
                Some(found) if found != *head => self.note(node, found.link, ChainFault::OtherHead),
                Some(_) => {}
            }
        }
        for found in found.into_values() {
            self.note(found.node, found.link, ChainFault::NoHead);
        }
    }

    fn note(&mut self, node: i64, link: i64, fault: ChainFault) {
        self.report.broken += 1;
        let breaks = match fault {
            ChainFault::OtherChains => &mut self.consequences,
            _ => &mut self.report.breaks,
        };
        if breaks.len() < MOST_NAMED {
            breaks.push(ChainBreak { node, link, fault });
        }
    }
}
