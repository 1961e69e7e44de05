//! An agent whose model invents a tool, and then gets the arguments of a real one wrong.

use serde_json::json;

use super::{SMALL, Stage, calls, each, is_about, letters, reasons, says};
use crate::harness::{Answer, Backend};

crate::on_every_backend!(tools_that_it_was_not_given);

const TASK: &str = "What is the weather in Oslo?";

fn script(results: usize) -> Answer {
    match results {
        0 => calls("book_flight", &json!({"to": "Oslo"})),
        1 => calls("weather", &json!({"town": "Oslo"})),
        2 => calls("weather", &json!({"city": "Oslo"})),
        _ => says("It is cold."),
    }
}

async fn tools_that_it_was_not_given(backend: Backend) {
    let stage = Stage::new(&backend, script).await;
    let trace = stage.key.trace().await;
    let result = async |call: &serde_json::Value| {
        let fits = call["name"] == "weather" && call["arguments"]["city"].is_string();
        if fits { "snow, -4 C" } else { "error: there is no such tool or parameter" }.to_owned()
    };
    stage.work(&trace, TASK, result).await;

    // A call of an unknown tool counts 0, one whose arguments do not fit the schema 0.5, a good one 1: the
    // mean is 0.5. Letters are about money and time, and nothing is wrong with those.
    let detail = stage.key.detail(&trace).await;
    is_about(&detail["security"]["tool_fidelity_score"], 0.5);
    assert_eq!(letters(&detail), "AAA", "{detail}");
    assert_eq!(reasons(&detail), []);
    let summary = &detail["summary"];
    assert_eq!((&summary["step_count"], &summary["chain_depth"]), (&json!(7), &json!(3)));
    is_about(&detail["total_cost"], 4.0 * SMALL);
    // The calls differ: three of the twelve that count in full, 0.4 x 3/12.
    is_about(&summary["stall_probability"], 0.1);

    // A clean trace beside it: the project's score is the mean of both, 0.75.
    stage.register_beside("plain", |_| says("Good day.")).await;
    let clean = stage.key.trace().await;
    let ask = json!({"trace_id": clean, "model": "plain", "input": "Good morning."});
    stage.key.post("/api/v1/runs", &ask).await.ok(200);
    stage.complete(&clean).await;
    let stats = stage.stats().await;
    is_about(&stats["security"]["tool_fidelity_score"], 0.75);
    assert_eq!(stats["agent"]["mcp_latency"]["tool_call_count"], 3);
    stage.no_insights().await;

    // A rule on what the tools said to its mistakes stops it after the first: each request that follows has that
    // answer in it, and the good morning has not.
    let rule = json!({"name": "no_such_tool", "pattern": "there is no such tool"});
    let report = stage.backtest(&json!({"safety": {"rules": [rule]}})).await;
    let detail = stage.key.detail(&trace).await;
    let runs: Vec<_> =
        detail["steps"].as_array().unwrap().iter().filter(|step| step["type"] == "run").collect();
    let expected = json!([{"category": "policy", "type": "no_such_tool", "steps": 3, "share": 0.6,
        "step_ids": [runs[1]["id"], runs[2]["id"], runs[3]["id"]]}]);
    assert_eq!(report["newly_blocked"], expected, "{report}");
    is_about(&report["cost"]["newly_blocked"], 3.0 * SMALL);

    // It invents them again.
    let comparison = stage.replayed(&trace, "large").await;
    let replay = &comparison["replay"];
    assert_eq!(each(&replay["steps"], "similarity"), [1.0; 4]);
    let made = stage.key.detail(replay["replay_trace_id"].as_str().unwrap()).await;
    is_about(&made["security"]["tool_fidelity_score"], 0.5);
}
