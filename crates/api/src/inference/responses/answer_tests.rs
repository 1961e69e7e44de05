use proptest::prelude::*;

use super::super::request;
use super::*;
use crate::inference::canonical::testing::{Speech, refusal, speech};

fn said(answer: &ResponseAnswer) -> Value {
    serde_json::to_value(answer).unwrap()
}

#[test]
fn a_plain_answer() {
    let speech = Speech { text: "Hello.".to_owned(), ..Speech::default() };
    let reply = ChatReply { native: None, ..speech.reply(FinishReason::Stop) };
    let mut echo = Map::new();
    echo.insert("store".to_owned(), false.into());
    let answer = said(&whole(reply, AnswerOptions { echo, ..AnswerOptions::default() }));
    assert_eq!(
        answer,
        json!({
            "id": "resp_7", "object": "response", "created_at": 1, "status": "completed",
            "error": null, "incomplete_details": null, "model": "m", "store": false,
            "output": [{"id": "msg_7_0", "type": "message", "status": "completed",
                "role": "assistant", "content": [{"type": "output_text", "text": "Hello.",
                    "annotations": [], "logprobs": []}]}],
            "usage": {"input_tokens": 30,
                "input_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 5},
                "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 4},
                "total_tokens": 39},
            "step_id": 7, "trace_id": answer["trace_id"],
        })
    );
}

#[test]
fn how_it_ended() {
    use FinishReason::{ContentFilter, Length, Refusal, Stop, ToolCalls};
    for (finish, status, reason) in [
        (Stop, "completed", Value::Null),
        (ToolCalls, "completed", Value::Null),
        (Refusal, "completed", Value::Null),
        (Length, "incomplete", json!({"reason": "max_output_tokens"})),
        (ContentFilter, "incomplete", json!({"reason": "content_filter"})),
    ] {
        let answer = said(&whole(Speech::default().reply(finish), AnswerOptions::default()));
        assert_eq!((&answer["status"], &answer["incomplete_details"]), (&json!(status), &reason));
    }
}

#[test]
fn a_refusal_is_whole_and_says_why() {
    let mut reply = Speech::default().reply(FinishReason::ContentFilter);
    reply.blocked = Some("No.".to_owned());
    let withheld = said(&whole(reply, AnswerOptions::default()));
    let before = said(&refused(refusal("No."), Timestamp(1_000_000), Map::new()));
    for answer in [withheld, before] {
        assert_eq!((&answer["status"], &answer["reason"]), (&json!("completed"), &json!("No.")));
        let part = json!({"type": "refusal", "refusal": "No."});
        assert_eq!(answer["output"][0]["content"], json!([part]));
    }
}

proptest! {
    #[test]
    fn an_answer_that_is_sent_back_says_the_same(speech in speech()) {
        let answer = said(&whole(speech.reply(FinishReason::Stop), AnswerOptions::default()));
        let body = serde_json::from_value(json!({"input": answer["output"]})).unwrap();
        let asked = request::parse(body, None).unwrap();
        prop_assert_eq!(asked.request.prompt.messages, [speech.message()]);
        prop_assert!(asked.dropped.is_empty());
    }
}
