//! An agent that does its work: the right model, one call of a tool, an answer.

use serde_json::{Value, json};

use super::{LARGE, SMALL, Stage, calls, each, is_about, is_within, letters, reasons, says};
use crate::harness::{Answer, Backend};

crate::on_every_backend!(work_that_is_as_it_should_be);

const TASK: &str = "What is the weather in Bonn?";

fn script(results: usize) -> Answer {
    if results == 0 { calls("weather", &json!({"city": "Bonn"})) } else { says("It rains.") }
}

async fn work_that_is_as_it_should_be(backend: Backend) {
    let stage = Stage::new(&backend, script).await;
    let trace = stage.key.trace().await;
    let done = stage.work(&trace, TASK, async |_| "rain, 8 C".to_owned()).await;
    assert_eq!(done["output"], "It rains.");

    let detail = stage.key.detail(&trace).await;
    assert_eq!(each(&detail["steps"], "type"), ["run", "tool_call", "run"]);
    assert_eq!(detail["routing_decision"]["model"], "small", "a simple question: {detail}");
    // Both calls are on the model of their tier, differ, and took less than 5 s: no fault, so A throughout.
    assert_eq!(letters(&detail), "AAA", "{detail}");
    assert_eq!(reasons(&detail), []);
    is_about(&detail["total_cost"], 2.0 * SMALL);
    let (summary, security) = (&detail["summary"], &detail["security"]);
    assert_eq!((&summary["step_count"], &summary["chain_depth"]), (&json!(3), &json!(1)));
    assert_eq!(security["tool_fidelity_score"], 1.0);
    for found in ["pii_detected", "injection_attempt", "secret_leaked"] {
        assert_eq!(security[found], false);
    }
    // One tool call of the twelve that count in full: 0.4 x 1/12; nothing repeats, grows or idles.
    is_about(&summary["stall_probability"], 0.4 / 12.0);

    let stats = stage.stats().await;
    is_about(&stats["cost"]["total"], 2.0 * SMALL);
    assert_eq!(stats["security"]["total_requests"], 2);
    assert_eq!(stats["security"]["tool_fidelity_score"], 1.0);
    let agent = &stats["agent"];
    assert_eq!(agent["chain_depth"]["deep_loop_count"], 0);
    assert_eq!(
        (&agent["stall"]["alert_count"], &agent["stall"]["monitor_count"]),
        (&json!(0), &json!(0))
    );
    stage.no_insights().await;
    stage.changes_nothing(2, 2.0 * SMALL).await;

    // Again on its own model: the same.
    let same = stage.replayed(&trace, "small").await;
    let replay = &same["replay"];
    assert_eq!((letters(&same["source"]), letters(replay)), ("AAA".to_owned(), "AAA".to_owned()));
    assert_eq!(replay["cost_change_pct"], 0.0);
    assert_eq!(each(&replay["steps"], "similarity"), [1.0; 2]);

    // The dear model says the same for ten times the money: nine tenths of it are avoidable, over 70 %.
    let dear = stage.replayed(&trace, "large").await;
    let replay = &dear["replay"];
    assert_eq!(letters(replay), "FFA", "{dear}");
    is_about(&replay["total_cost"], 2.0 * LARGE);
    is_about(&replay["cost_change_pct"], 900.0);
    assert_eq!(each(&replay["steps"], "similarity"), [1.0; 2]);
    let made = stage.key.detail(replay["replay_trace_id"].as_str().unwrap()).await;
    let dear = "large cost 10.0 times what small would have, and the input reads as simple";
    let expected = [
        (None, "2 steps are sub-optimal".to_owned()),
        (Some(0), dear.to_owned()),
        (Some(2), dear.to_owned()),
    ];
    assert_eq!(reasons(&made), expected);
    let asked: Vec<Value> =
        stage.large.requests().iter().map(|asked| asked.body["messages"].clone()).collect();
    let first: Vec<Value> =
        stage.small.requests()[..2].iter().map(|asked| asked.body["messages"].clone()).collect();
    assert_eq!(asked, first, "with the results of the record");
    is_within(&made["summary"]["stall_probability"], 0.0, 0.4);
    drop(stage.server);
}
