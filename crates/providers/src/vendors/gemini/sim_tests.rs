//! The adapter against the provider simulator, which judges every request with the types of Google's
//! own package. Runs if `SLUICE_TEST_SIM` is the URL of the simulator's control port.

use std::time::Duration;

use domain::conversation::{Prompt, StreamEvent};
use domain::model::{Model, Provider};
use domain::step::FinishReason;
use domain::usage::Usage;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::adapter::embeddings::EmbeddingRequest;
use crate::adapter::images::ImageRequest;
use crate::adapter::request::Attempt;
use crate::error::{Error, ErrorKind};
use crate::sim_testing::Sim;
use crate::testing::{attempt, prompt_of};

const KEY: &str = "AIzaSim-gemini-key";
const PICTURE: &str = "data:image/png;base64,iVBORw0KGgo=";

/// The outcome of an answer, streamed or not.
struct Heard {
    message: Map<String, Value>,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
}

async fn say(sim: &Sim, model: &Model, prompt: &Prompt, stream: bool) -> Result<Heard, Error> {
    let attempt = Attempt { max_output_tokens: Some(500), ..attempt(model, prompt) };
    if stream {
        return streamed(sim, attempt).await;
    }
    let reply = sim.client.complete(attempt).await?;
    let message = match reply.native {
        Some(native) => native["choices"][0]["message"].as_object().unwrap().clone(),
        None => Map::from_iter([
            ("role".to_owned(), json!("assistant")),
            ("content".to_owned(), json!(reply.text)),
        ]),
    };
    Ok(Heard { message, finish: reply.finish, usage: reply.usage })
}

async fn streamed(sim: &Sim, attempt: Attempt<'_>) -> Result<Heard, Error> {
    let mut stream = sim.client.stream(attempt).await?;
    let mut message = json!({"role": "assistant", "content": ""});
    let (mut finish, mut usage) = (None, None);
    while let Some(events) = stream.next().await {
        for event in events? {
            match event {
                StreamEvent::Text(text) => append(&mut message["content"], &text),
                StreamEvent::Native { chunk, .. } => {
                    merge(&mut message, &chunk["choices"][0]["delta"]);
                }
                StreamEvent::Finish(reason) => finish = Some(reason),
                StreamEvent::Usage(used) => usage = Some(used),
                StreamEvent::Model(_)
                | StreamEvent::Prompt(_)
                | StreamEvent::Source(_)
                | StreamEvent::Stored(_)
                | StreamEvent::Done => {}
            }
        }
    }
    let message = message.as_object().unwrap().clone();
    Ok(Heard { message, finish, usage })
}

fn append(value: &mut Value, text: &str) {
    *value = format!("{}{text}", value.as_str().unwrap_or_default()).into();
}

/// Merges a delta into the message so far, as clients of the format do.
fn merge(message: &mut Value, delta: &Value) {
    for (name, value) in delta.as_object().unwrap() {
        match value {
            Value::String(text) => append(&mut message[name], text),
            Value::Array(calls) => {
                if message[name].is_null() {
                    message[name] = json!([]);
                }
                let known = message[name].as_array_mut().unwrap();
                for call in calls {
                    match known.get_mut(call["index"].as_u64().unwrap() as usize) {
                        Some(known) => {
                            let more = call["function"]["arguments"].as_str().unwrap();
                            append(&mut known["function"]["arguments"], more);
                        }
                        None => known.push(call.clone()),
                    }
                }
            }
            other => message[name] = other.clone(),
        }
    }
}

fn tools() -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}},
        "additionalProperties": false, "$schema": "https://json-schema.org/draft/2020-12/schema"});
    json!([
        {"type": "function", "function": {"name": "weather", "description": "W.", "parameters": schema}},
        {"type": "function", "function": {"name": "now", "description": "N."}},
    ])
}

/// Two parallel calls of one function and one more, then a chained call, then text. Results come in
/// the opposite order; the provider must find each with its call.
async fn tool_rounds(sim: &Sim, model: &Model, stream: bool, forget: bool) {
    let mut messages = vec![
        json!({"role": "system", "content": "Be brief."}),
        json!({"role": "user", "content": "Weather in Paris and Rome?"}),
    ];
    let city = |city: &str| json!({"name": "weather", "arguments": {"city": city, "é": [1, null]}});
    let rounds = [
        json!({"parts": [{"thinking": "Hm."}, {"text": "I look."}, {"tool": city("Paris")},
            {"tool": city("Rome")}, {"tool": {"name": "now", "arguments": {}}}],
            "usage": {"input": 50, "output": 30, "reasoning": 10, "cached": 20}}),
        json!({"tool_calls": [city("Oslo")], "group_calls": true}),
    ];
    for (round, answer) in rounds.into_iter().enumerate() {
        sim.script(json!([answer]));
        let prompt = prompt_of(messages.clone().into(), json!({"tools": tools()}));
        let mut heard = say(sim, model, &prompt, stream).await.unwrap();
        assert_eq!(heard.finish, Some(FinishReason::ToolCalls));
        if round == 0 {
            let usage = Usage {
                prompt: 50,
                cached: 20,
                cache_write: 0,
                completion: 30,
                reasoning: 10,
                ..Usage::default()
            };
            assert_eq!(heard.usage, Some(usage));
            assert_eq!(heard.message["content"], "I look.");
            assert_eq!(heard.message["reasoning_content"], "Hm.");
        }
        if forget {
            heard.message.remove(crate::chat_form::STATE);
        }
        let calls = heard.message["tool_calls"].as_array().unwrap().clone();
        assert_eq!(calls.len(), [3, 1][round]);
        messages.push(heard.message.into());
        messages.extend(calls.iter().rev().map(|call| {
            json!({"role": "tool", "tool_call_id": call["id"], "content": call["function"]["arguments"]})
        }));
    }
    let prompt = prompt_of(messages.into(), json!({"tools": tools(), "tool_choice": "auto"}));
    let heard = say(sim, model, &prompt, stream).await.unwrap();
    assert_eq!(heard.finish, Some(FinishReason::Stop));
    // Every result is beside the call whose arguments it repeats.
    let requests = sim.control("GET", "/_requests?provider=gemini", "");
    let last = requests.as_array().unwrap().last().unwrap()["body"].clone();
    let parts = |content: usize, name: &str| -> Vec<Value> {
        let parts = last["contents"][content]["parts"].as_array().unwrap();
        parts.iter().filter_map(|part| part.get(name).cloned()).collect()
    };
    for turn in [1, 3] {
        let (calls, results) = (parts(turn, "functionCall"), parts(turn + 1, "functionResponse"));
        assert_eq!(calls.len(), results.len());
        for (call, result) in calls.iter().zip(&results) {
            assert_eq!((&call["name"], &call["args"]), (&result["name"], &result["response"]));
            assert_eq!(call.get("id"), result.get("id"));
        }
    }
}

async fn answers(sim: &Sim, model: &Model, stream: bool) {
    let hi = |params: Value| prompt_of(json!([{"role": "user", "content": "Hi é🙂"}]), params);
    for (answer, finish) in [
        (json!({"text": "Grüße 🙂", "split_bytes": 3}), FinishReason::Stop),
        (json!({"text": "Long", "stop": "length"}), FinishReason::Length),
        (json!({"text": "Bad", "stop": "safety"}), FinishReason::ContentFilter),
        (json!({"empty": true, "stop": "content_filter"}), FinishReason::ContentFilter),
        (json!({"stop": "safety", "block_prompt": true}), FinishReason::ContentFilter),
        (json!({"text": "End", "gemini_last": "separate"}), FinishReason::Stop),
    ] {
        sim.script(json!([answer.clone()]));
        let heard = say(sim, model, &hi(json!({})), stream).await.unwrap();
        assert_eq!(heard.finish, Some(finish), "{answer}");
        assert!(heard.usage.is_some());
        if let Some(text) = answer.get("text") {
            assert_eq!(heard.message["content"], *text);
        }
        let blocked = answer.get("block_prompt").is_some();
        assert_eq!(heard.message.get("refusal").is_some_and(Value::is_string), blocked);
    }
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let params = json!({
        "temperature": 1, "top_p": 0.5, "top_k": 20, "seed": 3, "stop": "END", "n": 1,
        "presence_penalty": 0.5, "frequency_penalty": 0.5, "user": "u", "reasoning_effort": "high",
        "tools": tools(), "tool_choice": {"type": "function", "function": {"name": "now"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
    });
    say(sim, model, &hi(params), stream).await.unwrap();
    let image = json!({"type": "image_url", "image_url": {"url": PICTURE}});
    let seen = json!([
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]},
        {"role": "assistant", "content": "A crab."},
        {"role": "user", "content": "Sure?"},
    ]);
    let heard = say(sim, model, &prompt_of(seen, json!({})), stream).await.unwrap();
    assert_eq!(heard.message["content"], "echo: Sure?");
}

async fn faults(sim: &Sim, model: &Model) {
    let hi = prompt_of(json!([{"role": "user", "content": "Hi"}]), json!({}));
    for (fault, says) in [
        (json!({"text": "Hello there", "fail_after": 1, "fail_how": "eof"}), "broke"),
        (json!({"text": "Hello there", "fail_after": 1, "fail_how": "error_event"}), "overloaded"),
        (json!({"text": "Hello there", "malformed_frame": 1}), "malformed"),
        (
            json!({"text": "Hello", "raw_stop": "MALFORMED_FUNCTION_CALL"}),
            "MALFORMED_FUNCTION_CALL",
        ),
    ] {
        sim.script(json!([fault]));
        let Err(error) = say(sim, model, &hi, true).await else { panic!("no error: {says}") };
        assert!(error.to_string().contains(says), "{error}");
    }
    for stream in [false, true] {
        sim.script(json!([json!({"error": "rate_limit"})]));
        let error = say(sim, model, &hi, stream).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::RateLimited);
        assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
        sim.script(json!([json!({"error": "auth"})]));
        let error = say(sim, model, &hi, stream).await.err().unwrap();
        assert!(error.to_string().contains("API key not valid") && error.fallback_helps());
    }
}

#[tokio::test]
async fn the_simulator_finds_no_violation() {
    let Some(sim) = Sim::find(Provider::Gemini) else { return };
    sim.control("POST", "/_reset", "{}");
    for name in ["gemini-3.1-pro", "gemini-2.5-flash"] {
        let model = sim.model(name, KEY, &sim.base_url());
        for stream in [false, true] {
            answers(&sim, &model, stream).await;
            tool_rounds(&sim, &model, stream, false).await;
            tool_rounds(&sim, &model, stream, true).await;
        }
        faults(&sim, &model).await;
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    let model = sim.model("gemini-embedding-001", KEY, &sim.base_url());
    for count in [1, 3, 101] {
        let inputs: Vec<_> = (0..count).map(|number| format!("text {number}")).collect();
        let ask =
            EmbeddingRequest { model: &model, inputs: &inputs, dimensions: Some(16), trace: None };
        let embedded = sim.client.embed(ask, deadline).await.unwrap();
        assert_eq!(embedded.vectors.len(), count);
        assert!(embedded.vectors.iter().all(|vector| vector.len() == 16));
        assert!(embedded.tokens.is_some());
    }
    let model = sim.model("gemini-3.1-flash-image", KEY, &sim.base_url());
    for size in ["1024x1024", "1536x1024"] {
        let ask = ImageRequest {
            model: &model,
            prompt: "A crab",
            size,
            count: 2,
            quality: None,
            trace: None,
        };
        let made = sim.client.generate_images(ask, deadline).await.unwrap();
        assert_eq!(made.urls.len(), 2);
        assert!(made.urls.iter().all(|url| url.starts_with("data:image/png;base64,iVBO")));
        assert!(made.usage.is_some());
    }
    let judged = sim.control("GET", "/_violations?provider=gemini", "");
    assert_eq!(judged["violations"], json!([]), "{judged:#}");
    let health = sim.control("GET", "/_health", "");
    assert_eq!(health["bugs"], json!([]));
}
