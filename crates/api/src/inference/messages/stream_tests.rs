use proptest::prelude::*;

use super::super::request;
use super::*;
use crate::inference::canonical::testing::{Speech, events, native, refusal, speech, started};

/// The events that pieces become, a few pieces a write.
fn stream(pieces: Vec<Piece>, batch: usize) -> Vec<(String, Value)> {
    stream_in(Dialect::Sluice, pieces, batch)
}

fn stream_in(dialect: Dialect, pieces: Vec<Piece>, batch: usize) -> Vec<(String, Value)> {
    let mut writer = Writer::new(&started(), dialect);
    let mut out = String::new();
    let mut pieces = pieces.into_iter().peekable();
    while pieces.peek().is_some() {
        let batch = pieces.by_ref().take(batch).collect();
        out.push_str(std::str::from_utf8(&writer.write(batch)).unwrap());
    }
    events(&out)
}

/// The message that a client puts together, as the vendor's own does.
fn heard(events: &[(String, Value)]) -> Value {
    let mut message = Value::Null;
    let mut json = String::new();
    let mut open = None;
    for (name, data) in events {
        match name.as_str() {
            "message_start" => message = data["message"].clone(),
            "content_block_start" => {
                assert_eq!(open, None, "one block at a time");
                let content = message["content"].as_array_mut().unwrap();
                assert_eq!(data["index"], content.len());
                content.push(data["content_block"].clone());
                (open, json) = (Some(content.len() - 1), String::new());
            }
            "content_block_delta" => {
                assert_eq!(data["index"], open.unwrap());
                let block = &mut message["content"][open.unwrap()];
                let delta = &data["delta"];
                let (kind, name) = match delta["type"].as_str().unwrap() {
                    "text_delta" => ("text", "text"),
                    "thinking_delta" => ("thinking", "thinking"),
                    "input_json_delta" => ("tool_use", "partial_json"),
                    other => panic!("{other}"),
                };
                assert_eq!(block["type"], kind);
                let piece = delta[name].as_str().unwrap();
                if kind == "tool_use" {
                    json.push_str(piece);
                } else {
                    block[name] = format!("{}{piece}", block[name].as_str().unwrap()).into();
                }
            }
            "content_block_stop" => {
                assert_eq!(Some(data["index"].as_u64().unwrap() as usize), open.take());
                if !json.is_empty() {
                    let content = message["content"].as_array_mut().unwrap();
                    content.last_mut().unwrap()["input"] = serde_json::from_str(&json).unwrap();
                }
            }
            "message_delta" => {
                assert_eq!(open, None, "all blocks are over");
                for (name, value) in data["delta"].as_object().unwrap() {
                    message[name] = value.clone();
                }
                message["usage"] = data["usage"].clone();
            }
            "message_stop" => return message,
            other => panic!("{other}"),
        }
    }
    panic!("the stream has no end");
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn text_in_pieces() {
    let end =
        || Piece::End { finish: FinishReason::Length, usage: Usage::default(), blocked: None };
    let pieces = vec![Piece::Text("Hel".to_owned()), Piece::Text("lo".to_owned()), end()];
    let events = stream(pieces, 1);
    assert_eq!(
        names(&events),
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let message = heard(&events);
    assert_eq!(message["content"][0]["text"], "Hello");
    assert_eq!(message["stop_reason"], "max_tokens");
    assert_eq!((&message["id"], &message["step_id"]), (&json!("msg_7"), &json!(7)));
    assert_eq!(events[0].1["message"]["stop_reason"], Value::Null);
}

#[test]
fn a_stream_that_breaks_ends_with_an_error() {
    let error = gateway::Error::ProviderUnreachable;
    let events = stream(vec![Piece::Text("Hel".to_owned()), Piece::Broken(error)], 2);
    let (name, last) = events.last().unwrap();
    assert_eq!(name, "error");
    let error = json!({"type": "api_error", "message": "Provider request failed",
        "code": "provider_unreachable"});
    assert_eq!(last["error"], error);
    assert!(!names(&events).contains(&"message_stop"));
}

#[test]
fn refusals() {
    let blocked = Some("It held a secret".to_owned());
    let finish = FinishReason::ContentFilter;
    let message = heard(&stream(vec![Piece::End { finish, usage: Usage::default(), blocked }], 1));
    assert_eq!(message["content"], json!([]));
    assert_eq!(message["stop_details"]["explanation"], "It held a secret");

    let before = heard(&events(&refused(refusal("No."), Dialect::Sluice)));
    assert_eq!((&before["stop_reason"], &before["reason"]), (&json!("refusal"), &json!("No.")));

    let speech = Speech { refusal: "I will not.".to_owned(), ..Speech::default() };
    let own = heard(&stream(speech.pieces(&[3], FinishReason::Stop), 2));
    assert_eq!(own["content"][0]["text"], "I will not.");
    assert_eq!(own["stop_reason"], "refusal");
    assert_eq!(own["stop_details"]["explanation"], "I will not.");
}

#[test]
fn what_a_provider_of_the_format_tells_of_a_refusal_stays_as_it_is() {
    let details = json!({"type": "refusal", "category": "cyber", "explanation": "Not this."});
    let finish = FinishReason::ContentFilter;
    let pieces = vec![
        native(json!({"stop_details": details})),
        native(json!({"refusal": "Not "})),
        native(json!({"refusal": "this."})),
        Piece::End { finish, usage: Usage::default(), blocked: None },
    ];
    let message = heard(&stream(pieces, 1));
    assert_eq!((&message["content"], &message["stop_details"]), (&json!([]), &details));
    assert_eq!(message["stop_reason"], "refusal");
}

#[test]
fn arguments_may_come_before_the_name() {
    let call = |call: Value| native(json!({"tool_calls": [call]}));
    let end = Piece::End { finish: FinishReason::Stop, usage: Usage::default(), blocked: None };
    let message = heard(&stream(
        vec![
            call(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\""}})),
            call(json!({"index": 0, "function": {"arguments": ":1}"}})),
            call(json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}})),
            call(json!({"index": 2, "id": "c", "function": {"arguments": "{\"y\":"}})),
            call(json!({"index": 2, "function": {"name": "h", "arguments": "2}"}})),
            call(json!({"index": 3, "id": "d", "function": {"name": "i"}})),
            end,
        ],
        2,
    ));
    let calls = message["content"].as_array().unwrap().iter();
    let calls: Vec<(&str, &str, &Value)> = calls
        .map(|block| {
            (block["id"].as_str().unwrap(), block["name"].as_str().unwrap(), &block["input"])
        })
        .collect();
    let (x, y, none) = (json!({"x": 1}), json!({"y": 2}), json!({}));
    let expected = [("a", "f", &x), ("b", "g", &none), ("c", "h", &y), ("d", "i", &none)];
    assert_eq!(calls, expected);
    assert_eq!(message["stop_reason"], "tool_use");
}

#[test]
fn at_the_root_an_answer_ends_with_its_text() {
    let end = || Piece::End { finish: FinishReason::Stop, usage: Usage::default(), blocked: None };
    let state = || {
        let state = json!({"provider": "p", "model": "m", "content": [1]});
        native(json!({"provider_state": state}))
    };
    let call = json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}});
    let call = native(json!({"tool_calls": [call]}));
    let kinds = |dialect, pieces| {
        let message = heard(&stream_in(dialect, pieces, 1));
        let blocks = message["content"].as_array().unwrap().iter();
        blocks.map(|block| block["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let text = || vec![Piece::Text("Done.".to_owned()), state(), end()];
    assert_eq!(kinds(Dialect::Vendor, text()), ["text"]);
    assert_eq!(kinds(Dialect::Sluice, text()), ["text", "redacted_thinking"]);
    // The provider requires it back with the result of the call.
    assert_eq!(
        kinds(Dialect::Vendor, vec![call, state(), end()]),
        ["tool_use", "redacted_thinking"]
    );
}

proptest! {
    #[test]
    fn a_stream_that_is_sent_back_says_the_same(
        speech in speech(),
        sizes in prop::collection::vec(1_usize..6, 1..8),
        batch in 1_usize..9,
    ) {
        let message = heard(&stream(speech.pieces(&sizes, FinishReason::Stop), batch));
        let body = json!({"max_tokens": 9, "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": message["content"]},
        ]});
        let asked = request::parse(serde_json::from_value(body).unwrap(), None, None).unwrap();
        prop_assert_eq!(&asked.request.prompt.messages[1], &speech.message());
        prop_assert!(asked.dropped.is_empty());
        prop_assert_eq!(&message["usage"], &usage(crate::inference::canonical::testing::USED));
    }
}
