//! Failures of accounts and addresses within a window.

use std::collections::{HashMap, VecDeque};

use domain::failure::{FailureCount, FailureRule};
use domain::time::Timestamp;

/// Too many failures within the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyFailures {
    /// Microseconds until there is room again, at least 1.
    pub wait: i64,
}

/// Failures by count. An attempt is booked as a failure in each of its counts before it is made, so that many at once
/// do not all find room, and is taken back if it has not failed.
#[derive(Debug)]
pub struct Failures {
    rule: FailureRule,
    kinds: HashMap<&'static str, Recent>,
}

/// A failure.
#[derive(Clone, Copy, Debug)]
struct Failure {
    /// The number of its booking. Requests overtake each other, and then the time is no longer that of the booking.
    booking: u64,
    at: Timestamp,
}

/// The failures of the counts of one kind.
#[derive(Debug, Default)]
struct Recent {
    /// The half that is being filled.
    newer: HashMap<[u8; 16], VecDeque<Failure>>,
    older: HashMap<[u8; 16], VecDeque<Failure>>,
}

impl Failures {
    /// Creates counts without failures.
    pub fn new(rule: FailureRule) -> Self {
        Self { rule, kinds: HashMap::new() }
    }

    /// Books an attempt, unless one of its counts is full: then the first of those tells the wait.
    pub fn book(
        &mut self,
        counts: &[FailureCount],
        booking: u64,
        now: Timestamp,
    ) -> Result<(), TooManyFailures> {
        for count in counts {
            let failures = self.of(count, now);
            if failures.len() < self.rule.most {
                continue;
            }
            let first = failures.iter().map(|(_, at)| *at).min().unwrap_or(now);
            return Err(TooManyFailures { wait: (self.rule.window - now.since(first)).max(1) });
        }
        self.note(counts, booking, now);
        Ok(())
    }

    /// Notes an attempt that was booked elsewhere. The latest of a count stay.
    pub fn note(&mut self, counts: &[FailureCount], booking: u64, now: Timestamp) {
        let FailureRule { most, watched, .. } = self.rule;
        for FailureCount { kind, name } in counts {
            let failures = self.kinds.entry(*kind).or_default().latest(name, watched);
            failures.push_back(Failure { booking, at: now });
            if failures.len() > most {
                failures.pop_front();
            }
        }
    }

    /// Returns the failures of a count within the window: their bookings, and when they were.
    pub fn of(&mut self, count: &FailureCount, now: Timestamp) -> Vec<(u64, Timestamp)> {
        let recent = self.kinds.get_mut(count.kind);
        let Some(failures) = recent.and_then(|recent| recent.find(&count.name)) else {
            return Vec::new();
        };
        // A clock that went back must not make failures count for longer.
        for failure in failures.iter_mut() {
            failure.at = failure.at.min(now);
        }
        failures.retain(|failure| now.since(failure.at) < self.rule.window);
        failures.iter().map(|failure| (failure.booking, failure.at)).collect()
    }

    /// Takes an attempt back: this one failure, and no other.
    pub fn take_back(&mut self, counts: &[FailureCount], booking: u64) {
        for FailureCount { kind, name } in counts {
            let recent = self.kinds.get_mut(kind);
            if let Some(failures) = recent.and_then(|recent| recent.find(name)) {
                failures.retain(|failure| failure.booking != booking);
            }
        }
    }

    /// Forgets all failures of a count.
    pub fn forget(&mut self, FailureCount { kind, name }: &FailureCount) {
        if let Some(recent) = self.kinds.get_mut(kind) {
            recent.newer.remove(name);
            recent.older.remove(name);
        }
    }

    /// Forgets the failures of a count up to a time.
    pub fn forget_until(&mut self, FailureCount { kind, name }: &FailureCount, until: Timestamp) {
        let recent = self.kinds.get_mut(kind);
        if let Some(failures) = recent.and_then(|recent| recent.find(name)) {
            failures.retain(|failure| failure.at > until);
        }
    }

    /// Returns how many counts of a kind are kept.
    pub fn watched(&self, kind: &str) -> usize {
        self.kinds.get(kind).map_or(0, |recent| recent.newer.len() + recent.older.len())
    }
}

impl Recent {
    fn find(&mut self, name: &[u8; 16]) -> Option<&mut VecDeque<Failure>> {
        match self.newer.get_mut(name) {
            Some(failures) => Some(failures),
            None => self.older.get_mut(name),
        }
    }

    /// The failures of a count that is the latest from now on.
    fn latest(&mut self, name: &[u8; 16], watched: usize) -> &mut VecDeque<Failure> {
        let known = self.older.remove(name).unwrap_or_default();
        if self.newer.len() >= watched / 2 && !self.newer.contains_key(name) {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.entry(*name).or_insert(known)
    }
}
