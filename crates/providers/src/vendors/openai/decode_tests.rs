use domain::fees::Extras;
use domain::step::FinishReason;
use domain::usage::Usage;
use serde_json::json;

use super::*;

fn decoded(answer: &Value) -> Result<Reply, Error> {
    decode(answer.to_string().as_bytes())
}

#[test]
fn an_answer_becomes_a_reply() {
    let answer = json!({
        "id": "x", "object": "chat.completion", "model": "gpt-real",
        "choices": [
            {"index": 1, "message": {"role": "assistant", "content": "second"}, "finish_reason": "length"},
            {"index": 0, "message": {"role": "assistant", "content": "first"}, "finish_reason": "stop"},
        ],
        "usage": {
            "prompt_tokens": 10, "completion_tokens": 4.0, "total_tokens": 14,
            "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": null},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
        "service_tier": "default",
    });
    let reply = decoded(&answer).unwrap();
    let mut extras = Extras::NONE;
    extras.surcharges[Surcharge::Priority] = Some(false);
    assert_eq!(reply.text, "first");
    assert_eq!(reply.finish, Some(FinishReason::Stop));
    assert_eq!(reply.upstream_model.as_deref(), Some("gpt-real"));
    assert_eq!(
        reply.usage,
        Some(Usage {
            prompt: 10,
            cached: 3,
            cache_write: 0,
            completion: 4,
            reasoning: 2,
            extras,
            ..Usage::default()
        }),
    );
    assert_eq!(reply.native.map(Value::Object), Some(answer));
}

#[test]
fn every_reason_to_stop_is_known() {
    for (word, refusal, reason) in [
        (json!("stop"), json!(null), Some(FinishReason::Stop)),
        (json!("length"), json!(null), Some(FinishReason::Length)),
        (json!("content_filter"), json!(null), Some(FinishReason::ContentFilter)),
        (json!("tool_calls"), json!(null), Some(FinishReason::ToolCalls)),
        (json!("function_call"), json!(null), Some(FinishReason::ToolCalls)),
        (json!("stop"), json!("I will not"), Some(FinishReason::Refusal)),
        (json!(null), json!(null), None),
    ] {
        let message = json!({"role": "assistant", "content": null, "refusal": refusal});
        let choice = json!({"index": 0, "message": message, "finish_reason": word});
        let reply = decoded(&json!({"choices": [choice], "usage": null})).unwrap();
        assert_eq!(reply.finish, reason, "{word}");
        assert_eq!((reply.text.as_str(), reply.usage, reply.upstream_model), ("", None, None));
    }
}

#[test]
fn reasons_are_told_in_the_words_of_the_format() {
    let words = ["eos", "max_tokens", "tool_use", "function_call", "???", "length"];
    let choices = words.iter().enumerate().map(
        |(index, word)| json!({"index": index, "message": {"content": "a"}, "finish_reason": word}),
    );
    let answer = json!({"choices": choices.collect::<Value>()});
    let native = decoded(&answer).unwrap().native.unwrap();
    let told = native["choices"].as_array().unwrap().iter();
    let told: Vec<&str> = told.map(|choice| choice["finish_reason"].as_str().unwrap()).collect();
    assert_eq!(told, ["stop", "length", "tool_calls", "function_call", "stop", "length"]);
}

#[test]
fn tool_calls_are_the_reason_whatever_the_server_says() {
    let message = json!({"content": null, "tool_calls": [{"id": "c1", "function": {"name": "f"}}]});
    let answer = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
    assert_eq!(decoded(&answer).unwrap().finish, Some(FinishReason::ToolCalls));
}

#[test]
fn content_may_come_in_parts() {
    let content = json!([{"type": "text", "text": "a"}, {"type": "other"}, {"text": "b"}]);
    let answer = json!({"choices": [{"message": {"content": content}}]});
    assert_eq!(decoded(&answer).unwrap().text, "ab");
}

#[test]
fn what_is_of_no_use_is_paid_for_as_told() {
    let used = json!({"prompt_tokens": 10, "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2}});
    let usage = Usage {
        prompt: 10,
        cached: 3,
        cache_write: 0,
        completion: 4,
        reasoning: 2,
        ..Usage::default()
    };
    for mut answer in [
        json!({"choices": []}),
        json!({"choices": [{"index": 0}]}),
        json!({"error": {"message": "overloaded"}}),
    ] {
        assert_eq!(decoded(&answer).unwrap_err().usage(), None, "{answer}");
        answer["usage"] = used.clone();
        let error = decoded(&answer).unwrap_err();
        assert_eq!((error.usage(), error.may_be_charged()), (Some(usage), false), "{answer}");
        answer["usage"] = json!({"prompt_tokens": 0, "completion_tokens": 0});
        assert_eq!(decoded(&answer).unwrap_err().usage(), None, "{answer}");
    }
}

#[test]
fn only_counts_that_can_be_are_usage() {
    let of_prompt = |prompt, completion| Some(Usage { completion, ..Usage::of_prompt(prompt) });
    for (told, read) in [
        (json!({"prompt_tokens": 10, "completion_tokens": 5}), of_prompt(10, 5)),
        (json!({"prompt_tokens": 7, "total_tokens": 7}), of_prompt(7, 0)),
        (
            json!({"prompt_tokens": null, "completion_tokens": 5, "total_tokens": 15}),
            of_prompt(10, 5),
        ),
        (json!({"prompt_tokens": null, "completion_tokens": 5, "total_tokens": 4}), None),
        (json!({"prompt_tokens": null, "completion_tokens": 5}), None),
        (json!({"completion_tokens": 5, "total_tokens": null}), None),
        (json!({"total_tokens": 15}), None),
        (
            json!({"prompt_tokens": 1_000_000_000, "completion_tokens": 0}),
            of_prompt(1_000_000_000, 0),
        ),
        (json!({"prompt_tokens": 1_000_000_001, "completion_tokens": 0}), None),
        (json!({"prompt_tokens": 1, "completion_tokens": 1e300}), None),
        (
            json!({"prompt_tokens": 9, "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": 1e12}}),
            None,
        ),
    ] {
        assert_eq!(usage(Some(&told)), read, "{told}");
    }
}

#[test]
fn half_a_character_spoils_no_answer() {
    let body = r#"{"choices": [{"message": {"content": "a\ud83d b"}, "finish_reason": "stop"}]}"#;
    let reply = decode(body.as_bytes()).unwrap();
    assert_eq!(reply.text, "a\u{fffd} b");
    let native = Value::Object(reply.native.unwrap());
    assert_eq!(native["choices"][0]["message"]["content"], "a\u{fffd} b");
}

#[test]
fn what_is_no_answer_is_a_fault() {
    for (body, says) in [
        ("<html>", "malformed"),
        ("[]", "malformed"),
        ("{}", "no choices"),
        (r#"{"choices":[]}"#, "no choices"),
        (r#"{"choices":[{"index":0}]}"#, "no message"),
        (r#"{"error":{"message":"overloaded"}}"#, "overloaded"),
        (r#"{"object":"error","message":"gone"}"#, "gone"),
        (r#"{"choices":[{"index":0,"#, "malformed"),
    ] {
        let error = decode(body.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(says), "{body}: {error}");
        assert!(error.is_endpoint_fault() && !error.retryable_here() && error.fallback_helps());
    }
}

#[test]
fn totals_and_details_never_make_a_call_cheaper() {
    let details = |cached: Value| json!({"cached_tokens": cached});
    for (told, counts, doubtful) in [
        (
            json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}),
            [10, 0, 5],
            false,
        ),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 99}),
            [10, 0, 89],
            true,
        ),
        (json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 3}), [10, 0, 5], true),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": "15"}),
            [10, 0, 5],
            true,
        ),
        // Reasoning that is counted in the total alone is reported, and no guess.
        (
            json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 45,
                "completion_tokens_details": {"reasoning_tokens": 30}}),
            [10, 0, 35],
            false,
        ),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": details(json!("9"))}),
            [10, 0, 5],
            true,
        ),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": details(json!(11))}),
            [10, 0, 5],
            true,
        ),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": [1]}),
            [10, 0, 5],
            true,
        ),
        (
            json!({"prompt_tokens": 10, "completion_tokens": "5", "total_tokens": 15}),
            [10, 0, 5],
            true,
        ),
        (
            json!({"prompt_tokens": "10", "completion_tokens": 5, "total_tokens": 15}),
            [10, 0, 5],
            true,
        ),
    ] {
        let read = usage(Some(&told)).unwrap();
        assert_eq!([read.prompt, read.cached, read.completion], counts, "{told}");
        assert_eq!(read.open.is_doubtful(), doubtful, "{told}");
    }
    assert_eq!(usage(Some(&json!([10, 5]))), None);
}
