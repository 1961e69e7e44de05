//! The nodes that a rebuild of shared counters waits for, and when a person has to know.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use domain::ids::NodeId;

/// A node adds its reservations within a second of a loss. A wait that lasts longer than this ends by no hand of ours.
const PATIENCE: Duration = Duration::from_secs(5);
/// The least time between two warnings of one node.
const WARN_INTERVAL: Duration = Duration::from_mins(1);

/// The nodes that are waited for, and those of which a warning was logged lately.
#[derive(Debug, Default)]
pub(crate) struct MissingNodes(BTreeMap<NodeId, Wait>);

#[derive(Debug, Default)]
struct Wait {
    /// Since when every attempt has missed the node. `None` if the last one has not.
    since: Option<Instant>,
    warned: Option<Instant>,
}

impl MissingNodes {
    /// Notes the nodes that an attempt has missed, each with the number of projects that wait for it. Returns those
    /// that a warning is due of: it counts as logged.
    pub(crate) fn note(
        &mut self,
        now: Instant,
        missed: BTreeMap<NodeId, usize>,
    ) -> BTreeMap<NodeId, usize> {
        self.0.retain(|node, wait| {
            if !missed.contains_key(node) {
                wait.since = None;
            }
            wait.since.is_some() || wait.was_warned_of(now)
        });
        let mut due = missed;
        due.retain(|node, _| self.0.entry(*node).or_default().is_due(now));
        due
    }
}

impl Wait {
    fn is_due(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let is_due = now.duration_since(since) >= PATIENCE && !self.was_warned_of(now);
        if is_due {
            self.warned = Some(now);
        }
        is_due
    }

    /// Whether a warning was logged within the interval.
    fn was_warned_of(&self, now: Instant) -> bool {
        self.warned.is_some_and(|at| now.duration_since(at) < WARN_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The attempts of a table: milliseconds since the beginning, the nodes that are missed, and those that a warning
    /// is due of.
    type Attempts<'a> = &'a [(u64, &'a [i64], &'a [i64])];

    #[test]
    fn a_person_is_told_of_a_long_wait_once_a_minute() {
        let cases: [(&str, Attempts<'_>); 7] = [
            ("nobody is missed", &[(0, &[], &[]), (60_000, &[], &[])]),
            (
                "an ordinary rebuild",
                &[(0, &[7], &[]), (100, &[7], &[]), (4_999, &[7], &[]), (5_100, &[], &[])],
            ),
            (
                "a node that does not come",
                &[
                    (0, &[7], &[]),
                    (4_999, &[7], &[]),
                    (5_000, &[7], &[7]),
                    (5_100, &[7], &[]),
                    (64_999, &[7], &[]),
                    (65_000, &[7], &[7]),
                    (65_100, &[7], &[]),
                    (130_000, &[7], &[7]),
                ],
            ),
            (
                "two nodes, each with a wait of its own",
                &[
                    (0, &[7], &[]),
                    (3_000, &[7, 8], &[]),
                    (5_000, &[7, 8], &[7]),
                    (7_999, &[7, 8], &[]),
                    (8_000, &[7, 8], &[8]),
                    (66_000, &[7, 8], &[7]),
                    (68_000, &[8], &[8]),
                ],
            ),
            (
                "a node that came and is missed again begins anew",
                &[(0, &[7], &[]), (4_000, &[], &[]), (6_000, &[7], &[]), (11_000, &[7], &[7])],
            ),
            (
                "a node that comes and goes is not told of more often",
                &[
                    (0, &[7], &[]),
                    (5_000, &[7], &[7]),
                    (6_000, &[], &[]),
                    (7_000, &[7], &[]),
                    (12_000, &[7], &[]),
                    (64_999, &[7], &[]),
                    (65_000, &[7], &[7]),
                ],
            ),
            (
                "after a minute of rest it is as if nothing had been",
                &[
                    (0, &[7], &[]),
                    (5_000, &[7], &[7]),
                    (70_000, &[], &[]),
                    (71_000, &[7], &[]),
                    (75_999, &[7], &[]),
                    (76_000, &[7], &[7]),
                ],
            ),
        ];
        for (what, attempts) in cases {
            let (began, mut missing) = (Instant::now(), MissingNodes::default());
            let of = |nodes: &[i64]| -> BTreeMap<NodeId, usize> {
                nodes.iter().map(|node| (NodeId(*node), 3)).collect()
            };
            for &(millis, missed, due) in attempts {
                let found = missing.note(began + Duration::from_millis(millis), of(missed));
                assert_eq!(found, of(due), "{what}, after {millis} ms");
            }
            assert_eq!(missing.note(began + Duration::from_hours(1), of(&[])), of(&[]), "{what}");
            assert!(missing.0.is_empty(), "{what}: what is over is forgotten");
        }
    }
}
