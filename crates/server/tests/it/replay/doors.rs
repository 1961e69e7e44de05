//! Conversations that came in each format of a caller, as their provider and one of another format receive
//! them again.

use std::time::Duration;

use serde_json::{Value, json};

use super::{each, replay};
use crate::harness::{Answer, Backend, Caller, Mock, PICTURE, Server};

crate::on_every_backend!(each_format_leads_to_the_same_conversation, a_cache_stays_with_its_model,);

const QUESTION: &str = "What is it, and is it warm in Rome? Tell jane.doe@acme-example.org.";

/// A conversation with an instruction, a picture, a call of a tool and its result, in the format of each
/// endpoint: its path, whole and streamed, and its body.
fn conversation() -> [(&'static str, &'static str, Value); 4] {
    let data = format!("data:image/png;base64,{PICTURE}");
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let arguments = json!({"city": "Rome"});
    let written = arguments.to_string();
    let chat = json!({"model": "old", "max_tokens": 200, "temperature": 0.5,
        "tools": [{"type": "function", "function":
            {"name": "weather", "description": "Tells.", "parameters": schema}}],
        "messages": [{"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": QUESTION},
                {"type": "image_url", "image_url": {"url": data}}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "call_a",
                "type": "function", "function": {"name": "weather", "arguments": written}}]},
            {"role": "tool", "tool_call_id": "call_a", "content": "28 C"}]});
    let messages = json!({"model": "old", "max_tokens": 200, "temperature": 0.5, "system": "Be brief.",
        "tools": [{"name": "weather", "description": "Tells.", "input_schema": schema}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": QUESTION}, {"type": "image", "source":
                {"type": "base64", "media_type": "image/png", "data": PICTURE}}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "call_a", "name": "weather", "input": arguments}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "call_a", "content": "28 C"}]}]});
    let responses = json!({"model": "old", "max_output_tokens": 200, "temperature": 0.5,
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "weather", "description": "Tells.",
            "parameters": schema, "strict": false}],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": QUESTION},
                {"type": "input_image", "image_url": data, "detail": "auto"}]},
            {"type": "function_call", "call_id": "call_a", "name": "weather", "arguments": written},
            {"type": "function_call_output", "call_id": "call_a", "output": "28 C"}]});
    let gemini = json!({"generationConfig": {"maxOutputTokens": 200, "temperature": 0.5},
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations":
            [{"name": "weather", "description": "Tells.", "parameters": schema}]}],
        "contents": [
            {"role": "user", "parts": [{"text": QUESTION},
                {"inlineData": {"mimeType": "image/png", "data": PICTURE}}]},
            {"role": "model", "parts": [
                {"functionCall": {"id": "call_a", "name": "weather", "args": arguments}}]},
            {"role": "user", "parts": [{"functionResponse":
                {"id": "call_a", "name": "weather", "response": {"output": "28 C"}}}]}]});
    let old = "/gemini/v1beta/models/old";
    [
        ("/api/v1/chat/completions", "", chat),
        ("/api/v1/messages", "", messages),
        ("/api/v1/responses", "", responses),
        (old, "generateContent", gemini),
    ]
}

/// Sends the conversation through each format, whole and as a stream.
async fn converse(key: &Caller) {
    for (path, method, body) in conversation() {
        for streams in [false, true] {
            let mut body = body.clone();
            let path = match (method, streams) {
                ("", _) => {
                    body["stream"] = streams.into();
                    path.to_owned()
                }
                (method, false) => format!("{path}:{method}"),
                (_, true) => format!("{path}:streamGenerateContent?alt=sse"),
            };
            let reply = key.post(&path, &body).await;
            assert_eq!(reply.status, 200, "{path}: {}", reply.text);
            assert!(reply.text.contains("A warm dot"), "{path}: {}", reply.text);
        }
    }
}

async fn claude(owner: &Caller, identifier: &str) -> Mock {
    let answer = json!({"id": "m", "type": "message", "role": "assistant", "model": "c",
        "content": [{"type": "text", "text": "A warm dot."}], "stop_reason": "end_turn",
        "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 5}});
    let mock = Mock::always(Answer::json(200, &answer)).await;
    let config = json!({"provider": "anthropic", "is_public": false, "api_key": "k"});
    mock.register_with(owner, identifier, config).await;
    mock
}

/// The bodies of the requests since the last time, without members that differ in a stream.
fn taken(mock: &Mock) -> Vec<Value> {
    let mut bodies: Vec<Value> = mock.take().into_iter().map(|asked| asked.body).collect();
    for body in &mut bodies {
        let members = body.as_object_mut().unwrap();
        members.retain(|name, _| name != "stream" && name != "stream_options");
    }
    bodies
}

async fn each_format_leads_to_the_same_conversation(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let old = Mock::start(Duration::ZERO, Some((10, 5)), |_| Answer::text("A warm dot.")).await;
    old.register(&owner, "old").await;
    let new = claude(&owner, "new").await;
    let trace = server.key().trace().await;
    let key = server.key().with("x-trace-id", &trace).with("x-sluice-session", "replayed");
    converse(&key).await;
    let asked = taken(&old);
    assert_eq!(asked.len(), 8);
    let first = &asked[0]["messages"];
    let question = first[1]["content"][0]["text"].as_str().unwrap();
    assert!(question.contains("Tell [EMAIL_1_") && !question.contains("jane"), "{question}");
    for body in &asked {
        for (message, expected) in
            std::iter::zip(body["messages"].as_array().unwrap(), first.as_array().unwrap())
        {
            for member in ["role", "tool_call_id"] {
                assert_eq!(message[member], expected[member], "{body}");
            }
        }
    }

    // The same model gets each as it got it, one by one, streams as a whole.
    let job = replay(&server.key(), &trace, &json!({})).await;
    assert_eq!(taken(&old), asked);
    assert_eq!(each(&job["comparison"]["replay"]["steps"], "similarity"), [1.0; 8]);

    // A model of another format gets the same eight times.
    replay(&server.key(), &trace, &json!({"force_model": "new"})).await;
    let expected = json!({"model": "new", "max_tokens": 200, "temperature": 0.5,
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "weather", "description": "Tells.", "input_schema":
            {"type": "object", "properties": {"city": {"type": "string"}}}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": question}, {"type": "image", "source":
                {"type": "base64", "media_type": "image/png", "data": PICTURE}}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "call_a",
                "name": "weather", "input": {"city": "Rome"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_a",
                "content": "28 C"}]}]});
    let sent = taken(&new);
    assert_eq!(sent.len(), 8);
    for (at, sent) in sent.iter().enumerate() {
        assert_eq!(sent, &expected, "conversation {at}");
    }
}

async fn a_cache_stays_with_its_model(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let (old, new) = (claude(&owner, "old").await, claude(&owner, "new").await);
    let trace = server.key().trace().await;
    let key = server.key().with("x-trace-id", &trace);
    let cached = |text: &str| json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]);
    let alone = json!([{"role": "user", "content": cached("Here is a long document.")}]);
    let after = json!([{"role": "user", "content": cached("Here is a long document.")},
        {"role": "assistant", "content": "I have read it."},
        {"role": "user", "content": "Is it long?"}]);
    for messages in [alone, after] {
        let ask = json!({"model": "old", "max_tokens": 200, "messages": messages});
        key.post("/api/v1/messages", &ask).await.ok(200);
    }
    let mut asked = taken(&old);
    for body in &asked {
        assert_eq!(body.to_string().matches("cache_control").count(), 1, "{body}");
    }
    replay(&server.key(), &trace, &json!({})).await;
    assert_eq!(taken(&old), asked);
    replay(&server.key(), &trace, &json!({"force_model": "new"})).await;
    for body in &mut asked {
        body["model"] = "new".into();
        let block = &mut body["messages"][0]["content"][0];
        block.as_object_mut().unwrap().remove("cache_control");
    }
    assert_eq!(taken(&new), asked);
}
