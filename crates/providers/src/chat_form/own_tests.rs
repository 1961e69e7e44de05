use serde_json::json;

use super::*;
use crate::testing::model;

/// What the provider gets in the place of a message: `None` where it is translated.
fn replayed(provider: Provider, content: &Value, message: &Value) -> Option<Value> {
    let model = model(provider, None);
    let mut message = message.clone();
    message["role"] = "assistant".into();
    message[STATE] = json!({"provider": provider.as_str(), "model": model.upstream_name(),
        "content": content});
    let message = Message::read(message).unwrap();
    let listed = message.extra.get("tool_calls").and_then(Value::as_array);
    let calls: Vec<ToolCall<'_>> = listed
        .into_iter()
        .flatten()
        .map(|call| ToolCall {
            id: text(call.get("id")),
            name: text(call["function"].get("name")),
            arguments: serde_json::from_str(text(call["function"].get("arguments"))).unwrap(),
        })
        .collect();
    super::content(&message, &model, &calls.iter().collect::<Vec<_>>()).map(Cow::into_owned)
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}})
}

/// An answer in each format: it thinks, says something, and calls twice.
fn answers() -> [(Provider, Value); 3] {
    let anthropic = json!([
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "I look. "},
        {"type": "tool_use", "id": "call_0_x", "name": "f", "input": {"x": 1}},
        {"type": "text", "text": "And there."},
        {"type": "tool_use", "id": "call_1_x", "name": "f", "input": {}},
    ]);
    let bedrock = json!([
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
        {"text": "I look. "},
        {"toolUse": {"toolUseId": "call_0_x", "name": "f", "input": {"x": 1}}},
        {"text": "And there."},
        {"toolUse": {"toolUseId": "call_1_x", "name": "f", "input": {}}},
    ]);
    let gemini = json!([
        {"text": "Hm.", "thought": true},
        {"text": "I look. ", "thoughtSignature": "t"},
        {"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "s"},
        {"text": "And there."},
        {"functionCall": {"name": "f"}},
    ]);
    [(Provider::Anthropic, anthropic), (Provider::Bedrock, bedrock), (Provider::Gemini, gemini)]
}

const SAID: &str = "I look. And there.";

#[test]
fn what_is_as_it_was_comes_back_as_it_was() {
    let calls = json!([call("call_0_x", "{\"x\": 1}"), call("call_1_x", "{}")]);
    for (provider, content) in answers() {
        let told = json!({"content": SAID, "tool_calls": calls});
        assert_eq!(replayed(provider, &content, &told), Some(content.clone()));
        let parts =
            json!([{"type": "text", "text": "I look. "}, {"type": "text", "text": "And there."}]);
        let told = json!({"content": parts, "tool_calls": calls});
        assert_eq!(replayed(provider, &content, &told), Some(content));
    }
}

#[test]
fn what_was_edited_is_what_is_sent() {
    for (provider, content) in answers() {
        let calls = json!([call("call_0_x", "{\"x\": 2}"), call("call_1_x", "{}")]);
        let edited = replayed(provider, &content, &json!({"content": "So.", "tool_calls": calls}));
        let edited = edited.unwrap();
        let edited = edited.as_array().unwrap();
        assert_eq!(edited[0], content[0], "the thought stays: {provider:?}");
        assert_eq!(own_text(edited), "So.");
        let arguments = edited.iter().filter_map(OwnCall::of).map(|call| call.arguments.cloned());
        assert_eq!(arguments.flatten().next(), Some(json!({"x": 2})), "{provider:?}");
        assert_eq!(edited.len(), 4, "{provider:?} {edited:?}");
    }
}

#[test]
fn a_call_that_was_left_out_is_not_sent() {
    for (provider, content) in answers() {
        let told = json!({"content": SAID, "tool_calls": [call("call_1_x", "{}")]});
        let replayed = replayed(provider, &content, &told);
        if provider == Provider::Gemini {
            assert_eq!(replayed, None, "its signature is that of the first call");
            continue;
        }
        let replayed = replayed.unwrap();
        let ids: Vec<_> = replayed
            .as_array()
            .unwrap()
            .iter()
            .filter_map(OwnCall::of)
            .map(|call| call.id)
            .collect();
        assert_eq!(ids, ["call_1_x"]);
    }
}

#[test]
fn a_call_that_the_model_did_not_make_is_translated() {
    for (provider, content) in answers() {
        let calls =
            json!([call("call_0_x", "{\"x\": 1}"), call("call_1_x", "{}"), call("other", "{}")]);
        let told = json!({"content": SAID, "tool_calls": calls});
        assert_eq!(replayed(provider, &content, &told), None);
    }
}

#[test]
fn words_find_a_place_where_the_model_had_none() {
    for (provider, text) in [
        (Provider::Anthropic, json!({"type": "text", "text": "So."})),
        (Provider::Bedrock, json!({"text": "So."})),
    ] {
        let (_, content) = answers().into_iter().find(|(of, _)| *of == provider).unwrap();
        let content = json!([content[0], content[2]]);
        let told = json!({"content": "So.", "tool_calls": [call("call_0_x", "{\"x\":1}")]});
        let expected = json!([content[0], text, content[1]]);
        assert_eq!(replayed(provider, &content, &told), Some(expected));
        let thought = json!([content[0]]);
        let expected = json!([content[0], text]);
        assert_eq!(replayed(provider, &thought, &json!({"content": "So."})), Some(expected));
    }
}
