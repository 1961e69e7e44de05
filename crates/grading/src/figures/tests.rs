use domain::ids::StepId;
use domain::step::StepKind;

use super::*;
use crate::testing::{agent, run, step};

#[test]
fn percentiles_are_nearest_rank() {
    let values = [10.0, 20.0, 30.0, 40.0];
    let cases = [
        (0.0, 10.0),
        (25.0, 10.0),
        (25.1, 20.0),
        (50.0, 20.0),
        (75.0, 30.0),
        (95.0, 40.0),
        (100.0, 40.0),
        (250.0, 40.0),
    ];
    for (p, expected) in cases {
        assert_eq!(percentile(&values, p), Some(expected), "{p}");
    }
    assert_eq!(percentile(&[], 50.0), None);
}

#[test]
fn an_empty_trace_has_empty_figures() {
    let found = figures(Timestamp(5), &[], Some(100.0));
    assert_eq!((found.total_latency_ms, found.latency_p99, found.step_count), (0.0, 0.0, 0));
    assert_eq!((found.tool_overhead_ms, found.stall_probability), (None, 0.0));
}

#[test]
fn total_latency_runs_from_creation_to_the_last_end() {
    let mut shadow = run(3, "small", 1, 9000, 3);
    if let Some(call) = &mut shadow.call {
        call.shadow = true;
    }
    let mut steps = vec![run(1, "small", 1, 2500, 1), run(2, "small", 1, 300, 2), shadow];
    steps[1].security.pii = true;
    let found = figures(Timestamp(500_000), &steps, None);
    assert_eq!((found.total_latency_ms, found.step_count), (3000.0, 3));
    assert_eq!((found.latency_p50, found.latency_p95), (300.0, 2500.0));
    assert!(found.pii_detected && !found.injection_attempt && !found.secret_leaked);
}

#[test]
fn chains_are_counted_along_parents() {
    assert_eq!(graph::chain_depth(&agent(0)), 0);
    assert_eq!(graph::chain_depth(&agent(4)), 4);
    // Siblings are one round; order does not matter.
    let mut steps = agent(2);
    steps.push(step(20, StepKind::ToolCall, Some(1)));
    steps.reverse();
    assert_eq!(graph::chain_depth(&steps), 2);
    // Parents that form a ring end the climb.
    let mut ring = [step(1, StepKind::ToolCall, Some(2)), step(2, StepKind::ToolCall, Some(1))];
    assert!(graph::chain_depth(&ring) <= 2);
    ring[0].parent = Some(StepId(99));
    assert_eq!(graph::chain_depth(&ring), 2);
}

#[test]
fn tool_overhead_is_waiting_and_tool_time() {
    // A call at 2 s, its follow-up at 3 s; a tool of 250 ms that the gateway ran.
    let mut steps = agent(1);
    assert_eq!(graph::tool_overhead(&steps), Some(1_000_000));
    let mut own = step(9, StepKind::ToolCall, Some(3));
    own.finished_at = own.started_at.plus(std::time::Duration::from_millis(250));
    steps.push(own);
    assert_eq!(graph::tool_overhead(&steps), Some(1_250_000));
    assert_eq!(graph::tool_overhead(&steps[..1]), None);
}
