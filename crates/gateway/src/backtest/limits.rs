//! The limits of a draft, replayed over recorded times: which calls the gate would have refused.
//!
//! Each judged request comes to the gate when it began, and its cost by the draft counts when it ended. The
//! windows are those of the gate (`limits`), and so is the order of their checks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use ::limits::{KeyWindows, MonthSpend};
use domain::ids::{KeyId, StepId};
use domain::money::Usd;
use domain::settings::Limits;
use domain::time::Timestamp;

use crate::backtest::report::{Limit, MOST_IDS, Refused};

/// A judged request as the gate sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitedCall {
    pub(super) step: StepId,
    pub(super) key: Option<KeyId>,
    pub(super) started_at: Timestamp,
    pub(super) finished_at: Timestamp,
    /// Whether it is a later round of a conversation with MCP tools: the gate has seen only the first.
    pub(super) is_round: bool,
    /// Whether a cap or a budget leaves no model for it, since none has a price.
    pub(super) lacks_price: bool,
    /// Its cost by the draft.
    pub(super) cost: Usd,
    /// The money that the draft saves on it, if it is answered with and without it.
    pub(super) saving: Usd,
}

/// The limits of a draft.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) limits: Limits,
    pub(super) monthly_budget: Option<Usd>,
    pub(super) caps: Caps,
    /// The begin of the window, and the money that the project had spent in its month by then.
    pub(super) spent_before: (Timestamp, Usd),
}

/// The caps of keys.
#[derive(Debug)]
pub(super) enum Caps {
    /// The cap of each key that has one.
    Own(HashMap<KeyId, Usd>),
    /// One for every key, also for those that are revoked by now.
    Every(Option<Usd>),
}

impl Caps {
    /// The cap of a key.
    pub(super) fn of(&self, key: KeyId) -> Option<Usd> {
        match self {
            Self::Own(caps) => caps.get(&key).copied(),
            Self::Every(cap) => *cap,
        }
    }
}

impl Rules {
    /// Whether a cap or a budget bounds what may be spent with a key.
    pub(super) fn bound(&self, key: Option<KeyId>) -> bool {
        self.monthly_budget.is_some() || key.and_then(|key| self.caps.of(key)).is_some()
    }
}

/// The calls that the gate would have refused.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    pub(super) by_limit: BTreeMap<Limit, Refused>,
    /// Their cost by the draft together.
    pub(super) cost: Usd,
    /// The money that the draft would have saved on them.
    pub(super) saving: Usd,
}

/// Replays the limits over calls, in the order in which they began. A paused key is taken to be reset as
/// soon as its window has room.
pub(super) fn replay(mut calls: Vec<LimitedCall>, rules: &Rules) -> Refusals {
    calls.sort_by_key(|call| (call.started_at, call.step));
    let mut gate = Gate { rules, month: MonthSpend::default(), keys: HashMap::new() };
    let (since, spent) = rules.spent_before;
    gate.month.add(since, spent);
    let mut open: BinaryHeap<Reverse<(Timestamp, usize)>> = BinaryHeap::new();
    let mut refusals = Refusals::default();
    for (index, call) in calls.iter().enumerate() {
        while let Some(Reverse((ended, earlier))) = open.peek().copied()
            && ended <= call.started_at
        {
            open.pop();
            gate.settle(&calls[earlier]);
        }
        match gate.refusal(call) {
            Some(limit) => refusals.note(limit, call),
            None => open.push(Reverse((call.finished_at, index))),
        }
    }
    refusals
}

struct Gate<'a> {
    rules: &'a Rules,
    month: MonthSpend,
    keys: HashMap<Option<KeyId>, KeyWindows>,
}

impl Gate<'_> {
    /// The limit that refuses a call, if one does; else the call is counted.
    fn refusal(&mut self, call: &LimitedCall) -> Option<Limit> {
        let (now, rules) = (call.started_at, self.rules);
        let windows = self.keys.entry(call.key).or_insert_with(|| KeyWindows::new(&rules.limits));
        if !call.is_round {
            if windows.record_attempt(now) {
                return Some(Limit::LoopRequests);
            }
            if windows.admit(now).is_err() {
                return Some(Limit::RequestsPerHour);
            }
        }
        if rules.monthly_budget.is_some_and(|budget| self.month.total(now) >= budget) {
            return Some(Limit::MonthlyBudget);
        }
        let cap = call.key.and_then(|key| rules.caps.of(key));
        if cap.is_some_and(|cap| windows.spent(now) >= cap) {
            return Some(Limit::HourlyLimit);
        }
        call.lacks_price.then_some(Limit::NoPrice)
    }

    fn settle(&mut self, call: &LimitedCall) {
        self.month.add(call.finished_at, call.cost);
        if let Some(windows) = self.keys.get_mut(&call.key) {
            windows.settle(call.finished_at, call.cost);
        }
    }
}

impl Refusals {
    fn note(&mut self, limit: Limit, call: &LimitedCall) {
        let refused = self.by_limit.entry(limit).or_default();
        refused.steps += 1;
        refused.cost += call.cost + call.saving;
        if refused.step_ids.len() < MOST_IDS {
            refused.step_ids.push(call.step);
        }
        self.cost += call.cost;
        self.saving += call.saving;
    }
}
