//! Providers that echo the key they were sent: it reaches nobody.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Reply, Server};

crate::on_every_backend!(
    a_provider_that_echoes_its_key_exposes_it_to_nobody,
    a_key_that_is_streamed_in_pieces_is_masked,
    a_key_in_an_error_is_masked,
);

const KEY: &str = "sk-canary-0123456789/abcdef+0123456789";

async fn a_provider_that_echoes_its_key_exposes_it_to_nobody(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let call = json!({"index": 0, "id": KEY, "type": "function",
        "function": {"name": "f", "arguments": json!({KEY: KEY}).to_string()}});
    let whole = json!({"id": KEY, "object": "chat.completion", "model": KEY, "system_fingerprint": KEY,
        KEY: KEY, "choices": [{"index": 0, "finish_reason": "stop", "message": {
            "role": "assistant", "content": format!("You sent {KEY}."), "refusal": null,
            "reasoning_content": KEY, "annotations": [{KEY: KEY}], "tool_calls": [call]}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, KEY: KEY}});
    let claude = json!({"id": KEY, "type": "message", "role": "assistant", "model": KEY,
        "content": [{"type": "thinking", "thinking": KEY, "signature": "s"},
            {"type": "text", "text": format!("You sent {KEY}.")},
            {"type": "tool_use", "id": KEY, "name": "f", "input": {KEY: KEY}}],
        "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 4}});
    let gemini = json!({"modelVersion": KEY, "responseId": KEY, "candidates": [{"index": 0,
        "finishReason": "STOP", "content": {"parts": [{"text": KEY, "thought": true},
            {"text": &KEY[..9]}, {"text": &KEY[9..]},
            {"functionCall": {"name": "f", "args": {KEY: KEY}}}]}}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}});
    let bedrock = json!({"output": {"message": {"role": "assistant", "content": [
        {"reasoningContent": {"reasoningText": {"text": KEY, "signature": "s"}}},
        {"text": &KEY[..9]}, {"text": &KEY[9..]},
        {"toolUse": {"toolUseId": KEY, "name": "f", "input": {KEY: KEY}}}]}},
        "stopReason": "tool_use", "usage": {"inputTokens": 3, "outputTokens": 4}});
    for (provider, body) in
        [("openai", whole), ("anthropic", claude), ("gemini", gemini), ("bedrock", bedrock)]
    {
        let mock = Mock::always(Answer::json(200, &body)).await;
        let config = json!({"is_public": false, "provider": provider, "api_key": KEY,
            "additional_config": {"region": "eu-central-1"}});
        mock.register_with(&owner, provider, config).await;
        let reply = ask_and_see_nothing(&key, provider, false).await;
        let answer = reply.ok(200);
        let said = answer["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(said.contains("***"), "{provider}: {answer}");
    }
    assert!(!server.log().contains(KEY));
}

async fn a_key_that_is_streamed_in_pieces_is_masked(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    for size in [1, 3, 7, 20, 60] {
        let said = format!("You sent {KEY}. Do not send {KEY}");
        for (provider, body) in [
            ("openai", echo_of_openai(&said, size)),
            ("anthropic", echo_of_claude(&said, size)),
            ("gemini", echo_of_gemini(&said, size)),
        ] {
            let mock = Mock::always(Answer::Body(200, "text/event-stream", body)).await;
            let name = format!("{provider}-cut-{size}");
            let config = json!({"is_public": false, "provider": provider, "api_key": KEY});
            mock.register_with(&owner, &name, config).await;
            let reply = ask_and_see_nothing(&key, &name, true).await;
            for place in ["/content", "/reasoning_content", "/tool_calls/0/function/arguments"] {
                if provider == "gemini" && place.starts_with("/tool") {
                    // Its calls come whole.
                    continue;
                }
                let heard: String = reply
                    .chunks()
                    .iter()
                    .filter_map(|chunk| {
                        let said = chunk["choices"][0]["delta"].pointer(place)?.as_str()?;
                        Some(said.to_owned())
                    })
                    .collect();
                assert_eq!(heard, "You sent ***. Do not send ***", "{name} {place}");
            }
        }
    }
    assert!(!server.log().contains(KEY));
}

async fn a_key_in_an_error_is_masked(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    // Errors with a status, and those within a stream.
    let said = json!({"error": {"message": format!("{KEY} is no key"), "type": KEY, "code": KEY}});
    for provider in ["openai", "anthropic", "gemini", "bedrock"] {
        for (number, status, kind) in [
            (1, 400, "application/json"),
            (2, 503, "application/json"),
            (3, 200, "text/event-stream"),
        ] {
            let body = if status == 200 { format!("data: {said}\n\n") } else { said.to_string() };
            let mock = Mock::always(Answer::Body(status, kind, body)).await;
            let name = format!("{provider}-error-{number}");
            let config = json!({"is_public": false, "provider": provider, "api_key": KEY,
                "additional_config": {"region": "eu-central-1"}});
            mock.register_with(&owner, &name, config).await;
            let trace = key.trace().await;
            let reply = ask_in(&key, &trace, &name, true).await;
            assert!(reply.text.contains("error"), "{name}: {}", reply.text);
            let detail = key.get(&format!("/api/v1/traces/{trace}")).await.text;
            assert!(detail.contains("failed"), "{name}: {detail}");
        }
    }
    assert!(!server.log().contains(KEY));
}

/// Asks a model in a trace of its own; neither the answer nor the trace may show the key, or a half.
async fn ask_and_see_nothing(key: &Caller, model: &str, streams: bool) -> Reply {
    let trace = key.trace().await;
    let reply = ask_in(key, &trace, model, streams).await;
    assert_eq!(reply.status, 200, "{model}: {}", reply.text);
    reply
}

async fn ask_in(key: &Caller, trace: &str, model: &str, streams: bool) -> Reply {
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    let body = json!({"trace_id": trace, "model": model, "stream": streams, "tools": tools,
        "messages": [{"role": "user", "content": "Hello."}]});
    let reply = key.post("/api/v1/chat/completions", &body).await;
    let detail = key.get(&format!("/api/v1/traces/{trace}")).await;
    for (place, text) in [("answer", &reply.text), ("trace", &detail.text)] {
        for part in [&KEY[..20], &KEY[20..]] {
            assert!(!text.contains(part), "{model}, {place}: {text}");
        }
    }
    reply
}

/// A stream in OpenAI's format with a text three times, in pieces.
fn echo_of_openai(said: &str, size: usize) -> String {
    let chunk = |delta: Value| {
        json!({"id": KEY, "model": KEY, "system_fingerprint": KEY,
            "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    };
    let mut events = Vec::new();
    for piece in pieces(said, size) {
        events.push(chunk(json!({"content": piece})));
        events.push(chunk(json!({"reasoning_content": piece})));
        let call = json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": piece}});
        events.push(chunk(json!({"tool_calls": [call]})));
    }
    events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    lines(&events) + "data: [DONE]\n\n"
}

/// The pieces of a text that are so many bytes long.
fn pieces(text: &str, size: usize) -> impl Iterator<Item = &str> {
    text.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).unwrap())
}

/// Events in the lines of a stream.
fn lines(events: &[Value]) -> String {
    let lines: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    lines.concat()
}

/// The same in Anthropic's.
fn echo_of_claude(said: &str, size: usize) -> String {
    let usage = json!({"input_tokens": 3, "output_tokens": 4});
    let mut events = vec![json!({"type": "message_start", "message":
        {"id": KEY, "type": "message", "role": "assistant", "model": KEY, "usage": usage}})];
    for (index, block, delta, member) in [
        (0, json!({"type": "thinking", "thinking": ""}), "thinking_delta", "thinking"),
        (1, json!({"type": "text", "text": ""}), "text_delta", "text"),
        (
            2,
            json!({"type": "tool_use", "id": KEY, "name": "f"}),
            "input_json_delta",
            "partial_json",
        ),
    ] {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.extend(pieces(said, size).map(|piece| {
            json!({"type": "content_block_delta", "index": index,
                "delta": {"type": delta, member: piece}})
        }));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": usage}),
    );
    events.push(json!({"type": "message_stop"}));
    lines(&events)
}

/// The same in Gemini's, with a call that comes whole.
fn echo_of_gemini(said: &str, size: usize) -> String {
    let event = |part: Value| {
        json!({"modelVersion": KEY, "responseId": KEY,
            "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]})
    };
    let thoughts = pieces(said, size).map(|piece| event(json!({"text": piece, "thought": true})));
    let texts = pieces(said, size).map(|piece| event(json!({"text": piece})));
    let mut events: Vec<Value> = thoughts.chain(texts).collect();
    let mut last = event(json!({"functionCall": {"name": "f", "args": {KEY: said}}}));
    last["candidates"][0]["finishReason"] = "STOP".into();
    last["usageMetadata"] = json!({"promptTokenCount": 3, "candidatesTokenCount": 4});
    events.push(last);
    lines(&events)
}
