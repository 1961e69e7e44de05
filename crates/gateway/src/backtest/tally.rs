//! The counts of a backtest while it runs.

use std::collections::BTreeMap;

use domain::ids::StepId;
use domain::money::Usd;
use domain::tier::Tier;

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
    models: BTreeMap<String, ModelCosts>,
    costs: Costs,
    /// Every judged request, for the limits, which go by another order.
    calls: Vec<LimitedCall>,
}

/// Requests by cause.
#[derive(Debug, Default)]
struct Causes(BTreeMap<Cause, (u64, Vec<StepId>)>);

impl Tally {
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
        let mut saving = Usd::ZERO;
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
                saving = recorded.cost - draft.cost;
                self.costs.savings += saving;
                self.add_move(recorded, draft);
            }
            (Some(_), Some(_)) => {}
        }
        self.add_models(recorded, draft);
        self.calls.push(LimitedCall {
            step: judged.step,
            key: judged.key,
            started_at: judged.started_at,
            finished_at: judged.finished_at,
            is_round: judged.is_round,
            lacks_price: judged.lacks_price,
            cost: draft.cost,
            saving,
        });
    }

    fn add_move(&mut self, recorded: &Fate, draft: &Fate) {
        let (Some(from), Some(to)) = (recorded.tier, draft.tier) else { return };
        let (steps, was, is) = self.tiers.entry((from, to)).or_default();
        *steps += 1;
        *was += recorded.cost;
        *is += draft.cost;
    }

    fn add_models(&mut self, recorded: &Fate, draft: &Fate) {
        if let Some(model) = &recorded.model {
            let costs = self.model(model);
            costs.recorded_steps += 1;
            costs.recorded_cost += recorded.cost;
        }
        if let Some(model) = &draft.model {
            let costs = self.model(model);
            costs.draft_steps += 1;
            costs.draft_cost += draft.cost;
        }
    }

    fn model(&mut self, model: &str) -> &mut ModelCosts {
        let is_other = self.models.len() >= MOST_NAMES && !self.models.contains_key(model);
        self.models.entry(if is_other { OTHER } else { model }.to_owned()).or_default()
    }

    /// Takes the requests that the limits are replayed over.
    pub(super) fn take_calls(&mut self) -> Vec<LimitedCall> {
        std::mem::take(&mut self.calls)
    }

    /// The report of everything that was counted.
    pub(super) fn report(self, refusals: Refusals, ignored: Vec<String>) -> BacktestReport {
        let mut costs = self.costs;
        costs.draft = costs.draft - refusals.cost;
        costs.savings = costs.savings - refusals.saving;
        costs.refused = refusals.cost + refusals.saving;
        let moves = self.tiers.into_iter().map(|((from, to), (steps, was, is))| TierMove {
            from,
            to,
            steps,
            recorded_cost: was,
            draft_cost: is,
        });
        BacktestReport {
            steps: self.steps,
            recorded_blocked: self.recorded_blocked,
            draft_blocked: self.draft_blocked,
            newly_blocked: self.newly_blocked.into_list(),
            newly_passed: self.newly_passed.into_list(),
            tiers: moves.collect(),
            models: self.models,
            refused: refusals.by_limit,
            costs,
            ignored_settings: ignored,
        }
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
