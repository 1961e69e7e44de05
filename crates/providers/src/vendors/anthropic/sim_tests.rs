//! Against the simulator, which judges with the vendor's own SDK types.

use domain::conversation::Body;
use domain::model::Provider;
use domain::step::FinishReason;
use domain::usage::Usage;
use serde_json::json;

use crate::error::ErrorKind;
use crate::sim_testing::{Sim, prompt, tools};

const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlE\
    QVR42mNgAAIAAAUAAeImBZsAAAAASUVORK5CYII=";

#[tokio::test]
async fn the_vendor_finds_no_fault() {
    let Some(sim) = Sim::find(Provider::Anthropic) else { return };
    let model = sim.model("claude-sonnet-4-5", "sk-ant-sim-key", &sim.base_url());

    // Text, turns, usage, parameters, images.
    let usage = json!({"input": 20, "output": 9, "cached": 5, "cache_write": 3, "reasoning": 2});
    sim.script(json!([{"text": "Grüße 🙂", "usage": usage, "split_bytes": 1},
        {"text": "Grüße 🙂", "usage": usage, "split_bytes": 1}]));
    let params = json!({
        "temperature": 0.2, "top_k": 5, "stop": "END", "user": "u-1", "seed": 1,
        "tools": tools(), "tool_choice": "required", "parallel_tool_calls": false,
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema":
            {"type": "object", "properties": {"a": {"type": "string"}},
                "additionalProperties": false}}},
    });
    let said = [
        ("system", "Be brief."),
        ("developer", "Be kind."),
        ("user", "One"),
        ("assistant", "Two"),
        ("user", "Three"),
        ("user", "Four"),
    ];
    let mut ask = prompt(&said, &params);
    ask.messages[2].body = Body::Parts(vec![
        json!({"type": "text", "text": "Look", "cache_breakpoint": "1h"}),
        json!({"type": "image_url", "image_url": {"url": PIXEL}}),
        json!({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}),
    ]);
    ask.messages[0].extra.insert("cache_breakpoint".to_owned(), json!("5m"));
    let reply = sim.complete(&model, &ask).await.unwrap();
    let heard = sim.stream(&model, &ask).await.unwrap();
    let usage = Usage {
        prompt: 20,
        cached: 5,
        cache_write: 3,
        completion: 9,
        reasoning: 2,
        ..Usage::default()
    };
    assert_eq!((&*reply.text, &*heard.text), ("Grüße 🙂", "Grüße 🙂"));
    assert_eq!((reply.usage, heard.usage), (Some(usage), Some(usage)));
    assert_eq!(reply.dropped, ["seed"]);
    assert_eq!(sim.violations(), json!([]));

    // Rounds of tools, with and without thoughts.
    let rounds = json!([
        {"parts": [{"thinking": "Hm."}, {"text": "I look."},
            {"tool": {"name": "weather", "arguments": {"city": "Rome é"}}},
            {"tool": {"name": "now", "arguments": {}}}]},
        {"parts": [{"thinking": "So."}, {"tool": {"name": "now", "arguments": {}}}]},
        {"text": "It is so."},
    ]);
    let thinking = json!({"type": "enabled", "budget_tokens": 1024});
    sim.chain(&model, &json!({"tools": tools(), "thinking": thinking}), &rounds).await;
    let rounds = json!([
        {"tool_calls": [{"name": "weather", "arguments": {"city": "Oslo"}}]},
        {"text": "It is so."},
    ]);
    sim.chain(&model, &json!({"tools": tools(), "tool_choice": "auto"}), &rounds).await;

    // Every reason to stop.
    for (answer, finish) in [
        (json!({"text": "a", "stop": "length"}), FinishReason::Length),
        (json!({"text": "a", "stop": "stop_sequence"}), FinishReason::Stop),
        (json!({"text": "a", "raw_stop": "pause_turn"}), FinishReason::Stop),
        (json!({"text": "a", "raw_stop": "model_context_window_exceeded"}), FinishReason::Length),
        (json!({"refusal": "No.", "stop": "refusal"}), FinishReason::ContentFilter),
        (json!({"empty": true}), FinishReason::Stop),
    ] {
        sim.script(json!([answer, answer]));
        let ask = prompt(&[("user", "One")], &json!({}));
        let reply = sim.complete(&model, &ask).await.unwrap();
        let heard = sim.stream(&model, &ask).await.unwrap();
        assert_eq!((reply.finish, heard.finish), (Some(finish), Some(finish)), "{answer}");
        assert!(heard.error.is_none(), "{answer}");
    }
    failures_are_told_apart(&sim).await;
    assert_eq!(sim.violations(), json!([]));
}

async fn failures_are_told_apart(sim: &Sim) {
    let model = sim.model("claude-sonnet-5", "sk-ant-sim-key", &(sim.base_url() + "/v1/"));
    let ask = prompt(&[("user", "Fail")], &json!({}));
    for (kind, status, retryable) in [
        ("overloaded", 529, true),
        ("rate_limit", 429, true),
        ("server", 500, true),
        ("auth", 401, false),
        ("quota", 402, false),
        ("context", 400, false),
    ] {
        sim.script(json!([{"error": {"kind": kind}}]));
        let error = sim.complete(&model, &ask).await.unwrap_err();
        assert_eq!((error.provider_status(), error.retryable_here()), (Some(status), retryable));
        assert_eq!(matches!(error.kind, ErrorKind::Rejected { .. }), !retryable, "{kind}");
    }
    for how in ["error_event", "eof", "truncate", "reset"] {
        sim.script(json!([{"text": "A longer answer", "fail_after": 5, "fail_how": how}]));
        let heard = sim.stream(&model, &ask).await.unwrap();
        assert!(heard.error.is_some() && heard.finish.is_none(), "{how}: {heard:?}");
    }
    sim.script(json!([{"malformed": true}]));
    assert!(sim.complete(&model, &ask).await.unwrap_err().to_string().contains("malformed"));
}
