//! The record of what passes as it came and has no canonical form.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{MESSAGES, ask};
use crate::harness::{Answer, Backend, Caller, Mock, Server, first_step, hang_up_after};

crate::on_every_backend!(
    what_has_no_canonical_form_is_in_the_record,
    it_is_in_the_record_of_a_stream_whose_caller_hung_up,
);

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
    Answer::Body(200, "text/event-stream", events().concat())
}

/// The events of a stream.
fn events() -> Vec<String> {
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
    events.iter().map(event).collect()
}

async fn step(key: &Caller, body: &Value) -> Value {
    let trace = key.trace().await;
    let reply = key.with("x-trace-id", &trace).post(MESSAGES, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    key.detail(&trace).await["steps"][0].clone()
}

/// Answers a request with the first events of a stream, and leaves it open.
async fn begin(stream: TcpStream) -> std::io::Result<()> {
    let (mut stream, mut line, mut length) = (BufReader::new(stream), String::new(), 0);
    while stream.read_line(&mut line).await? > 0 && line != "\r\n" {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                content-length: 100000\r\n\r\n";
    stream.write_all([head, &events()[..7].concat()].concat().as_bytes()).await?;
    stream.read_to_end(&mut body).await?;
    Ok(())
}

async fn it_is_in_the_record_of_a_stream_whose_caller_hung_up(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(begin(stream));
        }
    });
    let fields = json!({"name": "claude", "identifier": "claude", "provider": "anthropic",
        "base_url": format!("http://{address}"), "is_public": false,
        "input_cost_per_1k": 0.15, "output_cost_per_1k": 0.6});
    let model = json!({"model_definition": fields});
    owner.post("/api/v1/projects/1/models", &model).await.ok(201);
    let trace = key.trace().await;
    let request = key.request("POST", MESSAGES).header("content-type", "application/json");
    let body = ask(MESSAGES, "claude", "Hello.", json!({"stream": true})).to_string();
    let response = request.header("x-trace-id", &trace).body(body).send().await.unwrap();
    hang_up_after(response, "Fine.").await;
    let step = first_step(&key, &trace).await;
    assert_eq!(step["status"], "cancelled", "{step}");
    let kept = step["passed"]["answer"].as_array().unwrap();
    assert_eq!(kept.len(), 3, "{step}");
    assert_eq!(kept[0]["content_block"]["name"], "web_search", "{step}");
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
