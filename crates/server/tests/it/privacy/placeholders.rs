//! Placeholders of a session: the same value has the same one in all its requests, so that what a
//! provider has cached of a conversation still fits.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, settings};

crate::on_every_backend!(
    a_turn_begins_as_the_turn_before_it,
    a_session_has_placeholders_of_its_own,
    every_name_of_a_session_counts,
    a_conversation_of_tools_keeps_its_placeholders,
);

/// A provider that answers in the format of whoever asks.
async fn provider(owner: &Caller, vendor: &str) -> Mock {
    let answer = if vendor == "anthropic" {
        let answer = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "mock",
            "content": [{"type": "text", "text": "All right."}], "stop_reason": "end_turn",
            "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 5}});
        Answer::json(200, &answer)
    } else {
        Answer::text("All right.")
    };
    let mock = Mock::always(answer).await;
    mock.register_with(owner, vendor, json!({"is_public": false, "provider": vendor})).await;
    mock
}

/// Four turns, in which values are met in another order each time, and one that nobody has replaced
/// looks like a placeholder.
fn turns() -> Vec<&'static str> {
    vec![
        "Is [EMAIL_1_12345678] a placeholder?",
        "Write to zoe@acme.org and then to ann@acme.org.",
        "Now to ops@acme.org, and say that jane.doe@acme.org has asked.",
        "Call +49 30 901820 and read [EMAIL_2_87654321] to them.",
    ]
}

fn tools(described: &str) -> [Value; 2] {
    let description = format!("Commits. Sign as {described}.");
    let schema = json!({"type": "object",
        "properties": {"who": {"type": "string", "description": format!("Such as {described}")}}});
    let function = json!({"name": "commit", "description": description, "parameters": schema});
    [
        json!([{"type": "function", "function": function}]),
        json!([{"name": "commit", "description": description, "input_schema": schema}]),
    ]
}

async fn a_turn_begins_as_the_turn_before_it(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let system = "You work for ops@acme.org.";
    for vendor in ["openai", "anthropic"] {
        let mock = provider(&owner, vendor).await;
        for (door, described, system) in [
            ("chat/completions", "jane.doe@acme.org", system),
            ("messages", "jane.doe@acme.org", system),
            // Nothing is to be replaced before the second turn.
            ("chat/completions", "nobody", "Be brief."),
        ] {
            let [of_chat, of_messages] = tools(described);
            let mut messages = Vec::new();
            let mut sent: Vec<Value> = Vec::new();
            for said in turns() {
                messages.push(json!({"role": "user", "content": said}));
                // Every turn is a trace of its own, as agents have it.
                let trace = key.trace().await;
                let body = if door == "messages" {
                    json!({"trace_id": trace, "model": vendor, "max_tokens": 50, "system": system,
                        "messages": messages, "tools": of_messages})
                } else {
                    let mut all = vec![json!({"role": "system", "content": system})];
                    all.extend(messages.clone());
                    json!({"trace_id": trace, "model": vendor, "messages": all, "tools": of_chat})
                };
                let answer = key.post(&format!("/api/v1/{door}"), &body).await.ok(200);
                assert!(answer.to_string().contains("All right."), "{answer}");
                messages.push(json!({"role": "assistant", "content": "All right."}));
                let request = mock.last();
                let written = request.to_string();
                assert!(!written.contains("@acme.org"), "{written}");
                assert!(
                    !written.contains("_12345678"),
                    "what looks like one is replaced: {written}"
                );
                sent.push(request);
            }
            for pair in sent.windows(2) {
                begins_as(&pair[1], &pair[0]);
            }
        }
    }
}

/// Asserts that a request has the instructions and tools of the one before it, and its messages at the
/// beginning, byte by byte.
#[track_caller]
fn begins_as(later: &Value, earlier: &Value) {
    for field in ["tools", "system"] {
        assert_eq!(later[field].to_string(), earlier[field].to_string(), "{field}");
    }
    let written = |request: &Value| -> Vec<String> {
        request["messages"].as_array().unwrap().iter().map(Value::to_string).collect()
    };
    let (later, earlier) = (written(later), written(earlier));
    assert!(later.len() > earlier.len());
    assert_eq!(later[..earlier.len()], earlier[..]);
}

/// The placeholder in the last message that a provider got.
fn placeholder(mock: &Mock) -> String {
    let sent = mock.last();
    let text = sent["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    let start = text.find("[EMAIL_").unwrap_or_else(|| panic!("{text}"));
    text[start..=start + text[start..].find(']').unwrap()].to_owned()
}

async fn said(key: &Caller, more: Value) {
    let body = json!({"trace_id": key.trace().await, "model": "openai"});
    let body = with(
        with(body, json!({"messages": [{"role": "user", "content": "Mail ann@acme.org."}]})),
        more,
    );
    key.post("/api/v1/chat/completions", &body).await.ok(200);
}

fn with(mut body: Value, more: Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn a_session_has_placeholders_of_its_own(backend: Backend) {
    let mut server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = provider(&owner, "openai").await;
    let of = async |key: &Caller, session: &str, text: &str| {
        let message = json!([{"role": "user", "content": format!("{text} ann@acme.org.")}]);
        said(&key.with("x-sluice-session", session), json!({"messages": message})).await;
        placeholder(&mock)
    };
    let one = of(&key, "a", "Mail").await;
    assert_eq!(of(&key, "a", "Another text for").await, one);
    assert_ne!(of(&key, "b", "Mail").await, one);
    let made = owner.post("/api/v1/keys", &json!({"name": "other", "project_id": 1})).await;
    let other = server.with_key(made.ok(201)["raw_key"].as_str().unwrap());
    assert_ne!(of(&other, "a", "Mail").await, one, "a name is a key's own");
    // A conversation goes on after a restart.
    server.restart().await;
    assert_eq!(of(&key, "a", "Mail").await, one);
}

async fn every_name_of_a_session_counts(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = provider(&owner, "openai").await;
    let greeting =
        |text: &str| json!([{"role": "user", "content": format!("{text} ann@acme.org")}]);
    let user_id = |session: &str| format!(r#"{{"device_id":"d","session_id":"{session}"}}"#);
    let trace = json!({"metadata": {"session": "s"}});
    let mut placeholders = Vec::new();
    for text in ["Mail", "Call"] {
        let headers =
            ["x-sluice-session", "x-claude-code-session-id", "session-id", "x-session-id"];
        for name in headers {
            said(&key.with(name, "s"), json!({"messages": greeting(text)})).await;
            placeholders.push((placeholder(&mock), name));
        }
        said(&key, json!({"messages": greeting(text), "prompt_cache_key": "s"})).await;
        placeholders.push((placeholder(&mock), "prompt_cache_key"));
        for (id, place) in [
            (user_id("s"), "JSON in metadata.user_id"),
            ("user_1_account__session_s".to_owned(), "metadata.user_id"),
        ] {
            let body = json!({"trace_id": key.trace().await, "model": "openai", "max_tokens": 50,
                "messages": greeting(text), "metadata": {"user_id": id}});
            key.post("/api/v1/messages", &body).await.ok(200);
            placeholders.push((placeholder(&mock), place));
        }
        let trace = key.post("/api/v1/traces", &trace).await.ok(201);
        said(&key, json!({"messages": greeting(text), "trace_id": trace["id"]})).await;
        placeholders.push((placeholder(&mock), "the metadata of a trace"));
    }
    for (one, place) in &placeholders {
        assert_eq!(*one, placeholders[0].0, "{place}");
    }
    said(&key, json!({"messages": greeting("Mail")})).await;
    assert_ne!(placeholder(&mock), placeholders[0].0, "without a name, the conversation is one");
}

/// The rounds of an execution are requests of one trace.
async fn a_conversation_of_tools_keeps_its_placeholders(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::start(Duration::ZERO, Some((10, 5)), |request| {
        let messages = request["messages"].as_array().unwrap();
        if messages.iter().any(|message| message["role"] == "tool") {
            return Answer::text("Done.");
        }
        let call = crate::harness::call("a", "look", "{}");
        Answer::completion(
            &json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            "tool_calls",
        )
    })
    .await;
    mock.register(&owner, "mock").await;
    let tiers = json!({"simple": "mock", "complex": "mock", "secure": "mock"});
    let safety = json!({"secrets": {"action": "redact"}});
    settings(&owner, 1, json!({"routing_tiers": tiers, "safety": safety})).await;
    let trace = key.trace().await;
    let look = json!({"name": "look", "description": "Looks. Not with AKIAQ3EGRVXT7ZLNB5PD"});
    let tools = json!([{"type": "function", "function": look}]);
    let first = json!({"trace_id": trace, "input": "Use AKIAQ3EGRVXT7ZLNB5PD", "tools": tools});
    let first = key.post("/api/v1/executions", &first).await.ok(200);
    let results = json!([{"tool_call_id": "a", "content": "AKIAQ3EGRVXT7ZLNB5PX is new"}]);
    let second = json!({"trace_id": trace, "input": "Go on.",
        "parent_step_id": first["step_id"], "tool_results": results});
    key.post("/api/v1/executions", &second).await.ok(200);
    let sent: Vec<Value> = mock.take().into_iter().map(|asked| asked.body).collect();
    assert_eq!(sent.len(), 2);
    assert!(!sent[1].to_string().contains("AKIAQ3"), "{}", sent[1]);
    begins_as(&sent[1], &sent[0]);
}
