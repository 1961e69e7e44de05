//! Statistics and groups, compared with a plain computation over all steps that the traces show.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, call, settings};

crate::on_every_backend!(figures_are_those_of_a_plain_sum_over_all_steps);

/// Requests of each run.
const CALLS: u64 = 60;
/// The seeds of the runs that are the same every time; another one is new. `SLUICE_TEST_SEED` has one to look at
/// again.
const SEEDS: [u64; 3] = [21, 22, 23];
const ENDPOINTS: [&str; 4] = ["runs", "executions", "chat/completions", "assistants"];
const SECRET: &str = "Use ghp_x9Kd83jfLs02mXq7vTzB4nRwY6cEuH1pGaQ5 for this.";

/// Numbers that look thrown, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Answers with as many tokens as the length of the conversation gives; the first with tools calls one.
fn plan(asked: &Value) -> Answer {
    let size = asked["messages"].to_string().len() as u64;
    let has_results = asked["messages"].as_array().unwrap().iter().any(|it| it["role"] == "tool");
    let (message, finish) = if asked["tools"].is_array() && !has_results {
        let calls = json!([call("call_1", "weather", "{\"town\":\"Bonn\"}")]);
        (json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls")
    } else {
        (json!({"role": "assistant", "content": "Yes."}), "stop")
    };
    let usage = json!({"prompt_tokens": size * 7, "completion_tokens": size % 13,
        "total_tokens": size * 7 + size % 13, "prompt_tokens_details": {"cached_tokens": size * 3}});
    let body = json!({"id": "x", "object": "chat.completion", "created": 1, "model": "x",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage});
    Answer::json(200, &body)
}

/// A server with models of different speeds and prices, one of which fails.
async fn prepared(backend: &Backend) -> (Server, Caller) {
    let server = Server::unlimited(backend).await;
    let owner = server.owner().await;
    for (name, delay, input, infrastructure) in [
        ("quick", 0, 0.001_3, "rack"),
        ("steady", 15, 0.017, "rack"),
        ("slow", 60, 0.000_29, "attic"),
    ] {
        let mock = Mock::start(Duration::from_millis(delay), None, plan).await;
        let more = json!({"is_public": false, "input_cost_per_1k": input,
            "output_cost_per_1k": 3.0 * input,
            "additional_config": {"infrastructure": infrastructure}});
        mock.register_with(&owner, name, more).await;
    }
    Mock::always(Answer::json(400, &json!({}))).await.register(&owner, "failing").await;
    let tiers = json!({"simple": "quick", "complex": "steady", "secure": "slow"});
    settings(&owner, 1, json!({"routing_tiers": tiers})).await;
    (server, owner)
}

/// One request by the dice. The first ones are of each kind: with a call of a tool, with a secret, and one that
/// fails.
async fn thrown(dice: &mut Dice, key: &Caller, trace: &str, endpoint: &str, number: u64) {
    let mut key = key.clone();
    let mut header = |name: &str, values: &[&str]| {
        if let Some(value) = Some(dice.one_of(values)).filter(|value| !value.is_empty()) {
            key = key.with(name, value);
        }
    };
    header("x-sluice-user", &["", "ann", "bob", "jürgen"]);
    header("x-sluice-session", &["", "s-1", "s-2", "s-3", "s-4", "s-5"]);
    header(
        "x-sluice-tags",
        &["", "team=red", "team=blue,stage=test", "stage=test", "team=red,stage="],
    );
    let text = match (number, dice.below(8)) {
        (1, _) | (3.., 0) => SECRET.to_owned(),
        (_, 1) => format!("Write to ann.miller@acme-example.org about number {number}."),
        (_, 2) => {
            format!("Prove in detail that the {number} axioms are independent, and design a model.")
        }
        (_, _) => format!("Number {number}: {}", "tea ".repeat(dice.below(40) as usize)),
    };
    let model = dice.one_of(&["quick", "steady", "slow", "quick", "failing"]);
    let model = if number == 2 { "failing" } else { model };
    let mut body = json!({"trace_id": trace});
    match endpoint {
        "chat/completions" | "assistants" => {
            body["messages"] = json!([{"role": "user", "content": text}]);
            body["model"] = model.into();
        }
        "runs" => (body["input"], body["model"]) = (text.into(), model.into()),
        _ => body["input"] = text.into(),
    }
    let uses_tools = endpoint == "executions" && (dice.below(3) == 0 || number == 0);
    if uses_tools {
        let schema = json!({"type": "object", "required": ["city"]});
        let tool = json!({"name": "weather", "parameters": schema});
        body["tools"] = json!([{"type": "function", "function": tool}]);
    }
    let path = format!("/api/v1/{endpoint}");
    let reply = key.post(&path, &body).await;
    assert!([200, 502].contains(&reply.status), "{}", reply.text);
    if uses_tools && reply.json()["tool_calls"].is_array() {
        let results = json!([{"tool_call_id": "call_1", "content": "rain"}]);
        let follow = json!({"trace_id": trace, "input": body["input"],
            "parent_step_id": reply.json()["step_id"], "tool_results": results});
        key.post(&path, &follow).await.ok(200);
    }
    if dice.below(10) == 0 {
        let check = json!({"trace_id": trace, "input": "Is this fine?"});
        key.post("/api/v1/checks", &check).await.ok(200);
    }
}

/// Requests, blocked, errors, nano-dollars, tokens of the prompt, cached, of the completion.
type Sums = [i64; 7];

fn nanos(dollars: &Value) -> i64 {
    (dollars.as_f64().unwrap_or(0.0) * 1e9).round() as i64
}

/// What a step adds to a group.
fn counted(step: &Value) -> Option<Sums> {
    let (runs, blocked) = (step["type"] == "run", step["type"] == "blocked");
    let count = |name: &str| step[name].as_i64().unwrap_or(0);
    (runs || blocked).then(|| {
        [
            1,
            blocked.into(),
            (step["status"] == "failed").into(),
            nanos(&step["cost"]),
            count("prompt_tokens"),
            count("cached_tokens"),
            count("completion_tokens"),
        ]
    })
}

fn shown(figures: &Value) -> Sums {
    let count = |name: &str| figures[name].as_i64().unwrap();
    [
        count("requests"),
        count("blocked"),
        count("errors"),
        nanos(&figures["cost"]),
        count("prompt_tokens"),
        count("cached_tokens"),
        count("completion_tokens"),
    ]
}

fn add(sums: &mut Sums, more: Sums) {
    std::iter::zip(sums, more).for_each(|(sum, more)| *sum += more);
}

/// A trace that was made through one endpoint with one key.
struct Trace {
    key: String,
    endpoint: &'static str,
    detail: Value,
}

/// The value of a step by a dimension.
fn value(trace: &Trace, step: &Value, dimension: &str) -> Option<String> {
    let value = match dimension {
        "key" => return Some(trace.key.clone()),
        "endpoint" => return Some(trace.endpoint.replace("chat/completions", "chat")),
        tag if tag.starts_with("tag:") => &step["tags"][&tag[4..]],
        other => &step[other],
    };
    value.as_str().map(str::to_owned)
}

fn steps(traces: &[Trace]) -> impl Iterator<Item = (&Trace, &Value)> {
    traces.iter().flat_map(|trace| {
        trace.detail["steps"].as_array().unwrap().iter().map(move |step| (trace, step))
    })
}

async fn figures_are_those_of_a_plain_sum_over_all_steps(backend: Backend) {
    let seeds = match std::env::var("SLUICE_TEST_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => {
            let new = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
            [&SEEDS[..], &[new]].concat()
        }
    };
    for seed in seeds {
        eprintln!("seed {seed}");
        compare(&backend, Dice(seed)).await;
    }
}

async fn compare(backend: &Backend, mut dice: Dice) {
    let (server, owner) = prepared(backend).await;
    let made = owner.post("/api/v1/keys", &json!({"name": "other", "project_id": 1})).await.ok(201);
    let keys = [server.key(), server.with_key(made["raw_key"].as_str().unwrap())];
    let ids = owner.get("/api/v1/keys").await.ok(200);
    let mut ids = ids.as_array().unwrap().iter().map(|key| key["id"].as_str().unwrap().to_owned());
    let first = ids.find(|id| made["id"] != id.as_str()).unwrap();
    let names = [first, made["id"].as_str().unwrap().to_owned()];
    let (mut open, mut earned) = (Vec::new(), 0);
    for (key, name) in std::iter::zip(&keys, &names) {
        for endpoint in ENDPOINTS {
            let revenue = dice.one_of(&[None, Some(0.05), Some(0.000_000_007), Some(12.5)]);
            let made = key.post("/api/v1/traces", &json!({"revenue": revenue})).await.ok(201);
            open.push((key, name, endpoint, made["id"].as_str().unwrap().to_owned()));
            earned += nanos(&json!(revenue));
        }
    }
    for number in 0..CALLS {
        let at = match number {
            0 => open.iter().position(|it| it.2 == "executions").unwrap(),
            2 => open.iter().position(|it| it.2 == "runs").unwrap(),
            _ => dice.below(open.len() as u64) as usize,
        };
        let (key, _, endpoint, trace) = &open[at];
        thrown(&mut dice, key, trace, endpoint, number).await;
    }
    let mut traces = Vec::new();
    for (key, name, endpoint, trace) in open {
        key.send("PATCH", &format!("/api/v1/traces/{trace}/complete"), None).await.ok(200);
        traces.push(Trace { key: name.clone(), endpoint, detail: key.detail(&trace).await });
    }
    let key = &keys[0];
    groups(key, &traces).await;
    totals(&key.get("/api/v1/stats").await.ok(200), &traces, earned);
}

async fn groups(key: &Caller, traces: &[Trace]) {
    for dimension in
        ["user", "session", "tag:team", "tag:stage", "tag:none", "model", "key", "tier", "endpoint"]
    {
        let mut expected = BTreeMap::<Option<String>, Sums>::new();
        let mut total = Sums::default();
        for (trace, step) in steps(traces) {
            let Some(sums) = counted(step) else { continue };
            add(expected.entry(value(trace, step, dimension)).or_default(), sums);
            add(&mut total, sums);
        }
        let answer = key.get(&format!("/api/v1/stats?group_by={dimension}")).await.ok(200);
        let groups = answer["groups"].as_array().unwrap();
        let found: BTreeMap<Option<String>, Sums> = groups
            .iter()
            .map(|group| (group["value"].as_str().map(str::to_owned), shown(group)))
            .collect();
        assert_eq!(found, expected, "by {dimension}");
        assert_eq!(found.len(), groups.len(), "each group once: {answer}");
        assert!(groups.is_sorted_by_key(|group| -nanos(&group["cost"])), "{answer}");
        assert_eq!(shown(&answer["total"]), total, "by {dimension}");
        assert_eq!(answer["rest"], Value::Null);
    }
}

/// Cost by a label, dearest first.
fn costs(list: &Value, label: &str) -> Vec<(String, i64)> {
    let list = list.as_array().unwrap().iter();
    list.map(|it| (it[label].as_str().unwrap().to_owned(), nanos(&it["cost"]))).collect()
}

fn totals(stats: &Value, traces: &[Trace], earned: i64) {
    let mut total = Sums::default();
    let (mut by_model, mut by_place) = (BTreeMap::new(), BTreeMap::new());
    let mut latencies = Vec::new();
    for (_, step) in steps(traces) {
        let Some(sums) = counted(step) else { continue };
        add(&mut total, sums);
        let Some(model) = step["model"].as_str().filter(|_| step["type"] == "run") else {
            continue;
        };
        let place = match model {
            "slow" => "attic",
            "failing" => "private",
            _ => "rack",
        };
        *by_model.entry(model.to_owned()).or_insert(0) += sums[3];
        *by_place.entry(place.to_owned()).or_insert(0) += sums[3];
        latencies.push(step["latency_ms"].as_f64().unwrap());
    }
    let dearest_first = |sums: BTreeMap<String, i64>| {
        let mut sums: Vec<(String, i64)> = sums.into_iter().collect();
        sums.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        sums
    };
    assert_eq!(nanos(&stats["cost"]["total"]), total[3]);
    assert_eq!(costs(&stats["cost"]["by_model"], "model"), dearest_first(by_model));
    let places = costs(&stats["cost"]["by_infrastructure"], "infrastructure");
    assert_eq!(places, dearest_first(by_place));
    assert_eq!(stats["security"]["total_requests"], total[0]);

    latencies.sort_by(f64::total_cmp);
    for (name, share) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
        let rank = (share * latencies.len() as f64).ceil() as usize;
        let (found, exact) = (stats["latency"][name].as_f64().unwrap(), latencies[rank - 1]);
        assert!((found / exact - 1.0).abs() <= 0.01, "{name}: {found} for {exact}");
    }
    let about = |found: &Value, expected: f64| {
        assert!((found.as_f64().unwrap() - expected).abs() < 1e-6, "{found} for {expected}");
    };
    let thought = latencies.iter().sum::<f64>();
    about(&stats["latency"]["avg_ms"], thought / latencies.len() as f64);
    let think = |name: &str| stats["agent"]["mcp_latency"][name].clone();
    about(&think("avg_model_think_ms"), thought / latencies.len() as f64);
    let rank = (0.95 * latencies.len() as f64).ceil() as usize;
    let (p95, exact) = (think("p95_model_think_ms").as_f64().unwrap(), latencies[rank - 1]);
    assert!((p95 / exact - 1.0).abs() <= 0.01, "{p95} for {exact}");
    assert_eq!(nanos(&stats["revenue"]), earned);
    assert_eq!(nanos(&stats["gross_margin"]), earned - total[3]);
    let margin = if earned == 0 { 0.0 } else { (earned - total[3]) as f64 / earned as f64 };
    about(&stats["gross_margin_pct"], 100.0 * margin);

    let share = |finding: &str| {
        let has = |trace: &&Trace| trace.detail["security"][finding] == true;
        100.0 * traces.iter().filter(has).count() as f64 / traces.len() as f64
    };
    about(&stats["security"]["pii_block_rate"], share("pii_detected"));
    about(&stats["security"]["secret_leakage_rate"], share("secret_leaked"));
    about(&stats["security"]["injection_shadow_rate"], share("injection_attempt"));
    let mean = |read: &dyn Fn(&Value) -> f64| {
        traces.iter().map(|trace| read(&trace.detail)).sum::<f64>() / traces.len() as f64
    };
    let fidelity = mean(&|detail| detail["security"]["tool_fidelity_score"].as_f64().unwrap());
    about(&stats["security"]["tool_fidelity_score"], fidelity);
    let depth = mean(&|detail| detail["summary"]["chain_depth"].as_f64().unwrap());
    about(&stats["agent"]["chain_depth"]["avg_tool_cycles"], depth);
    let tools = steps(traces).filter(|(_, step)| step["type"] == "tool_call").count();
    let times = &stats["agent"]["mcp_latency"];
    assert_eq!(times["tool_call_count"], tools);
    // Each round of tools is followed up.
    let waited = traces.iter().filter_map(|it| it.detail["summary"]["tool_overhead_ms"].as_f64());
    let waited = waited.sum::<f64>();
    about(&times["avg_tool_exec_ms"], waited / tools as f64);
    about(&times["overhead_ratio"], waited / (waited + thought));
    let p95 = times["p95_tool_exec_ms"].as_f64().unwrap();
    let [least, most] = p95_bounds(traces);
    assert!(p95 >= 0.99 * least - 0.01 && p95 <= 1.01 * most + 0.01, "{p95}: {least} to {most}");
    assert!(total[1] > 0 && total[2] > 0 && tools > 0, "the dice have thrown all kinds: {total:?}");
}

/// The least and the most that the 95th percentile of the waits for tools can be. A trace has the sum of its waits,
/// which is the wait itself where there is one; each of several lies between 0 and the sum.
fn p95_bounds(traces: &[Trace]) -> [f64; 2] {
    let (mut least, mut most) = (Vec::new(), Vec::new());
    for trace in traces {
        let Some(sum) = trace.detail["summary"]["tool_overhead_ms"].as_f64() else { continue };
        let steps = trace.detail["steps"].as_array().unwrap();
        let waits = steps.iter().filter(|step| step["type"] == "tool_call").count();
        least.extend(std::iter::repeat_n(if waits == 1 { sum } else { 0.0 }, waits));
        most.extend(std::iter::repeat_n(sum, waits));
    }
    [least, most].map(|mut waits| {
        waits.sort_by(f64::total_cmp);
        waits[(0.95 * waits.len() as f64).ceil() as usize - 1]
    })
}
