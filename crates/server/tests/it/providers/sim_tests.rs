//! Every endpoint with every provider, against the simulator, which judges requests with the
//! vendors' own types. Its results become the table in `docs/providers-table.md`; any other table
//! fails the test. To write it anew:
//!
//!     SLUICE_WRITE_TABLE=1 scripts/test -p sluice sim_tests

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::docs::provider_examples;
use crate::harness::{
    Backend, Caller, PICTURE, Provider, Reply, Server, Simulator, encode, providers, settings,
};

const TABLE: &str = "../../docs/providers-table.md";
const HEAD: &str = "# Support by endpoint and provider

Written by a test (`crates/server/tests/it/providers/sim_tests.rs`) from what the simulator of the providers
received: each entry is a call through the gateway that came back right and in which the vendor's own
types found no fault. **tools** is two rounds, the second with the results (streams: the calls).
**images in** is an image in a message. **caching** and **reasoning** mean that such tokens are
reported to the caller. A missing entry has no place at the endpoint, or is not offered by the
provider: Bedrock does not report how many tokens were reasoning.

";

/// The asker, and the model asked.
struct Asker<'a> {
    key: &'a Caller,
    trace: &'a str,
    sim: &'a Simulator,
    provider: &'a str,
}

const DOORS: [&str; 12] = [
    "executions",
    "executions/stream",
    "runs",
    "assistants",
    "chat/completions",
    "chat/completions, streamed",
    "messages",
    "messages, streamed",
    "responses",
    "responses, streamed",
    "embeddings",
    "images/generations",
];

fn function() -> Value {
    json!({"name": "weather", "description": "Tells.", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}})
}

impl Asker<'_> {
    async fn post(&self, door: &str, mut body: Value) -> Reply {
        body["trace_id"] = self.trace.into();
        if matches!(door, "messages" | "responses") {
            body.as_object_mut().unwrap().remove("trace_id");
        }
        let key = self.key.with("x-trace-id", self.trace);
        key.post(&format!("/api/v1/{door}"), &body).await
    }

    /// One request of an endpoint that carries conversations.
    async fn talk(
        &self,
        door: &str,
        mut messages: Vec<Value>,
        picture: bool,
        tools: bool,
    ) -> Reply {
        let (path, streams) = match door.strip_suffix(", streamed") {
            Some(path) => (path, true),
            None => (door, false),
        };
        if picture && let Some(first) = messages.first_mut() {
            let data = format!("data:image/png;base64,{PICTURE}");
            first["content"] = match path {
                "messages" => json!([{"type": "text", "text": "What is it?"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}]),
                "responses" => json!([{"type": "input_text", "text": "What is it?"},
                    {"type": "input_image", "image_url": data, "detail": "auto"}]),
                _ => json!([{"type": "text", "text": "What is it?"},
                    {"type": "image_url", "image_url": {"url": data}}]),
            };
        }
        let mut body = match path {
            "messages" => json!({"max_tokens": 500, "messages": messages}),
            "responses" => json!({"input": messages}),
            _ => json!({"messages": messages}),
        };
        body["model"] = self.provider.into();
        if streams {
            body["stream"] = true.into();
            if path == "chat/completions" {
                body["stream_options"] = json!({"include_usage": true});
            }
        }
        if tools {
            let function = function();
            body["tools"] = match path {
                "messages" => json!([{"name": "weather", "description": "Tells.",
                    "input_schema": function["parameters"]}]),
                "responses" => json!([{"type": "function", "name": "weather",
                    "description": "Tells.", "parameters": function["parameters"], "strict": false}]),
                _ => json!([{"type": "function", "function": function}]),
            };
        }
        self.post(path, body).await
    }

    /// Asks for text at an endpoint, and gives the whole answer.
    async fn text(&self, door: &str) -> Option<Reply> {
        let hello = || vec![json!({"role": "user", "content": "Hello."})];
        let reply = match door {
            "executions" | "runs" => {
                self.post(door, json!({"input": "Hello.", "model": self.provider})).await
            }
            "executions/stream" => {
                let trace = encode(self.trace);
                self.key.get(&format!("/api/v1/{door}?trace_id={trace}&input=Hello.")).await
            }
            "assistants" => {
                self.post(door, json!({"model": self.provider, "messages": hello()})).await
            }
            "embeddings" | "images/generations" => return None,
            _ => self.talk(door, hello(), false, false).await,
        };
        Some(reply)
    }

    async fn tools(&self, door: &str) -> bool {
        let hello = json!({"role": "user", "content": "Compare."});
        let first = match door {
            "executions" => {
                let tools = json!([{"type": "function", "function": function()}]);
                self.post(door, json!({"input": "Compare.", "tools": tools})).await
            }
            "executions/stream" | "runs" | "assistants" | "embeddings" | "images/generations" => {
                return false;
            }
            _ => self.talk(door, vec![hello.clone()], false, true).await,
        };
        // An answer may repeat a request's tools, but not the arguments of their calls.
        let with =
            if door.ends_with("streamed") { pieces(&first.text) } else { first.text.clone() };
        let calls = ["Rome", "Oslo"].iter().all(|city| with.contains(city));
        if first.status != 200 || !calls {
            return false;
        }
        assert!(self.sim.asked(self.provider).await.contains("weather"), "{door}");
        // The history sent back is the same after a stream and after a whole answer.
        if door.ends_with("streamed") {
            return true;
        }
        let answer = first.json();
        let second = match door {
            "executions" => {
                let result = |call: &Value| json!({"tool_call_id": call["id"], "content": "18 C"});
                let calls = answer["tool_calls"].as_array().unwrap();
                let results: Vec<Value> = calls.iter().map(result).collect();
                self.post(
                    door,
                    json!({"input": "Compare.", "parent_step_id": answer["step_id"],
                    "tool_results": results}),
                )
                .await
            }
            "messages" => {
                let result = |block: &Value| {
                    (block["type"] == "tool_use").then(|| {
                        json!({"type": "tool_result",
                        "tool_use_id": block["id"], "content": "18 C"})
                    })
                };
                let blocks = answer["content"].as_array().unwrap();
                let results: Vec<Value> = blocks.iter().filter_map(result).collect();
                let messages = vec![
                    hello,
                    json!({"role": "assistant", "content": blocks}),
                    json!({"role": "user", "content": results}),
                ];
                self.talk(door, messages, false, true).await
            }
            "responses" => {
                let result = |item: &Value| {
                    (item["type"] == "function_call").then(|| json!({
                        "type": "function_call_output", "call_id": item["call_id"], "output": "18 C"}))
                };
                let items = answer["output"].as_array().unwrap();
                let results: Vec<Value> = items.iter().filter_map(result).collect();
                let input = [vec![hello], items.clone(), results].concat();
                self.talk(door, input, false, true).await
            }
            _ => {
                let message = answer["choices"][0]["message"].clone();
                let result = |call: &Value| json!({"role": "tool", "tool_call_id": call["id"], "content": "18 C"});
                let calls = message["tool_calls"].as_array().unwrap();
                let results: Vec<Value> = calls.iter().map(result).collect();
                let messages = [vec![hello, message.clone()], results].concat();
                self.talk(door, messages, false, true).await
            }
        };
        let asked = self.sim.asked(self.provider).await;
        assert_eq!(asked.matches("18 C").count(), 2, "{door}: {asked}");
        second.status == 200 && second.text.contains("It is so.")
    }

    /// Everything that works at an endpoint.
    async fn features(&self, door: &str) -> Vec<&'static str> {
        let usage = json!({"input": 20, "output": 9, "cached": 5, "reasoning": 2});
        let mut features = Vec::new();
        self.sim
            .script(self.provider, json!([{"text": "Grüße 🙂", "split_bytes": 7, "usage": usage}]))
            .await;
        if let Some(reply) = self.text(door).await
            && reply.status == 200
        {
            assert!(reply.text.contains("Grü"), "{door} {}: {}", self.provider, reply.text);
            features.push("text");
            let tells = |names: [&str; 2], count: u64| {
                names.iter().any(|name| reply.text.contains(&format!("\"{name}\":{count}")))
            };
            if tells(["cached_tokens", "cache_read_input_tokens"], 5) {
                features.push("caching");
            }
            if tells(["reasoning_tokens", "thinking_tokens"], 2) {
                features.push("reasoning");
            }
        }
        let call = |city: &str| json!({"name": "weather", "arguments": {"city": city}});
        let rounds = json!([{"tool_calls": [call("Rome"), call("Oslo")]}, {"text": "It is so."}]);
        self.sim.script(self.provider, rounds).await;
        if self.tools(door).await {
            features.push("tools");
        }
        let takes_pictures = ["assistants", "chat", "messages", "responses"];
        if takes_pictures.iter().any(|begin| door.starts_with(begin)) {
            self.sim.script(self.provider, json!([{"text": "A dot."}])).await;
            let question = vec![json!({"role": "user", "content": ""})];
            let reply = self.talk(door, question, true, false).await;
            if reply.status == 200 && reply.text.contains("A d") {
                assert!(self.sim.asked(self.provider).await.contains(PICTURE), "{door}");
                features.push("images in");
            }
        }
        features
    }
}

/// The arguments of the tool calls of a stream, put together.
fn pieces(stream: &str) -> String {
    fn collect(value: &Value, all: &mut String) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| collect(value, all)),
            Value::Object(fields) => fields.iter().for_each(|(name, value)| match value {
                Value::String(text)
                    if ["arguments", "partial_json", "delta"].contains(&&**name) =>
                {
                    all.push_str(text);
                }
                _ => collect(value, all),
            }),
            _ => {}
        }
    }
    let mut all = String::new();
    for event in stream.lines().filter_map(|line| line.strip_prefix("data: ")) {
        collect(&serde_json::from_str(event).unwrap_or_default(), &mut all);
    }
    all
}

/// Registers what the manual registers, with the simulator for the provider, and has it answer.
async fn check_manual(owner: &Caller, key: &Caller, sim: &Simulator, provider: &Provider) {
    let mut model = provider_examples::registration(provider.name);
    let definition = model["model_definition"].as_object_mut().unwrap();
    assert_eq!(definition["provider"], provider.name);
    definition.insert("base_url".to_owned(), sim.base(provider).into());
    definition.insert("api_key".to_owned(), provider.key.into());
    let identifier = definition["identifier"].clone();
    owner.post("/api/v1/projects/1/models", &model).await.ok(201);
    sim.script(provider.name, json!([{"text": "As the manual says."}])).await;
    let trace = key.trace().await;
    let ask = json!({"trace_id": trace, "model": identifier, "input": "Hello."});
    let answer = key.post("/api/v1/runs", &ask).await.ok(200);
    assert_eq!(answer["output"], "As the manual says.", "{answer}");
    let step = key.detail(&trace).await["steps"][0].clone();
    assert!(step["cost"].as_f64().unwrap() > 0.0, "the example has a price: {step}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_works_where() {
    let Some(sim) = Simulator::reset().await else { return };
    let backend = Backend::Sqlite;
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let providers = providers();
    let mut rows: Vec<Vec<String>> = DOORS.iter().map(|door| vec![(*door).to_owned()]).collect();
    for provider in &providers {
        for (upstream, suffix) in provider.models.iter().zip(["", "-embed", "-paint"]) {
            let Some(upstream) = upstream else { continue };
            let identifier = format!("{}{suffix}", provider.name);
            sim.register(&owner, provider, &identifier, upstream).await;
        }
        let name = provider.name;
        check_manual(&owner, &key, &sim, provider).await;
        settings(&owner, 1, json!({"routing_tiers": {"simple": name, "complex": name}})).await;
        let trace = key.trace().await;
        let asker = Asker { key: &key, trace: &trace, sim: &sim, provider: name };
        for (row, door) in rows.iter_mut().zip(DOORS) {
            let cell = match door {
                "embeddings" | "images/generations" => {
                    sim.clear().await;
                    let (model, mut body, (made, many)) = if door == "embeddings" {
                        (
                            format!("{name}-embed"),
                            json!({"input": ["one", "two"]}),
                            ("embeddings", 2),
                        )
                    } else {
                        (format!("{name}-paint"), json!({"prompt": "A crab"}), ("images", 1))
                    };
                    body["model"] = model.into();
                    let reply = asker.post(door, body).await;
                    if reply.status == 200 {
                        assert_eq!(reply.json()[made].as_array().unwrap().len(), many);
                        "yes".into()
                    } else {
                        String::new()
                    }
                }
                _ => asker.features(door).await.join(", "),
            };
            row.push(cell);
        }
        let found = sim.violations(name).await;
        assert_eq!(found, json!([]), "{name}: {found:#}");
    }
    assert_eq!(sim.bugs().await, json!([]));

    let mut table = HEAD.to_owned();
    let names: Vec<&str> = providers.iter().map(|provider| provider.name).collect();
    writeln!(table, "| | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len())).unwrap();
    for row in rows {
        writeln!(table, "| {} |", row.join(" | ")).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLE);
    if std::env::var("SLUICE_WRITE_TABLE").is_ok() {
        std::fs::write(&path, &table).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, table, "docs/providers-table.md differs from what works");
}
