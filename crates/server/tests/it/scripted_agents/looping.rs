//! Agents that go round in circles: by a tool that finds nothing, and by the same question.

use serde_json::{Value, json};

use super::{SMALL, Stage, calls, each, is_about, is_within, letters, reasons, says};
use crate::harness::{Answer, Backend};

crate::on_every_backend!(
    a_tool_that_finds_nothing_is_called_again_and_again,
    the_same_question_three_times,
);

const TASK: &str = "Who wrote the poem?";

/// It searches six times for the same, and gives up.
fn script(results: usize) -> Answer {
    if results < 6 { calls("search", &json!({"query": "the poem"})) } else { says("Nobody knows.") }
}

async fn a_tool_that_finds_nothing_is_called_again_and_again(backend: Backend) {
    let stage = Stage::new(&backend, script).await;
    let trace = stage.key.trace().await;
    let done = stage.work(&trace, TASK, async |_| "nothing found".to_owned()).await;
    assert_eq!(done["output"], "Nobody knows.");

    // Each call is on the right model, and no two are identical, as the conversation grows: no waste, no
    // time lost. But the tool calls are nested six deep, and over five is an F.
    let detail = stage.key.detail(&trace).await;
    assert_eq!(letters(&detail), "FAA", "{detail}");
    let deep = "runaway chain: tool calls are nested 6 deep".to_owned();
    assert_eq!(reasons(&detail), [(None, deep)]);
    let summary = &detail["summary"];
    assert_eq!((&summary["step_count"], &summary["chain_depth"]), (&json!(13), &json!(6)));
    is_about(&detail["total_cost"], 7.0 * SMALL);
    // The same call with the same arguments came four times or more: above 0.7.
    is_within(&summary["stall_probability"], 0.7, 1.0);
    assert_eq!(detail["security"]["tool_fidelity_score"], 1.0, "the calls themselves are right");

    let stats = stage.stats().await;
    let agent = &stats["agent"];
    assert_eq!(
        agent["chain_depth"],
        json!({"avg_tool_cycles": 6.0, "max_tool_cycles": 6, "deep_loop_count": 1})
    );
    assert_eq!(
        (&agent["stall"]["alert_count"], &agent["stall"]["monitor_count"]),
        (&json!(1), &json!(0))
    );
    // One of seven requests.
    is_about(&agent["stall"]["alert_rate_pct"], 100.0 / 7.0);
    assert_eq!(agent["mcp_latency"]["tool_call_count"], 6);
    stage.no_insights().await;

    // Four requests an hour would have ended it after the fourth.
    let report = stage.backtest(&json!({"limits": {"requests_per_hour": 4}})).await;
    let refused = &report["refused"];
    assert_eq!(
        (&refused["steps"], &refused["by_limit"][0]["limit"]),
        (&json!(3), &json!("requests_per_hour")),
        "{report}"
    );
    is_about(&report["cost"]["refused"], 3.0 * SMALL);

    // The same conversations lead the same model into the same loop, and one that gives up at once out of
    // it: it calls no tool, and its first six answers are none of those that it is compared with.
    let same = stage.replayed(&trace, "small").await;
    assert_eq!(letters(&same["replay"]), "FAA", "{same}");
    assert_eq!(each(&same["replay"]["steps"], "similarity"), [1.0; 7]);
    stage.register_beside("frank", |_| says("Nobody knows.")).await;
    let other = stage.replayed(&trace, "frank").await;
    let replay = &other["replay"];
    assert_eq!(letters(replay), "AAA", "{other}");
    is_about(&replay["cost_change_pct"], 0.0);
    let similarity: Vec<f64> =
        each(&replay["steps"], "similarity").iter().map(|it| it.as_f64().unwrap()).collect();
    assert!(similarity[..6].iter().all(|similarity| *similarity < 0.5), "{similarity:?}");
    assert!((similarity[6] - 1.0).abs() < 1e-9, "{similarity:?}");
    let made = stage.key.detail(replay["replay_trace_id"].as_str().unwrap()).await;
    assert_eq!(made["summary"]["chain_depth"], 0);
}

async fn the_same_question_three_times(backend: Backend) {
    let stage = Stage::new(&backend, |_| says("Nobody knows.")).await;
    let trace = stage.key.trace().await;
    let body = json!({"trace_id": trace, "model": "small", "input": TASK});
    for _ in 0..3 {
        stage.key.post("/api/v1/runs", &body).await.ok(200);
    }
    stage.complete(&trace).await;
    // Two of three equal costs are avoidable: 67 %, a D. Three identical calls are a loop, an F.
    let detail = stage.key.detail(&trace).await;
    assert_eq!(letters(&detail), "FDA", "{detail}");
    let repeats = format!("repeats the identical call of step {}", detail["steps"][0]["id"]);
    let expected = [
        (None, "2 steps are sub-optimal".to_owned()),
        (None, "likely loop: the same call was made 3 times".to_owned()),
        (Some(1), repeats.clone()),
        (Some(2), repeats),
    ];
    assert_eq!(reasons(&detail), expected);
    // Not yet four: it is watched. 1 - (1 - 0.42) x (1 - 0.25) for the question and its answer.
    is_about(&detail["summary"]["stall_probability"], 0.565);
    let stall = &stage.stats().await["agent"]["stall"];
    assert_eq!((&stall["alert_count"], &stall["monitor_count"]), (&json!(0), &json!(1)));
    // A loop is more than so many requests in so many seconds: the second repeat is one.
    let limits = json!({"limits": {"loop_requests": 2, "loop_window_seconds": 60}});
    let report = stage.backtest(&limits).await;
    let id = &detail["steps"][2]["id"];
    let expected = json!([{"limit": "loop_requests", "steps": 1, "cost": SMALL, "step_ids": [id]}]);
    assert_eq!(report["refused"]["by_limit"], expected, "{report}");
    let replays: Value = stage.replayed(&trace, "small").await;
    assert_eq!(letters(&replays["replay"]), "FDA", "{replays}");
}
