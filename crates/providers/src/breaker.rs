//! Circuit breakers: an endpoint that keeps failing is left alone for a while.
//!
//! ```text
//!             5 faults in a row, or a fault that makes
//!             half of 20 or more calls in 30 s faults
//!  +--------+ ----------------------------------------> +------+
//!  | Closed |                                           | Open |
//!  +--------+                                           +------+
//!      ^                                                 |    ^
//!      |                    first call after 30 s: probe |    | probe fails: open for 30 s;
//!      |                                                 v    | dropped: the next call is the probe
//!      |                                              +---------+
//!      +--------------------------------------------- | Probing | <-+ no outcome for 30 s:
//!             a probe begins to be answered, or       +---------+ --+ the next call is the probe
//!             succeeds, even one that was replaced
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use domain::ids::ModelId;
use domain::time::{SECOND, Timestamp};

/// Number of faults in a row that open the circuit.
const MOST_CONSECUTIVE_FAULTS: u32 = 5;
/// Least number of calls in the window for half of them failing to open the circuit.
const LEAST_CALLS: u32 = 20;
/// Time that the circuit stays open, and time that a probe may take to report, in microseconds.
const OPEN_TIME: i64 = 30 * SECOND;
/// The window is kept as ten slots of three seconds.
const SLOTS: usize = 10;
const SLOT_TIME: i64 = 3 * SECOND;

/// The breaker of one endpoint on this node. Pure: the time is passed in.
///
/// Closed, it lets every call through. Five faults in a row, or half of twenty or more calls
/// within 30 seconds, open it for 30 seconds; then one call goes through as a probe, and its
/// outcome closes it or opens it again. A probe that never reports is replaced after 30 seconds.
#[derive(Debug, Default)]
pub struct Breaker(Mutex<State>);

#[derive(Debug)]
enum State {
    Closed { in_a_row: u32, slots: [Slot; SLOTS] },
    Open { since: Timestamp, cause: Fault },
    Probing { since: Timestamp, cause: Fault },
}

/// The kind of a failure of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It failed, or could not be reached.
    Failed,
    /// It has too many requests.
    Busy {
        /// Its status: 429, or 529 if all of its callers are meant.
        status: u16,
        /// Whether waiting helps. It does not if the account is out of credit.
        passes: bool,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    number: i64,
    calls: u32,
    faults: u32,
}

impl Default for State {
    fn default() -> Self {
        Self::Closed { in_a_row: 0, slots: [Slot::default(); SLOTS] }
    }
}

impl Breaker {
    /// Lets a call through, or returns `None`. A call that is let through while the circuit is not closed
    /// is the probe.
    pub fn allow(self: &Arc<Self>, now: Timestamp) -> Option<Permit> {
        let mut state = self.state();
        let probe = match *state {
            State::Closed { .. } => None,
            State::Open { since, cause } | State::Probing { since, cause }
                if now.since(since) >= OPEN_TIME =>
            {
                *state = State::Probing { since: now, cause };
                Some(now)
            }
            State::Open { .. } | State::Probing { .. } => return None,
        };
        Some(Permit { breaker: Arc::clone(self), probe })
    }

    /// Whether a call would be rejected now, without making it the probe: for plans and displays.
    pub fn is_open(&self, now: Timestamp) -> bool {
        match *self.state() {
            State::Closed { .. } => false,
            State::Open { since, .. } | State::Probing { since, .. } => {
                now.since(since) < OPEN_TIME
            }
        }
    }

    /// The failure that has opened the circuit, and the time until the next call may be let through;
    /// `None` if the circuit is not open now.
    pub fn opened_by(&self, now: Timestamp) -> Option<(Fault, Duration)> {
        let (cause, left) = match *self.state() {
            State::Closed { .. } => return None,
            State::Open { since, cause } => (cause, OPEN_TIME - now.since(since)),
            // The probe may be answered at any moment.
            State::Probing { since, cause } => (cause, (OPEN_TIME - now.since(since)).min(SECOND)),
        };
        let left = u64::try_from(left).ok().filter(|left| *left > 0)?;
        Some((cause, Duration::from_micros(left)))
    }

    fn success(&self, is_probe: bool, now: Timestamp) {
        let mut state = self.state();
        match &mut *state {
            State::Closed { in_a_row, slots } => {
                *in_a_row = 0;
                count(slots, now, 0);
            }
            State::Probing { .. } if is_probe => *state = State::default(),
            // A call from before the circuit opened.
            State::Probing { .. } | State::Open { .. } => {}
        }
    }

    fn fault(&self, cause: Fault, probe: Option<Timestamp>, now: Timestamp) {
        let mut state = self.state();
        let open = match &mut *state {
            State::Closed { in_a_row, slots } => {
                *in_a_row += 1;
                let (calls, faults) = count(slots, now, 1);
                *in_a_row >= MOST_CONSECUTIVE_FAULTS
                    || (calls >= LEAST_CALLS && faults * 2 >= calls)
            }
            // Only the newest probe can open the circuit again.
            State::Probing { since, .. } => probe == Some(*since),
            State::Open { .. } => false,
        };
        if open {
            *state = State::Open { since: now, cause };
        }
    }

    /// Withdraws a probe without an outcome: the next call is the probe, unless another has replaced
    /// it.
    fn give_back(&self, probe: Timestamp) {
        let mut state = self.state();
        if let State::Probing { since, cause } = *state
            && since == probe
        {
            *state = State::Open { since: probe.minus_micros(OPEN_TIME), cause };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that a breaker has let through. Dropped without an outcome, it counts as one that was not
/// sent.
#[derive(Debug)]
#[must_use]
pub struct Permit {
    breaker: Arc<Breaker>,
    /// The time at which it became the probe of an open circuit, if it did.
    probe: Option<Timestamp>,
}

impl Permit {
    /// Records an answer of the endpoint; one that rejects the request counts too.
    pub fn success(mut self, now: Timestamp) {
        self.breaker.success(self.probe.take().is_some(), now);
    }

    /// Records a failure of the endpoint.
    pub fn fault(mut self, fault: Fault, now: Timestamp) {
        let probe = self.probe.take();
        self.breaker.fault(fault, probe, now);
    }

    /// Records that the endpoint has begun to answer, which is enough for a probe. The outcome of the
    /// whole call is still to be recorded.
    pub fn begun(mut self, now: Timestamp) -> Self {
        if self.probe.take().is_some() {
            self.breaker.success(true, now);
        }
        self
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(probe) = self.probe {
            self.breaker.give_back(probe);
        }
    }
}

/// Counts a call, and returns the calls and faults of the window.
fn count(slots: &mut [Slot; SLOTS], now: Timestamp, fault: u32) -> (u32, u32) {
    let number = now.0.div_euclid(SLOT_TIME);
    let slot = &mut slots[number.rem_euclid(SLOTS as i64) as usize];
    if slot.number != number {
        *slot = Slot { number, calls: 0, faults: 0 };
    }
    slot.calls = slot.calls.saturating_add(1);
    slot.faults = slot.faults.saturating_add(fault);
    if fault == 0 {
        return (0, 0);
    }
    let oldest = number - SLOTS as i64;
    let recent = slots.iter().filter(|slot| slot.number > oldest && slot.number <= number);
    recent.fold((0u32, 0u32), |(calls, faults), slot| {
        (calls.saturating_add(slot.calls), faults.saturating_add(slot.faults))
    })
}

/// The breakers of all endpoints that were called on this node, by model and index.
#[derive(Debug, Default)]
pub struct Breakers(RwLock<HashMap<(ModelId, usize), Arc<Breaker>>>);

impl Breakers {
    /// Returns the breaker of one endpoint of a model, 0 if it has only one; a closed one if it was not
    /// called yet.
    pub fn get(&self, model: ModelId, endpoint: usize) -> Arc<Breaker> {
        let place = (model, endpoint);
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        known.unwrap_or_else(|| {
            let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(place).or_default())
        })
    }

    /// Forgets all endpoints of a model that was deleted, or whose address or key has changed.
    pub fn forget(&self, model: ModelId) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(known, _), _| *known != model);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(1_790_000_000_000_000 + seconds * SECOND)
    }

    fn success(breaker: &Arc<Breaker>, now: Timestamp) {
        breaker.allow(now).unwrap().success(now);
    }

    fn fault(breaker: &Arc<Breaker>, now: Timestamp) {
        breaker.allow(now).unwrap().fault(Fault::Failed, now);
    }

    /// A breaker whose circuit has opened.
    fn opened(now: Timestamp) -> Arc<Breaker> {
        let breaker = Arc::default();
        for _ in 0..5 {
            fault(&breaker, now);
        }
        breaker
    }

    #[test]
    fn five_faults_in_a_row_open_it_and_a_probe_closes_it() {
        let breaker = Arc::default();
        for _ in 0..4 {
            fault(&breaker, at(0));
        }
        success(&breaker, at(0));
        let [early, later, last] = [(); 3].map(|()| breaker.allow(at(0)).unwrap());
        for _ in 0..5 {
            fault(&breaker, at(1));
        }
        assert!(breaker.allow(at(1)).is_none() && breaker.is_open(at(30)));
        assert!(breaker.allow(at(30)).is_none());
        early.success(at(30));
        assert!(
            breaker.allow(at(30)).is_none(),
            "a late success of an earlier call closes nothing"
        );
        let probe = breaker.allow(at(31)).unwrap();
        assert!(breaker.allow(at(31)).is_none(), "only one");
        later.success(at(31));
        last.fault(Fault::Failed, at(31));
        assert!(breaker.allow(at(31)).is_none(), "nor beside a probe");
        probe.fault(Fault::Failed, at(32));
        assert!(breaker.allow(at(61)).is_none());
        success(&breaker, at(62));
        let both = (breaker.allow(at(63)), breaker.allow(at(63)));
        assert!(both.0.is_some() && both.1.is_some());
    }

    #[test]
    fn an_open_circuit_says_why_and_how_long() {
        let busy = Fault::Busy { status: 429, passes: true };
        let breaker = Arc::default();
        for _ in 0..4 {
            fault(&breaker, at(0));
        }
        assert_eq!(breaker.opened_by(at(0)), None);
        breaker.allow(at(0)).unwrap().fault(busy, at(0));
        let left = |seconds| Some((busy, Duration::from_secs(seconds)));
        assert_eq!((breaker.opened_by(at(0)), breaker.opened_by(at(29))), (left(30), left(1)));
        assert_eq!(breaker.opened_by(at(30)), None, "the next call is let through");
        let probe = breaker.allow(at(30)).unwrap();
        assert_eq!(breaker.opened_by(at(31)), left(1), "beside a probe");
        drop(probe);
        assert_eq!(breaker.opened_by(at(31)), None);
        let probe = breaker.allow(at(31)).unwrap();
        probe.fault(Fault::Failed, at(32));
        assert_eq!(breaker.opened_by(at(32)), Some((Fault::Failed, Duration::from_secs(30))));
        success(&breaker, at(62));
        assert_eq!(breaker.opened_by(at(62)), None);
    }

    #[test]
    fn half_of_twenty_within_the_window_open_it() {
        let breaker = Arc::default();
        for second in 0..9 {
            success(&breaker, at(second));
            fault(&breaker, at(second));
        }
        success(&breaker, at(9));
        assert!(breaker.allow(at(9)).is_some(), "19 calls are not enough");
        fault(&breaker, at(9));
        assert!(breaker.allow(at(9)).is_none());

        let slow = Arc::default();
        for second in 0..40 {
            success(&slow, at(second * 4));
            fault(&slow, at(second * 4));
        }
        assert!(slow.allow(at(160)).is_some(), "never 20 within the window");
    }

    #[test]
    fn a_lost_probe_is_replaced() {
        let breaker = opened(at(0));
        let lost = breaker.allow(at(30)).unwrap();
        assert!(breaker.allow(at(59)).is_none());
        let slow = breaker.allow(at(60)).unwrap();
        drop(lost);
        assert!(breaker.allow(at(60)).is_none(), "the probe is another by now");
        let _third = breaker.allow(at(90)).unwrap();
        slow.success(at(91));
        assert!(breaker.allow(at(91)).is_some(), "a slow one closes it all the same");
    }

    #[test]
    fn a_probe_that_did_not_go_out_makes_room_for_the_next() {
        let breaker = opened(at(0));
        drop(breaker.allow(at(31)).unwrap());
        let probe = breaker.allow(at(31)).unwrap();
        assert!(breaker.allow(at(31)).is_none(), "the circuit is still open");
        probe.success(at(32));
        drop(breaker.allow(at(33)).unwrap());
        assert!(breaker.allow(at(33)).is_some(), "a closed one stays closed");
    }

    #[test]
    fn a_probe_that_begins_to_be_answered_closes_it() {
        let breaker = opened(at(0));
        let probe = breaker.allow(at(31)).unwrap().begun(at(32));
        let both = [(); 2].map(|()| breaker.allow(at(32)));
        assert!(both.iter().all(Option::is_some), "whoever waits need not wait for its end");
        for _ in 0..4 {
            fault(&breaker, at(33));
        }
        probe.fault(Fault::Failed, at(40));
        assert!(breaker.allow(at(40)).is_none(), "and its end counts like any other");
    }

    #[test]
    fn a_probe_that_was_replaced_opens_nothing() {
        let breaker = opened(at(0));
        let old = breaker.allow(at(30)).unwrap();
        let new = breaker.allow(at(60)).unwrap();
        old.fault(Fault::Failed, at(61));
        new.success(at(62));
        assert!(breaker.allow(at(62)).is_some());
    }

    #[test]
    fn each_endpoint_has_its_own() {
        let all = Breakers::default();
        for (model, endpoint) in [(1, 0), (1, 2), (2, 0)] {
            for _ in 0..5 {
                fault(&all.get(ModelId(model), endpoint), at(0));
            }
        }
        let open = |model, endpoint| all.get(ModelId(model), endpoint).is_open(at(0));
        assert!(open(1, 0) && !open(1, 1) && open(1, 2) && open(2, 0) && !open(2, 2));
        all.forget(ModelId(1));
        assert!(!open(1, 0) && !open(1, 2) && open(2, 0));
    }
}
