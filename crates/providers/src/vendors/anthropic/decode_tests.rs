use serde_json::json;

use super::*;
use crate::chat_form::STATE;
use crate::error::{ErrorDetails, ErrorKind};
use crate::testing::model;

fn decoded(answer: &Value) -> Result<Reply, Error> {
    decode(&model(Provider::Anthropic, None), answer.to_string().as_bytes())
}

fn answer(content: Value, stop_reason: &str) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-real",
        "content": content, "stop_reason": stop_reason, "stop_sequence": null,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 3,
            "cache_read_input_tokens": 5, "output_tokens": 7, "service_tier": "standard",
            "output_tokens_details": {"thinking_tokens": 4}},
    })
}

fn message(reply: &Reply) -> &Value {
    &reply.native.as_ref().unwrap()["choices"][0]["message"]
}

#[test]
fn text_becomes_a_reply() {
    let blocks = json!([{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo é🙂"}]);
    let reply = decoded(&answer(blocks, "end_turn")).unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("Hello é🙂", Some(FinishReason::Stop)));
    assert_eq!(reply.upstream_model.as_deref(), Some("claude-real"));
    let usage = Usage {
        prompt: 18,
        cached: 5,
        cache_write: 3,
        completion: 7,
        reasoning: 4,
        open: unsplit(3),
        ..Usage::default()
    };
    assert_eq!(reply.usage, Some(usage));
    assert!(reply.native.is_none());
}

#[test]
fn calls_and_thoughts_are_in_the_native_form() {
    let blocks = json!([
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "opaque"},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"b": 1, "a": [1.0]}},
        {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}},
        {"type": "of_tomorrow"},
    ]);
    let reply = decoded(&answer(blocks.clone(), "tool_use")).unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("", Some(FinishReason::ToolCalls)));
    let kept = json!([blocks[0], blocks[1], blocks[3], blocks[4], blocks[5]]);
    assert_eq!(
        message(&reply),
        &json!({
            "role": "assistant", "content": null, "refusal": null, "reasoning_content": "Hm.",
            "tool_calls": [
                {"id": "toolu_1", "type": "function",
                    "function": {"name": "f", "arguments": r#"{"b":1,"a":[1.0]}"#}},
                {"id": "toolu_2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ],
            STATE: {"provider": "anthropic", "model": "gpt-test", "content": kept},
        }),
    );
    let plain = json!([{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]);
    assert!(message(&decoded(&answer(plain, "tool_use")).unwrap()).get(STATE).is_none());
}

#[test]
fn every_reason_to_stop_is_known() {
    for (word, reason) in [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("pause_turn", FinishReason::Stop),
        ("of_tomorrow", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("tool_use", FinishReason::ToolCalls),
        ("refusal", FinishReason::ContentFilter),
    ] {
        assert_eq!(decoded(&answer(json!([]), word)).unwrap().finish, Some(reason), "{word}");
    }
    assert_eq!(finish("end_turn", true), Some(FinishReason::ToolCalls));
    let mut refused = answer(json!([]), "refusal");
    assert!(decoded(&refused).unwrap().native.is_none());
    refused["stop_details"] =
        json!({"type": "refusal", "category": "cyber", "explanation": "Not this."});
    let reply = decoded(&refused).unwrap();
    assert_eq!(message(&reply)["refusal"], "Not this.");
    assert_eq!(message(&reply)["stop_details"], refused["stop_details"]);
    assert_eq!(reply.native.as_ref().unwrap()["choices"][0]["finish_reason"], "content_filter");
    refused["stop_details"]["explanation"] = json!(null);
    let reply = decoded(&refused).unwrap();
    assert_eq!(message(&reply)["refusal"], json!(null));
    assert_eq!(message(&reply)["stop_details"]["category"], "cyber");
}

#[test]
fn counts_are_replaced_not_added() {
    let counts = Counts::default().with(&json!({"input_tokens": 9, "output_tokens": 1,
        "cache_read_input_tokens": 2, "cache_creation_input_tokens": 1}));
    let counts = counts.with(&json!({"input_tokens": null, "output_tokens": 15}));
    let usage = Usage {
        prompt: 12,
        cached: 2,
        cache_write: 1,
        completion: 15,
        reasoning: 0,
        open: unsplit(1),
        ..Usage::default()
    };
    assert_eq!(counts.usage(), Some(usage));
    assert_eq!(Counts::default().with(&json!({"service_tier": "x"})).usage(), None);
    let odd = json!({"input_tokens": -1, "output_tokens": 9,
        "output_tokens_details": {"thinking_tokens": 10}});
    let usage = Counts::default().with(&odd).usage().unwrap();
    assert_eq!((usage.prompt, usage.completion, usage.reasoning), (0, 9, 9));
    for name in ["input_tokens", "output_tokens", "cache_read_input_tokens"] {
        assert_eq!(counts.with(&json!({name: 1e300})).usage(), None, "{name}");
    }
}

#[test]
fn what_is_of_no_use_is_paid_for_as_told() {
    let call = json!([{"type": "tool_use", "id": "a", "name": "f", "input": "{}"}]);
    let error = decoded(&answer(call, "tool_use")).unwrap_err();
    let usage = Usage {
        prompt: 18,
        cached: 5,
        cache_write: 3,
        completion: 7,
        reasoning: 4,
        open: unsplit(3),
        ..Usage::default()
    };
    assert_eq!((error.usage(), error.may_be_charged()), (Some(usage), false));
}

#[test]
fn errors_are_of_the_kind_that_their_type_says() {
    for (kind, status) in [
        ("invalid_request_error", Some(400)),
        ("authentication_error", Some(401)),
        ("permission_error", Some(403)),
        ("not_found_error", Some(404)),
        ("request_too_large", Some(413)),
        ("overloaded_error", None),
        ("rate_limit_error", None),
        ("api_error", None),
    ] {
        let said = json!({"type": "error", "error": {"type": kind, "message": "Not so."}});
        let error = decoded(&said).unwrap_err();
        let message = "Not so.".to_owned();
        let rejected = |status| ErrorKind::Rejected { status, message };
        assert_eq!(error.kind, status.map_or(ErrorKind::Unreachable, rejected), "{kind}");
        assert_eq!(
            (error.provider_status(), error.is_endpoint_fault()),
            (status, status.is_none())
        );
        assert!(error.to_string().contains("Not so."), "{error}");
    }
}

#[test]
fn what_is_no_answer_is_a_fault() {
    for (body, says) in [
        ("<html>", "malformed"),
        ("[]", "malformed"),
        ("{}", "no content"),
        (r#"{"content":"text"}"#, "no content"),
        (r#"{"content":[{"type":"tool_use","id":"a"}]}"#, "no id or no name"),
        (r#"{"content":[{"type":"tool_use","id":"a","name":"f","input":"{}"}]}"#, "no object"),
        (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, "Over"),
        (r#"{"type":"error"}"#, "answered with an error"),
        (r#"{"content":["#, "malformed"),
    ] {
        let error = decode(&model(Provider::Anthropic, None), body.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(says), "{body}: {error}");
        assert!(error.is_endpoint_fault() && !error.retryable_here() && error.fallback_helps());
    }
}

/// The vendor's own status for an overload; it cannot have charged.
#[test]
fn an_overload_may_be_tried_again() {
    let said = ErrorDetails { message: Some("Overloaded".to_owned()), ..ErrorDetails::default() };
    let error = Error::status(529, said, None);
    assert!(error.retryable_here() && error.is_endpoint_fault() && error.fallback_helps());
    assert_eq!(error.provider_status(), Some(529));
}

/// Cache writes for an unknown time.
fn unsplit(cache_write: u64) -> domain::usage::Open {
    domain::usage::Open { cache_write, ..Default::default() }
}
