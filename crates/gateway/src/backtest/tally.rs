//! The counts of a backtest while it runs.

use std::collections::BTreeMap;

use domain::ids::StepId;
use domain::money::Usd;
use domain::tier::Tier;

use crate::backtest::both::Both;
use crate::backtest::conversations::Conversations;
use crate::backtest::judge::{Cause, Fate, Judged, Pricing, Unjudged};
use crate::backtest::limits::{LimitedCall, Refusals};
use crate::backtest::report::{
    BacktestReport, ByCause, Costs, MOST_IDS, ModelCosts, StepCounts, TierMove,
};

/// The most causes, and the most models, that a report names; all others are one.
const MOST_NAMES: usize = 200;
/// The name of all others.
const OTHER: &str = "other";

/// The counts so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) steps: StepCounts,
    recorded_blocked: u64,
    draft_blocked: u64,
    newly_blocked: Causes,
    newly_passed: Causes,
    tiers: BTreeMap<(Tier, Tier), (u64, Usd, Usd)>,
    models: Models,
    costs: Costs,
    /// Every judged request, for the limits, which go by another order; none if there are no limits.
    calls: Option<Vec<LimitedCall>>,
    pub(super) conversations: Conversations,
}

/// Answers by model.
#[derive(Debug, Default)]
struct Models {
    places: BTreeMap<String, u8>,
    costs: Vec<ModelCosts>,
}

/// Requests by cause.
#[derive(Debug, Default)]
struct Causes(BTreeMap<Cause, (u64, Vec<StepId>)>);

impl Tally {
    /// Nothing yet. Without limits the requests themselves are not kept.
    pub(super) fn new(is_limited: bool) -> Self {
        Self { calls: is_limited.then(Vec::new), ..Self::default() }
    }

    /// Counts a request.
    pub(super) fn add(&mut self, outcome: Result<Judged, Unjudged>) {
        let Ok(judged) = outcome else {
            self.steps.unreadable += 1;
            return;
        };
        let Judged { recorded, draft, .. } = &judged;
        self.steps.judged += 1;
        self.recorded_blocked += u64::from(recorded.block.is_some());
        self.draft_blocked += u64::from(draft.block.is_some());
        self.costs.recorded += recorded.cost;
        self.costs.draft += draft.cost;
        self.costs.unpriced_steps += u64::from(judged.pricing == Pricing::Unpriced);
        match (&recorded.block, &draft.block) {
            (None, Some(cause)) => {
                self.newly_blocked.add(cause, judged.step);
                self.costs.newly_blocked += recorded.cost;
            }
            (Some(cause), None) => {
                self.newly_passed.add(cause, judged.step);
                self.costs.newly_passed += draft.cost;
            }
            (None, None) => {
                self.costs.savings += recorded.cost - draft.cost;
                self.add_move(recorded, draft);
            }
            (Some(_), Some(_)) => {}
        }
        let model = self.add_models(recorded, draft);
        let Some(calls) = &mut self.calls else { return };
        let first = judged.round_after.map_or(judged.step, |tool| {
            self.conversations.first(judged.step, tool, judged.finished_at)
        });
        let is_answered = Both { now: recorded.block.is_none(), draft: draft.block.is_none() };
        let is_compared = is_answered.now && is_answered.draft;
        calls.push(LimitedCall {
            step: judged.step,
            first,
            key: judged.key,
            started_at: judged.started_at,
            finished_at: judged.finished_at,
            lacks_price: judged.lacks_price,
            cost: Both { now: recorded.cost, draft: draft.cost },
            is_answered,
            tiers: recorded.tier.zip(draft.tier).filter(|_| is_compared),
            model,
        });
    }

    fn add_move(&mut self, recorded: &Fate, draft: &Fate) {
        let (Some(from), Some(to)) = (recorded.tier, draft.tier) else { return };
        let (steps, was, is) = self.tiers.entry((from, to)).or_default();
        *steps += 1;
        *was += recorded.cost;
        *is += draft.cost;
    }

    /// Counts the models of a request. Returns the place of the draft's.
    fn add_models(&mut self, recorded: &Fate, draft: &Fate) -> Option<u8> {
        if let Some(model) = &recorded.model {
            let (_, costs) = self.models.of(model);
            costs.recorded_steps += 1;
            costs.recorded_cost += recorded.cost;
        }
        let (place, costs) = self.models.of(draft.model.as_ref()?);
        costs.draft_steps += 1;
        costs.draft_cost += draft.cost;
        Some(place)
    }

    /// Takes the requests that the limits are replayed over.
    pub(super) fn take_calls(&mut self) -> Vec<LimitedCall> {
        self.calls.take().unwrap_or_default()
    }

    /// The report of everything that was counted.
    pub(super) fn report(self, refusals: Refusals, ignored: Vec<String>) -> BacktestReport {
        let mut costs = self.costs;
        costs.draft = costs.draft - refusals.cost;
        costs.savings = costs.savings - refusals.saving;
        costs.refused = refusals.cost + refusals.saving;
        let moves = self.tiers.into_iter().map(|(tiers, (steps, was, is))| {
            let refused = refusals.tiers.get(&tiers).copied().unwrap_or_default();
            TierMove {
                from: tiers.0,
                to: tiers.1,
                steps: steps - refused.0,
                recorded_cost: was - refused.1,
                draft_cost: is - refused.2,
            }
        });
        BacktestReport {
            steps: self.steps,
            recorded_blocked: self.recorded_blocked,
            draft_blocked: self.draft_blocked,
            newly_blocked: self.newly_blocked.into_list(),
            newly_passed: self.newly_passed.into_list(),
            tiers: moves.filter(|cell| cell.steps > 0).collect(),
            models: self.models.without(&refusals.models),
            refused: refusals.by_limit,
            refusal_counts: refusals.counts,
            costs,
            ignored_settings: ignored,
        }
    }
}

impl Models {
    /// The costs of a model, and their place.
    fn of(&mut self, model: &str) -> (u8, &mut ModelCosts) {
        let is_other = self.costs.len() >= MOST_NAMES && !self.places.contains_key(model);
        let name = if is_other { OTHER } else { model };
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => {
                // `MOST_NAMES` is less than 255.
                let place = u8::try_from(self.costs.len()).unwrap_or(u8::MAX);
                self.places.insert(name.to_owned(), place);
                self.costs.push(ModelCosts::default());
                place
            }
        };
        (place, &mut self.costs[usize::from(place)])
    }

    /// The costs by model, without refused answers by the draft.
    fn without(self, refused: &BTreeMap<u8, (u64, Usd)>) -> BTreeMap<String, ModelCosts> {
        let Self { places, costs } = self;
        let by_model = places.into_iter().map(|(model, place)| {
            let mut costs = costs[usize::from(place)];
            let (steps, cost) = refused.get(&place).copied().unwrap_or_default();
            costs.draft_steps -= steps;
            costs.draft_cost = costs.draft_cost - cost;
            (model, costs)
        });
        by_model.collect()
    }
}

impl Causes {
    fn add(&mut self, cause: &Cause, step: StepId) {
        let is_other = self.0.len() >= MOST_NAMES && !self.0.contains_key(cause);
        let other = || Cause { category: OTHER.to_owned(), kind: OTHER.to_owned() };
        let cause = if is_other { other() } else { cause.clone() };
        let (steps, ids) = self.0.entry(cause).or_default();
        *steps += 1;
        if ids.len() < MOST_IDS {
            ids.push(step);
        }
    }

    /// The causes, the most frequent first.
    fn into_list(self) -> Vec<ByCause> {
        let by_cause = self.0.into_iter().map(|(cause, (steps, step_ids))| ByCause {
            category: cause.category,
            kind: cause.kind,
            steps,
            step_ids,
        });
        let mut list: Vec<ByCause> = by_cause.collect();
        list.sort_by_key(|cause| std::cmp::Reverse(cause.steps));
        list
    }
}
