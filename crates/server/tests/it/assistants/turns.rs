//! Conversations whose turns are numbered.

use serde_json::{Value, json};

use crate::harness::{Backend, Server};

use crate::embeddings::vectors::SECRET;
use crate::images::generations::last;

crate::on_every_backend!(turns_are_numbered_within_their_trace);

async fn turns_are_numbered_within_their_trace(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, trace) = (server.key(), server.key().trace().await);
    let mut messages = vec![json!({"role": "user", "content": "What is a sluice?"})];
    let mut parent = Value::Null;
    for turn in 1..=3 {
        let ask = json!({"trace_id": trace, "messages": messages, "model": "sandbox", "parent_step_id": parent});
        let done = key.post("/api/v1/assistants", &ask).await.ok(200);
        assert_eq!((&done["model"], &done["thread_turn"]), (&json!("sandbox"), &json!(turn)));
        let step = last(&key, &trace).await;
        assert_eq!((&step["id"], &step["output"]), (&done["step_id"], &done["output"]));
        assert_eq!(step.get("parent_step_id").unwrap_or(&Value::Null), &parent);
        parent = done["step_id"].clone();
        messages.push(json!({"role": "assistant", "content": done["output"]}));
        messages.push(json!({"role": "user", "content": format!("And then, {turn}?")}));
        // An execution that is no thread turn does not count.
        key.execute(&trace, "Something else.").await.ok(200);
    }
    let secret = json!({"trace_id": trace, "messages": [{"role": "user", "content": SECRET}]});
    let blocked = key.post("/api/v1/assistants", &secret).await.ok(200);
    let names: Vec<&String> = blocked.as_object().unwrap().keys().collect();
    assert_eq!(names, ["reason", "step_id"]);
    // Turns at the same time have numbers of their own; without a model they are routed.
    let ask = json!({"trace_id": trace, "messages": messages});
    let all: Vec<_> = (0..8)
        .map(|_| {
            let (key, ask) = (key.clone(), ask.clone());
            tokio::spawn(async move { key.post("/api/v1/assistants", &ask).await.ok(200) })
        })
        .collect();
    let mut turns = Vec::new();
    for one in all {
        turns.push(one.await.unwrap()["thread_turn"].as_i64().unwrap());
    }
    turns.sort_unstable();
    assert_eq!(turns, (4..12).collect::<Vec<_>>());
    let other = key.trace().await;
    let foreign = json!({"trace_id": other, "messages": messages, "parent_step_id": parent});
    key.post("/api/v1/assistants", &foreign)
        .await
        .invalid("parent_step_id is not a step of this trace");
    let none = json!({"trace_id": other, "messages": []});
    key.post("/api/v1/assistants", &none).await.invalid("messages must not be empty");
}
