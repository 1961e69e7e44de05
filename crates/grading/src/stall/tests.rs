use proptest::prelude::*;

use domain::step::ToolUse;

use super::*;
use crate::testing::{agent, run};

/// Runs that each ask for a tool, distinguished by these fingerprints.
fn calls(fingerprints: &[i64]) -> Vec<Step> {
    let numbered = (1..).zip(fingerprints);
    let steps = numbered.map(|(id, &print)| {
        let mut step = run(id, "small", 10, 100, id);
        if let Some(call) = &mut step.call {
            call.tools = Some(ToolUse { calls: 1, fidelity: 1.0, fingerprints: vec![print] });
        }
        step
    });
    steps.collect()
}

fn is_zero(share: f64) -> bool {
    share.abs() < 1e-12
}

#[test]
fn a_clean_run_does_not_stall() {
    assert!(is_zero(probability(&calls(&[1]), Some(500.0))));
    assert!(is_zero(probability(&calls(&[1, 2, 3]), None)));
    assert!(is_zero(probability(&[], None)));
}

#[test]
fn the_fourth_identical_call_is_a_stall() {
    assert!((0.4..0.7).contains(&probability(&calls(&[7, 7, 7]), None)));
    assert!(probability(&calls(&[7, 7, 7, 7]), None) > 0.7);
}

#[test]
fn a_call_counts_beside_whatever_else_is_asked_in_its_round() {
    let round = |fingerprints: &[i64]| {
        let mut step = calls(&[0]).remove(0);
        let tools = step.call.as_mut().unwrap().tools.as_mut().unwrap();
        tools.fingerprints = fingerprints.to_vec();
        step
    };
    assert!(probability(&[round(&[7, 7, 7, 7])], None) > 0.7);
    let rounds: Vec<Step> = (0..4).map(|other| round(&[7, 10 + other])).collect();
    assert!(probability(&rounds, None) > 0.7);
    assert!(probability(&[round(&[1, 2, 3, 4])], None) < 0.4);
}

#[test]
fn depth_with_repetition_is_a_stall() {
    let repeating = |rounds| {
        let mut steps = agent(rounds);
        for step in steps.iter_mut().filter(|s| s.kind == StepKind::Run).take(2) {
            let tools = ToolUse { calls: 1, fidelity: 1.0, fingerprints: vec![1] };
            step.call.as_mut().unwrap().tools = Some(tools);
        }
        probability(&steps, None)
    };
    assert!(probability(&agent(6), None) < 0.4);
    assert!(repeating(5) < 0.7);
    assert!(repeating(6) > 0.7);
}

#[test]
fn growing_latency_and_idle_time_are_signs() {
    let timed = |last| [100, 100, 100, last].map(|ms| run(ms, "small", 1, ms, ms));
    let growing = |last| growth(&timed(last).iter().collect::<Vec<_>>());
    assert!(is_zero(growing(100)));
    assert!(growing(800) > growing(300) && growing(300) > 0.0);
    let paused = [run(1, "small", 1, 10, 1), run(101, "small", 1, 10, 2)];
    assert!(is_zero(probability(&paused, None)));
    let beside = |gap| probability(&paused, Some(gap));
    assert!(beside(1000.0) > beside(10_000.0) && beside(10_000.0) > beside(200_000.0));
}

proptest! {
    #[test]
    fn one_more_identical_call_never_lowers_it(fingerprints in proptest::collection::vec(0..4i64, 1..12)) {
        let before = probability(&calls(&fingerprints), Some(100.0));
        let after = probability(&calls(&[&fingerprints[..], &fingerprints[..1]].concat()), Some(100.0));
        prop_assert!((0.0..=1.0).contains(&after));
        prop_assert!(after >= before - 1e-12);
    }
}
