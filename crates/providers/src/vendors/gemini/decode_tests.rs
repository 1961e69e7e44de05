use domain::model::Provider;
use domain::usage::Usage;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing;

fn model() -> Model {
    Model { identifier: "gemini-3.1-pro".to_owned(), ..testing::model(Provider::Gemini, None) }
}

fn decoded(answer: &Value) -> Result<Reply, Error> {
    decode(&model(), answer.to_string().as_bytes())
}

fn candidate(parts: Value, reason: &str) -> Value {
    let content = json!({"parts": parts, "role": "model"});
    json!({
        "candidates": [{"content": content, "finishReason": reason, "index": 0}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
        "modelVersion": "gemini-real", "responseId": "yk3baLqP_x",
    })
}

fn message(reply: &Reply) -> &Value {
    &reply.native.as_ref().unwrap()["choices"][0]["message"]
}

#[test]
fn text_becomes_a_reply() {
    let reply = decoded(&candidate(json!([{"text": "Hel"}, {"text": "lo"}]), "STOP")).unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("Hello", Some(FinishReason::Stop)));
    assert_eq!(reply.upstream_model.as_deref(), Some("gemini-real"));
    assert_eq!(reply.usage, Some(Usage { prompt: 3, completion: 2, ..Usage::default() }));
    assert_eq!(reply.native, None);
}

#[test]
fn calls_thoughts_and_signatures_become_a_message() {
    let parts = json!([
        {"text": "Let me see.", "thought": true},
        {"text": "Wait."},
        {"functionCall": {"name": "f", "args": {"b": 1, "a": "é"}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "g", "id": "own-1"}},
        {"functionCall": {"name": "f", "args": {}}},
    ]);
    let reply = decoded(&candidate(parts.clone(), "STOP")).unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("Wait.", Some(FinishReason::ToolCalls)));
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    assert_eq!(
        *message(&reply),
        json!({
            "role": "assistant", "content": "Wait.", "refusal": null,
            "reasoning_content": "Let me see.",
            "tool_calls": [
                call("call_0_yk3baLqPx", "f", r#"{"b":1,"a":"é"}"#),
                call("own-1", "g", "{}"),
                call("call_2_yk3baLqPx", "f", "{}"),
            ],
            "provider_state": {"provider": "gemini", "model": "gemini-3.1-pro", "content": parts},
        }),
    );
}

#[test]
fn what_is_not_signed_is_not_kept() {
    let reply = decoded(&candidate(json!([{"functionCall": {"name": "f", "args": {}}}]), "STOP"));
    assert!(message(&reply.unwrap()).get("provider_state").is_none());
    let signed = json!([{"text": "a"}, {"text": ""}, {"text": "", "thoughtSignature": "c2ln"}]);
    let reply = decoded(&candidate(signed, "STOP")).unwrap();
    assert_eq!(
        message(&reply)["provider_state"]["content"],
        json!([{"text": "a"}, {"text": "", "thoughtSignature": "c2ln"}]),
    );
}

#[test]
fn every_reason_to_stop_is_known() {
    for (word, reason) in [
        ("STOP", FinishReason::Stop),
        ("MAX_TOKENS", FinishReason::Length),
        ("SAFETY", FinishReason::ContentFilter),
        ("RECITATION", FinishReason::ContentFilter),
        ("BLOCKLIST", FinishReason::ContentFilter),
        ("PROHIBITED_CONTENT", FinishReason::ContentFilter),
        ("SPII", FinishReason::ContentFilter),
        ("LANGUAGE", FinishReason::ContentFilter),
        ("MODEL_ARMOR", FinishReason::ContentFilter),
        ("IMAGE_SAFETY", FinishReason::ContentFilter),
        ("A_NEW_WORD", FinishReason::Stop),
    ] {
        let reply = decoded(&candidate(json!([{"text": "a"}]), word)).unwrap();
        assert_eq!(reply.finish, Some(reason), "{word}");
        let bare = json!({"candidates": [{"finishReason": word}]});
        assert_eq!(decoded(&bare).unwrap().finish, Some(reason), "{word}");
    }
    for word in [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
        "MALFORMED_RESPONSE",
        "OTHER",
    ] {
        let answer = json!({"candidates": [{"finishReason": word, "finishMessage": "oh"}]});
        let error = decoded(&answer).unwrap_err();
        assert_eq!(error.to_string(), format!("The model broke off: {word}: oh"));
        assert!(!error.is_endpoint_fault() && error.fallback_helps() && error.may_be_charged());
    }
    let calls = json!([{"functionCall": {"name": "f"}}]);
    let cut = decoded(&candidate(calls, "MAX_TOKENS")).unwrap();
    assert_eq!(cut.finish, Some(FinishReason::Length));
    let open = json!({"candidates": [{"content": {"parts": [{"text": "a"}]}}]});
    assert_eq!(decoded(&open).unwrap().finish, None);
}

#[test]
fn what_is_of_no_use_is_paid_for_as_told() {
    let metadata = json!({"promptTokenCount": 100, "cachedContentTokenCount": 60,
        "candidatesTokenCount": 20, "thoughtsTokenCount": 30});
    let usage = Usage {
        prompt: 100,
        cached: 60,
        cache_write: 0,
        completion: 50,
        reasoning: 30,
        ..Usage::default()
    };
    for mut answer in [
        json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}),
        json!({"candidates": [{"content": {"parts": [{"functionCall": {}}]}}]}),
        json!({"candidates": []}),
        json!({}),
        json!({"error": {"message": "overloaded"}}),
    ] {
        assert_eq!(decoded(&answer).unwrap_err().usage(), None, "{answer}");
        answer["usageMetadata"] = metadata.clone();
        let error = decoded(&answer).unwrap_err();
        assert_eq!(error.usage(), Some(usage), "{answer}");
        assert!(error.fallback_helps() && !error.endpoint_helps() && !error.may_be_charged());
    }
}

#[test]
fn half_a_character_spoils_no_answer() {
    let body = r#"{"candidates": [{"content": {"parts": [{"text": "a\ud83d"}]}}]}"#;
    assert_eq!(decode(&model(), body.as_bytes()).unwrap().text, "a\u{fffd}");
}

#[test]
fn a_blocked_prompt_is_a_refusal() {
    let answer = json!({
        "promptFeedback": {"blockReason": "JAILBREAK"},
        "usageMetadata": {"promptTokenCount": 4, "totalTokenCount": 4},
    });
    let reply = decoded(&answer).unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("", Some(FinishReason::ContentFilter)));
    assert_eq!(reply.usage, Some(Usage { prompt: 4, ..Usage::default() }));
    assert_eq!(message(&reply)["refusal"], "The provider blocked the prompt: JAILBREAK");
}

#[test]
fn usage_is_counted_as_it_is_billed() {
    let usage = |metadata: Value| decoded(&json!({"candidates": [{}], "usageMetadata": metadata}));
    for (metadata, counts) in [
        (
            json!({"promptTokenCount": 100, "cachedContentTokenCount": 60,
                "toolUsePromptTokenCount": 5, "candidatesTokenCount": 20, "thoughtsTokenCount": 30}),
            Some(Usage {
                prompt: 105,
                cached: 60,
                cache_write: 0,
                completion: 50,
                reasoning: 30,
                ..Usage::default()
            }),
        ),
        (
            json!({"promptTokenCount": 7, "thoughtsTokenCount": 3}),
            Some(Usage { prompt: 7, completion: 3, reasoning: 3, ..Usage::default() }),
        ),
        (json!({"totalTokenCount": 7}), None),
        (json!({"promptTokenCount": "many", "candidatesTokenCount": -1}), None),
        (json!({"promptTokenCount": 1_000_000_001, "candidatesTokenCount": 2}), None),
        (json!({"promptTokenCount": u64::MAX, "toolUsePromptTokenCount": u64::MAX}), None),
        (json!({"promptTokenCount": 1, "cachedContentTokenCount": 5_000_000_000_u64}), None),
        (json!(null), None),
    ] {
        assert_eq!(usage(metadata).unwrap().usage, counts);
    }
}

#[test]
fn what_is_no_answer_is_a_fault() {
    for (body, says) in [
        ("<html>", "malformed"),
        ("[]", "malformed"),
        ("{}", "no candidates"),
        (r#"{"candidates":[]}"#, "no candidates"),
        (r#"{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}"#, "overloaded"),
        (r#"{"candidates":[{"content":{"parts":[{"functionCall":{}}]}}]}"#, "no name"),
        (
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":[]}}]}}]}"#,
            "no object",
        ),
        (r#"{"candidates":[{"index":0,"#, "malformed"),
    ] {
        let error = decode(&model(), body.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(says), "{body}: {error}");
        assert!(error.is_endpoint_fault() && !error.retryable_here() && error.fallback_helps());
    }
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&model(), &bytes);
    }
}
