//! Requests as coding agents send them, to models of other vendors.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Mock, Server, call};

crate::on_every_backend!(a_custom_tool_is_called_and_answered);

const DOOR: &str = "/api/v1/responses";

async fn a_custom_tool_is_called_and_answered(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let mock = Mock::start(std::time::Duration::ZERO, None, |body| {
        if body["messages"].as_array().unwrap().iter().any(|message| message["role"] == "tool") {
            return Answer::text("Done.");
        }
        let patch = json!({"input": "*** Begin Patch"}).to_string();
        let calls = [call("c", "apply_patch", &patch)];
        let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
        Answer::completion(&message, "tool_calls")
    })
    .await;
    mock.register(&server.owner().await, "m").await;
    let mut input = vec![json!({"role": "user", "content": "Edit the file."})];
    let mut ask = json!({"model": "m", "trace_id": key.trace().await, "store": false,
        "client_metadata": {"x-codex-installation-id": "i"}, "input": input,
        "tools": [{"type": "custom", "name": "apply_patch", "description": "Edits files.",
                "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
            {"type": "web_search"}]});
    let reply = key.post(DOOR, &ask).await;
    let dropped = "client_metadata, tools[1] (web_search)";
    assert_eq!(reply.header("x-sluice-dropped-params"), dropped);
    let answer = reply.ok(200);
    let item = &answer["output"][0];
    assert_eq!(
        (&item["type"], &item["call_id"], &item["name"], &item["input"]),
        (&json!("custom_tool_call"), &json!("c"), &json!("apply_patch"), &json!("*** Begin Patch"))
    );
    let function = &mock.last()["tools"][0]["function"];
    assert_eq!(function["parameters"]["required"], json!(["input"]));
    input.push(item.clone());
    input.push(json!({"type": "custom_tool_call_output", "call_id": "c", "output": "Edited."}));
    ask["input"] = Value::Array(input);
    let answer = key.post(DOOR, &ask).await.ok(200);
    assert_eq!(answer["output"][0]["content"][0]["text"], "Done.");
    assert_eq!(mock.last()["messages"][2]["content"], "Edited.");
}
