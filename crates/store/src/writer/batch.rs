//! Sorts the writes of a commit by table.

use std::collections::{BTreeMap, HashSet};

use domain::ids::{StepId, TraceId};
use domain::step::Step;

use crate::search::{TermRow, WrittenTerms};
use crate::stored_responses::StoredResource;

use super::table::NewTrace;
use super::turns::is_turn;
use super::{Ends, Start, Write};

/// The rows of one commit.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    pub(crate) traces: Vec<&'a NewTrace>,
    pub(crate) starts: Vec<&'a Start>,
    /// Calls whose start is in the database and ends here.
    pub(crate) closed: Vec<i64>,
    pub(crate) steps: Vec<&'a Step>,
    pub(crate) contents: Vec<(&'a Step, &'a [u8])>,
    pub(crate) stored: Vec<&'a StoredResource>,
    /// The terms that the traces are found by from now on.
    pub(crate) terms: Vec<TermRow>,
    /// The steps that are turns of a trace. Traces are in order, so that two nodes that number turns
    /// of the same ones never wait for each other.
    pub(crate) turns: BTreeMap<TraceId, Vec<StepId>>,
}

impl<'a> Batch<'a> {
    /// Sorts writes; `open` are the calls whose start is in the database, `written` the terms that are.
    pub(crate) fn of(writes: &'a [Write], open: &HashSet<i64>, written: &WrittenTerms) -> Self {
        let mut batch = Self::default();
        for write in writes {
            match write {
                Write::Trace(trace) => batch.traces.push(trace),
                Write::Stored(stored) => batch.stored.extend(stored),
                Write::Start(start) => batch.starts.push(start),
                Write::Withdraw(step) => batch.close(*step, open.contains(&step.0)),
                Write::Step(step, sealed, ends) => {
                    batch.close(step.id, *ends == Ends::Lost || open.contains(&step.id.0));
                    if is_turn(step) {
                        batch.turns.entry(step.trace).or_default().push(step.id);
                    }
                    batch.steps.push(step);
                    batch.contents.extend(sealed.as_deref().map(|sealed| (&**step, sealed)));
                }
            }
        }
        batch.terms = written.new_of(&batch.traces, &batch.steps);
        batch
    }

    /// Ends a call.
    fn close(&mut self, step: StepId, is_stored: bool) {
        if is_stored {
            self.closed.push(step.0);
        } else {
            // A call that begins and ends in one commit leaves no start behind.
            self.starts.retain(|start| start.step != step);
        }
    }
}
