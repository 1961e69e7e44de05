//! The traces that take the calls of sessions, as this node knows them, and the calls that run in them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::ids::TraceId;
use domain::time::{DAY, SECOND, Timestamp};

use crate::lock::lock;
use crate::state::session::SessionId;
use crate::state::session_table::SessionTable;

/// The most calls of one trace that a node lets in: grading reads all of its steps.
const MOST_CALLS: u32 = 10_000;
/// A trace takes calls for this long, in microseconds: an application that repeats one request for
/// ever is graded every day.
const LONGEST: i64 = DAY;
/// The time for which the trace of a session is remembered. A longer pause costs a query.
const REMEMBERED: Duration = Duration::from_hours(24);
/// Sessions that open a trace at the same time wait for each other only if they share one of these.
const TURNS: usize = 256;

/// The traces of sessions.
#[derive(Debug)]
pub(crate) struct SessionTraces {
    known: SessionTable<SessionTrace>,
    turns: Vec<tokio::sync::Mutex<()>>,
    /// The number of calls that run in each trace.
    running: Arc<Mutex<HashMap<TraceId, usize>>>,
}

/// The trace of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionTrace {
    pub(crate) trace: TraceId,
    /// The calls that this node has let in.
    pub(crate) calls: u32,
    /// The last activity that this node has noted in the database, in seconds: there are many sessions.
    pub(crate) noted: u32,
}

impl Default for SessionTraces {
    fn default() -> Self {
        let turns = std::iter::repeat_with(Default::default).take(TURNS).collect();
        Self { known: SessionTable::default(), turns, running: Arc::default() }
    }
}

impl SessionTraces {
    /// The trace of a session, if it is known and takes another call.
    pub(crate) fn get(&self, session: SessionId, now: Timestamp) -> Option<TraceId> {
        let known = self.known.get(session, now)?.trace;
        self.takes_another(session, known, now).then_some(known)
    }

    /// Whether a trace of a session takes another call.
    pub(crate) fn takes_another(&self, session: SessionId, trace: TraceId, now: Timestamp) -> bool {
        let is_young = trace >= TraceId::first_at(now.minus_micros(LONGEST));
        is_young && self.calls(session, trace, now) < MOST_CALLS
    }

    /// Counts a call of a session in its trace, which runs until the result is dropped.
    pub(crate) fn enter(
        &self,
        session: SessionId,
        trace: TraceId,
        now: Timestamp,
    ) -> Arc<RunningCall> {
        let calls = self.calls(session, trace, now).saturating_add(1);
        let noted = seconds(self.noted(session, trace, now));
        self.known.note(session, SessionTrace { trace, calls, noted }, now.plus(REMEMBERED));
        *lock(&self.running).entry(trace).or_default() += 1;
        Arc::new(RunningCall { trace, running: self.running.clone() })
    }

    /// The last activity in a trace of a session that is noted in the database.
    pub(crate) fn noted(&self, session: SessionId, trace: TraceId, now: Timestamp) -> Timestamp {
        let known = self.known.get(session, now).filter(|known| known.trace == trace);
        let noted = known.map_or(0, |known| i64::from(known.noted));
        Timestamp(noted.saturating_mul(SECOND))
    }

    /// Remembers that activity was noted in the database.
    pub(crate) fn note(&self, session: SessionId, trace: TraceId, now: Timestamp) {
        let calls = self.calls(session, trace, now);
        let known = SessionTrace { trace, calls, noted: seconds(now) };
        self.known.note(session, known, now.plus(REMEMBERED));
    }

    fn calls(&self, session: SessionId, trace: TraceId, now: Timestamp) -> u32 {
        let known = self.known.get(session, now).filter(|known| known.trace == trace);
        known.map_or(0, |known| known.calls)
    }

    /// The turn to open a trace for a session: two calls that come at once open one.
    pub(crate) fn turn(&self, session: SessionId) -> Option<&tokio::sync::Mutex<()>> {
        self.turns.get((session.number() % TURNS as u64) as usize)
    }

    /// Whether a call runs in a trace on this node.
    pub(crate) fn is_running(&self, trace: TraceId) -> bool {
        lock(&self.running).contains_key(&trace)
    }

    /// The traces in which calls run on this node.
    pub(crate) fn running(&self) -> Vec<TraceId> {
        lock(&self.running).keys().copied().collect()
    }
}

/// The whole seconds of a time.
fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.0 / SECOND).unwrap_or(0)
}

/// A call that runs in the trace of its session. All parts that work on the call hold it.
#[derive(Debug)]
pub(crate) struct RunningCall {
    trace: TraceId,
    running: Arc<Mutex<HashMap<TraceId, usize>>>,
}

impl RunningCall {
    pub(crate) fn trace(&self) -> TraceId {
        self.trace
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let mut running = lock(&self.running);
        if let Some(calls) = running.get_mut(&self.trace) {
            *calls -= 1;
            if *calls == 0 {
                running.remove(&self.trace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::KeyId;

    use super::*;
    use crate::state::session::SessionKey;

    const NOW: Timestamp = Timestamp(1_790_000_000_000_000);

    #[test]
    fn a_trace_takes_calls_for_a_day_and_not_without_number() {
        let traces = SessionTraces::default();
        let session = SessionKey::new(&[7; 32]).named(KeyId(7), "a");
        let trace = TraceId::first_at(NOW);
        assert_eq!(traces.get(session, NOW), None);
        drop(traces.enter(session, trace, NOW));
        assert_eq!(traces.get(session, NOW), Some(trace));
        assert_eq!(traces.get(session, NOW.minus_micros(-LONGEST + 1)), Some(trace));
        let later = NOW.minus_micros(-LONGEST - 1000);
        traces.known.note(
            session,
            SessionTrace { trace, calls: 1, noted: 0 },
            later.plus(REMEMBERED),
        );
        assert_eq!(traces.get(session, later), None, "it is too old");
        for _ in 1..MOST_CALLS {
            assert_eq!(traces.get(session, NOW), Some(trace));
            drop(traces.enter(session, trace, NOW));
        }
        assert_eq!(traces.get(session, NOW), None, "it has too many calls");
        assert!(!traces.takes_another(session, trace, NOW), "nor is it taken up again");
        let next = TraceId::first_at(NOW.minus_micros(-1000));
        drop(traces.enter(session, next, NOW));
        assert_eq!(traces.get(session, NOW), Some(next));
    }

    #[test]
    fn a_call_runs_until_its_last_holder_drops_it() {
        let traces = SessionTraces::default();
        let session = SessionKey::new(&[7; 32]).named(KeyId(7), "a");
        let trace = TraceId::first_at(NOW);
        let (one, other) = (traces.enter(session, trace, NOW), traces.enter(session, trace, NOW));
        assert_eq!(one.trace(), trace);
        let held = one.clone();
        drop((one, other));
        assert_eq!(traces.running(), [trace]);
        drop(held);
        assert_eq!(traces.running(), []);
    }
}
