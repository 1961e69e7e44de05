//! Requests that may go on as they came: nothing that only the vendor knows is a fault in them.

use domain::conversation::Body;
use domain::original::{Original, WireFormat};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{MessagesBody, parse};
use crate::http::error::Result;
use crate::inference::format::ParsedRequest;

fn parsed(body: &Value) -> Result<ParsedRequest<()>> {
    let original = Original::new(WireFormat::Messages, body.to_string());
    let body: MessagesBody = serde_json::from_value(body.clone()).unwrap();
    parse(body, None, Some(original))
}

fn original(body: &Value) -> Original {
    *parsed(body).unwrap().request.prompt.original.unwrap()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z ]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3);
        let object = prop::collection::vec(("[a-z]{1,6}", inner), 0..3);
        prop_oneof![
            list.prop_map(Value::from),
            object.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Members that nobody knows.
fn unknown() -> impl Strategy<Value = Map<String, Value>> {
    let members = prop::collection::vec(("x_[a-z]{1,6}", any_json()), 0..3);
    members.prop_map(|members| members.into_iter().collect())
}

fn with(mut value: Value, more: &Map<String, Value>) -> Value {
    value.as_object_mut().unwrap().extend(more.clone());
    value
}

proptest! {
    #[test]
    fn unknown_parts_are_no_fault(more in unknown(), kind in "x_[a-z]{1,9}", text in "[a-z]{1,9}") {
        let block = with(json!({"type": kind}), &more);
        let words = with(json!({"type": "text", "text": text}), &more);
        let called = json!({"type": "tool_use", "id": "t", "name": "n", "input": {}});
        let result = json!({"type": "tool_result", "tool_use_id": "t", "content": [block, words]});
        let tool = json!({"name": "n", "input_schema": {"type": "object"}});
        let body = with(json!({
            "model": "m", "max_tokens": 5,
            "system": [words, block],
            "tools": [with(tool, &more), with(json!({"type": kind, "name": "other"}), &more)],
            "tool_choice": with(json!({"type": "tool", "name": "other"}), &more),
            "output_config": with(json!({"effort": "high", "format": {"type": kind}}), &more),
            "messages": [
                with(json!({"role": "user", "content": [block, words]}), &more),
                {"role": "assistant", "content": [block, words, with(called, &more)]},
                {"role": "user", "content": [with(result, &more), block]},
                {"role": "system", "content": [words, block]},
            ],
        }), &more);
        let request = parsed(&body).unwrap().request;
        prop_assert!(request.prompt.original.unwrap().untranslatable.is_some());
        let said: Vec<&Body> = request.prompt.messages.iter().map(|message| &message.body).collect();
        let count = said.iter().filter(|body| ***body == Body::Text(text.clone())).count();
        prop_assert_eq!(count, 5, "what is known keeps its canonical form: {:?}", said);
        let tools = request.prompt.params["tools"].as_array().unwrap();
        prop_assert_eq!(tools.len(), 1);
    }
}

#[test]
fn a_request_with_a_canonical_form_can_be_translated() {
    let body = json!({"max_tokens": 5, "of_tomorrow": 1, "tools": [{"type": "web_search_20250305"}],
        "messages": [{"role": "user", "content": "Hello."}]});
    let original = original(&body);
    assert_eq!((original.untranslatable, original.is_partial), (None, false));
    assert!(original.lacks_tools);
}

#[test]
fn what_is_refused_stays_refused() {
    let says = |more: Value| {
        let body = json!({"max_tokens": 5, "messages": [{"role": "user", "content": "Hello."}]});
        with(body, more.as_object().unwrap())
    };
    for more in [
        json!({"thread": {}}),
        json!({"container": "c"}),
        json!({"base_url": "http://a.example"}),
        json!({"api_key": "sk-x"}),
        json!({"max_tokens": 0}),
        json!({"messages": []}),
        json!({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}),
    ] {
        assert!(parsed(&says(more.clone())).is_err(), "{more}");
    }
    let servers = says(json!({"mcp_servers": [{"type": "url", "url": "https://a.example/"}]}));
    let original = original(&servers);
    assert_eq!(original.external_access.len(), 1);
    assert!(original.untranslatable.is_some());
}
