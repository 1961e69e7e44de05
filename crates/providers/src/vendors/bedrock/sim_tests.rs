//! Tests against the simulator, which checks every request with botocore's own types and signatures.
//! They run if `SLUICE_TEST_SIM` names its control port, as in `http://127.0.0.1:9400`.

use std::time::Duration;

use domain::conversation::{Body, Message, Prompt, Reply, Role, StreamEvent};
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
use crate::testing::{attempt, prompt};

const ACCESS_KEY: &str = "AKIASIMULATOR0000001:simulator/secret+key/with/slashes0000001";
const SESSION_KEY: &str =
    "ASIASIMULATOR0000002:simulator/secret+session/0000002:sim-session-token/with+chars==";
const BEARER_KEY: &str = "bedrock-api-key-sim";
const CLAUDE: &str = "us.anthropic.claude-3-5-sonnet-20240620-v1:0";

fn named(sim: &Sim, name: &str, key: &str) -> Model {
    let mut model = sim.model(name, key, &sim.base_url());
    model.config.all.insert("region".to_owned(), json!("us-east-1"));
    model
}

async fn complete(sim: &Sim, model: &Model, prompt: &Prompt) -> Result<Reply, Error> {
    let attempt = Attempt { max_output_tokens: Some(500), ..attempt(model, prompt) };
    sim.client.complete(attempt).await
}

/// Returns every event as it came; [`Sim::stream`] assembles them.
async fn stream(sim: &Sim, model: &Model, prompt: &Prompt) -> (Vec<StreamEvent>, Option<Error>) {
    let mut stream = match sim.client.stream(attempt(model, prompt)).await {
        Ok(stream) => stream,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut all = Vec::new();
    while let Some(batch) = stream.next().await {
        match batch {
            Ok(events) => all.extend(events),
            Err(error) => return (all, Some(error)),
        }
    }
    (all, None)
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_mins(1)
}

fn said(role: Role, text: &str) -> Message {
    Message { role, body: Body::Text(text.to_owned()), extra: Map::new() }
}

fn tools() -> Value {
    let tool = |name: &str| {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        json!({"type": "function",
            "function": {"name": name, "description": "Tells.", "parameters": schema}})
    };
    json!([tool("weather"), tool("time")])
}

/// Returns the assistant message of a whole answer, as a caller sends it back.
fn back(message: &Value) -> Message {
    let mut extra = message.as_object().unwrap().clone();
    extra.retain(|name, _| matches!(name.as_str(), "tool_calls" | "provider_state"));
    let body = message["content"].as_str().map_or(Body::Empty, |text| Body::Text(text.to_owned()));
    Message { role: Role::Assistant, body, extra }
}

/// The message that the pieces of a stream add up to.
fn joined(events: &[StreamEvent]) -> Value {
    let mut message = json!({"content": "", "tool_calls": []});
    for event in events {
        match event {
            StreamEvent::Text(text) => {
                message["content"] = [message["content"].as_str().unwrap(), text].concat().into();
            }
            StreamEvent::Native { chunk, .. } => {
                let delta = &chunk["choices"][0]["delta"];
                if let Some(state) = delta.get("provider_state") {
                    message["provider_state"] = state.clone();
                }
                for piece in delta["tool_calls"].as_array().into_iter().flatten() {
                    let calls = message["tool_calls"].as_array_mut().unwrap();
                    let at = piece["index"].as_u64().unwrap() as usize;
                    if at == calls.len() {
                        calls.push(piece.clone());
                        continue;
                    }
                    let arguments = &mut calls[at]["function"]["arguments"];
                    let more = piece["function"]["arguments"].as_str().unwrap();
                    *arguments = [arguments.as_str().unwrap(), more].concat().into();
                }
            }
            _ => {}
        }
    }
    message
}

/// A result for each call of a message.
fn results(message: &Message) -> Vec<Message> {
    let calls = message.extra["tool_calls"].as_array().unwrap();
    let result = |call: &Value| {
        let mut result = said(Role::Tool, r#"{"ok":true}"#);
        result.extra.insert("tool_call_id".to_owned(), call["id"].clone());
        result
    };
    calls.iter().map(result).collect()
}

#[tokio::test]
async fn the_simulator_finds_nothing_wrong() {
    let Some(sim) = Sim::find(Provider::Bedrock) else { return };
    sim.control("POST", "/_reset", "{}");
    texts(&sim).await;
    for streamed in [false, true] {
        tool_rounds(&sim, streamed).await;
    }
    streams(&sim).await;
    embeddings_and_images(&sim).await;
    assert_eq!(sim.violations(), json!([]));
    faults(&sim).await;
    wrong_keys(&sim).await;
    assert_eq!(sim.control("GET", "/_health", "")["bugs"], json!([]));
}

async fn texts(sim: &Sim) {
    for key in [ACCESS_KEY, SESSION_KEY, BEARER_KEY] {
        let model = named(sim, CLAUDE, key);
        let reply = complete(sim, &model, &prompt(json!({}))).await.unwrap();
        assert_eq!(reply.text, "echo: Hello there. How are you?");
        assert_eq!(reply.finish, Some(FinishReason::Stop));
    }
    let mut marked = prompt(json!({"tools": [{"type": "function", "function": {"name": "f"},
        "cache_breakpoint": "5m"}]}));
    marked.messages.insert(0, said(Role::System, "Be brief."));
    for (message, kept) in marked.messages.iter_mut().zip(["1h", "5m"]) {
        message.extra.insert("cache_breakpoint".to_owned(), json!(kept));
    }
    let caching = named(sim, "us.anthropic.claude-sonnet-4-5-20250929-v1:0", ACCESS_KEY);
    assert!(complete(sim, &caching, &marked).await.unwrap().dropped.is_empty());
    let model = named(
        sim,
        "arn:aws:bedrock:us-east-1:111122223333:inference-profile/us.amazon.nova-pro-v1:0",
        ACCESS_KEY,
    );
    let mut prompt = prompt(json!({
        "temperature": 0.25, "top_p": 0.9, "stop": ["END", "STOP"], "user": "u",
        "reasoning_effort": "high", "additionalModelRequestFields": {"top_k": 3},
        "response_format": {"type": "json_schema", "json_schema": {"name": "out", "strict": true,
            "schema": {"type": "object", "properties": {}, "additionalProperties": false}}},
    }));
    let image =
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}});
    let parts = vec![json!({"type": "text", "text": "And é🙂?"}), image];
    prompt.messages.insert(0, said(Role::System, "Be brief."));
    prompt.messages.extend([
        said(Role::Assistant, "Fine."),
        Message { role: Role::User, body: Body::Parts(parts), extra: Map::new() },
    ]);
    let usage = json!({"input": 50, "output": 7, "cached": 20, "cache_write": 10});
    sim.script(json!([{"text": "Hm.", "stop": "length", "usage": usage}]));
    let reply = complete(sim, &model, &prompt).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("Hm.", Some(FinishReason::Length)));
    assert_eq!(reply.dropped, ["user"]);
    let usage = Usage {
        prompt: 50,
        cached: 20,
        cache_write: 10,
        completion: 7,
        reasoning: 0,
        open: unsplit(10),
        ..Usage::default()
    };
    assert_eq!(reply.usage, Some(usage));
}

/// A round of two calls, a chained one with a call without arguments, and an answer; the thoughts
/// go back as they came.
async fn tool_rounds(sim: &Sim, streamed: bool) {
    let model = named(sim, CLAUDE, ACCESS_KEY);
    let call =
        |name: &str, arguments: Value| json!({"tool": {"name": name, "arguments": arguments}});
    sim.script(json!([
        {"parts": [
            {"thinking": "Which?"},
            {"text": "Let me see."},
            call("weather", json!({"city": "Tromsø \"N\" 🙂"})),
            call("time", json!({"city": "Oslo"})),
        ]},
        {"parts": [{"thinking": "Again."}, call("time", json!({}))]},
        {"text": "Done."},
    ]));
    let mut prompt = prompt(json!({"tools": tools(), "tool_choice": "auto"}));
    for calls in [2, 1] {
        let message = if streamed {
            let (events, error) = stream(sim, &model, &prompt).await;
            assert!(error.is_none(), "{error:?}");
            assert!(events.contains(&StreamEvent::Finish(FinishReason::ToolCalls)));
            back(&joined(&events))
        } else {
            let reply = complete(sim, &model, &prompt).await.unwrap();
            assert_eq!(reply.finish, Some(FinishReason::ToolCalls));
            back(&reply.native.unwrap()["choices"][0]["message"])
        };
        assert_eq!(message.extra["tool_calls"].as_array().unwrap().len(), calls);
        let kept = &message.extra["provider_state"]["content"];
        assert!(kept[0]["reasoningContent"]["reasoningText"]["signature"].is_string(), "{kept}");
        let results = results(&message);
        prompt.messages.push(message);
        prompt.messages.extend(results);
    }
    // The prompt without state, as another model would get it, and without the tools.
    let mut foreign = prompt.clone();
    for message in &mut foreign.messages {
        message.extra.shift_remove("provider_state");
    }
    foreign.params.clear();
    assert_eq!(complete(sim, &model, &prompt).await.unwrap().text, "Done.");
    complete(sim, &model, &foreign).await.unwrap();
}

async fn streams(sim: &Sim) {
    let model = named(sim, CLAUDE, SESSION_KEY);
    let usage = json!({"input": 9, "output": 4, "cached": 2});
    sim.script(
        json!([{"text": "Grüße 🙂 to all", "chunk_chars": 2, "split_bytes": 7, "usage": usage}]),
    );
    let (events, error) = stream(sim, &model, &prompt(json!({}))).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(joined(&events)["content"], "Grüße 🙂 to all");
    let used = Usage { prompt: 9, cached: 2, completion: 4, ..Usage::default() };
    assert_eq!(
        events[events.len() - 3..],
        [StreamEvent::Finish(FinishReason::Stop), StreamEvent::Usage(used), StreamEvent::Done]
    );
    for (stop, reason) in [
        ("length", FinishReason::Length),
        ("content_filter", FinishReason::ContentFilter),
        ("safety", FinishReason::ContentFilter),
        ("stop_sequence", FinishReason::Stop),
    ] {
        sim.script(json!([{"text": "a", "stop": stop}]));
        let (events, error) = stream(sim, &model, &prompt(json!({}))).await;
        assert!(error.is_none() && events.contains(&StreamEvent::Finish(reason)), "{events:?}");
    }
}

async fn embeddings_and_images(sim: &Sim) {
    let inputs: Vec<String> = (0..100).map(|number| format!("text {number}")).collect();
    for (name, count, dimensions, length) in [
        ("amazon.titan-embed-text-v2:0", 3, Some(256), 256),
        ("amazon.titan-embed-text-v1", 2, None, 8),
        ("cohere.embed-multilingual-v3", 100, None, 8),
    ] {
        let model = named(sim, name, ACCESS_KEY);
        let ask =
            EmbeddingRequest { model: &model, inputs: &inputs[..count], dimensions, trace: None };
        let embedded = sim.client.embed(ask, deadline()).await.unwrap();
        assert_eq!(embedded.vectors.len(), count);
        assert!(embedded.vectors.iter().all(|vector| vector.len() == length));
        assert!(embedded.vectors[0] != embedded.vectors[1] && embedded.tokens > Some(0));
    }
    let model = named(sim, "amazon.nova-canvas-v1:0", BEARER_KEY);
    let ask = ImageRequest {
        model: &model,
        prompt: "a cat",
        size: "512x512",
        count: 6,
        quality: None,
        trace: None,
    };
    let made = sim.client.generate_images(ask, deadline()).await.unwrap();
    assert_eq!(made.urls.len(), 6);
    assert!(made.urls[5].starts_with("data:image/png;base64,iVBOR"));
}

async fn faults(sim: &Sim) {
    let model = named(sim, CLAUDE, ACCESS_KEY);
    for (fault, kind) in [
        (json!({"error": {"kind": "rate_limit"}}), Some(ErrorKind::RateLimited)),
        (json!({"error": {"kind": "overloaded"}}), Some(ErrorKind::Unreachable)),
        (json!({"malformed": true}), Some(ErrorKind::Unreachable)),
        (json!({"error": {"kind": "context"}}), None),
    ] {
        sim.script(json!([fault]));
        let error = complete(sim, &model, &prompt(json!({}))).await.unwrap_err();
        match kind {
            Some(kind) => assert_eq!(error.kind, kind, "{error}"),
            None => assert!(error.to_string().contains("ValidationException: "), "{error}"),
        }
    }
    for (fault, says) in [
        (json!({"text": "abc", "chunk_chars": 1, "bad_crc": 2}), "checksum"),
        (json!({"text": "abc", "fail_after": 2, "fail_how": "error_event"}), "modelStreamError"),
        (json!({"text": "abc", "fail_after": 2, "fail_how": "eof"}), "broke"),
        (json!({"text": "abc", "fail_after": 2, "fail_how": "truncate"}), "broke"),
        (json!({"text": "abc", "fail_after": 2, "fail_how": "reset"}), "broke"),
    ] {
        sim.script(json!([fault]));
        let (_, error) = stream(sim, &model, &prompt(json!({}))).await;
        let error = error.unwrap();
        assert!(error.to_string().contains(says) && error.is_endpoint_fault(), "{error}");
    }
}

async fn wrong_keys(sim: &Sim) {
    for key in ["AKIASIMULATOR0000001:some-other-secret-key", "ABSKnot-the-right-one"] {
        let error = complete(sim, &named(sim, CLAUDE, key), &prompt(json!({}))).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Rejected { status: 403, .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains(key.rsplit(':').next().unwrap()));
    }
}

/// Cache writes for an unknown time.
fn unsplit(cache_write: u64) -> domain::usage::Open {
    domain::usage::Open { cache_write, ..Default::default() }
}
