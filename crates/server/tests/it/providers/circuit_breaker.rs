//! Circuits: which outcomes open them, and what an open one leaves behind.

use serde_json::json;

use crate::harness::{Answer, Backend, Mock, Server};

crate::on_every_backend!(
    streams_that_break_open_the_circuit,
    a_call_that_meets_open_circuits_alone_leaves_a_step,
);

/// An endpoint that breaks every stream after its first word is as good as one that does not answer.
async fn streams_that_break_open_the_circuit(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::Broken(vec!["Once ".into()])).await;
    mock.register(&owner, "m").await;
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let ask = json!({"trace_id": key.trace().await, "model": "m", "messages": messages,
        "stream": true});
    let path = "/api/v1/chat/completions";
    for _ in 0..5 {
        let reply = key.post(path, &ask).await;
        assert!(reply.status == 200 && reply.text.contains("Once "), "{}", reply.text);
    }
    key.post(path, &ask).await.says(502, "Provider request failed");
    assert_eq!(mock.begun(), 5);
}

async fn a_call_that_meets_open_circuits_alone_leaves_a_step(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let down = Mock::always(Answer::json(500, &json!({}))).await;
    let well = Mock::always(Answer::text("I stepped in.")).await;
    down.register(&owner, "down").await;
    let fallback = json!({"is_public": false, "base_url": down.url(),
        "additional_config": {"fallback_identifier": "second"}});
    down.register_with(&owner, "first", fallback).await;
    well.register(&owner, "second").await;
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let path = "/api/v1/chat/completions";
    let ask = async |trace: &str, model: &str| {
        let ask = json!({"trace_id": trace, "model": model, "messages": messages});
        key.post(path, &ask).await
    };
    let trace = key.trace().await;
    for _ in 0..3 {
        ask(&trace, "down").await.says(502, "Provider request failed");
        ask(&trace, "first").await.ok(200);
    }
    let calls = down.begun();
    let trace = key.trace().await;
    ask(&trace, "down").await.says(502, "Provider request failed");
    ask(&trace, "first").await.ok(200);
    assert_eq!(down.begun(), calls, "both circuits are open");
    let detail = key.detail(&trace).await;
    let steps = detail["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2, "a model that is left alone beside another leaves none: {detail}");
    let told = (&steps[0]["type"], &steps[0]["status"], &steps[0]["error"]);
    let error = json!("Model down was not called: its circuit is open");
    assert_eq!(told, (&json!("run"), &json!("failed"), &error));
    assert!(steps[0]["cost"].is_null(), "{detail}");
    assert_eq!((&steps[1]["model"], &steps[1]["status"]), (&json!("second"), &json!("completed")));
    assert_eq!(detail["summary"]["total_cost"], steps[1]["cost"]);
}
