//! Requests that may go on as they came: nothing that only the vendor knows is a fault in them.

use domain::conversation::Body;
use domain::original::{Original, WireFormat};
use domain::stored_responses::StoredKind;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::http::error::Result;
use crate::inference::format::ParsedRequest;
use crate::inference::responses::body::ResponsesBody;
use crate::inference::responses::request::{AnswerOptions, parse_passing};

fn parsed(body: &Value) -> Result<ParsedRequest<AnswerOptions>> {
    let original = Original::new(WireFormat::Responses, body.to_string());
    let mut body: ResponsesBody = serde_json::from_value(body.clone()).unwrap();
    body.is_root = true;
    parse_passing(body, None, Some(original))
}

fn original(body: &Value) -> Original {
    *parsed(body).unwrap().request.prompt.original.unwrap()
}

fn fault(body: &Value) -> (u16, String) {
    let failure = parsed(body).unwrap_err();
    (failure.status().as_u16(), failure.into_body().error)
}

#[test]
fn what_has_no_canonical_form_is_noted() {
    let body = json!({
        "store": true, "include": ["web_search_call.results"], "of_tomorrow": {"x": 1},
        "text": {"format": {"type": "of_tomorrow"}, "new": 1}, "reasoning": {"mode": "new", "x": 1},
        "top_logprobs": 2, "tool_choice": {"type": "allowed_tools", "tools": []},
        "tools": [{"type": "function", "name": "f", "new": 1, "parameters": {}},
            {"type": "local_shell"}, {"type": "mcp", "server_url": "https://m.example"}],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hello.", "new": 1},
                {"type": "of_tomorrow", "x": 1}], "new": 1},
            {"type": "local_shell_call", "action": {"command": ["ls"]}},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "new": 1},
            {"type": "function_call_output", "call_id": "c", "output": "Done.", "new": 1},
        ],
    });
    let request = parsed(&body).unwrap().request;
    assert_eq!(request.prompt.messages.len(), 3);
    assert_eq!(request.prompt.messages[0].body, Body::Text("Hello.".to_owned()));
    assert_eq!(request.prompt.params["tools"].as_array().unwrap().len(), 1);
    let original = request.prompt.original.unwrap();
    assert_eq!(original.body, Some(body.to_string()));
    assert!(original.untranslatable.is_some() && original.continuation.asks_to_store);
    assert_eq!(original.external_access.len(), 1);
}

#[test]
fn what_can_be_translated_is_no_fault() {
    let body = json!({"store": false, "input": "Hello.", "client_metadata": {"a": "b"},
        "tools": [{"type": "web_search"}, {"type": "namespace", "name": "n", "tools": []}]});
    let original = original(&body);
    assert_eq!((original.untranslatable, original.continuation.asks_to_store), (None, false));
}

/// The record keeps the vendor's tools beside the canonical form: what they may cost depends on them.
#[test]
fn the_canonical_form_lacks_tools_that_only_the_vendor_has() {
    for (tool, lacks_tools) in [
        (json!({"type": "function", "name": "f", "parameters": {}}), false),
        (json!({"type": "web_search"}), true),
    ] {
        let original = original(&json!({"input": "Hello.", "tools": [tool]}));
        assert_eq!((original.is_partial, original.untranslatable), (false, None), "{tool}");
        assert_eq!(original.lacks_tools, lacks_tools, "{tool}");
    }
}

#[test]
fn references_are_found() {
    let body = json!({"previous_response_id": "resp_1", "input": [
        {"type": "item_reference", "id": "msg_1"}, {"type": "item_reference", "id": "rs_1"}]});
    let original = original(&body);
    assert!(original.untranslatable.is_some(), "no other format has them");
    let references = original.continuation.references.into_iter();
    assert_eq!(
        references.map(|reference| (reference.kind, reference.id)).collect::<Vec<_>>(),
        [(StoredKind::Response, "resp_1"), (StoredKind::Item, "msg_1"), (StoredKind::Item, "rs_1")]
            .map(|(kind, id)| (kind, id.to_owned()))
    );
    let many = vec![json!({"type": "item_reference", "id": "msg_1"}); 513];
    assert_eq!(fault(&json!({"input": many})).0, 422);
    let none = json!({"input": "Hello.", "previous_response_id": ""});
    let (status, sentence) = fault(&none);
    assert!(status == 404 && sentence.starts_with("Previous response with id ''"), "{sentence}");
}

#[test]
fn what_nobody_may_pass_stays_refused() {
    for more in [
        json!({"background": true}),
        json!({"conversation": "conv_1"}),
        json!({"conversation": {"id": "conv_1"}}),
        json!({"prompt": {"id": "pmpt_1"}}),
        json!({"base_url": "http://a.example"}),
        json!({"api_key": "sk-x"}),
        json!({"max_output_tokens": 0}),
        json!({"input": []}),
    ] {
        let mut body = json!({"input": "Hello."});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(fault(&body).0, 422, "{more}");
    }
    assert!(parsed(&json!({"input": "Hello.", "background": false})).is_ok());
}

#[test]
fn reasoning_of_ours_goes_to_no_vendor() {
    let reasoning = |id: &str| {
        json!({"input": [{"role": "user", "content": "Hello."},
        {"type": "reasoning", "id": id, "summary": [], "encrypted_content": "theirs"}]})
    };
    assert_eq!(original(&reasoning("rs_7_0")).body, None);
    assert!(original(&reasoning("rs_68af4030592c81938ec0a5fbab4a3e9f")).body.is_some());
}

/// Members that nobody knows.
fn unknown() -> impl Strategy<Value = Map<String, Value>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        "[a-z ]{0,8}".prop_map(Value::from)
    ];
    let value = leaf.prop_recursive(3, 12, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3);
        let object = prop::collection::vec(("[a-z]{1,6}", inner), 0..3);
        prop_oneof![
            list.prop_map(Value::from),
            object.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    let members = prop::collection::vec(("x_[a-z]{1,6}", value), 0..3);
    members.prop_map(|members| members.into_iter().collect())
}

fn with(mut value: Value, more: &Map<String, Value>) -> Value {
    value.as_object_mut().unwrap().extend(more.clone());
    value
}

proptest! {
    #[test]
    fn unknown_parts_are_no_fault(more in unknown(), kind in "x_[a-z]{1,9}", text in "[a-z]{1,9}") {
        let part = with(json!({"type": kind}), &more);
        let words = with(json!({"type": "input_text", "text": text}), &more);
        let body = with(json!({
            "model": "m", "instructions": text, "include": [kind],
            "tools": [with(json!({"type": "function", "name": "n", "parameters": {}}), &more), part],
            "tool_choice": with(json!({"type": kind}), &more),
            "text": with(json!({"format": {"type": kind}}), &more),
            "reasoning": with(json!({"effort": "high"}), &more),
            "input": [
                with(json!({"role": "user", "content": [part, words]}), &more),
                part,
                with(json!({"role": "assistant", "content": [words, part]}), &more),
                with(json!({"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}), &more),
                with(json!({"type": "function_call_output", "call_id": "c", "output": [words, part]}), &more),
            ],
        }), &more);
        let prompt = parsed(&body).unwrap().request.prompt;
        let original = prompt.original.unwrap();
        prop_assert_eq!(original.body, Some(body.to_string()));
        prop_assert!(original.untranslatable.is_some());
        let said = prompt.messages.iter().filter(|message| message.body == Body::Text(text.clone()));
        prop_assert_eq!(said.count(), 4, "what is known keeps its canonical form: {:?}", prompt.messages);
        prop_assert_eq!(prompt.params["tools"].as_array().unwrap().len(), 1);
    }
}
