//! The counts of a backtest and the limits beside plain sums over lists, for any verdicts.

use std::collections::{BTreeMap, BTreeSet};

use domain::ids::{KeyId, StepId};
use domain::model::Provider;
use domain::money::Usd;
use domain::settings::Limits;
use domain::step::{ApiEndpoint, Call, Step, StepKind};
use domain::tier::Tier;
use domain::time::{HOUR, MINUTE, SECOND, Timestamp};
use proptest::prelude::*;

use super::both::Both;
use super::conversations::Conversations;
use super::judge::{Cause, Fate, Judged, Pricing};
use super::judge_tests::call;
use super::limits::{Caps, Rules, replay};
use super::report::{BacktestReport, ByCause, Limit, MOST_IDS};
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
    let flag = prop::bool::weighted;
    let flags = (prop::option::weighted(0.2, any::<prop::sample::Index>()), flag(0.1), flag(0.1));
    let one = (fate(), fate(), 0u64..3, 0i64..3 * HOUR, 0i64..5 * MINUTE, flags);
    prop::collection::vec(one, 0..60).prop_map(|all| {
        let mut requests: Vec<StepId> = Vec::new();
        let steps = all.into_iter().enumerate();
        let judged = steps.map(|(index, (recorded, draft, key, began, took, flags))| {
            let step = StepId(index as i64);
            let of = flags.0.filter(|_| !requests.is_empty());
            let first = of.map(|place| requests[place.index(requests.len())]);
            if first.is_none() {
                requests.push(step);
            }
            Judged {
                step,
                key: (key > 0).then_some(KeyId(key)),
                started_at: Timestamp(NOW.0 + began),
                finished_at: Timestamp(NOW.0 + began + took),
                round_after: first.map(|first| StepId(TOOL + first.0)),
                lacks_price: Both { now: flags.1, draft: flags.2 },
                recorded,
                draft,
                pricing: Pricing::Known,
            }
        });
        judged.collect()
    })
}

/// The number from which on the steps of tools count, by that of the answer that asked for each.
const TOOL: i64 = 1_000;

/// The request that the gate saw of a call.
fn first(call: &Judged) -> StepId {
    call.round_after.map_or(call.step, |tool| StepId(tool.0 - TOOL))
}

fn is_round(call: &Judged) -> bool {
    first(call) != call.step
}

/// The limit that refuses each call, by lists of everything that came before.
fn plainly_refused(
    all: &[Judged],
    rules: &Rules,
    cost: fn(&Judged) -> Usd,
    lacks_price: fn(&Judged) -> bool,
) -> BTreeMap<StepId, Limit> {
    let mut order: Vec<&Judged> = all.iter().collect();
    order.sort_by_key(|call| (call.started_at, call.step));
    let mut refused = BTreeMap::new();
    let has_rounds = |step| all.iter().any(|call| is_round(call) && first(call) == step);
    let mut conversations = BTreeMap::new();
    let (mut attempts, mut admitted) = (Vec::new(), Vec::new());
    let mut answered: Vec<&Judged> = Vec::new();
    for call in order {
        let now = call.started_at;
        let within = |list: &[(Option<KeyId>, Timestamp)], length: i64| {
            let of = list.iter().filter(|(key, at)| *key == call.key && now.since(*at) < length);
            of.count() as u64
        };
        let (most, length) = (rules.limits.loop_requests, rules.limits.loop_window_seconds as i64);
        let ended = conversations.get(&first(call)).copied().filter(|_| has_rounds(first(call)));
        if let Some(limit) = ended {
            refused.insert(call.step, limit);
            continue;
        }
        let mut limit = None;
        if let Some(most) = most
            && !is_round(call)
        {
            if within(&attempts, length * SECOND) <= most {
                attempts.push((call.key, now));
            }
            if within(&attempts, length * SECOND) > most {
                limit = Some(Limit::LoopRequests);
            }
        }
        if limit.is_none()
            && !is_round(call)
            && let Some(most) = rules.limits.requests_per_hour
        {
            if within(&admitted, HOUR) >= most {
                limit = Some(Limit::RequestsPerHour);
            } else {
                admitted.push((call.key, now));
            }
        }
        let settled = || answered.iter().filter(|other| other.finished_at <= now);
        let month: Usd = settled().map(|other| cost(other)).sum();
        let hour = settled().filter(|other| {
            let oldest = now.minus_micros(HOUR).unix_seconds();
            other.key == call.key && other.finished_at.unix_seconds() >= oldest
        });
        let hour: Usd = hour.map(|other| cost(other)).sum();
        let cap = call.key.and_then(|key| rules.caps.of(key));
        limit = limit
            .or(rules
                .monthly_budget
                .filter(|budget| month + rules.spent_before.1 >= *budget)
                .map(|_| Limit::MonthlyBudget))
            .or(cap.filter(|cap| hour >= *cap).map(|_| Limit::HourlyLimit))
            .or((lacks_price(call) && !rules.is_empty()).then_some(Limit::NoPrice));
        match limit {
            Some(limit) => {
                refused.insert(call.step, limit);
                conversations.insert(first(call), limit);
            }
            None => answered.push(call),
        }
    }
    refused
}

/// Each cause has its requests, and the first of them by their numbers.
fn check_causes(told: &[ByCause], all: &[(&Cause, StepId)]) {
    let causes: BTreeSet<_> = all.iter().map(|(cause, _)| *cause).collect();
    assert_eq!(told.len(), causes.len());
    for by_cause in told {
        let of = all.iter().filter(|(cause, _)| {
            (&cause.category, &cause.kind) == (&by_cause.category, &by_cause.kind)
        });
        let ids: Vec<StepId> = of.map(|(_, step)| *step).collect();
        assert_eq!(by_cause.steps, ids.len() as u64);
        assert_eq!(by_cause.step_ids[..], ids[..ids.len().min(MOST_IDS)]);
    }
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
    let newly = all.iter().map(|call| (call, &call.recorded.block, &call.draft.block));
    let blocked = newly.clone().filter(|(_, was, _)| was.is_none());
    let blocked = blocked.filter_map(|(call, _, is)| Some((is.as_ref()?, call.step)));
    check_causes(&report.newly_blocked, &blocked.collect::<Vec<_>>());
    let passed = newly.filter(|(.., is)| is.is_none());
    let passed = passed.filter_map(|(call, was, _)| Some((was.as_ref()?, call.step)));
    check_causes(&report.newly_passed, &passed.collect::<Vec<_>>());
    for cell in &report.tiers {
        let of = || {
            let tiers = (Some(cell.from), Some(cell.to));
            let of = all.iter().filter(move |call| !is_refused(call) && both(call));
            of.filter(move |call| (call.recorded.tier, call.draft.tier) == tiers)
        };
        assert_eq!(cell.steps, of().count() as u64);
        assert_eq!(cell.recorded_cost, of().map(|call| call.recorded.cost).sum());
        assert_eq!(cell.draft_cost, of().map(|call| call.draft.cost).sum());
    }
    let is_routed = |call: &&Judged| {
        let is_routed = call.recorded.tier.is_some() && call.draft.tier.is_some();
        is_routed && both(call) && !is_refused(call)
    };
    let cells: u64 = report.tiers.iter().map(|cell| cell.steps).sum();
    assert_eq!(cells, all.iter().filter(is_routed).count() as u64);
    for (model, told) in &report.models {
        let recorded = all.iter().filter(|call| call.recorded.model.as_ref() == Some(model));
        let draft = all.iter().filter(|call| call.draft.model.as_ref() == Some(model));
        let draft = draft.filter(|call| !is_refused(call));
        let count = (recorded.clone().count() as u64, draft.clone().count() as u64);
        assert_eq!((told.recorded_steps, told.draft_steps), count, "{model}");
        assert_eq!(told.recorded_cost, recorded.map(|call| call.recorded.cost).sum());
        assert_eq!(told.draft_cost, draft.map(|call| call.draft.cost).sum());
    }
    for (limit, told) in &report.refused {
        let mut of: Vec<&Judged> =
            all.iter().filter(|call| refused.get(&call.step) == Some(limit)).collect();
        of.sort_by_key(|call| (call.started_at, call.step));
        let ids: Vec<StepId> = of.iter().take(MOST_IDS).map(|call| call.step).collect();
        assert_eq!((told.steps, &told.step_ids), (of.len() as u64, &ids), "{limit:?}");
    }
    assert_eq!(report.refused.values().map(|told| told.steps).sum::<u64>(), refused.len() as u64);
}

fn rules() -> impl Strategy<Value = Rules> {
    let rate = prop::option::of(0u64..12);
    let attempts = prop::option::of(1u64..6);
    let money = |most| prop::option::of(0i64..most);
    (rate, attempts, money(20_000_000_000), money(8_000_000_000), any::<bool>()).prop_map(
        |(rate, attempts, budget, cap, every)| {
            let limits = Limits {
                requests_per_hour: rate,
                loop_requests: attempts,
                loop_window_seconds: 600,
                strict: false,
            };
            let cap = cap.map(Usd);
            let own = cap.into_iter().map(|cap| (KeyId(1), cap)).collect();
            let caps = if every { Caps::Every(cap) } else { Caps::Own(own) };
            let spent_before = (NOW, Usd::ZERO);
            Rules { limits, monthly_budget: budget.map(Usd), caps, spent_before }
        },
    )
}

fn replayed(all: &[Judged], rules: &Both<Rules>) -> BacktestReport {
    let mut tally = Tally::new(true);
    for judged in all {
        if let Some(tool) = judged.round_after {
            let of_tool = tool_step(tool, first(judged), judged.finished_at);
            tally.conversations.note(judged.finished_at, &[of_tool]);
        }
        tally.add(Ok(judged.clone()));
    }
    let refusals = replay(tally.take_calls(), rules);
    tally.report(refusals, Vec::new())
}

/// The step of a tool that an answer has asked for.
fn tool_step(id: StepId, answer: StepId, finished_at: Timestamp) -> Step {
    let step = call(ApiEndpoint::Executions, Call::of("a".to_owned(), Provider::Openai));
    Step { id, kind: StepKind::ToolCall, parent: Some(answer), finished_at, call: None, ..step }
}

proptest! {
    #[test]
    fn sums_and_refusals_are_those_of_lists(
        all in judged(),
        mut now in rules(),
        mut draft in rules(),
        before in 0i64..2_000_000_000,
    ) {
        now.spent_before.1 = Usd(before);
        draft.spent_before.1 = Usd(before);
        let rules = Both { now, draft };
        let by_now =
            plainly_refused(&all, &rules.now, |call| call.recorded.cost, |call| call.lacks_price.now);
        let mut refused = plainly_refused(
            &all,
            &rules.draft,
            |call| call.draft.cost,
            |call| call.lacks_price.draft,
        );
        let drafted = refused.len();
        refused.retain(|step, _| !by_now.contains_key(step));
        let already = (drafted - refused.len()) as u64;
        let report = replayed(&all, &rules);
        check_sums(&report, &all, &refused);
        assert_eq!(report.refusal_counts.already, already);
        assert_eq!(report.refusal_counts.no_longer, by_now.len() as u64 - already);
    }
}

fn answered(step: i64, minute: i64, dollars: i64) -> Judged {
    let fate = Fate {
        tier: Some(Tier::Simple),
        model: Some("a".to_owned()),
        cost: Usd(dollars * 1_000_000_000),
        ..Fate::default()
    };
    let started_at = Timestamp(NOW.0 + minute * MINUTE);
    Judged {
        step: StepId(step),
        key: Some(KeyId(1)),
        started_at,
        finished_at: started_at.plus(std::time::Duration::from_secs(1)),
        round_after: None,
        lacks_price: Both::default(),
        recorded: fate.clone(),
        draft: fate,
        pricing: Pricing::Known,
    }
}

fn no_rules() -> Rules {
    let limits = Limits { requests_per_hour: None, loop_requests: None, ..Limits::default() };
    let caps = Caps::Own(std::collections::HashMap::new());
    Rules { limits, monthly_budget: None, caps, spent_before: (NOW, Usd::ZERO) }
}

#[test]
fn the_first_hundred_steps_of_a_cause_are_named() {
    let cause = Cause { category: "pii".to_owned(), kind: "EMAIL".to_owned() };
    let blocked = Fate { block: Some(cause), ..Fate::default() };
    let judged = |step: i64| {
        let call = answered(step, 0, 1);
        if step % 2 == 0 {
            Judged { draft: blocked.clone(), ..call }
        } else {
            Judged { recorded: blocked.clone(), ..call }
        }
    };
    let all: Vec<Judged> = (0..300).map(judged).collect();
    let report = replayed(&all, &Both { now: no_rules(), draft: no_rules() });
    for (told, first) in [(&report.newly_blocked, 0), (&report.newly_passed, 1)] {
        let [by_cause] = told.as_slice() else { panic!("{told:?}") };
        let ids: Vec<StepId> = (0..100).map(|at| StepId(first + 2 * at)).collect();
        assert_eq!((by_cause.steps, &by_cause.step_ids), (150, &ids));
    }
}

#[test]
fn the_later_rounds_of_a_refused_conversation_are_refused_with_it() {
    let round = |step, minute, of: i64| Judged {
        round_after: Some(StepId(TOOL + of)),
        ..answered(step, minute, 1)
    };
    let all =
        [answered(1, 0, 1), answered(2, 1, 1), round(3, 2, 1), round(4, 3, 2), round(5, 4, 2)];
    let limits = Limits { requests_per_hour: Some(1), ..no_rules().limits };
    let rules = Both { now: no_rules(), draft: Rules { limits, ..no_rules() } };
    let report = replayed(&all, &rules);
    let refused = &report.refused[&Limit::RequestsPerHour];
    assert_eq!(refused.step_ids, [StepId(2), StepId(4), StepId(5)]);
    assert_eq!(report.costs.draft, Usd(2_000_000_000), "the first conversation goes on");
    assert_eq!(report.tiers[0].steps, 2);
    assert_eq!(report.models["a"].draft_steps, 2);
}

#[test]
fn what_the_limits_of_now_refuse_as_well_is_no_difference() {
    let all: Vec<Judged> = (0..6).map(|step| answered(step, step, 1)).collect();
    let at_most = |rate| Rules {
        limits: Limits { requests_per_hour: Some(rate), ..no_rules().limits },
        ..no_rules()
    };
    for (now, draft, refused, already, no_longer) in
        [(4, 4, 0, 2, 0), (4, 1, 3, 2, 0), (1, 4, 0, 2, 3)]
    {
        let rules = Both { now: at_most(now), draft: at_most(draft) };
        let report = replayed(&all, &rules);
        let steps: u64 = report.refused.values().map(|refused| refused.steps).sum();
        let counts = report.refusal_counts;
        assert_eq!((steps, counts.already, counts.no_longer), (refused, already, no_longer));
        let left = Usd((6 - refused as i64) * 1_000_000_000);
        assert_eq!((report.costs.recorded, report.costs.draft), (Usd(6_000_000_000), left));
    }
}

#[test]
fn rounds_are_linked_to_the_request_of_their_conversation() {
    let at = |minutes: i64| Timestamp(NOW.0 + minutes * MINUTE);
    let mut conversations = Conversations::default();
    let tool = |id, answer, minutes| tool_step(StepId(id), StepId(answer), at(minutes));
    // Hours with few requests are read at once.
    conversations.note(at(0), &[tool(2, 1, 0), tool(4, 3, 2), tool(8, 7, 60)]);
    assert_eq!(conversations.first(StepId(3), StepId(2), at(1)), StepId(1));
    assert_eq!(conversations.first(StepId(5), StepId(4), at(3)), StepId(1));
    assert_eq!(conversations.first(StepId(10), StepId(8), at(61)), StepId(7));
    // One whose tool ended before the window begins a conversation of its own.
    assert_eq!(conversations.first(StepId(6), StepId(90), at(62)), StepId(90));
    // Nothing follows after so long.
    conversations.note(at(65), &[tool(12, 11, 65)]);
    assert_eq!(conversations.first(StepId(13), StepId(4), at(66)), StepId(4));
    assert_eq!(conversations.first(StepId(14), StepId(8), at(66)), StepId(7));
}
