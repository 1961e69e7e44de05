//! The gateway as the client of a server by the official SDK (`tests/mcp`). Runs where
//! `SLUICE_TEST_MCP` has its address; without, the test does nothing.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Mock, Server, server_at, settings};

const TOKEN: &str = "mcp-test-token-4711";

/// Calls every tool that is named in the prompt, as `name {arguments}` lines.
fn plan(request: &Value) -> Answer {
    let messages = request["messages"].as_array().unwrap();
    let told: Vec<&str> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    if !told.is_empty() {
        return Answer::text(&told.join(" | "));
    }
    let wanted = messages[0]["content"].as_str().unwrap().lines().enumerate();
    let calls: Vec<Value> = wanted
        .map(|(number, line)| {
            let (name, arguments) = line.split_once(' ').unwrap();
            json!({"id": format!("call_{number}"), "type": "function",
                "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    Answer::json(
        200,
        &json!({"id": "x", "object": "chat.completion", "created": 1, "model": "x",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tools_of_a_real_server_are_run() {
    let Some(url) = server_at("SLUICE_TEST_MCP") else { return };
    let server = Server::unlimited(&Backend::Sqlite).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::start(Duration::ZERO, Some((10, 5)), plan).await;
    mock.register(&owner, "mock").await;
    let tiers = json!({"simple": "mock", "complex": "mock", "secure": "mock"});
    let (open, guarded) = (format!("{url}/mcp"), format!("{url}/guarded/mcp"));
    let mcp = json!({"allowed_servers": [url, guarded], "credentials": {&guarded: TOKEN}});
    settings(&owner, 1, json!({"routing_tiers": tiers, "mcp": mcp})).await;
    let ask = async |url: &str, input: &str| {
        let trace = key.trace().await;
        let entry = json!({"type": "mcp", "server_label": "sdk", "server_url": url,
            "require_approval": "never"});
        let body = json!({"trace_id": trace, "input": input, "tools": [entry]});
        key.post("/api/v1/executions", &body).await
    };
    let said = async |url: &str, input: &str| {
        let answer = ask(url, input).await.ok(200);
        let Some(output) = answer["output"].as_str() else { panic!("{input}: {answer}") };
        output.to_owned()
    };
    for url in [&open, &guarded] {
        let both = "add {\"a\": 19, \"b\": 23}\ncount {\"to\": 5}";
        assert_eq!(said(url, both).await, "42 | counted to 5");
    }
    let broken = said(&open, "broken {}\nadd {\"a\": \"x\"}").await;
    assert!(broken.contains("Error executing tool broken"), "{broken}");
    assert!(broken.contains("add"), "wrong arguments are told: {broken}");
    assert_eq!(said(&open, "draw {}").await, "[a picture, image/png]");
    assert!(said(&open, "customer {}").await.contains("Card"));
    let blocked = ask(&open, "read_page {}").await.ok(200);
    assert!(blocked["reason"].is_string(), "{blocked}");

    let credentials = json!({"mcp": {"credentials": {&guarded: null}}});
    settings(&owner, 1, credentials).await;
    ask(&guarded, "add {}").await.says(502, "it answered with status 401");
}
