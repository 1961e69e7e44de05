//! Replays of requests that went to their vendor as they came, with parts that no other model has.

use std::time::Duration;

use serde_json::{Value, json};

use super::replay;
use crate::harness::{Answer, Backend, Caller, Mock, Server};

crate::on_every_backend!(a_replay_names_what_it_does_without,);

const MESSAGES: &str = "/anthropic/v1/messages";
const RESPONSES: &str = "/openai/v1/responses";

/// A vendor of each of the two formats, as `claude` and `gpt`.
async fn vendors(owner: &Caller) -> [Mock; 2] {
    let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "c",
        "content": [{"type": "text", "text": "Fine."}], "stop_reason": "end_turn",
        "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 5}});
    let claude = Mock::always(Answer::json(200, &message)).await;
    let of_claude = json!({"provider": "anthropic", "is_public": false, "api_key": "k"});
    claude.register_with(owner, "claude", of_claude).await;
    let response = json!({"id": "resp_1", "object": "response", "created_at": 1,
        "status": "completed", "model": "g", "error": null, "incomplete_details": null,
        "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Fine.", "annotations": []}]}],
        "usage": {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15}});
    let gpt = Mock::start(Duration::ZERO, Some((10, 5)), move |body| {
        let is_translated = body.get("messages").is_some();
        if is_translated { Answer::text("Fine.") } else { Answer::json(200, &response) }
    })
    .await;
    let of_gpt =
        json!({"is_public": false, "api_key": "k", "additional_config": {"responses": true}});
    gpt.register_with(owner, "gpt", of_gpt).await;
    [claude, gpt]
}

async fn a_replay_names_what_it_does_without(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let [claude, gpt] = vendors(&owner).await;
    let plain = [
        (
            MESSAGES,
            json!({"model": "claude", "max_tokens": 50,
            "messages": [{"role": "user", "content": "Hello."}]}),
        ),
        (RESPONSES, json!({"model": "gpt", "max_output_tokens": 50, "input": "Hello."})),
    ];
    let more = [
        (
            json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}],
            "service_tier": "auto", "of_tomorrow": {"x": 1}}),
            json!(["of_tomorrow", "service_tier", "tools[0] (web_search_20250305)"]),
        ),
        (
            json!({"tools": [{"type": "web_search"}], "of_tomorrow": {"x": 1}}),
            json!(["of_tomorrow", "tools[0] (web_search)"]),
        ),
    ];
    for ((path, plain), (more, left_out)) in std::iter::zip(plain, more) {
        let mut full = plain.clone();
        full.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let trace = key.trace().await;
        let asking = key.with("x-trace-id", &trace);
        for body in [&plain, &full] {
            let reply = asking.post(path, body).await;
            assert_eq!(reply.status, 200, "{path}: {}", reply.text);
            assert_eq!(reply.header("x-sluice-mode"), "passthrough", "{path}");
        }
        let made = key.detail(&trace).await;
        let passed = &made["steps"][1]["passed"]["request"];
        assert_eq!(passed["tools"], more["tools"], "what a backtest prices is on record: {made}");
        let twice = ["messages", "input"].iter().find(|name| passed.get(**name).is_some());
        assert_eq!(twice, None, "the conversation is stored once: {made}");

        let (mock, begun) =
            if path == MESSAGES { (&claude, claude.begun()) } else { (&gpt, gpt.begun()) };
        let job = replay(&key, &trace, &json!({})).await;
        let steps = job["comparison"]["replay"]["steps"].as_array().unwrap();
        assert_eq!(steps.len(), 2, "{job}");
        assert_eq!(steps[0].get("left_out"), None, "{path}: {job}");
        assert_eq!(steps[1]["left_out"], left_out, "{path}: {job}");
        assert_eq!(steps[1]["similarity"], 1.0, "{path}: {job}");
        assert_eq!(mock.begun(), begun + 2, "{path}");
        let page = owner.get(&format!("/replays/{}", job["job_id"].as_str().unwrap())).await;
        let parts: Vec<&str> =
            left_out.as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect();
        let without = format!("Repeated without {}, which", parts.join(", "));
        for text in [without.as_str(), "Change in total"] {
            assert!(page.text.contains(text), "{path}: no {text} in {}", page.text);
        }
        assert_eq!(page.text.matches("Repeated without").count(), 1, "{path}: one of two calls");
        let sent: Vec<Value> =
            mock.requests().split_off(begun).into_iter().map(|asked| asked.body).collect();
        assert!(sent.iter().all(|body| body.get("tools").is_none()), "{path}: {sent:?}");
    }
}
