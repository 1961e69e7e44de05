//! What a provider receives of a call that is made again.

use std::time::Duration;

use serde_json::{Value, json};

use super::{each, replay, steps};
use crate::harness::{Answer, Backend, Mock, Server, call, settings};

crate::on_every_backend!(
    rounds_of_tools_are_sent_as_recorded,
    a_conversation_goes_out_as_it_went,
    bounds_and_parameters_stay,
);

/// A call of a tool, then an answer.
fn plan(asked: &Value) -> Answer {
    let has_results = asked["messages"].as_array().unwrap().iter().any(|m| m["role"] == "tool");
    if has_results {
        return Answer::text("It rains.");
    }
    let calls = json!([call("call_a", "weather", "{\"city\":\"Bonn\"}")]);
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls,
        "reasoning_content": "Let me see."});
    Answer::completion(&message, "tool_calls")
}

async fn rounds_of_tools_are_sent_as_recorded(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let old = Mock::start(Duration::ZERO, Some((10, 5)), plan).await;
    let new = Mock::start(Duration::ZERO, Some((10, 5)), plan).await;
    old.register(&owner, "old").await;
    new.register(&owner, "new").await;
    settings(&owner, 1, json!({"routing_tiers": {"simple": "old", "complex": "old"}})).await;
    let trace = key.trace().await;
    let tool = json!({"type": "function", "function": {"name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}});
    let ask = json!({"trace_id": trace, "input": "How is the weather in Bonn?", "tools": [tool]});
    let pending = key.post("/api/v1/executions", &ask).await.ok(200);
    let results = json!([{"tool_call_id": "call_a", "content": "rain, 8 C"}]);
    let answer = json!({"trace_id": trace, "input": "How is the weather in Bonn?",
        "parent_step_id": pending["step_id"], "tool_results": results});
    key.post("/api/v1/executions", &answer).await.ok(200);
    let asked = old.take();

    // The same model gets the very same, thoughts included.
    replay(&key, &trace, &json!({})).await;
    let again = old.take();
    for (again, asked) in std::iter::zip(&again, &asked) {
        assert_eq!(again.body, asked.body);
    }
    assert_eq!(again[1].body["messages"][1]["reasoning_content"], "Let me see.");

    // Another model gets the results of the record, and no thoughts of the first.
    let job = replay(&key, &trace, &json!({"force_model": "new"})).await;
    let sent = new.take();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].body["messages"], asked[0].body["messages"]);
    assert_eq!(sent[0].body["tools"], asked[0].body["tools"]);
    let mut expected = asked[1].body["messages"].clone();
    expected[1].as_object_mut().unwrap().remove("reasoning_content");
    assert_eq!(sent[1].body["messages"], expected);

    // Its steps hang together as those of the source do.
    let source = steps(&key, &json!(trace)).await;
    let made = steps(&key, &job["replay_trace_id"]).await;
    let kinds = |steps: &[Value]| steps.iter().map(|step| step["type"].clone()).collect::<Vec<_>>();
    assert_eq!(kinds(&made), ["run", "tool_call", "run"]);
    assert_eq!(kinds(&made), kinds(&source));
    for (child, parent) in std::iter::zip(&made[1..], &made) {
        assert_eq!(child["parent_step_id"], parent["id"]);
    }
    let sources: Vec<&Value> = made.iter().map(|step| &step["source_step_id"]).collect();
    assert_eq!(sources, [&source[0]["id"], &Value::Null, &source[2]["id"]]);
    assert_eq!(made[1]["output"], source[1]["output"]);
    let detail = key.detail(job["replay_trace_id"].as_str().unwrap()).await;
    assert_eq!(detail["summary"]["chain_depth"], 1);
}

async fn a_conversation_goes_out_as_it_went(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::start(Duration::ZERO, Some((10, 5)), |asked| {
        let last = asked["messages"].as_array().unwrap().last().unwrap();
        Answer::text(&format!("I wrote: {}", last["content"].as_str().unwrap()))
    })
    .await;
    mock.register(&owner, "old").await;
    mock.register(&owner, "new").await;
    let trace = key.trace().await;
    let messages = json!([{"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Write to jane.doe@acme-example.org about [EMAIL_1_12345678]."}]);
    for door in ["chat/completions", "messages"] {
        let mut body = json!({"trace_id": trace, "model": "old", "max_tokens": 50,
            "messages": messages});
        if door == "messages" {
            body["system"] = "Be brief.".into();
            body["messages"].as_array_mut().unwrap().remove(0);
        }
        let reply = key.post(&format!("/api/v1/{door}"), &body).await;
        reply.ok(200);
        assert!(reply.text.contains("jane.doe@acme-example.org"), "{}", reply.text);
    }
    let streamed = json!({"trace_id": trace, "model": "old", "messages": messages, "stream": true});
    key.post("/api/v1/chat/completions", &streamed).await.chunks();
    let asked: Vec<Value> =
        mock.take().iter().map(|asked| asked.body["messages"].clone()).collect();
    assert!(!asked[0].to_string().contains("jane.doe"), "it was redacted: {}", asked[0]);

    let job = replay(&key, &trace, &json!({"force_model": "new"})).await;
    let sent: Vec<Value> = mock.take().iter().map(|asked| asked.body["messages"].clone()).collect();
    assert_eq!(sent, asked);
    let source = steps(&key, &json!(trace)).await;
    let made = steps(&key, &job["replay_trace_id"]).await;
    for (made, source) in std::iter::zip(&made, &source) {
        for member in ["input", "output"] {
            assert_eq!(made[member], source[member]);
        }
    }
    assert_eq!(each(&job["comparison"]["replay"]["steps"], "skipped"), [&Value::Null; 3]);
}

async fn bounds_and_parameters_stay(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "old").await;
    mock.register(&owner, "new").await;
    let trace = key.trace().await;
    let schema = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {}}});
    let body = json!({"trace_id": trace, "model": "old", "max_tokens": 77, "temperature": 0.25,
        "seed": 5, "response_format": schema, "stop": ["END"],
        "messages": [{"role": "user", "content": "Go."}]});
    key.post("/api/v1/chat/completions", &body).await.ok(200);
    let asked = mock.take().remove(0).body;
    replay(&key, &trace, &json!({"force_model": "new"})).await;
    let mut sent = mock.take().remove(0).body;
    assert_eq!(sent["model"], "new");
    sent["model"] = "old".into();
    assert_eq!(sent, asked);
}
