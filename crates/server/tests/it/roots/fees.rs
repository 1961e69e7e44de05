//! The charges of vendors beside tokens: uses of their own tools, and surcharges on all prices.

use serde_json::{Value, json};

use super::{MESSAGES, ask};
use crate::harness::{Answer, Backend, Caller, Mock, Server};

crate::on_every_backend!(
    uses_and_surcharges_are_paid_for,
    a_cap_holds_with_tools_of_the_vendor,
    a_tool_without_a_bound_is_refused_under_a_cap,
);

const MODEL: &str = "claude-opus-4-6";

/// An answer after three searches of which one failed.
fn answer(usage: Value) -> Value {
    let search = |id: &str| {
        json!({"type": "server_tool_use", "id": id, "name": "web_search",
        "input": {"query": "x"}})
    };
    let mut counts = json!({"input_tokens": 1000, "output_tokens": 100});
    counts.as_object_mut().unwrap().extend(usage.as_object().unwrap().clone());
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL,
        "content": [search("a"), search("b"), search("c"), {"type": "text", "text": "Fine."}],
        "stop_reason": "end_turn", "stop_sequence": null, "usage": counts,
    })
}

/// The same answer in events; the usage of the end is left out if the stream breaks off.
fn stream(answer: &Value, is_whole: bool) -> Answer {
    let mut start = answer.clone();
    start["content"] = json!([]);
    start["usage"] = json!({"input_tokens": 1000, "output_tokens": 1});
    let mut events = vec![json!({"type": "message_start", "message": start})];
    for (index, block) in answer["content"].as_array().unwrap().iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    if is_whole {
        let delta = json!({"stop_reason": "end_turn", "stop_sequence": null});
        events.push(json!({"type": "message_delta", "delta": delta, "usage": answer["usage"]}));
        events.push(json!({"type": "message_stop"}));
    }
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    Answer::Body(200, "text/event-stream", events.iter().map(event).collect())
}

async fn vendor(owner: &Caller, usage: Value, is_whole: bool, more: Value) -> Mock {
    let answer = answer(usage);
    let mock = Mock::start(std::time::Duration::ZERO, None, move |body| {
        if body["stream"] == true { stream(&answer, is_whole) } else { Answer::json(200, &answer) }
    })
    .await;
    let mut fields = json!({"provider": "anthropic", "is_public": false});
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    mock.register_with(owner, MODEL, fields).await;
    mock
}

fn search(more: Value) -> Value {
    let mut tool = json!({"type": "web_search_20250305", "name": "web_search"});
    tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"tools": [tool]})
}

async fn cost(key: &Caller, body: &Value) -> Value {
    let trace = key.trace().await;
    let reply = key.with("x-trace-id", &trace).post(MESSAGES, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    key.detail(&trace).await["steps"][0]["cost"].clone()
}

async fn uses_and_surcharges_are_paid_for(backend: Backend) {
    // 1,000 tokens at 0.15 and 100 at 0.6 a thousand are 0.21; two searches cost 0.02.
    let two = json!({"server_tool_use": {"web_search_requests": 2}});
    let fast = json!({"speed": "fast", "server_tool_use": {"web_search_requests": 2}});
    let slow = json!({"speed": "standard", "inference_geo": "us"});
    let none = json!({});
    for (usage, asked, streams, is_whole, expected) in [
        (&two, json!({}), false, true, 0.23),
        (&two, json!({}), true, true, 0.23),
        (&fast, json!({"speed": "fast"}), false, true, 1.28),
        (&none, json!({"speed": "fast"}), false, true, 1.29),
        (&fast, json!({}), true, true, 1.28),
        // It was asked for, and not given. What counts is where the answer was made.
        (&slow, json!({"speed": "fast"}), false, true, 0.261),
        // No report: every search that was seen counts.
        (&none, json!({}), false, true, 0.24),
        (&none, json!({}), true, true, 0.24),
    ] {
        let server = Server::unlimited(&backend).await;
        let (key, owner) = (server.key(), server.owner().await);
        let _mock = vendor(&owner, usage.clone(), is_whole, json!({})).await;
        let mut body = ask(MESSAGES, MODEL, "Hello.", search(asked.clone()));
        if let Some(speed) = body["tools"][0].as_object_mut().unwrap().remove("speed") {
            body["speed"] = speed;
        }
        body["stream"] = streams.into();
        assert_eq!(cost(&key, &body).await, expected, "{usage} {asked} {streams}");
    }
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let own = json!({"additional_config": {"prices": {"web_search_cost_per_1k": 1000}}});
    let _mock = vendor(&owner, two, true, own).await;
    assert_eq!(cost(&key, &ask(MESSAGES, MODEL, "Hello.", search(json!({})))).await, 2.21);
    let bad = json!({"model_definition": {"additional_config": {"prices": {"fast_factor": -1}}}});
    let models = owner.get("/api/v1/projects/1/models").await.ok(200);
    let is_it = |model: &&Value| model["model_definition"]["identifier"] == MODEL;
    let id =
        models.as_array().unwrap().iter().find(is_it).unwrap()["model_definition"]["id"].clone();
    owner.patch(&format!("/api/v1/projects/1/models/{id}"), &bad).await.says(422, "fast_factor");
}

/// A key with a cap, in USD.
async fn capped(server: &Server, owner: &Caller, cap: f64) -> Caller {
    let body = json!({"name": "capped", "project_id": 1, "hourly_limit": cap});
    let made = owner.post("/api/v1/keys", &body).await.ok(201);
    server.with_key(made["raw_key"].as_str().unwrap())
}

/// Prices of next to nothing for tokens, so that searches decide.
fn cheap() -> Value {
    json!({"input_cost_per_1k": 0.000_000_001, "output_cost_per_1k": 0.000_000_001})
}

async fn a_cap_holds_with_tools_of_the_vendor(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let one = json!({"server_tool_use": {"web_search_requests": 1}});
    let mock = vendor(&owner, one, true, cheap()).await;
    let key = capped(&server, &owner, 0.025).await;
    // Without a bound of its own, or with one that is too high: what the cap affords.
    for (given, expected) in [(json!({}), 2), (json!({"max_uses": 8}), 1)] {
        key.post(MESSAGES, &ask(MESSAGES, MODEL, "Hello.", search(given))).await.ok(200);
        assert_eq!(mock.take().pop().unwrap().body["tools"][0]["max_uses"], expected);
    }
    let last = key.post(MESSAGES, &ask(MESSAGES, MODEL, "Hello.", search(json!({})))).await;
    assert_eq!(last.status, 429, "{}", last.text);
    assert_eq!(mock.begun(), 2, "0.005 USD are left, and a search costs 0.01");
    // Tokens alone still fit.
    key.post(MESSAGES, &ask(MESSAGES, MODEL, "Hello.", json!({}))).await;
    assert_eq!(mock.begun(), 3);
    let free = server.key();
    let asked = ask(MESSAGES, MODEL, "Hello.", search(json!({})));
    free.post(MESSAGES, &asked).await.ok(200);
    assert_eq!(mock.last(), asked, "without a cap nothing is bounded");
}

async fn a_tool_without_a_bound_is_refused_under_a_cap(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let mock = vendor(&owner, json!({}), true, cheap()).await;
    let key = capped(&server, &owner, 1.0).await;
    let tools = json!({"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]});
    let body = ask(MESSAGES, MODEL, "Hello.", tools);
    let refused = key.post(MESSAGES, &body).await.ok(422);
    assert_eq!(refused["type"], "error");
    assert_eq!(refused["error"]["type"], "invalid_request_error");
    let said = refused["error"]["message"].as_str().unwrap();
    assert!(
        said.starts_with("tools[0] ('code_execution_20250825'): its vendor puts no bound"),
        "{said}"
    );
    assert_eq!(mock.begun(), 0);
    server.key().post(MESSAGES, &body).await.ok(200);
    assert_eq!(mock.begun(), 1);
}
