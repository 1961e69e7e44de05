//! Conversations with MCP servers: greeted once, kept for whom they are, begun anew when they are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, call, settings, until};

crate::on_every_backend!(
    a_server_is_greeted_once_for_a_project,
    a_conversation_with_an_id_is_kept_for_its_trace,
    tools_that_change_between_calls_are_listed_anew,
);

/// A model that calls one tool, and then answers.
async fn model() -> Mock {
    Mock::start(Duration::ZERO, Some((10, 5)), |request| {
        let messages = request["messages"].as_array().unwrap();
        if messages.last().unwrap()["role"] == "tool" {
            return Answer::text("It is mild.");
        }
        let message = json!({"role": "assistant", "content": null,
            "tool_calls": [call("a", "weather", "{}")]});
        Answer::completion(&message, "tool_calls")
    })
    .await
}

/// The answers of an MCP server with one tool.
fn speak(request: &Value) -> Answer {
    let result = match request["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "mock", "version": "1"}}),
        Some("tools/list") => {
            json!({"tools": [{"name": "weather", "inputSchema": {"type": "object"}}]})
        }
        Some("tools/call") => json!({"content": [{"type": "text", "text": "18 C"}]}),
        _ => return Answer::Body(202, "application/json", String::new()),
    };
    Answer::json(200, &json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
}

/// How often a server was greeted, listed its tools, and ran one.
fn counts(tools: &Mock) -> [usize; 3] {
    let requests = tools.requests();
    ["initialize", "tools/list", "tools/call"]
        .map(|method| requests.iter().filter(|asked| asked.body["method"] == method).count())
}

async fn allow(owner: &Caller, project: i64, tools: &Mock) {
    let tiers = json!({"simple": "mock", "complex": "mock", "secure": "mock"});
    let mcp = json!({"allowed_servers": [tools.url()]});
    settings(owner, project, json!({"routing_tiers": tiers, "mcp": mcp})).await;
}

async fn ask(key: &Caller, trace: &str, tools: &Mock) {
    let entry = json!({"type": "mcp", "server_label": "home", "server_url": tools.url(),
        "require_approval": "never"});
    let body = json!({"trace_id": trace, "input": "How warm is it?", "tools": [entry]});
    let done = key.post("/api/v1/executions", &body).await.ok(200);
    assert_eq!(done["output"], "It is mild.", "{done}");
}

async fn a_server_is_greeted_once_for_a_project(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let (model, tools) = (model().await, Mock::start(Duration::ZERO, None, speak).await);
    model.register(&owner, "mock").await;
    allow(&owner, 1, &tools).await;
    for _ in 0..3 {
        let trace = key.trace().await;
        ask(&key, &trace, &tools).await;
    }
    assert_eq!(counts(&tools), [1, 1, 3]);

    // A caller that shows another token is somebody else.
    let credentials = json!({"mcp": {"credentials": {&tools.url(): "token-1"}}});
    settings(&owner, 1, credentials).await;
    let trace = key.trace().await;
    ask(&key, &trace, &tools).await;
    ask(&key, &trace, &tools).await;
    assert_eq!(counts(&tools), [2, 2, 5]);
    let bearer = tools.requests().last().unwrap().headers["authorization"].clone();
    assert_eq!(bearer, "Bearer token-1");

    // So is another project.
    let other = json!({"project": {"name": "Other"}});
    let other = owner.post("/api/v1/projects", &other).await.ok(201)["id"].as_i64().unwrap();
    let definition = json!({"model_definition": {"name": "mock", "identifier": "mock",
        "provider": "openai", "base_url": model.url(), "is_public": false}});
    owner.post(&format!("/api/v1/projects/{other}/models"), &definition).await.ok(201);
    allow(&owner, other, &tools).await;
    let new = json!({"name": "theirs", "project_id": other});
    let raw = owner.post("/api/v1/keys", &new).await.ok(201)["raw_key"].take();
    let theirs = server.with_key(raw.as_str().unwrap());
    let trace = theirs.trace().await;
    ask(&theirs, &trace, &tools).await;
    assert_eq!(counts(&tools), [3, 3, 6]);
    assert!(!tools.requests().last().unwrap().headers.contains_key("authorization"));
}

/// An answer that gives the conversation an id.
fn with_id(answer: Answer) -> Answer {
    match answer {
        // A header of its own beside the type.
        Answer::Body(status, _, body) => {
            Answer::Body(status, "application/json\r\nmcp-session-id: s-1", body)
        }
        other => other,
    }
}

async fn tools_that_change_between_calls_are_listed_anew(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let (model, speaks) = (model().await, |request: &Value| with_id(speak(request)));
    let tools = Mock::start(Duration::ZERO, None, speaks).await;
    model.register(&owner, "mock").await;
    allow(&owner, 1, &tools).await;
    let trace = key.trace().await;
    ask(&key, &trace, &tools).await;
    ask(&key, &trace, &tools).await;
    assert_eq!(counts(&tools), [1, 1, 2], "a list is believed");
    tools.tell(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;
    // It is read beside the requests, and long before the list is too old.
    for _ in 0..50 {
        ask(&key, &trace, &tools).await;
        if counts(&tools)[1] == 2 {
            return;
        }
    }
    panic!("nobody has heard it: {:?}", counts(&tools));
}

async fn a_conversation_with_an_id_is_kept_for_its_trace(backend: Backend) {
    let mut server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let forgets = Arc::new(AtomicBool::new(false));
    let forgetful = forgets.clone();
    let tools = Mock::start(Duration::ZERO, None, move |request| {
        let runs = request["method"] == "tools/call";
        if runs && forgetful.swap(false, Ordering::SeqCst) {
            let gone = json!({"jsonrpc": "2.0", "id": null,
                "error": {"code": -32001, "message": "Session not found"}});
            return Answer::json(404, &gone);
        }
        with_id(speak(request))
    })
    .await;
    let model = model().await;
    model.register(&owner, "mock").await;
    allow(&owner, 1, &tools).await;
    let first = key.trace().await;
    ask(&key, &first, &tools).await;
    ask(&key, &first, &tools).await;
    assert_eq!(counts(&tools), [1, 1, 2]);
    // The state a server keeps of one trace is not for another. Its list is.
    let second = key.trace().await;
    ask(&key, &second, &tools).await;
    assert_eq!(counts(&tools), [2, 1, 3]);
    // A call in a session that the server forgot was not done, and is done in a new conversation.
    forgets.store(true, Ordering::SeqCst);
    ask(&key, &second, &tools).await;
    assert_eq!(counts(&tools), [3, 1, 5]);
    let steps = key.detail(&second).await["steps"].clone();
    let failed = |step: &&Value| step["status"] == "failed";
    assert!(!steps.as_array().unwrap().iter().any(|step| failed(&step)), "{steps}");

    // Each is ended by a `DELETE`, also the one that was given up.
    let farewells = || {
        let requests = tools.requests();
        let of_session =
            requests.iter().filter(|asked| asked.headers.contains_key("mcp-session-id"));
        of_session.filter(|asked| asked.body.is_null()).count()
    };
    until("a good-bye", async || (farewells() == 1).then_some(())).await;
    server.stop().await;
    assert_eq!(farewells(), 3);
}
