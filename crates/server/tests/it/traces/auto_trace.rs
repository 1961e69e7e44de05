//! Auto traces: a call that gets no answer names its trace as well.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Mock, Server, settings};

crate::on_every_backend!(a_failed_call_names_its_trace);

const DOORS: [&str; 3] = ["/api/v1/chat/completions", "/api/v1/messages", "/api/v1/responses"];

async fn a_failed_call_names_its_trace(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    settings(&owner, 1, json!({"auto_trace": true})).await;
    let mock = Mock::always(Answer::json(400, &json!({"error": {"message": "No."}}))).await;
    mock.register(&owner, "m").await;
    let ask = |more: Value| {
        let messages = json!([{"role": "user", "content": "Say hello."}]);
        let mut ask = json!({"model": "m", "max_tokens": 50, "messages": messages});
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    for door in DOORS {
        for streams in [false, true] {
            let mut more = json!({"stream": streams});
            let mut body = ask(more.clone());
            if door.ends_with("responses") {
                more["input"] = "Say hello.".into();
                more["model"] = "m".into();
                body = more;
            }
            let reply = key.post(door, &body).await;
            reply.ok(502);
            let detail = key.detail(reply.header("x-trace-id")).await;
            assert_eq!(detail["status"], "completed", "{door} {streams}");
            assert_eq!(detail["steps"][0]["status"], "failed", "{door} {streams}");
            // A trace of the caller's own is no news.
            body["trace_id"] = key.trace().await.into();
            let reply = key.post(door, &body).await;
            reply.ok(502);
            assert_eq!(reply.header("x-trace-id"), "", "{door} {streams}");
        }
    }
    // Nothing was opened yet.
    let reply = key.post(DOORS[0], &ask(json!({"models": ["another"]}))).await;
    reply.ok(422);
    assert_eq!(reply.header("x-trace-id"), "");
}
