//! The limits of a draft, replayed over recorded times: which calls the gate would have refused.
//!
//! Each judged request comes to the gate when it began, and its cost counts when it ended. The windows are
//! those of the gate (`limits`), and so is the order of their checks. The limits of now are replayed in the
//! same way over what was recorded: what both refuse is no difference that the draft makes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use ::limits::{KeyWindows, MonthSpend};
use domain::ids::{KeyId, StepId};
use domain::money::Usd;
use domain::settings::Limits;
use domain::tier::Tier;
use domain::time::Timestamp;

use crate::backtest::both::Both;
use crate::backtest::report::{Limit, MOST_IDS, RefusalCounts, Refused};

/// A judged request as the gate sees it. Up to a million are kept at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitedCall {
    pub(super) step: StepId,
    /// The request that the gate saw: itself, or the first of its conversation with MCP tools.
    pub(super) first: StepId,
    pub(super) key: Option<KeyId>,
    pub(super) started_at: Timestamp,
    pub(super) finished_at: Timestamp,
    /// Whether a cap or a budget leaves no model for it, since none has a price.
    pub(super) lacks_price: Both<bool>,
    /// Its recorded cost, and that by the draft.
    pub(super) cost: Both<Usd>,
    /// Whether it was answered, and is by the draft.
    pub(super) is_answered: Both<bool>,
    /// Its tiers, if it was routed and is.
    pub(super) tiers: Option<(Tier, Tier)>,
    /// The place of the draft's model among those of the report.
    pub(super) model: Option<u8>,
}

const _: () = assert!(size_of::<LimitedCall>() <= 72);

impl LimitedCall {
    /// Whether it is a later round of a conversation with MCP tools: the gate has seen only the first.
    fn is_round(&self) -> bool {
        self.first != self.step
    }

    /// The money that the draft saves on it, if it is answered with and without it.
    fn saving(&self) -> Usd {
        let is_answered = self.is_answered.now && self.is_answered.draft;
        if is_answered { self.cost.now - self.cost.draft } else { Usd::ZERO }
    }
}

/// Limits, and the money that was spent before.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) limits: Limits,
    pub(super) monthly_budget: Option<Usd>,
    pub(super) caps: Caps,
    /// The begin of the window, and the money that the project had spent in its month by then.
    pub(super) spent_before: (Timestamp, Usd),
}

/// The caps of keys.
#[derive(Clone, Debug)]
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

    fn is_empty(&self) -> bool {
        match self {
            Self::Own(caps) => caps.is_empty(),
            Self::Every(cap) => cap.is_none(),
        }
    }
}

impl Rules {
    /// Whether a cap or a budget bounds what may be spent with a key.
    pub(super) fn bound(&self, key: Option<KeyId>) -> bool {
        self.monthly_budget.is_some() || key.and_then(|key| self.caps.of(key)).is_some()
    }

    /// Whether they refuse nothing.
    pub(super) fn is_empty(&self) -> bool {
        let Limits { requests_per_hour, loop_requests, .. } = self.limits;
        let is_bound = self.monthly_budget.is_some() || !self.caps.is_empty();
        !is_bound && requests_per_hour.is_none() && loop_requests.is_none()
    }
}

/// The calls that the gate would have refused by the draft, and not by the limits of now.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    pub(super) by_limit: BTreeMap<Limit, Refused>,
    pub(super) counts: RefusalCounts,
    /// Their cost by the draft together.
    pub(super) cost: Usd,
    /// The money that the draft would have saved on them.
    pub(super) saving: Usd,
    /// Those with recorded and drafted tiers: how many, and their recorded and drafted cost.
    pub(super) tiers: BTreeMap<(Tier, Tier), (u64, Usd, Usd)>,
    /// Those with a model by the draft: how many, and their cost.
    pub(super) models: BTreeMap<u8, (u64, Usd)>,
}

/// Replays the limits of the draft and of now over calls, in the order in which they began. A paused key is
/// taken to be reset as soon as its window has room.
pub(super) fn replay(mut calls: Vec<LimitedCall>, rules: &Both<Rules>) -> Refusals {
    calls.sort_unstable_by_key(|call| (call.started_at, call.step));
    let now = refused(&calls, &rules.now, |call| (call.cost.now, call.lacks_price.now));
    let draft = refused(&calls, &rules.draft, |call| (call.cost.draft, call.lacks_price.draft));
    let mut refusals = Refusals::default();
    for (call, limits) in calls.iter().zip(now.into_iter().zip(draft)) {
        match limits {
            (None, None) => {}
            (None, Some(limit)) => refusals.note(limit, call),
            (Some(_), Some(_)) => refusals.counts.already += 1,
            (Some(_), None) => refusals.counts.no_longer += 1,
        }
    }
    refusals
}

/// The limit that refuses each of some calls, if one does. `of` gives the cost of a call, and whether it needs
/// a model with a price in vain.
fn refused(
    calls: &[LimitedCall],
    rules: &Rules,
    of: impl Fn(&LimitedCall) -> (Usd, bool),
) -> Vec<Option<Limit>> {
    if rules.is_empty() {
        return vec![None; calls.len()];
    }
    let mut gate = Gate { rules, month: MonthSpend::default(), keys: HashMap::new() };
    let (since, spent) = rules.spent_before;
    gate.month.add(since, spent);
    // Those that have later rounds, with the limit that ended them.
    let rounds = calls.iter().filter(|call| call.is_round());
    let mut conversations: HashMap<StepId, Option<Limit>> =
        rounds.map(|call| (call.first, None)).collect();
    let mut open: BinaryHeap<Reverse<(Timestamp, usize)>> = BinaryHeap::new();
    let mut all = Vec::with_capacity(calls.len());
    for (index, call) in calls.iter().enumerate() {
        while let Some(Reverse((ended, earlier))) = open.peek().copied()
            && ended <= call.started_at
        {
            open.pop();
            gate.settle(&calls[earlier], of(&calls[earlier]).0);
        }
        let mut conversation = conversations.get_mut(&call.first);
        let ended = conversation.as_deref().copied().flatten();
        let limit = ended.or_else(|| gate.refusal(call, of(call).1));
        match limit {
            None => open.push(Reverse((call.finished_at, index))),
            Some(_) => {
                if let Some(conversation) = &mut conversation {
                    **conversation = limit;
                }
            }
        }
        all.push(limit);
    }
    all
}

struct Gate<'a> {
    rules: &'a Rules,
    month: MonthSpend,
    keys: HashMap<Option<KeyId>, KeyWindows>,
}

impl Gate<'_> {
    /// The limit that refuses a call, if one does; else the call is counted.
    fn refusal(&mut self, call: &LimitedCall, lacks_price: bool) -> Option<Limit> {
        let (now, rules) = (call.started_at, self.rules);
        let windows = self.keys.entry(call.key).or_insert_with(|| KeyWindows::new(&rules.limits));
        if !call.is_round() {
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
        lacks_price.then_some(Limit::NoPrice)
    }

    fn settle(&mut self, call: &LimitedCall, cost: Usd) {
        self.month.add(call.finished_at, cost);
        if let Some(windows) = self.keys.get_mut(&call.key) {
            windows.settle(call.finished_at, cost);
        }
    }
}

impl Refusals {
    fn note(&mut self, limit: Limit, call: &LimitedCall) {
        let (cost, saving) = (call.cost.draft, call.saving());
        let refused = self.by_limit.entry(limit).or_default();
        refused.steps += 1;
        refused.cost += cost + saving;
        if refused.step_ids.len() < MOST_IDS {
            refused.step_ids.push(call.step);
        }
        self.cost += cost;
        self.saving += saving;
        if let Some(tiers) = call.tiers {
            let (steps, was, is) = self.tiers.entry(tiers).or_default();
            *steps += 1;
            *was += call.cost.now;
            *is += cost;
        }
        if let Some(model) = call.model {
            let (steps, sum) = self.models.entry(model).or_default();
            *steps += 1;
            *sum += cost;
        }
    }
}
