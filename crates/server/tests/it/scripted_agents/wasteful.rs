//! Agents that waste: the dear model for simple work, and the same call again.

use serde_json::{Value, json};

use super::{LARGE, SMALL, Stage, each, is_about, letters, reasons, says};
use crate::harness::{Answer, Backend, Caller};
use crate::insights::refreshed;

crate::on_every_backend!(
    the_dear_model_for_simple_work,
    one_call_too_many,
    a_habit_becomes_a_suggestion,
);

fn script(_: usize) -> Answer {
    says("Four.")
}

async fn run(key: &Caller, trace: &str, model: &str, input: &str) {
    let body = json!({"trace_id": trace, "model": model, "input": input});
    key.post("/api/v1/runs", &body).await.ok(200);
}

async fn the_dear_model_for_simple_work(backend: Backend) {
    let stage = Stage::new(&backend, script).await;
    let key = &stage.key;
    let trace = key.trace().await;
    let sum = "How much is two and two?";
    run(key, &trace, "large", sum).await;
    run(key, &trace, "large", "How much is three and one?").await;
    run(key, &trace, "large", sum).await;
    run(key, &trace, "small", "How much is one and three?").await;
    stage.complete(&trace).await;

    // Cost: 3 x 0.012 + 0.0012 = 0.0372. Avoidable: of the first two 0.012 - 0.0012 = 0.0108 each, of the
    // repetition all: 0.0336, or 90.3 % of the cost. Over 70 % is an F. Time is fine.
    let detail = key.detail(&trace).await;
    assert_eq!(letters(&detail), "FFA", "{detail}");
    is_about(&detail["total_cost"], 3.0 * LARGE + SMALL);
    let first = &detail["steps"][0]["id"];
    let dear = "large cost 10.0 times what small would have, and the input reads as simple";
    let expected = [
        (None, "3 steps are sub-optimal".to_owned()),
        (Some(0), dear.to_owned()),
        (Some(1), dear.to_owned()),
        (Some(2), dear.to_owned()),
        (Some(2), format!("repeats the identical call of step {first}")),
    ];
    assert_eq!(reasons(&detail), expected);
    let stats = stage.stats().await;
    let by_model = json!([{"model": "large", "cost": 0.036}, {"model": "small", "cost": 0.0012}]);
    assert_eq!(stats["cost"]["by_model"], by_model);

    // By a draft with the price of the small model, what was recorded would have cost what its replay does.
    let small = json!({"input_cost_per_1k": 0.001, "output_cost_per_1k": 0.002});
    let report = stage.backtest(&json!({"prices": {"large": small}})).await;
    is_about(&report["cost"]["recorded"], 3.0 * LARGE + SMALL);
    is_about(&report["cost"]["draft"], 4.0 * SMALL);
    is_about(&report["estimated_savings_usd"], 3.0 * (LARGE - SMALL));
    assert_eq!(report["steps"]["judged"], 4);

    // On the small model the repetition is all that is left: 0.0012 of 0.0048 are 25 %, a C; and it costs
    // 0.0048 instead of 0.0372.
    let comparison = stage.replayed(&trace, "small").await;
    let replay = &comparison["replay"];
    assert_eq!(letters(replay), "CCA", "{comparison}");
    is_about(&replay["total_cost"], 4.0 * SMALL);
    is_about(&replay["cost_change_pct"], 100.0 * (0.0048 - 0.0372) / 0.0372);
    is_about(&report["cost"]["change_pct"], 100.0 * (0.0048 - 0.0372) / 0.0372);
    assert_eq!(each(&replay["steps"], "similarity"), [1.0; 4]);
    let made = key.detail(replay["replay_trace_id"].as_str().unwrap()).await;
    let first = &made["steps"][0]["id"];
    let repeats = format!("repeats the identical call of step {first}");
    assert_eq!(reasons(&made), [(Some(2), repeats)]);
}

async fn one_call_too_many(backend: Backend) {
    let stage = Stage::new(&backend, script).await;
    let trace = stage.key.trace().await;
    for number in [1, 2, 3, 4, 5, 6, 7, 8, 9, 1] {
        run(&stage.key, &trace, "small", &format!("How much is two and {number}?")).await;
    }
    stage.complete(&trace).await;
    // One of ten equal costs is avoidable: 10 % is a B. One sub-optimal step makes no C.
    let detail = stage.key.detail(&trace).await;
    assert_eq!(letters(&detail), "BBA", "{detail}");
    let repeats = format!("repeats the identical call of step {}", detail["steps"][0]["id"]);
    assert_eq!(reasons(&detail), [(Some(9), repeats)]);
    is_about(&detail["total_cost"], 10.0 * SMALL);
}

async fn a_habit_becomes_a_suggestion(backend: Backend) {
    let stage = Stage::new(&backend, script).await;
    let trace = stage.key.trace().await;
    for number in 0..100 {
        let input = format!("Summarise this in one sentence: train {number} was late today.");
        run(&stage.key, &trace, "large", &input).await;
    }
    // A hundred summaries at 0.012 would have cost 0.0012 each: 90 % less, and 1.08 saved. Nothing is known of
    // the days to come: there is not one that is over.
    let found = refreshed(&stage.owner, "migration_alert").await;
    let [insight] = found.as_slice() else { panic!("{found:?}") };
    let data = &insight["data"];
    for (member, expected) in [
        ("intent", json!("summarise")),
        ("current_model", json!("large")),
        ("suggested_model", json!("small")),
        ("steps", json!(100)),
        ("prompt_tokens", json!(100_000)),
        ("completion_tokens", json!(10_000)),
    ] {
        assert_eq!(data[member], expected, "{data}");
    }
    is_about(&data["savings_pct"], 90.0);
    is_about(&data["current_cost_usd"], 100.0 * LARGE);
    is_about(&data["suggested_cost_usd"], 100.0 * SMALL);
    is_about(&insight["estimated_savings_usd"], 100.0 * (LARGE - SMALL));
    // A hundred requests are too few for a pattern.
    assert_eq!(refreshed(&stage.owner, "intent_pattern").await, Vec::<Value>::new());
}
