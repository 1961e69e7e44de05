//! `settings.attributes.required`: calls that have to say whom they are for.

use serde_json::json;

use crate::harness::{Backend, Server, settings};

crate::on_every_backend!(a_call_without_them_is_refused, what_is_no_attribute_cannot_be_required);

async fn a_call_without_them_is_refused(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let trace = key.trace().await;
    settings(
        &owner,
        1,
        json!({"auto_trace": true, "attributes": {"required": ["user", "tag:team"]}}),
    )
    .await;
    let both = "Missing required attributes: user, tag:team";
    let question = json!([{"role": "user", "content": "Hello."}]);
    for (path, body) in [
        ("executions", json!({"trace_id": trace, "input": "Hello."})),
        ("executions/stream", json!({"trace_id": trace, "input": "Hello."})),
        ("runs", json!({"trace_id": trace, "model": "sandbox", "input": "Hello."})),
        ("chat/completions", json!({"trace_id": trace, "messages": question})),
        ("chat/completions", json!({"messages": question})),
        ("assistants", json!({"trace_id": trace, "messages": question, "model": "sandbox"})),
        ("embeddings", json!({"trace_id": trace, "input": "Hello.", "model": "sandbox"})),
        (
            "images/generations",
            json!({"trace_id": trace, "prompt": "A house.", "model": "sandbox"}),
        ),
    ] {
        key.post(&format!("/api/v1/{path}"), &body).await.invalid(both);
    }
    let message = json!({"model": "sandbox", "max_tokens": 50, "messages": question});
    let response = json!({"model": "sandbox", "input": "Hello."});
    let content = json!({"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]});
    for (path, body) in [("messages", &message), ("responses", &response)] {
        let mut body = body.clone();
        for trace in [json!(trace), json!(null)] {
            body["trace_id"] = trace;
            key.post(&format!("/api/v1/{path}"), &body).await.tells(422, both);
        }
    }
    let gemini = "/gemini/v1beta/models/sandbox";
    for (path, body) in [
        ("/openai/v1/responses".to_owned(), &response),
        ("/anthropic/v1/messages".to_owned(), &message),
        (format!("{gemini}:generateContent"), &content),
        (format!("{gemini}:streamGenerateContent?alt=sse"), &content),
    ] {
        key.post(&path, body).await.tells(400, both);
        key.with("x-sluice-user", "jane").post(&path, body).await.tells(400, "tag:team");
    }
    let named = key.with("x-sluice-user", "jane");
    let one = "Missing required attribute: tag:team";
    named.execute(&trace, "Hello.").await.invalid(one);
    let root = json!({"model": "sandbox", "messages": question});
    named.post("/openai/v1/chat/completions", &root).await.tells(400, one);
    assert_eq!(key.detail(&trace).await["steps"], json!([]), "nothing was called or recorded");
    let list = key.get("/api/v1/traces").await.ok(200);
    assert_eq!(list.as_array().unwrap().len(), 1, "and no trace was opened for it: {list}");
    // Checks and notes call no model.
    key.post("/api/v1/checks", &json!({"trace_id": trace, "input": "Hello."})).await.ok(200);
    named.with("x-sluice-tags", "team=red").execute(&trace, "Hello.").await.ok(200);
    let metadata = json!({"metadata": {"user": "jane", "tags": {"team": "red"}}});
    let opened = key.post("/api/v1/traces", &metadata).await.ok(201);
    key.execute(opened["id"].as_str().unwrap(), "Hello.").await.ok(200);
}

async fn what_is_no_attribute_cannot_be_required(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let body = json!({"project": {"settings": {"attributes": {"required": ["team"]}}}});
    owner.patch("/api/v1/projects/1", &body).await.invalid(
        "settings.attributes.required holds 'team', which is none of user, session and tag:NAME",
    );
}
