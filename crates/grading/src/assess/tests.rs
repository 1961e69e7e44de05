use domain::grade::{LatencyBaseline, TierBaseline};
use domain::step::StepStatus;
use domain::tier::Tier;
use proptest::prelude::*;

use super::*;
use crate::testing::{agent, rated, run, step};

/// `small` is right for simple input: 1,000 prompt tokens cost 1,000 nano-dollars on it. Its p95 is
/// 500 ms, so that 1,000 ms are its baseline; other models have 2,000 ms.
fn baselines() -> Baselines {
    Baselines {
        latency: vec![
            LatencyBaseline { model: "small".into(), p95_ms: 500.0, samples: 20 },
            LatencyBaseline { model: "rare".into(), p95_ms: 1.0, samples: 19 },
        ],
        tiers: vec![TierBaseline {
            tier: Tier::Simple,
            model: "small".into(),
            input: Usd(1000),
            output: Usd(5000),
            cached_input: Some(Usd(100)),
            cache_write: None,
            cache_write_1h: None,
        }],
        pause: None,
    }
}

fn graded(steps: &[Step]) -> Assessment {
    assess(steps, baselines())
}

fn letters(steps: &[Step]) -> String {
    let Grades { overall, waste, latency } = graded(steps).grades;
    format!("{overall}{waste}{latency}")
}

#[test]
fn an_empty_trace_grades_a() {
    let found = graded(&[]);
    assert_eq!(found.grades, Grades { overall: Grade::A, waste: Grade::A, latency: Grade::A });
    assert_eq!((found.total_cost, found.reasons.len()), (Usd::ZERO, 0));
    assert_eq!(letters(&[step(1, StepKind::Check, None), step(2, StepKind::Log, None)]), "AAA");
}

#[test]
fn cost_over_one_and_a_half_times_the_right_size() {
    let cases = [
        // Exactly 1.5 times is still right.
        (run(1, "big", 1500, 10, 1), "AAA"),
        // A third of 1,501 is avoidable: over 20 %.
        (run(1, "big", 1501, 10, 1), "CCA"),
        (run(1, "big", 1666, 10, 1), "CCA"),
        // Just at and just over 40 and 70 %.
        (run(1, "big", 1667, 10, 1), "DDA"),
        (run(1, "big", 3333, 10, 1), "DDA"),
        (run(1, "big", 3334, 10, 1), "FFA"),
        // The right model is never too dear.
        (run(1, "small", 9000, 10, 1), "AAA"),
    ];
    for (step, expected) in cases {
        assert_eq!(letters(std::slice::from_ref(&step)), expected, "{:?}", step.cost());
    }
    //     The cost of a call with cached tokens is compared with the right model's price for cached
    // tokens.
    let mut cached = run(1, "big", 151, 10, 1);
    cached.call.as_mut().unwrap().usage.cached = 1000;
    assert_eq!(letters(&[cached]), "CCA");
}

#[test]
fn no_cost_rule_without_a_price_to_compare_with() {
    let mut complex = run(1, "big", 9000, 10, 1);
    if let Some(routing) = &mut complex.routing {
        routing.classified = Tier::Complex;
    }
    let unrouted = Step { routing: None, ..complex.clone() };
    let mut empty = run(1, "big", 9000, 10, 1);
    if let Some(call) = &mut empty.call {
        call.usage.prompt = 0;
    }
    for step in [complex, unrouted, empty] {
        assert_eq!(letters(std::slice::from_ref(&step)), "AAA", "{step:?}");
    }
}

#[test]
fn repeats_count_whole_and_a_third_is_a_loop() {
    let calls = |fingerprints: &[i64]| -> Vec<Step> {
        let numbered = (1..).zip(fingerprints);
        numbered.map(|(id, &print)| run(id, "small", 100, 10, print)).collect()
    };
    let cases = [
        (vec![1, 2, 3], "AAA"),
        (vec![1, 2, 3, 4, 4], "BBA"),
        (vec![1, 2, 3, 3], "CCA"),
        (vec![1, 1], "DDA"),
        (vec![1, 2, 3, 4, 5, 6, 7, 8, 8, 7], "CBA"),
        (vec![1, 2, 3, 4, 5, 6, 7, 8, 8, 8], "FBA"),
    ];
    for (fingerprints, expected) in cases {
        assert_eq!(letters(&calls(&fingerprints)), expected, "{fingerprints:?}");
    }
    // The same input on another model is no repetition, nor is a call without a fingerprint.
    assert_eq!(letters(&[run(1, "small", 100, 10, 1), run(2, "other", 100, 10, 1)]), "AAA");
    let mut nameless = calls(&[1, 1]);
    nameless
        .iter_mut()
        .filter_map(|s| s.call.as_mut())
        .for_each(|call| call.input_fingerprint = None);
    assert_eq!(letters(&nameless), "AAA");
}

#[test]
fn failures_count_when_they_were_paid_for() {
    let failed = |cost| Step { status: StepStatus::Failed, ..run(1, "small", cost, 10, 1) };
    assert_eq!(letters(&[failed(0)]), "AAA");
    assert_eq!(letters(&[failed(5)]), "FFA");
    assert_eq!(letters(&[failed(5), run(2, "small", 95, 10, 2)]), "BAA");
    assert_eq!(graded(&[failed(5)]).reasons[0].reason, "failed and still cost $0.000000005");
}

#[test]
fn a_dear_repeat_that_failed_is_avoidable_once() {
    let first = run(1, "big", 5000, 10, 1);
    let again = Step { status: StepStatus::Failed, ..run(2, "big", 5000, 10, 1) };
    let found = verdicts(&[first, again], &baselines());
    assert_eq!(found.iter().map(|v| v.avoidable.0).collect::<Vec<_>>(), [4000, 5000]);
    assert_eq!(found[1].faults.len(), 3);
}

#[test]
fn latency_is_the_share_above_the_baseline() {
    let cases = [
        ("small", 1000, "AAA"),
        ("small", 1052, "BAA"),
        ("small", 1053, "BAB"),
        ("small", 1250, "BAB"),
        ("small", 1251, "CAC"),
        ("small", 1666, "CAC"),
        ("small", 1667, "DAD"),
        ("small", 3333, "DAD"),
        ("small", 3334, "FAF"),
        ("other", 2000, "AAA"),
        ("rare", 2000, "AAA"),
        ("rare", 2200, "BAB"),
    ];
    for (model, millis, expected) in cases {
        assert_eq!(letters(&[run(1, model, 10, millis, 1)]), expected, "{model} {millis}");
    }
}

#[test]
fn long_answers_may_take_longer() {
    let mut long = run(1, "other", 10, 5000, 1);
    assert_eq!(letters(std::slice::from_ref(&long)), "DAD");
    if let Some(call) = &mut long.call {
        call.usage.completion = 100;
    }
    assert_eq!(letters(&[long]), "AAA");
}

#[test]
fn a_chain_deeper_than_five_has_run_away() {
    assert_eq!(letters(&agent(5)), "AAA");
    assert_eq!(letters(&agent(6)), "FAA");
}

#[test]
fn unhappy_users_cost_a_letter() {
    let cases = [
        (vec![0.4], "AAA"),
        (vec![0.4; 10], "AAA"),
        (vec![1.0, 0.2, 0.0], "AAA"),
        (vec![0.39], "BAA"),
        (vec![0.0, 0.8], "AAA"),
        (vec![0.0, 0.79], "BAA"),
    ];
    for (ratings, expected) in cases {
        let mut steps = vec![run(1, "small", 10, 10, 1)];
        steps.extend(ratings.iter().map(|&rating| rated(2, rating)));
        assert_eq!(letters(&steps), expected, "{ratings:?}");
    }
    assert_eq!(letters(&[run(1, "big", 9000, 10, 1), rated(2, 0.0)]), "FFA");
}

#[test]
fn what_does_not_count_changes_nothing() {
    let mut steps = agent(2);
    steps.push(rated(90, 0.2));
    assert!(steps.iter().all(counts));
    let figured = |steps: &[Step]| {
        let figures = crate::figures(steps[0].started_at, steps, None);
        (figures.chain_depth, figures.stall_probability.to_bits())
    };
    for kind in [StepKind::Log, StepKind::Check, StepKind::Blocked] {
        let late = step(99, kind, Some(1));
        assert!(!counts(&late), "{kind:?}");
        let mut with = steps.clone();
        with.push(late);
        assert_eq!(graded(&with), graded(&steps), "{kind:?}");
        assert_eq!(figured(&with), figured(&steps), "{kind:?}");
    }
}

#[test]
fn shadow_calls_cost_and_are_not_graded() {
    let mut shadow = run(2, "big", 9000, 9000, 1);
    if let Some(call) = &mut shadow.call {
        call.shadow = true;
    }
    let found = graded(&[run(1, "small", 10, 10, 1), shadow]);
    assert_eq!(found.grades.overall, Grade::A);
    assert_eq!(found.total_cost, Usd(9010));
}

#[test]
fn costs_are_grouped_dearest_first() {
    let steps = [
        run(1, "small", 10, 10, 1),
        run(2, "private", 30, 10, 2),
        run(3, "small", 15, 10, 3),
        run(4, "also", 25, 10, 4),
    ];
    let found = graded(&steps);
    let named = |name: &str, cost| (name.to_owned(), Usd(cost));
    assert_eq!(found.by_model, [named("private", 30), named("also", 25), named("small", 25)]);
    assert_eq!(found.by_infrastructure, [named("public_cloud", 50), named("private", 30)]);
}

#[test]
fn reasons_name_their_steps() {
    let found = graded(&[run(1, "big", 3000, 2500, 1), run(2, "big", 3000, 10, 1)]);
    let reasons: Vec<String> = found
        .reasons
        .iter()
        .map(|r| format!("{}: {}", r.step_id.map_or("trace".into(), |id| id.to_string()), r.reason))
        .collect();
    assert_eq!(
        reasons,
        [
            "trace: 2 steps are sub-optimal",
            "1: big cost 3.0 times what small would have, and the input reads as simple",
            "1: took 2500 ms; up to 2000 ms would be usual",
            "2: big cost 3.0 times what small would have, and the input reads as simple",
            "2: repeats the identical call of step 1",
        ]
    );
}

fn any_run() -> impl Strategy<Value = Step> {
    let model = prop_oneof!["small", "big", "private"];
    let status = prop_oneof![Just(StepStatus::Completed), Just(StepStatus::Failed)];
    (1..100i64, model, 0..10_000i64, 0..20_000i64, 0..50i64, status).prop_map(
        |(id, model, cost, millis, print, status)| Step {
            status,
            ..run(id, &model, cost, millis, print)
        },
    )
}

proptest! {
    #[test]
    fn groups_add_up_to_the_total(steps in proptest::collection::vec(any_run(), 0..20)) {
        let found = graded(&steps);
        for groups in [&found.by_model, &found.by_infrastructure] {
            prop_assert_eq!(groups.iter().map(|(_, cost)| *cost).sum::<Usd>(), found.total_cost);
            prop_assert!(groups.is_sorted_by_key(|(_, cost)| std::cmp::Reverse(*cost)));
        }
    }

    /// All that is added is waste, and its time is not diluted by being quick.
    #[test]
    fn a_wasted_step_never_improves_a_grade(
        steps in proptest::collection::vec(any_run(), 1..20),
        cost in 0..100_000i64,
        fails: bool,
    ) {
        let before = graded(&steps).grades;
        let mut wasted = steps[0].clone();
        wasted.id.0 = 1000;
        wasted.finished_at = wasted.started_at;
        let call = wasted.call.as_mut().unwrap();
        call.cost = Usd(cost + 1);
        if fails {
            call.input_fingerprint = None;
            wasted.status = StepStatus::Failed;
        }
        let after = graded(&[steps, vec![wasted]].concat()).grades;
        prop_assert!(after.overall >= before.overall.max(Grade::B));
        prop_assert!(after.waste >= before.waste);
        prop_assert!(after.latency >= before.latency);
    }

    #[test]
    fn overall_is_never_better_than_its_parts(steps in proptest::collection::vec(any_run(), 0..20)) {
        let Grades { overall, waste, latency } = graded(&steps).grades;
        prop_assert!(overall >= waste.max(latency));
    }

    /// The rule "at least D when the calls took over twice their baseline" needs no code.
    #[test]
    fn twice_the_baseline_in_all_is_at_least_a_d(steps in proptest::collection::vec(any_run(), 1..20)) {
        let found = verdicts(&steps, &baselines());
        let took: i64 = found.iter().map(|v| v.latency).sum();
        let usual: i64 = steps
            .iter()
            .map(|s| if s.call.as_ref().unwrap().model == "small" { 1_000_000 } else { 2_000_000 })
            .sum();
        prop_assert!(took <= 2 * usual || graded(&steps).grades.overall >= Grade::D);
    }
}
