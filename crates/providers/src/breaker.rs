//! Circuit breakers: an endpoint that keeps failing is left alone for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use domain::ids::ModelId;
use domain::time::{SECOND, Timestamp};

/// So many faults in a row open the circuit.
const IN_A_ROW: u32 = 5;
/// From so many calls in the window on, half of them failing opens it.
const ENOUGH_CALLS: u32 = 20;
/// How long it stays open, and how long a probe may take to report.
const OPEN_FOR: i64 = 30 * SECOND;
/// The window is kept as ten slots of three seconds.
const SLOTS: usize = 10;
const SLOT: i64 = 3 * SECOND;

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
    Open { since: Timestamp },
    Probing { since: Timestamp },
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
    /// Whether a call may go out now. `true` from an open circuit makes that call the probe:
    /// its outcome must be reported.
    pub fn allow(&self, now: Timestamp) -> bool {
        let mut state = self.state();
        match *state {
            State::Closed { .. } => true,
            State::Open { since } | State::Probing { since } if now.since(since) >= OPEN_FOR => {
                *state = State::Probing { since: now };
                true
            }
            State::Open { .. } | State::Probing { .. } => false,
        }
    }

    /// Whether a call would be let through, without making it the probe: for plans and displays.
    pub fn is_open(&self, now: Timestamp) -> bool {
        match *self.state() {
            State::Closed { .. } => false,
            State::Open { since } | State::Probing { since } => now.since(since) < OPEN_FOR,
        }
    }

    /// The endpoint answered; an answer that finds fault with the request counts too.
    pub fn success(&self, now: Timestamp) {
        let mut state = self.state();
        match &mut *state {
            State::Closed { in_a_row, slots } => {
                *in_a_row = 0;
                count(slots, now, 0);
            }
            State::Probing { .. } => *state = State::default(),
            // A call from before the circuit opened.
            State::Open { .. } => {}
        }
    }

    /// The call did not go out after all: if it was the probe, the next one is.
    pub fn release(&self, now: Timestamp) {
        let mut state = self.state();
        if matches!(*state, State::Probing { .. }) {
            *state = State::Open { since: Timestamp(now.0 - OPEN_FOR) };
        }
    }

    /// The endpoint failed.
    pub fn fault(&self, now: Timestamp) {
        let mut state = self.state();
        let open = match &mut *state {
            State::Closed { in_a_row, slots } => {
                *in_a_row += 1;
                let (calls, faults) = count(slots, now, 1);
                *in_a_row >= IN_A_ROW || (calls >= ENOUGH_CALLS && faults * 2 >= calls)
            }
            State::Probing { .. } => true,
            State::Open { .. } => false,
        };
        if open {
            *state = State::Open { since: now };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a call, and returns the calls and faults of the window.
fn count(slots: &mut [Slot; SLOTS], now: Timestamp, fault: u32) -> (u32, u32) {
    let number = now.0.div_euclid(SLOT);
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
    /// The breaker of one endpoint of a model, 0 where it has but one; a closed one when it was
    /// not called yet.
    pub fn get(&self, model: ModelId, endpoint: usize) -> Arc<Breaker> {
        let place = (model, endpoint);
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&place).cloned();
        known.unwrap_or_else(|| {
            let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(place).or_default())
        })
    }

    /// Forgets all endpoints of a model that was deleted, or of which an address or key changed.
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

    #[test]
    fn five_faults_in_a_row_open_it_and_a_probe_closes_it() {
        let breaker = Breaker::default();
        for _ in 0..4 {
            breaker.fault(at(0));
        }
        breaker.success(at(0));
        for _ in 0..4 {
            breaker.fault(at(1));
        }
        assert!(breaker.allow(at(1)));
        breaker.fault(at(1));
        assert!(!breaker.allow(at(1)) && breaker.is_open(at(30)));
        assert!(!breaker.allow(at(30)));
        breaker.success(at(30));
        assert!(!breaker.allow(at(30)), "a late success of an earlier call closes nothing");
        assert!(breaker.allow(at(31)), "the probe");
        assert!(!breaker.allow(at(31)), "only one");
        breaker.fault(at(32));
        assert!(!breaker.allow(at(61)));
        assert!(breaker.allow(at(62)));
        breaker.success(at(63));
        assert!(breaker.allow(at(63)) && breaker.allow(at(63)));
    }

    #[test]
    fn half_of_twenty_within_the_window_open_it() {
        let breaker = Breaker::default();
        for second in 0..9 {
            breaker.success(at(second));
            breaker.fault(at(second));
        }
        breaker.success(at(9));
        assert!(breaker.allow(at(9)), "19 calls are not enough");
        breaker.fault(at(9));
        assert!(!breaker.allow(at(9)));

        let slow = Breaker::default();
        for second in 0..40 {
            slow.success(at(second * 4));
            slow.fault(at(second * 4));
        }
        assert!(slow.allow(at(160)), "never 20 within the window");
    }

    #[test]
    fn a_lost_probe_is_replaced() {
        let breaker = Breaker::default();
        for _ in 0..5 {
            breaker.fault(at(0));
        }
        assert!(breaker.allow(at(30)));
        assert!(!breaker.allow(at(59)));
        assert!(breaker.allow(at(60)));
    }

    #[test]
    fn a_probe_that_did_not_go_out_makes_room_for_the_next() {
        let breaker = Breaker::default();
        for _ in 0..5 {
            breaker.fault(at(0));
        }
        assert!(breaker.allow(at(31)));
        breaker.release(at(31));
        assert!(breaker.allow(at(31)), "the next is the probe");
        assert!(!breaker.allow(at(31)), "and the circuit is still open");
        breaker.success(at(32));
        breaker.release(at(33));
        assert!(breaker.allow(at(33)), "a closed one stays closed");
    }

    #[test]
    fn each_endpoint_has_its_own() {
        let all = Breakers::default();
        for (model, endpoint) in [(1, 0), (1, 2), (2, 0)] {
            for _ in 0..5 {
                all.get(ModelId(model), endpoint).fault(at(0));
            }
        }
        let open = |model, endpoint| all.get(ModelId(model), endpoint).is_open(at(0));
        assert!(open(1, 0) && !open(1, 1) && open(1, 2) && open(2, 0) && !open(2, 2));
        all.forget(ModelId(1));
        assert!(!open(1, 0) && !open(1, 2) && open(2, 0));
    }
}
