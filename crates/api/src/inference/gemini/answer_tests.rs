use super::*;
use crate::inference::canonical::testing::{Speech, refusal};
use crate::inference::gemini::AnswerForm;

const OPTIONS: AnswerOptions = AnswerOptions { form: AnswerForm::Whole, with_thoughts: true };

fn written(content: &GeneratedContent) -> Value {
    serde_json::to_value(content).unwrap()
}

fn call(id: &str, name: &str, arguments: &str) -> Call {
    Call { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

#[test]
fn a_plain_answer() {
    let speech = Speech { text: "Hello.".to_owned(), ..Speech::default() };
    let reply = ChatReply { native: None, ..speech.reply(FinishReason::Stop) };
    assert_eq!(
        written(&whole(reply, OPTIONS)),
        json!({
            "candidates": [{"content": {"parts": [{"text": "Hello."}], "role": "model"},
                "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 5,
                "totalTokenCount": 39, "cachedContentTokenCount": 10, "thoughtsTokenCount": 4},
            "modelVersion": "m", "responseId": "gen_7",
        })
    );
}

#[test]
fn thoughts_calls_and_signatures_are_parts() {
    let state = json!({"provider": "anthropic", "model": "m", "content": []});
    let speech = Speech {
        thought: "Hm.".to_owned(),
        text: "See.".to_owned(),
        calls: vec![call("a", "f", "{\"x\":1}"), call("b", "g", ""), call("c", "h", "no")],
        state: Some(state.clone()),
        ..Speech::default()
    };
    let parts = |with_thoughts| {
        let options = AnswerOptions { with_thoughts, ..OPTIONS };
        let answer = written(&whole(speech.reply(FinishReason::ToolCalls), options));
        assert_eq!(answer["candidates"][0]["finishReason"], "STOP");
        answer["candidates"][0]["content"]["parts"].clone()
    };
    let signature = STANDARD.encode(state.to_string());
    let called = |id: &str, name: &str, args: Value| json!({"id": id, "name": name, "args": args});
    let mut expected = vec![
        json!({"text": "Hm.", "thought": true}),
        json!({"text": "See."}),
        json!({"functionCall": called("a", "f", json!({"x": 1})), "thoughtSignature": signature}),
        json!({"functionCall": called("b", "g", json!({}))}),
        json!({"functionCall": called("c", "h", json!({"INVALID_JSON": "no"}))}),
    ];
    assert_eq!(parts(true), Value::Array(expected.clone()));
    expected.remove(0);
    assert_eq!(parts(false), Value::Array(expected), "not asked for");
}

#[test]
fn a_signature_without_a_call_is_the_last_texts() {
    let state = Some(json!({"provider": "gemini", "model": "m", "content": []}));
    let last = |text: &str| {
        let speech = Speech {
            thought: "Hm.".to_owned(),
            text: text.to_owned(),
            state: state.clone(),
            ..Speech::default()
        };
        let answer = written(&whole(speech.reply(FinishReason::Stop), OPTIONS));
        answer["candidates"][0]["content"]["parts"].as_array().unwrap().last().unwrap().clone()
    };
    for text in ["See.", ""] {
        assert_eq!(last(text)["text"], text);
        assert!(last(text)["thoughtSignature"].is_string(), "{text}");
    }
}

#[test]
fn every_reason_to_stop_has_a_word() {
    for (finish, refuses, word) in [
        (FinishReason::Stop, false, "STOP"),
        (FinishReason::ToolCalls, false, "STOP"),
        (FinishReason::Length, false, "MAX_TOKENS"),
        (FinishReason::ContentFilter, false, "SAFETY"),
        (FinishReason::Refusal, false, "SAFETY"),
        (FinishReason::Stop, true, "SAFETY"),
        (FinishReason::Length, true, "MAX_TOKENS"),
    ] {
        assert_eq!(finish_reason(finish, refuses), word, "{finish:?}");
    }
}

#[test]
fn refusals() {
    let blocked = Some("It held a secret".to_owned());
    let reply =
        ChatReply { native: None, blocked, ..Speech::default().reply(FinishReason::ContentFilter) };
    let answer = written(&whole(reply, OPTIONS));
    assert_eq!(
        answer["candidates"],
        json!([{"finishReason": "SAFETY", "finishMessage": "It held a secret", "index": 0}])
    );
    let before = written(&refused(refusal("No.")));
    assert_eq!(
        before,
        json!({
            "promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "No."},
            "usageMetadata":
                {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0},
            "responseId": "gen_7",
        })
    );
}
