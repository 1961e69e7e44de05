//! Models that do not speak the chat-completions format, behind an endpoint that does.

use serde_json::json;

use crate::harness::{Answer, Backend, Mock, Server};

crate::on_every_backend!(
    a_model_of_another_format,
    a_history_in_the_legacy_form,
    a_parameter_that_a_model_has_not,
);

async fn a_model_of_another_format(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::json(
        200,
        &json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-real",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}},
            ],
            "stop_reason": "tool_use", "stop_sequence": null,
            "usage": {"input_tokens": 1000, "output_tokens": 100},
        }),
    ))
    .await;
    let more = json!({"provider": "anthropic", "is_public": false, "api_key": "sk-ant-x"});
    mock.register_with(&owner, "claude", more).await;
    let trace = key.trace().await;
    let tool = json!({"type": "function", "function": {"name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}});
    let ask = json!({
        "model": "claude", "trace_id": trace, "seed": 7, "tools": [tool],
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Rome?"}],
    });
    let reply = key.post("/api/v1/chat/completions", &ask).await;
    assert_eq!(reply.header("x-sluice-dropped-params"), "seed");
    let answer = reply.ok(200);
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!((&call["id"], &call["function"]["name"]), (&json!("toolu_1"), &json!("weather")));
    assert_eq!(call["function"]["arguments"], r#"{"city":"Rome"}"#);
    assert_eq!(answer["usage"]["prompt_tokens"], 1000);

    let asked = mock.requests().pop().unwrap();
    assert_eq!(asked.headers["x-api-key"], "sk-ant-x");
    assert_eq!(asked.headers["anthropic-version"], "2023-06-01");
    assert!(asked.body["max_tokens"].is_u64(), "{}", asked.body);
    assert!(asked.body["system"].to_string().contains("Be brief."), "{}", asked.body);
    assert_eq!(asked.body["tools"][0]["input_schema"]["type"], "object");

    let step = &key.detail(&trace).await["steps"][0];
    // 1,000 tokens at 0.15 and 100 at 0.6 a thousand.
    assert_eq!(step["cost"], 0.21);
}

/// The form from before a model could make several calls at a time.
async fn a_history_in_the_legacy_form(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let answer = json!({"id": "m", "type": "message", "role": "assistant", "model": "c",
        "content": [{"type": "text", "text": "Warm."}], "stop_reason": "end_turn",
        "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 5}});
    let claude = Mock::always(Answer::json(200, &answer)).await;
    let config = json!({"provider": "anthropic", "is_public": false});
    claude.register_with(&owner, "claude", config).await;
    let gpt = Mock::always(Answer::text("Warm.")).await;
    gpt.register(&owner, "gpt").await;
    for model in ["claude", "gpt"] {
        let ask = json!({"model": model, "trace_id": key.trace().await, "messages": [
            {"role": "user", "content": "Rome?"},
            {"role": "assistant", "content": null,
                "function_call": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}},
            {"role": "function", "name": "weather", "content": "28 C"}]});
        key.post("/api/v1/chat/completions", &ask).await.ok(200);
    }
    let sent = claude.last();
    assert_eq!(sent["messages"][1]["content"][0]["input"], json!({"city": "Rome"}), "{sent}");
    let (call, result) = (&sent["messages"][1]["content"][0], &sent["messages"][2]["content"][0]);
    assert_eq!((&result["tool_use_id"], &result["content"]), (&call["id"], &json!("28 C")));
    let sent = gpt.last();
    let (call, result) = (&sent["messages"][1]["tool_calls"][0], &sent["messages"][2]);
    assert_eq!((&result["role"], &result["tool_call_id"]), (&json!("tool"), &call["id"]), "{sent}");
}

async fn a_parameter_that_a_model_has_not(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("never")).await;
    for provider in ["anthropic", "gemini", "bedrock"] {
        let more = json!({"provider": provider, "is_public": false, "api_key": "k",
            "additional_config": {"region": "eu-central-1"}});
        mock.register_with(&owner, provider, more).await;
        let ask = json!({"model": provider, "trace_id": key.trace().await, "logit_bias": {"50256": -100},
            "messages": [{"role": "user", "content": "Hello."}]});
        let error = key.post("/api/v1/chat/completions", &ask).await.ok(422).to_string();
        assert!(error.contains("logit_bias") && error.contains(provider), "{error}");
    }
    assert_eq!(mock.begun(), 0);
}
