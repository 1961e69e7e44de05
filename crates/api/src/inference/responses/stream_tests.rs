use proptest::prelude::*;

use super::super::request;
use super::*;
use crate::inference::canonical::answer::Call;
use crate::inference::canonical::testing::{Speech, events, refusal, speech, started};

fn stream(pieces: Vec<Piece>, batch: usize) -> Vec<(String, Value)> {
    stream_with(CustomTools::default(), pieces, batch)
}

fn stream_with(custom: CustomTools, pieces: Vec<Piece>, batch: usize) -> Vec<(String, Value)> {
    let Started { step, trace, model, created, .. } = started();
    let answer = ResponseAnswer::blank(step, trace, model, created, Map::new());
    let mut writer = Writer::new(step, answer, custom);
    let mut out = String::new();
    let mut pieces = pieces.into_iter().peekable();
    while pieces.peek().is_some() {
        let batch = pieces.by_ref().take(batch).collect();
        out.push_str(std::str::from_utf8(&writer.write(batch)).unwrap());
    }
    events(&out)
}

/// The last event's response, after the events before it were assembled as the vendor's client
/// does: both are equal.
fn heard(events: &[(String, Value)]) -> Value {
    let mut items: Vec<Value> = Vec::new();
    for (number, (name, data)) in events.iter().enumerate() {
        assert_eq!(data["sequence_number"], number);
        let item = data["output_index"].as_u64().map_or(0, |index| index as usize);
        let mut grow = |path: &str, with: &Value| {
            let text = items[item].pointer_mut(path).unwrap_or_else(|| panic!("{name}: {path}"));
            *text = format!("{}{}", text.as_str().unwrap(), with.as_str().unwrap()).into();
        };
        match name.as_str() {
            "response.created" | "response.in_progress" => {
                assert_eq!(data["response"]["status"], "in_progress");
            }
            "response.output_item.added" => {
                assert_eq!(item, items.len());
                items.push(data["item"].clone());
            }
            "response.content_part.added" => {
                items[item]["content"].as_array_mut().unwrap().push(data["part"].clone());
            }
            "response.reasoning_summary_part.added" => {
                items[item]["summary"].as_array_mut().unwrap().push(data["part"].clone());
            }
            "response.output_text.delta" => grow("/content/0/text", &data["delta"]),
            "response.refusal.delta" => grow("/content/0/refusal", &data["delta"]),
            "response.reasoning_summary_text.delta" => grow("/summary/0/text", &data["delta"]),
            "response.function_call_arguments.delta" => grow("/arguments", &data["delta"]),
            "response.output_text.done" => {
                assert_eq!(items[item]["content"][0]["text"], data["text"]);
            }
            "response.refusal.done" => {
                assert_eq!(items[item]["content"][0]["refusal"], data["refusal"]);
            }
            "response.reasoning_summary_text.done" => {
                assert_eq!(items[item]["summary"][0]["text"], data["text"]);
            }
            "response.custom_tool_call_input.delta" => grow("/input", &data["delta"]),
            "response.custom_tool_call_input.done" => {
                assert_eq!(items[item]["input"], data["input"]);
            }
            "response.function_call_arguments.done" => {
                assert_eq!(items[item]["arguments"], data["arguments"]);
                assert_eq!(items[item]["name"], data["name"]);
            }
            "response.content_part.done" => assert_eq!(items[item]["content"][0], data["part"]),
            "response.reasoning_summary_part.done" => {
                assert_eq!(items[item]["summary"][0], data["part"]);
            }
            "response.output_item.done" => {
                if items[item].get("status").is_some() {
                    let status = &data["item"]["status"];
                    assert!(*status == "completed" || *status == "incomplete", "{status}");
                    items[item]["status"] = status.clone();
                }
                assert_eq!(items[item], data["item"]);
            }
            "response.completed" | "response.incomplete" => {
                assert_eq!(number + 1, events.len());
                assert_eq!(data["response"]["output"], Value::Array(items));
                return data["response"].clone();
            }
            other => panic!("{other}"),
        }
        if let Some(id) = data.get("item_id") {
            assert_eq!(id, &items[item]["id"]);
        }
    }
    panic!("the stream has no end");
}

#[test]
fn a_text_that_was_cut_off() {
    let end = Piece::End { finish: FinishReason::Length, usage: Usage::default(), blocked: None };
    let pieces = vec![Piece::Text("Hel".to_owned()), Piece::Text("lo".to_owned()), end];
    let events = stream(pieces, 1);
    assert_eq!(events.last().unwrap().0, "response.incomplete");
    let answer = heard(&events);
    assert_eq!(answer["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(answer["output"][0]["content"][0]["text"], "Hello");
    assert_eq!(answer["output"][0]["status"], "incomplete");
}

#[test]
fn what_was_whole_before_the_rest_was_cut_off_stays_so() {
    let call = |id: &str, arguments: &str| Call {
        id: id.to_owned(),
        name: "f".to_owned(),
        arguments: arguments.to_owned(),
    };
    let statuses = |speech: &Speech, finish: FinishReason| {
        let answer = heard(&stream(speech.pieces(&[3], finish), 2));
        let whole = super::super::answer::whole(speech.reply(finish), AnswerOptions::default());
        let whole = serde_json::to_value(whole).unwrap();
        let of = |answer: &Value| {
            let items = answer["output"].as_array().unwrap().iter();
            let items = items.filter_map(|item| item.get("status")?.as_str());
            items.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of(&answer), of(&whole), "whole and streamed answers say the same");
        of(&answer)
    };
    let text = "Hello.".to_owned();
    let mut speech = Speech { text, calls: vec![call("a", "{}")], ..Speech::default() };
    speech.calls.push(call("b", "{\"x\": \"y"));
    let cut_off = ["completed", "completed", "incomplete"];
    for finish in [FinishReason::Length, FinishReason::ContentFilter] {
        assert_eq!(statuses(&speech, finish), cut_off);
    }
    assert_eq!(statuses(&speech, FinishReason::ToolCalls), ["completed"; 3]);
    speech.calls.pop();
    assert_eq!(statuses(&speech, FinishReason::Length), ["completed"; 2]);
    speech.calls.clear();
    assert_eq!(statuses(&speech, FinishReason::Length), ["incomplete"]);
    assert_eq!(statuses(&speech, FinishReason::Stop), ["completed"]);
}

#[test]
fn a_stream_that_breaks_ends_with_an_error() {
    let error = gateway::Error::ProviderUnreachable;
    let events = stream(vec![Piece::Text("Hel".to_owned()), Piece::Broken(error)], 2);
    let [.., (error, told), (failed, last)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((error.as_str(), failed.as_str()), ("error", "response.failed"));
    assert_eq!(told["code"], "provider_unreachable");
    assert_eq!(last["response"]["status"], "failed");
    assert_eq!(last["response"]["error"]["message"], "Provider request failed");
    let message = "No.".to_owned();
    let error = gateway::Error::ProviderRejected { status: 400, message, code: None };
    let events = stream(vec![Piece::Broken(error)], 1);
    assert_eq!(events[events.len() - 2].1["provider_status"], 400);
}

#[test]
fn a_call_of_a_custom_tool_is_a_text() {
    let patch = "*** Begin Patch\n+\"a\"\n";
    let call = |name: &str| Call {
        id: format!("id {name}"),
        name: name.to_owned(),
        arguments: json!({"input": patch}).to_string(),
    };
    let speech = Speech { calls: vec![call("apply_patch"), call("f")], ..Speech::default() };
    let tools = json!([{"type": "custom", "name": "apply_patch"}]);
    let custom = || {
        let body = serde_json::from_value(json!({"input": "?", "tools": tools})).unwrap();
        request::parse(body, None).unwrap().options.custom
    };
    for sizes in [[1], [7], [200]] {
        let answer =
            heard(&stream_with(custom(), speech.pieces(&sizes, FinishReason::ToolCalls), 3));
        let [first, second] = answer["output"].as_array().unwrap().as_slice() else {
            panic!("{answer}")
        };
        assert_eq!(
            first,
            &json!({"id": "ctc_7_0", "type": "custom_tool_call", "status": "completed",
                "call_id": "id apply_patch", "name": "apply_patch", "input": patch})
        );
        assert_eq!((&second["type"], &second["name"]), (&json!("function_call"), &json!("f")));
        // The client sends it back, and the model sees the call that it has made.
        let body = serde_json::from_value(json!({"input": answer["output"]})).unwrap();
        assert_eq!(request::parse(body, None).unwrap().request.prompt.messages, [speech.message()]);
    }
}

#[test]
fn refusals() {
    let now = Timestamp(1_000_000);
    let before = refused(refusal("No."), now, Map::new(), Dialect::Sluice);
    let before = heard(&events(std::str::from_utf8(&before).unwrap()));
    assert_eq!((&before["status"], &before["reason"]), (&json!("completed"), &json!("No.")));
    assert_eq!(before["output"][0]["content"][0]["refusal"], "No.");

    let speech = Speech { refusal: "I will not.".to_owned(), ..Speech::default() };
    let own = heard(&stream(speech.pieces(&[3], FinishReason::Stop), 2));
    assert_eq!(own["output"][0]["content"][0]["refusal"], "I will not.");
    assert_eq!(own.get("reason"), None);
}

proptest! {
    #[test]
    fn a_stream_that_is_sent_back_says_the_same(
        speech in speech(),
        sizes in prop::collection::vec(1_usize..6, 1..8),
        batch in 1_usize..9,
    ) {
        let answer = heard(&stream(speech.pieces(&sizes, FinishReason::Stop), batch));
        let body = serde_json::from_value(json!({"input": answer["output"]})).unwrap();
        let asked = request::parse(body, None).unwrap();
        prop_assert_eq!(asked.request.prompt.messages, [speech.message()]);
        prop_assert!(asked.dropped.is_empty());
    }
}
