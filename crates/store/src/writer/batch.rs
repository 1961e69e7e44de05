//! Sorts what shares a commit by table.

use std::collections::HashSet;

use domain::step::Step;
use domain::trace::Trace;

use super::{Start, Write};

/// The rows of one commit.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    pub(crate) traces: Vec<&'a Trace>,
    pub(crate) starts: Vec<&'a Start>,
    /// Steps whose start may be in the database.
    pub(crate) closed: Vec<i64>,
    pub(crate) steps: Vec<&'a Step>,
    pub(crate) contents: Vec<(&'a Step, &'a [u8])>,
}

impl<'a> Batch<'a> {
    pub(crate) fn of(writes: &'a [Write]) -> Self {
        let mut batch = Self::default();
        for write in writes {
            match write {
                Write::Trace(trace) => batch.traces.push(trace),
                Write::Start(start) => batch.starts.push(start),
                Write::Step(step, sealed) => {
                    batch.steps.push(step);
                    batch.contents.extend(sealed.as_deref().map(|sealed| (&**step, sealed)));
                }
            }
        }
        batch.close();
        batch
    }

    /// A call that began and ended within one commit needs no start.
    fn close(&mut self) {
        let ended: HashSet<i64> =
            self.steps.iter().filter(|step| step.call.is_some()).map(|step| step.id.0).collect();
        let mut elided = HashSet::new();
        self.starts.retain(|start| {
            let both = ended.contains(&start.step.0);
            if both {
                elided.insert(start.step.0);
            }
            !both
        });
        self.closed = ended.difference(&elided).copied().collect();
    }
}
