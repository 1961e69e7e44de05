use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing;

fn decoded(answer: &Value) -> Result<Reply, Error> {
    decode(&testing::model(Provider::Bedrock, None), answer.to_string().as_bytes())
}

fn answer(content: Value, reason: &str) -> Value {
    json!({
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": reason,
        "usage": {"inputTokens": 30, "outputTokens": 12, "totalTokens": 49,
            "cacheReadInputTokens": 5, "cacheWriteInputTokens": 2},
        "metrics": {"latencyMs": 275},
    })
}

#[test]
fn an_answer_becomes_a_reply() {
    let reply = decoded(&answer(json!([{"text": "Hi"}, {"text": " there"}]), "end_turn")).unwrap();
    assert_eq!(reply.text, "Hi there");
    assert_eq!(reply.finish, Some(FinishReason::Stop));
    let usage = Usage {
        prompt: 37,
        cached: 5,
        cache_write: 2,
        completion: 12,
        reasoning: 0,
        open: unsplit(2),
        ..Usage::default()
    };
    assert_eq!(reply.usage, Some(usage));
    assert!(reply.native.is_none() && reply.upstream_model.is_none());
}

#[test]
fn calls_and_thoughts_are_in_the_native_form() {
    let content = json!([
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig=="}}},
        {"reasoningContent": {"redactedContent": "AAEC"}},
        {"text": " "},
        {"text": "Let me see."},
        {"toolUse": {"toolUseId": "tooluse_1", "name": "weather", "input": {"b": 1, "a": [2]}}},
        {"toolUse": {"toolUseId": "tooluse_2", "name": "time", "input": {}}},
        {"toolUse": {"toolUseId": "s1", "name": "search", "input": {}, "type": "server_tool_use"}},
        {"citationsContent": {"content": [{"text": "cited"}], "citations": []}},
    ]);
    let reply = decoded(&answer(content.clone(), "tool_use")).unwrap();
    assert_eq!(reply.text, " Let me see.cited");
    assert_eq!(reply.finish, Some(FinishReason::ToolCalls));
    let message = &reply.native.as_ref().unwrap()["choices"][0]["message"];
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    assert_eq!(
        message["tool_calls"],
        json!([
            call("tooluse_1", "weather", r#"{"b":1,"a":[2]}"#),
            call("tooluse_2", "time", "{}")
        ])
    );
    assert_eq!(message["reasoning_content"], "hm");
    let mut kept = content;
    kept.as_array_mut().unwrap().remove(2);
    assert_eq!(
        message["provider_state"],
        json!({"provider": "bedrock", "model": "gpt-test", "content": kept})
    );
}

#[test]
fn thoughts_without_a_signature_are_not_sent_back() {
    let content =
        json!([{"reasoningContent": {"reasoningText": {"text": "hm"}}}, {"text": "Yes."}]);
    let reply = decoded(&answer(content, "end_turn")).unwrap();
    let message = &reply.native.as_ref().unwrap()["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "hm");
    assert!(message.get("provider_state").is_none());
}

#[test]
fn every_reason_to_stop_is_known() {
    for (word, reason) in [
        ("end_turn", Some(FinishReason::Stop)),
        ("stop_sequence", Some(FinishReason::Stop)),
        ("max_tokens", Some(FinishReason::Length)),
        ("model_context_window_exceeded", Some(FinishReason::Length)),
        ("tool_use", Some(FinishReason::ToolCalls)),
        ("guardrail_intervened", Some(FinishReason::ContentFilter)),
        ("content_filtered", Some(FinishReason::ContentFilter)),
        ("something_new", None),
    ] {
        assert_eq!(decoded(&answer(json!([]), word)).unwrap().finish, reason, "{word}");
    }
    for word in ["malformed_model_output", "malformed_tool_use"] {
        let error = decoded(&answer(json!([{"text": "x"}]), word)).unwrap_err();
        assert!(error.to_string().contains(word) && error.fallback_helps());
        assert!(!error.is_endpoint_fault() && !error.may_be_charged());
        let used = Usage {
            prompt: 37,
            cached: 5,
            cache_write: 2,
            completion: 12,
            reasoning: 0,
            open: unsplit(2),
            ..Usage::default()
        };
        assert_eq!(error.usage(), Some(used));
    }
    let call = json!([{"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}]);
    assert_eq!(decoded(&answer(call, "end_turn")).unwrap().finish, Some(FinishReason::ToolCalls));
}

#[test]
fn what_is_no_answer_is_a_fault() {
    let model = testing::model(Provider::Bedrock, None);
    for (body, says) in [
        ("<html>", "malformed"),
        ("[]", "malformed"),
        ("{}", "no message"),
        (r#"{"message":"too busy"}"#, "too busy"),
        (r#"{"output":{"message":{"content":"x"}}}"#, "no message"),
        (r#"{"output":{"message":{"content":[{"toolUse":{"name":"f"}}]}}}"#, "no id"),
    ] {
        let error = decode(&model, body.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(says), "{body}: {error}");
        assert!(error.is_endpoint_fault() && !error.retryable_here());
    }
    for usage in [
        json!({"inputTokens": -1}),
        json!({"inputTokens": u64::MAX, "outputTokens": 1, "cacheReadInputTokens": 1}),
        json!({"inputTokens": 1, "outputTokens": 1_000_000_001}),
    ] {
        let unmetered = json!({"output": {"message": {"content": []}}, "usage": usage});
        assert_eq!(decoded(&unmetered).unwrap().usage, None);
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in any::<Vec<u8>>()) {
        let _ = decode(&testing::model(Provider::Bedrock, None), &bytes);
    }
}

/// Cache writes for an unknown time.
fn unsplit(cache_write: u64) -> domain::usage::Open {
    domain::usage::Open { cache_write, ..Default::default() }
}

#[test]
fn cache_writes_are_split_by_how_long_they_are_kept() {
    let told = |details: Value, written: Value| {
        let usage = json!({"inputTokens": 1, "outputTokens": 2, "totalTokens": 3,
            "cacheWriteInputTokens": written, "cacheDetails": details});
        let read = super::usage(&usage).unwrap();
        (read.cache_write, read.cache_write_1h, read.open.cache_write, read.open.is_doubtful())
    };
    let kept = |ttl: &str, tokens: Value| json!({"ttl": ttl, "inputTokens": tokens});
    let both = json!([kept("5m", json!(60)), kept("1h", json!(30)), kept("1h", json!(10))]);
    assert_eq!(told(both, json!(100)), (100, 40, 0, false));
    assert_eq!(told(json!(null), json!(100)), (100, 0, 100, false));
    assert_eq!(told(json!([kept("2h", json!(100))]), json!(100)), (100, 100, 0, false));
    assert_eq!(told(json!([kept("1h", json!("9"))]), json!(100)), (100, 0, 100, true));
    assert_eq!(told(json!([kept("1h", json!(900))]), json!(100)), (100, 100, 0, true));
    assert_eq!(told(json!("x"), json!(100)), (100, 0, 100, false));
}

#[test]
fn a_count_that_makes_no_sense_leaves_its_half_open() {
    for (usage, counts, open) in [
        (json!({"inputTokens": 9, "outputTokens": "2"}), (9, 0), (false, true)),
        (json!({"inputTokens": -9, "outputTokens": 2}), (0, 2), (true, false)),
        (
            json!({"inputTokens": 9, "outputTokens": 2, "cacheReadInputTokens": [1]}),
            (9, 2),
            (true, false),
        ),
    ] {
        let read = super::usage(&usage).unwrap();
        assert_eq!((read.prompt, read.completion), counts, "{usage}");
        assert_eq!((read.open.prompt, read.open.completion), open, "{usage}");
    }
    assert_eq!(super::usage(&json!([1, 2])), None);
}
