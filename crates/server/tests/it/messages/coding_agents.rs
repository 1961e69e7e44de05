//! Requests as coding agents send them, to models of other vendors.

use serde_json::json;

use crate::harness::{Answer, Backend, Mock, Server};

crate::on_every_backend!(what_does_no_harm_is_left_out_and_named, a_document_is_screened);

const DOOR: &str = "/api/v1/messages";

async fn what_does_no_harm_is_left_out_and_named(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let mock = Mock::always(Answer::text("Fine.")).await;
    mock.register(&server.owner().await, "gpt-4o").await;
    let mut ask = json!({"model": "gpt-4o", "max_tokens": 32_000, "trace_id": key.trace().await,
        "thinking": {"type": "enabled", "budget_tokens": 31_999},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "tools": [{"type": "web_search_20250305", "name": "web_search"},
            {"name": "read", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "Hello."}]});
    let agent = key.with("anthropic-beta", "interleaved-thinking-2025-05-14");
    for streams in [false, true] {
        ask["stream"] = streams.into();
        let reply = agent.post(DOOR, &ask).await;
        let dropped =
            "context_management, tools[0] (web_search_20250305), anthropic-beta, thinking";
        assert_eq!(reply.header("x-sluice-dropped-params"), dropped);
        if !streams {
            let text = json!([{"type": "text", "text": "Fine."}]);
            assert_eq!(reply.ok(200)["content"], text, "the vendor's package refuses a null");
        }
        let sent = mock.last();
        for name in ["thinking", "context_management", "reasoning_effort"] {
            assert_eq!(sent.get(name), None, "{name}");
        }
        assert_eq!(sent["tools"].as_array().unwrap().len(), 1);
    }
    ask["mcp_servers"] = json!([{"type": "url", "url": "https://a.example", "name": "a"}]);
    let refused = agent.post(DOOR, &ask).await;
    assert_eq!(refused.ok(422)["error"]["message"], "mcp_servers is not supported");
}

async fn a_document_is_screened(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let mock = Mock::always(Answer::text("Fine.")).await;
    mock.register(&server.owner().await, "m").await;
    // "Write to jane.doe@acme.org today." in base64, and as it is.
    let coded = json!({"type": "base64", "media_type": "text/plain",
        "data": "V3JpdGUgdG8gamFuZS5kb2VAYWNtZS5vcmcgdG9kYXku"});
    let plain = json!({"type": "text", "media_type": "text/plain",
        "data": "Write to jane.doe@acme.org today."});
    for source in [coded, plain] {
        let ask = json!({"model": "m", "max_tokens": 50, "trace_id": key.trace().await,
            "messages": [{"role": "user", "content": [
                {"type": "document", "source": source}, {"type": "text", "text": "Sum it up."}]}]});
        key.post(DOOR, &ask).await.ok(200);
        let sent = mock.last()["messages"][0]["content"][0]["text"].clone();
        let sent = sent.as_str().unwrap();
        assert!(sent.starts_with("Write to [EMAIL_1_") && sent.ends_with(" today."), "{sent}");
    }
}
