//! What each provider receives of a replay, judged by the simulator with the vendors' own types.

use serde_json::{Value, json};

use super::{each, replay};
use crate::harness::{Backend, Caller, PICTURE, Provider, Server, Simulator, providers, settings};

const THOUGHT: &str = "Both have to be looked up.";
const TASK: &str = "Compare the weather in Rome and Oslo.";
/// Members that name a call of a tool, or ask for a stream: they differ between two traces.
const NAMES: [&str; 7] =
    ["id", "tool_call_id", "tool_use_id", "toolUseId", "call_id", "stream", "stream_options"];

/// A trace on a model, and the bodies that its provider got.
struct Made {
    trace: String,
    bodies: Vec<Value>,
}

/// A round of two calls, its results, a picture beside an address, and a stream.
async fn made(key: &Caller, owner: &Caller, sim: &Simulator, provider: &str, thinks: bool) -> Made {
    let tiers = json!({"simple": provider, "complex": provider});
    settings(owner, 1, json!({"routing_tiers": tiers})).await;
    let call = |city: &str| json!({"tool": {"name": "weather", "arguments": {"city": city}}});
    let thought = thinks.then(|| json!({"thinking": THOUGHT}));
    let parts: Vec<Value> = thought.into_iter().chain([call("Rome"), call("Oslo")]).collect();
    let round = json!({"parts": parts, "signatures": thinks});
    let answers =
        json!([round, {"text": "Rome is warmer."}, {"text": "A dot."}, {"text": "Sent."}]);
    sim.script(provider, answers).await;
    let before = sim.last().await;

    let trace = key.trace().await;
    let tool = json!({"type": "function", "function": {"name": "weather", "description": "Tells.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
            "required": ["city"]}}});
    let ask = json!({"trace_id": trace, "input": TASK, "tools": [tool]});
    let pending = key.post("/api/v1/executions", &ask).await.ok(200);
    let calls = pending["tool_calls"].as_array().unwrap();
    let results: Vec<Value> = std::iter::zip(calls, ["28 C", "9 C"])
        .map(|(call, content)| json!({"tool_call_id": call["id"], "content": content}))
        .collect();
    let follow = json!({"trace_id": trace, "input": TASK, "parent_step_id": pending["step_id"],
        "tool_results": results});
    key.post("/api/v1/executions", &follow).await.ok(200);

    let picture = json!({"url": format!("data:image/png;base64,{PICTURE}")});
    let look = json!([{"type": "text", "text": "What is it? Answer to jane.doe@acme-example.org."},
        {"type": "image_url", "image_url": picture}]);
    let body = json!({"trace_id": trace, "model": provider, "max_tokens": 300, "temperature": 0.5,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": look}]});
    key.post("/api/v1/chat/completions", &body).await.ok(200);
    let body = json!({"trace_id": trace, "model": provider, "max_tokens": 200, "stream": true,
        "messages": [{"role": "user", "content": "Who is there?"},
            {"role": "assistant", "content": "It is jane.doe@acme-example.org."},
            {"role": "user", "content": "Write to jane.doe@acme-example.org."}]});
    key.post("/api/v1/chat/completions", &body).await.chunks();
    let bodies = sim.bodies(provider, before).await;
    assert_eq!(bodies.len(), 4, "{provider}: {bodies:?}");
    sim.clear().await;
    Made { trace, bodies }
}

/// A body without members of these names, and with the JSON in its texts as it is spelled in short.
fn without(body: &Value, names: &[&str]) -> Value {
    match body {
        Value::String(text) if text.starts_with('{') => {
            serde_json::from_str::<Value>(text).unwrap().to_string().into()
        }
        Value::Array(values) => values.iter().map(|value| without(value, names)).collect(),
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, _)| !names.contains(&name.as_str()));
            kept.map(|(name, value)| (name.clone(), without(value, names))).collect()
        }
        other => other.clone(),
    }
}

fn all_without(bodies: &[Value], names: &[&str]) -> Vec<Value> {
    bodies.iter().map(|body| without(body, names)).collect()
}

/// Another model of a provider.
fn second(provider: &str) -> String {
    format!("{provider}-second")
}

/// Two providers with formats of their own.
fn others(providers: &[Provider], at: usize) -> [&'static str; 2] {
    let name = |steps: usize| providers[(at + steps) % providers.len()].name;
    [name(1), name(3)]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_provider_gets_the_conversation_as_recorded() {
    let Some(sim) = Simulator::reset().await else { return };
    let server = Server::unlimited(&Backend::Sqlite).await;
    let owner = server.owner().await;
    // One session, in which a value has one placeholder.
    let key = server.key().with("x-sluice-session", "replayed");
    let providers = providers();
    for provider in &providers {
        let upstream = provider.models[0].unwrap();
        for identifier in [provider.name.to_owned(), second(provider.name)] {
            sim.register(&owner, provider, &identifier, upstream).await;
        }
    }
    let mut plain = std::collections::HashMap::new();
    for provider in &providers {
        let made = made(&key, &owner, &sim, provider.name, false).await;
        plain.insert(provider.name, made.bodies);
    }
    for (at, provider) in providers.iter().enumerate() {
        let name = provider.name;
        let source = made(&key, &owner, &sim, name, true).await;
        let all = json!(source.bodies).to_string();
        assert!(!all.contains("jane.doe"), "{name}: it was redacted: {all}");
        assert_eq!(all.matches("[EMAIL_1_").count(), 3, "{name}: {all}");
        // The formats that have a place for thoughts get them back with the results.
        let private = match name {
            "anthropic" | "bedrock" => Some(THOUGHT),
            "gemini" => Some("thoughtSignature"),
            _ => None,
        };
        let keeps = private.is_some_and(|private| source.bodies[1].to_string().contains(private));
        assert_eq!(keeps, private.is_some(), "{name}: {}", source.bodies[1]);

        // The same model gets the very same, as a whole.
        let before = sim.last().await;
        let job = replay(&key, &source.trace, &json!({})).await;
        let again = sim.bodies(name, before).await;
        let stream = ["stream", "stream_options"];
        assert_eq!(all_without(&again, &stream), all_without(&source.bodies, &stream), "{name}");
        assert!(again.iter().all(|body| body["stream"] != true), "{name}: {again:?}");
        assert_eq!(each(&job["comparison"]["replay"]["steps"], "skipped"), [&Value::Null; 4]);

        // Others get what they would have got of the same work, and nothing private of the first: another
        // model of the provider, and two of other formats.
        let [one, other] = others(&providers, at);
        let before = sim.last().await;
        let models = json!({"compare_models": [second(name), one, other]});
        replay(&key, &source.trace, &models).await;
        for other in [name, one, other] {
            let sent = sim.bodies(other, before).await;
            let expected = all_without(&plain[other], &NAMES);
            assert_eq!(all_without(&sent, &NAMES), expected, "from {name} to {other}");
            let text = json!(sent).to_string();
            assert!(!text.contains(THOUGHT), "from {name} to {other}: {text}");
            for part in ["28 C", "9 C", PICTURE, "Be brief.", "[EMAIL_1_"] {
                assert!(text.contains(part), "from {name} to {other}: no {part} in {text}");
            }
        }
    }
    for provider in &providers {
        assert_eq!(sim.violations(provider.name).await, json!([]), "{}", provider.name);
    }
    assert_eq!(sim.bugs().await, json!([]));
}
