//! Agents with a habit, played by scripts: their letters, figures, insights, replays and backtests are what a
//! reader of their traces would conclude.
//!
//! Every call takes 1,000 tokens and answers with 100. At $0.001 and $0.002 per 1,000 tokens it costs
//! $0.0012 on `small`, which all tiers but `complex` are sent to, and ten times as much on `large`. The
//! models answer alike. An answer of 100 tokens may take 2 s + 100 x 30 ms = 5 s until a model has
//! twenty samples, so no model is slow here.

mod clean;
mod inventive;
mod looping;
mod slow_tools;
mod wasteful;

use std::time::Duration;

use serde_json::{Value, json};

use crate::backtests::backtest;
use crate::harness::{Answer, Backend, Caller, Mock, Server, call, settings};
use crate::insights::refreshed;
use crate::replay::{each, is_about, replay};

/// The cost of a call of `small`, in USD.
const SMALL: f64 = 0.0012;
/// The cost of a call of `large`, in USD.
const LARGE: f64 = 0.012;

/// A gateway with two models that follow a script.
struct Stage {
    server: Server,
    key: Caller,
    owner: Caller,
    small: Mock,
    large: Mock,
}

impl Stage {
    /// Both models react to a request by the number of tool results in it.
    async fn new(backend: &Backend, script: fn(usize) -> Answer) -> Self {
        let server = Server::unlimited(backend).await;
        let (key, owner) = (server.key(), server.owner().await);
        let small = model(&owner, "small", (0.001, 0.002), script).await;
        let large = model(&owner, "large", (0.01, 0.02), script).await;
        let tiers = json!({"simple": "small", "complex": "large", "secure": "small"});
        settings(&owner, 1, json!({"routing_tiers": tiers})).await;
        Self { server, key, owner, small, large }
    }

    /// Registers one more model at the prices of `small`.
    async fn register_beside(&self, name: &str, script: fn(usize) -> Answer) {
        model(&self.owner, name, (0.001, 0.002), script).await;
    }

    /// Works on a task with the tools `weather` and `search`: answers each round of calls until the model
    /// has no more, and returns its answer. The trace is completed.
    async fn work(&self, trace: &str, task: &str, result: impl AsyncFn(&Value) -> String) -> Value {
        let mut ask = json!({"trace_id": trace, "input": task, "tools": tools()});
        let answer = loop {
            let answer = self.key.post("/api/v1/executions", &ask).await.ok(200);
            let Some(calls) = answer["tool_calls"].as_array() else { break answer };
            let mut results = Vec::new();
            for call in calls {
                results.push(json!({"tool_call_id": call["id"], "content": result(call).await}));
            }
            ask = json!({"trace_id": trace, "input": task, "parent_step_id": answer["step_id"],
                "tool_results": results});
        };
        self.complete(trace).await;
        answer
    }

    async fn complete(&self, trace: &str) {
        let path = format!("/api/v1/traces/{trace}/complete");
        self.key.send("PATCH", &path, None).await.ok(200);
    }

    async fn stats(&self) -> Value {
        self.key.get("/api/v1/stats").await.ok(200)
    }

    /// Asserts that nothing is suggested.
    async fn no_insights(&self) {
        for kind in ["migration_alert", "latency_alert", "intent_pattern"] {
            assert_eq!(refreshed(&self.owner, kind).await, Vec::<Value>::new());
        }
    }

    /// The report of a backtest of everything that was recorded.
    async fn backtest(&self, draft: &Value) -> Value {
        backtest(&self.owner, draft).await
    }

    /// Asserts that today's settings judge all requests as they were judged, and lets each cost what it did.
    async fn changes_nothing(&self, requests: u64, cost: f64) {
        let report = self.backtest(&json!({})).await;
        assert_eq!(report["steps"]["judged"], requests, "{report}");
        for name in ["newly_blocked", "newly_passed"] {
            assert_eq!(
                (&report["blocked"][name], &report[name]),
                (&json!(0), &json!([])),
                "{report}"
            );
        }
        assert_eq!(
            (&report["tiers"]["moved"], &report["refused"]["steps"]),
            (&json!(0), &json!(0))
        );
        let costs = &report["cost"];
        is_about(&costs["recorded"], cost);
        assert_eq!(costs["draft"], costs["recorded"], "{report}");
        assert_eq!(report["estimated_savings_usd"], 0.0, "{report}");
    }

    /// The comparison of a replay on one model.
    async fn replayed(&self, trace: &str, model: &str) -> Value {
        let mut job = replay(&self.key, trace, &json!({"force_model": model})).await;
        job["comparison"].take()
    }
}

/// A model with prices for 1,000 tokens of input and output.
async fn model(
    owner: &Caller,
    name: &str,
    (input, output): (f64, f64),
    script: fn(usize) -> Answer,
) -> Mock {
    let plan = move |asked: &Value| script(results(asked));
    let mock = Mock::start(Duration::ZERO, None, plan).await;
    let prices =
        json!({"is_public": false, "input_cost_per_1k": input, "output_cost_per_1k": output});
    mock.register_with(owner, name, prices).await;
    mock
}

/// The tool results in a request.
fn results(asked: &Value) -> usize {
    let messages = asked["messages"].as_array().unwrap();
    messages.iter().filter(|message| message["role"] == "tool").count()
}

fn tools() -> Value {
    let tool = |name: &str, parameter: &str| {
        json!({"type": "function", "function": {"name": name, "parameters": {"type": "object",
            "properties": {parameter: {"type": "string"}}, "required": [parameter]}}})
    };
    json!([tool("weather", "city"), tool("search", "query")])
}

fn answer(message: &Value, finish: &str) -> Answer {
    let usage = json!({"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100});
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    let body = json!({"id": "x", "object": "chat.completion", "created": 1, "model": "x",
        "choices": [choice], "usage": usage});
    Answer::json(200, &body)
}

/// The model answers with a text.
fn says(text: &str) -> Answer {
    answer(&json!({"role": "assistant", "content": text}), "stop")
}

/// The model calls a tool.
fn calls(name: &str, arguments: &Value) -> Answer {
    let call = call("call_1", name, &arguments.to_string());
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    answer(&message, "tool_calls")
}

/// The letters of a trace or of one side of a comparison: overall, waste, latency.
fn letters(graded: &Value) -> String {
    let grades = &graded["grades"];
    assert_eq!(graded["optimization_grade"], grades["overall"], "{graded}");
    let names = ["overall", "waste", "latency"];
    names.iter().map(|name| grades[name].as_str().unwrap()).collect()
}

/// The reasons of the letters of a trace, with the place of each step in the trace.
fn reasons(detail: &Value) -> Vec<(Option<usize>, String)> {
    let ids = each(&detail["steps"], "id");
    let reasons = detail["summary"]["grade_reasons"].as_array().unwrap().iter();
    let place = |step: &Value| ids.iter().position(|id| *id == step);
    reasons.map(|it| (place(&it["step_id"]), it["reason"].as_str().unwrap().to_owned())).collect()
}

#[track_caller]
fn is_within(value: &Value, low: f64, high: f64) {
    let number = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!((low..=high).contains(&number), "{number} is not between {low} and {high}");
}
