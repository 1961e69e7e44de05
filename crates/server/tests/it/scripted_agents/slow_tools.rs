//! An agent whose tools are slow: the time is theirs, and not the model's.

use std::time::Duration;

use serde_json::{Value, json};

use super::{SMALL, Stage, calls, is_about, is_within, letters, reasons, says};
use crate::harness::{Answer, Backend};

crate::on_every_backend!(the_time_of_tools_is_told_apart);

const TASK: &str = "What is the weather in Bonn?";
/// The time that each tool takes. It is a real one: steps have the time at which they are made.
const TOOL: Duration = Duration::from_millis(150);

fn script(results: usize) -> Answer {
    match results {
        0 => calls("weather", &json!({"city": "Bonn"})),
        1 => calls("weather", &json!({"city": "Oslo"})),
        _ => says("It rains in Bonn, not in Oslo."),
    }
}

async fn the_time_of_tools_is_told_apart(backend: Backend) {
    let stage = Stage::new(&backend, script).await;
    let trace = stage.key.trace().await;
    let result = async |_: &Value| {
        tokio::time::sleep(TOOL).await;
        "rain".to_owned()
    };
    stage.work(&trace, TASK, result).await;

    let detail = stage.key.detail(&trace).await;
    let (summary, steps) = (&detail["summary"], detail["steps"].as_array().unwrap());
    let latency = |kind: &str| {
        let of_kind = steps.iter().filter(|step| step["type"] == kind);
        of_kind.map(|step| step["latency_ms"].as_f64().unwrap()).sum::<f64>()
    };
    let (thought, total) = (latency("run"), summary["total_latency_ms"].as_f64().unwrap());
    let waited = summary["tool_overhead_ms"].as_f64().unwrap();
    // Two waits of 150 ms, within the time of the trace and beside that of its models.
    is_within(&summary["tool_overhead_ms"], 300.0, total - thought);
    // No call of a model was slow or too dear.
    assert_eq!(letters(&detail), "AAA", "{detail}");
    assert_eq!(reasons(&detail), []);
    is_about(&detail["total_cost"], 3.0 * SMALL);
    assert_eq!(summary["chain_depth"], 2);

    let stats = stage.stats().await;
    let times = &stats["agent"]["mcp_latency"];
    assert_eq!(times["tool_call_count"], 2);
    let about = |value: &Value, expected: f64| {
        assert!((value.as_f64().unwrap() / expected - 1.0).abs() < 1e-6, "{value}: {expected}");
    };
    about(&times["avg_tool_exec_ms"], waited / 2.0);
    about(&times["avg_model_think_ms"], thought / 3.0);
    about(&times["overhead_ratio"], waited / (waited + thought));
    is_within(&times["p95_tool_exec_ms"], 150.0, waited - 150.0);
    stage.no_insights().await;
    stage.changes_nothing(3, 3.0 * SMALL).await;

    // A replay has the results of the record, and waits for no tool.
    let comparison = stage.replayed(&trace, "small").await;
    let replay = &comparison["replay"];
    assert_eq!(letters(replay), "AAA", "{comparison}");
    let made = stage.key.detail(replay["replay_trace_id"].as_str().unwrap()).await;
    is_within(&made["summary"]["tool_overhead_ms"], 0.0, waited);
    let sent = stage.small.requests().pop().unwrap().body["messages"].to_string();
    assert_eq!(sent.matches("\"rain\"").count(), 2, "{sent}");
}
