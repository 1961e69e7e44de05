//! The counts of a backtest and the limits beside plain sums over lists, for any verdicts.

use std::collections::{BTreeMap, BTreeSet};

use domain::ids::{KeyId, StepId};
use domain::money::Usd;
use domain::settings::Limits;
use domain::tier::Tier;
use domain::time::{HOUR, MINUTE, SECOND, Timestamp};
use proptest::prelude::*;

use super::judge::{Cause, Fate, Judged, Pricing};
use super::limits::{Caps, Rules, replay};
use super::report::{BacktestReport, Limit, MOST_IDS};
use super::tally::Tally;

/// A time in the middle of a month.
const NOW: Timestamp = Timestamp(1_795_262_400_000_000);

fn fate() -> impl Strategy<Value = Fate> {
    let cause =
        prop::sample::select(vec![("pii", "EMAIL"), ("secret", "k"), ("routing", "simple")]);
    let cause = cause.prop_map(|(category, kind)| Cause {
        category: category.to_owned(),
        kind: kind.to_owned(),
    });
    let tier = prop::option::of(prop::sample::select(Tier::ALL.to_vec()));
    let answered = (tier, prop::sample::select(vec!["a", "b"]), 0i64..2_000_000_000);
    prop_oneof![
        1 => cause.prop_map(|block| Fate { block: Some(block), ..Fate::default() }),
        3 => answered.prop_map(|(tier, model, cost)| Fate {
            block: None, tier, model: Some(model.to_owned()), cost: Usd(cost),
        }),
    ]
}

fn judged() -> impl Strategy<Value = Vec<Judged>> {
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.1));
    let one = (fate(), fate(), 0u64..3, 0i64..3 * HOUR, 0i64..5 * MINUTE, flags);
    prop::collection::vec(one, 0..60).prop_map(|all| {
        let steps = all.into_iter().enumerate();
        let judged = steps.map(|(index, (recorded, draft, key, began, took, flags))| Judged {
            step: StepId(index as i64),
            key: (key > 0).then_some(KeyId(key)),
            started_at: Timestamp(NOW.0 + began),
            finished_at: Timestamp(NOW.0 + began + took),
            is_round: flags.0,
            lacks_price: flags.1,
            recorded,
            draft,
            pricing: Pricing::Known,
        });
        judged.collect()
    })
}

/// The limit that refuses each call, by lists of everything that came before.
fn plainly_refused(all: &[Judged], rules: &Rules) -> BTreeMap<StepId, Limit> {
    let mut order: Vec<&Judged> = all.iter().collect();
    order.sort_by_key(|call| (call.started_at, call.step));
    let mut refused = BTreeMap::new();
    let (mut attempts, mut admitted) = (Vec::new(), Vec::new());
    let mut answered: Vec<&Judged> = Vec::new();
    for call in order {
        let now = call.started_at;
        let within = |list: &[(Option<KeyId>, Timestamp)], length: i64| {
            let of = list.iter().filter(|(key, at)| *key == call.key && now.since(*at) < length);
            of.count() as u64
        };
        let (most, length) = (rules.limits.loop_requests, rules.limits.loop_window_seconds as i64);
        let mut limit = None;
        if let Some(most) = most
            && !call.is_round
        {
            if within(&attempts, length * SECOND) <= most {
                attempts.push((call.key, now));
            }
            if within(&attempts, length * SECOND) > most {
                limit = Some(Limit::LoopRequests);
            }
        }
        if limit.is_none()
            && !call.is_round
            && let Some(most) = rules.limits.requests_per_hour
        {
            if within(&admitted, HOUR) >= most {
                limit = Some(Limit::RequestsPerHour);
            } else {
                admitted.push((call.key, now));
            }
        }
        let settled = || answered.iter().filter(|other| other.finished_at <= now);
        let month: Usd = settled().map(|other| other.draft.cost).sum();
        let hour = settled().filter(|other| {
            let oldest = now.minus_micros(HOUR).unix_seconds();
            other.key == call.key && other.finished_at.unix_seconds() >= oldest
        });
        let hour: Usd = hour.map(|other| other.draft.cost).sum();
        let cap = call.key.and_then(|key| rules.caps.of(key));
        limit = limit
            .or(rules
                .monthly_budget
                .filter(|budget| month + rules.spent_before.1 >= *budget)
                .map(|_| Limit::MonthlyBudget))
            .or(cap.filter(|cap| hour >= *cap).map(|_| Limit::HourlyLimit))
            .or(call.lacks_price.then_some(Limit::NoPrice));
        match limit {
            Some(limit) => drop(refused.insert(call.step, limit)),
            None => answered.push(call),
        }
    }
    refused
}

fn check_sums(report: &BacktestReport, all: &[Judged], refused: &BTreeMap<StepId, Limit>) {
    let sum = |cost: &dyn Fn(&Judged) -> Usd| all.iter().map(cost).sum::<Usd>();
    let when = |holds: bool, cost: Usd| if holds { cost } else { Usd::ZERO };
    let is_refused = |call: &Judged| refused.contains_key(&call.step);
    let is_blocked = |fate: &Fate| fate.block.is_some();
    let costs = &report.costs;
    assert_eq!(costs.recorded, sum(&|call| call.recorded.cost));
    assert_eq!(costs.draft, sum(&|call| when(!is_refused(call), call.draft.cost)));
    let both = |call: &Judged| !is_blocked(&call.recorded) && !is_blocked(&call.draft);
    let saved = |call: &Judged| when(both(call), call.recorded.cost - call.draft.cost);
    assert_eq!(costs.savings, sum(&|call| when(!is_refused(call), saved(call))));
    assert_eq!(costs.refused, sum(&|call| when(is_refused(call), call.draft.cost + saved(call))));
    let difference = costs.newly_passed - costs.newly_blocked - costs.refused - costs.savings;
    assert_eq!(costs.draft, costs.recorded + difference);
    let newly_blocked: Vec<&Judged> =
        all.iter().filter(|call| !is_blocked(&call.recorded) && is_blocked(&call.draft)).collect();
    let causes: BTreeSet<_> =
        newly_blocked.iter().filter_map(|call| call.draft.block.clone()).collect();
    assert_eq!(report.newly_blocked.len(), causes.len());
    for by_cause in &report.newly_blocked {
        let of = newly_blocked.iter().filter(|call| {
            let block = call.draft.block.as_ref().unwrap();
            (&block.category, &block.kind) == (&by_cause.category, &by_cause.kind)
        });
        let ids: Vec<StepId> = of.map(|call| call.step).collect();
        assert_eq!((by_cause.steps, &by_cause.step_ids[..]), (ids.len() as u64, &ids[..]));
    }
    let passed = all.iter().filter(|call| is_blocked(&call.recorded) && !is_blocked(&call.draft));
    let told: u64 = report.newly_passed.iter().map(|cause| cause.steps).sum();
    assert_eq!(told, passed.count() as u64);
    for cell in &report.tiers {
        let of = || {
            let tiers = (Some(cell.from), Some(cell.to));
            all.iter()
                .filter(move |call| both(call) && (call.recorded.tier, call.draft.tier) == tiers)
        };
        assert_eq!(cell.steps, of().count() as u64);
        assert_eq!(cell.recorded_cost, of().map(|call| call.recorded.cost).sum());
        assert_eq!(cell.draft_cost, of().map(|call| call.draft.cost).sum());
    }
    let routed =
        |call: &&Judged| both(call) && call.recorded.tier.is_some() && call.draft.tier.is_some();
    let cells: u64 = report.tiers.iter().map(|cell| cell.steps).sum();
    assert_eq!(cells, all.iter().filter(routed).count() as u64);
    for (limit, told) in &report.refused {
        let mut of: Vec<&Judged> =
            all.iter().filter(|call| refused.get(&call.step) == Some(limit)).collect();
        of.sort_by_key(|call| (call.started_at, call.step));
        let ids: Vec<StepId> = of.iter().take(MOST_IDS).map(|call| call.step).collect();
        assert_eq!((told.steps, &told.step_ids), (of.len() as u64, &ids), "{limit:?}");
    }
    assert_eq!(report.refused.values().map(|told| told.steps).sum::<u64>(), refused.len() as u64);
}

proptest! {
    #[test]
    fn sums_and_refusals_are_those_of_lists(
        all in judged(),
        rate in prop::option::of(0u64..12),
        attempts in prop::option::of(1u64..6),
        budget in prop::option::of(0i64..20_000_000_000),
        cap in prop::option::of(0i64..8_000_000_000),
        every in any::<bool>(),
        before in 0i64..2_000_000_000,
    ) {
        let limits = Limits {
            requests_per_hour: rate,
            loop_requests: attempts,
            loop_window_seconds: 600,
            strict: false,
        };
        let cap = cap.map(Usd);
        let own = cap.into_iter().map(|cap| (KeyId(1), cap)).collect();
        let caps = if every { Caps::Every(cap) } else { Caps::Own(own) };
        let spent_before = (NOW, Usd(before));
        let rules = Rules { limits, monthly_budget: budget.map(Usd), caps, spent_before };
        let mut tally = Tally::default();
        for call in &all {
            tally.add(Ok(call.clone()));
        }
        let refusals = replay(tally.take_calls(), &rules);
        check_sums(&tally.report(refusals, Vec::new()), &all, &plainly_refused(&all, &rules));
    }
}
