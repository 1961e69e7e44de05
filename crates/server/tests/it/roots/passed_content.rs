//! The record of what passes as it came and has no canonical form.

use serde_json::{Value, json};

use super::{MESSAGES, ask};
use crate::harness::{Answer, Backend, Caller, Mock, Server};

crate::on_every_backend!(what_has_no_canonical_form_is_in_the_record);

const SECRET: &str = "AKIAQ3EGRVXT7ZLNB5PD";
const MAIL: &str = "jane.doe@acme.org";

fn answer() -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude",
        "content": [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": SECRET}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            {"type": "text", "text": "Fine.", "citations": [{"cited_text": "F", "n": 1.50}]},
            {"type": "text", "text": "Plain."},
        ],
        "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 10},
    })
}

fn stream() -> Answer {
    let mut start = answer();
    start["content"] = json!([]);
    let block = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    let piece = |text: &str| {
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta",
            "partial_json": text}})
    };
    let (head, tail) = SECRET.split_at(9);
    let events = [
        json!({"type": "message_start", "message": start}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        piece(&format!("{{\"query\": \"{head}")),
        piece(&format!("{tail}\"}}")),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Fine."}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 10}}),
        json!({"type": "message_stop"}),
    ];
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    Answer::Body(200, "text/event-stream", events.iter().map(event).collect())
}

async fn step(key: &Caller, body: &Value) -> Value {
    let trace = key.trace().await;
    let reply = key.with("x-trace-id", &trace).post(MESSAGES, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    key.detail(&trace).await["steps"][0].clone()
}

async fn what_has_no_canonical_form_is_in_the_record(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::start(std::time::Duration::ZERO, None, |body| {
        if body["stream"] == true { stream() } else { Answer::json(200, &answer()) }
    })
    .await;
    mock.register_with(&owner, "claude", json!({"provider": "anthropic", "is_public": false}))
        .await;
    let more = json!({"of_tomorrow": {"note": MAIL, "n": 1.5, "word": "quokka"}});
    let body = ask(MESSAGES, "claude", "Hello.", more);
    let whole = step(&key, &body).await;
    let sent = mock.last()["of_tomorrow"].clone();
    assert!(sent["note"].as_str().unwrap().starts_with("[EMAIL_1_"), "{sent}");
    assert_eq!(whole["passed"]["request"], json!({"of_tomorrow": sent}), "as the provider saw it");
    assert_eq!(whole["passed"]["answer"], json!(answer()["content"].as_array().unwrap()[..3]));
    assert_eq!(whole["output"], "Fine.Plain.");
    assert_eq!(whole["security"]["secret_leaked"], true, "{whole}");
    assert!(!server.stored().windows(6).any(|bytes| bytes == b"quokka"), "it is sealed");

    let mut streamed = ask(MESSAGES, "claude", "Hello.", json!({"stream": true}));
    streamed["messages"] = json!([{"role": "user", "content": [{"type": "of_tomorrow", "x": 1}]}]);
    let step_of_stream = step(&key, &streamed).await;
    assert_eq!(step_of_stream["passed"]["request"]["messages"], streamed["messages"]);
    let events = step_of_stream["passed"]["answer"].as_array().unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["content_block_start", "content_block_delta", "content_block_delta"]);
    assert_eq!(step_of_stream["security"]["secret_leaked"], true, "{step_of_stream}");

    // The record of the vendor's tools in the history is in no other part of the step.
    let mut used = ask(MESSAGES, "claude", "Hello.", json!({}));
    used["messages"] = json!([
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": answer()["content"].as_array().unwrap()[..3]},
        {"role": "user", "content": "Go on."},
    ]);
    used["messages"][1]["content"][0]["input"] = json!({"query": "weather"});
    let step_of_used = step(&key, &used).await;
    assert_eq!(step_of_used["passed"]["request"]["messages"], used["messages"]);

    // A plain conversation has nothing beside its canonical form; nor has one that is not kept.
    crate::harness::settings(&owner, 1, json!({"store_content": false})).await;
    assert_eq!(step(&key, &body).await.get("passed"), None);
}
