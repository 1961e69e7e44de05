use proptest::prelude::*;

use super::super::request;
use super::*;
use crate::inference::canonical::testing::{Speech, speech};

fn said(message: &MessageAnswer) -> Value {
    serde_json::to_value(message).unwrap()
}

#[test]
fn a_plain_answer() {
    let speech = Speech { text: "Hello.".to_owned(), ..Speech::default() };
    let message = said(&whole(ChatReply { native: None, ..speech.reply(FinishReason::Stop) }));
    assert_eq!(
        message,
        json!({
            "id": "msg_7", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": "Hello."}],
            "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 15, "cache_read_input_tokens": 10,
                "cache_creation_input_tokens": 5, "cache_creation": {
                    "ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 2},
                "output_tokens": 9,
                "output_tokens_details": {"thinking_tokens": 4}},
            "step_id": 7, "trace_id": message["trace_id"],
        })
    );
}

#[test]
fn why_it_stopped() {
    use FinishReason::{ContentFilter, Length, Refusal, Stop, ToolCalls};
    let table = [
        (Stop, false, false, "end_turn"),
        (Stop, true, false, "tool_use"),
        (Stop, false, true, "refusal"),
        (Length, false, false, "max_tokens"),
        (Length, true, false, "max_tokens"),
        (ToolCalls, true, false, "tool_use"),
        (ToolCalls, false, false, "end_turn"),
        (ContentFilter, false, false, "refusal"),
        (Refusal, false, true, "refusal"),
    ];
    for (finish, calls, refuses, word) in table {
        assert_eq!(stop_reason(finish, calls, refuses), word, "{finish:?} {calls} {refuses}");
    }
}

#[test]
fn a_withheld_answer_says_why() {
    let mut reply = Speech::default().reply(FinishReason::ContentFilter);
    reply.blocked = Some("It held a secret".to_owned());
    let message = said(&whole(reply));
    assert_eq!(message["content"], json!([]));
    assert_eq!(message["stop_reason"], "refusal");
    assert_eq!(message["stop_details"]["explanation"], "It held a secret");
    assert_eq!(message["reason"], "It held a secret");
}

#[test]
fn what_a_provider_of_the_format_tells_of_a_refusal_stays_as_it_is() {
    let details = json!({"type": "refusal", "category": "cyber", "explanation": "Not this."});
    let refused = |blocked| {
        let mut reply = Speech { refusal: "Not this.".to_owned(), ..Speech::default() }
            .reply(FinishReason::ContentFilter);
        let native = reply.native.as_mut().unwrap();
        native["choices"][0]["message"]["stop_details"] = details.clone();
        reply.blocked = blocked;
        said(&whole(reply))
    };
    let message = refused(None);
    assert_eq!((&message["content"], &message["stop_reason"]), (&json!([]), &json!("refusal")));
    assert_eq!(message["stop_details"], details);
    let withheld = refused(Some("It held a secret".to_owned()));
    assert_eq!(withheld["stop_details"]["explanation"], "It held a secret");
}

#[test]
fn arguments_that_are_no_object_are_kept() {
    for (arguments, input) in [
        ("", json!({})),
        (" {\"b\": 1, \"a\": 2} ", json!({"b": 1, "a": 2})),
        ("{\"cut", json!({"INVALID_JSON": "{\"cut"})),
        ("[1]", json!({"INVALID_JSON": "[1]"})),
    ] {
        let call =
            Call { id: "c".to_owned(), name: "f".to_owned(), arguments: arguments.to_owned() };
        assert_eq!(tool_use(&call, &mut InnerJson::default())["input"], input);
    }
}

proptest! {
    #[test]
    fn an_answer_that_is_sent_back_says_the_same(speech in speech()) {
        let message = said(&whole(speech.reply(FinishReason::Stop)));
        let body = json!({"max_tokens": 9, "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": message["content"]},
        ]});
        let asked = request::parse(serde_json::from_value(body).unwrap(), None, None).unwrap();
        prop_assert_eq!(&asked.request.prompt.messages[1], &speech.message());
        prop_assert!(asked.dropped.is_empty());
    }
}
