use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{attempt, model, prompt_of};
use crate::vendors::adapter;

/// Returns the messages as they are sent if the second is an answer of this model with a state.
fn sent(provider: Provider, content: &Value, answer: &Value) -> Result<Value, String> {
    let model = model(provider, None);
    let mut answer = answer.clone();
    answer["role"] = "assistant".into();
    answer[STATE] = json!({"provider": provider.as_str(), "model": model.upstream_name(),
        "content": content});
    let prompt = prompt_of(json!([{"role": "user", "content": "Go."}, answer]), json!({}));
    let encoded = adapter(provider).encode(&attempt(&model, &prompt));
    let encoded = encoded.map_err(|error| error.to_string())?;
    let body: Value = serde_json::from_slice(&encoded.body).unwrap();
    Ok(match provider {
        Provider::Gemini => body["contents"][1]["parts"].clone(),
        _ => body["messages"][1]["content"].clone(),
    })
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}})
}

/// An answer in each format: thoughts, a text, and two calls.
fn answers() -> [(Provider, Value); 3] {
    let anthropic = json!([
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "I look.\n"},
        {"type": "tool_use", "id": "call_0_x", "name": "f", "input": {"x": 1}},
        {"type": "server_tool_use", "id": "srv", "name": "search", "input": {}},
        {"type": "text", "text": "And there."},
        {"type": "tool_use", "id": "call_1_x", "name": "f", "input": {}},
    ]);
    let bedrock = json!([
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
        {"citationsContent": {"content": [{"text": "I "}, {"text": "look. "}], "citations": []}},
        {"toolUse": {"toolUseId": "call_0_x", "name": "f", "input": {"x": 1}}},
        {"toolUse": {"type": "server_tool_use", "toolUseId": "srv", "name": "g", "input": {}}},
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

fn both() -> Value {
    json!([call("call_0_x", "{\"x\": 1}"), call("call_1_x", "{}")])
}

#[test]
fn what_is_as_it_was_comes_back_as_it_was() {
    for (provider, content) in answers() {
        let told = json!({"content": SAID, "tool_calls": both()});
        assert_eq!(sent(provider, &content, &told), Ok(content.clone()));
        let parts = json!([{"type": "text", "text": "I look."}, {"type": "text", "text": "\n\nAnd there."}]);
        let told = json!({"content": parts, "tool_calls": both()});
        assert_eq!(sent(provider, &content, &told), Ok(content));
    }
}

#[test]
fn what_was_edited_is_what_is_sent() {
    let mut renamed = both();
    renamed[0]["function"]["name"] = json!("g");
    for (said, calls) in [
        ("So.", both()),
        (SAID, json!([call("call_0_x", "{\"x\": 2}"), call("call_1_x", "{}")])),
        (SAID, json!([call("call_1_x", "{}")])),
        (SAID, json!([call("call_0_x", "{\"x\": 1}"), call("call_1_x", "{}"), call("c", "{}")])),
        (SAID, renamed),
        ("", both()),
    ] {
        for (provider, content) in answers() {
            let told = json!({"content": said, "tool_calls": calls});
            let blocks = sent(provider, &content, &told).unwrap();
            let blocks = blocks.as_array().unwrap();
            let thinks = provider != Provider::Gemini;
            assert_eq!(blocks[0] == content[0], thinks, "{provider:?} {blocks:?}");
            let (mut words, mut made) = (String::new(), Vec::new());
            for block in &blocks[usize::from(thinks)..] {
                match Block::of(block) {
                    Block::Text(text) => words.push_str(text),
                    Block::Call(call) => made.push((call.name, call.arguments.cloned())),
                    _ => panic!("{block}"),
                }
            }
            assert_eq!(words, said, "{provider:?}");
            let told = calls.as_array().unwrap().iter().map(|call| {
                let function = &call["function"];
                let arguments = serde_json::from_str(text(function.get("arguments"))).ok();
                (text(function.get("name")), arguments)
            });
            assert_eq!(made, told.collect::<Vec<_>>(), "{provider:?}");
        }
    }
}

/// A client may write a number in another way, and join texts as it likes.
#[test]
fn what_means_the_same_is_no_edit() {
    for (provider, content) in answers() {
        let calls = json!([call("call_0_x", "{\"x\": 1.0}"), call("call_1_x", " ")]);
        let told = json!({"content": "I look.\n\nAnd there.", "tool_calls": calls});
        assert_eq!(sent(provider, &content, &told), Ok(content));
    }
}

/// Thoughts between edited blocks would be in a position in which the model did not have them.
#[test]
fn only_the_first_thoughts_stand_before_an_edit() {
    for (provider, content) in &answers()[..2] {
        let thinks_twice = json!([content[0], content[1], content[0], content[2]]);
        let told = json!({"content": "So.", "tool_calls": [call("call_0_x", "{\"x\":1}")]});
        let blocks = sent(*provider, &thinks_twice, &told).unwrap();
        let thoughts = blocks.as_array().unwrap().iter();
        let places: Vec<bool> =
            thoughts.map(|block| matches!(Block::of(block), Block::Thought)).collect();
        assert_eq!(places, [true, false, false], "{provider:?}");
    }
}

#[test]
fn a_state_that_is_none_is_refused() {
    for (provider, _) in answers() {
        for content in [json!(null), json!("x"), json!([]), json!(["x"])] {
            let error = sent(provider, &content, &json!({"content": SAID})).unwrap_err();
            assert!(error.contains("messages[1]: provider_state.content must be"), "{error}");
        }
    }
}

/// A turn of nothing but thoughts is refused by the providers that wrote them.
#[test]
fn thoughts_alone_are_not_sent() {
    for (provider, content) in answers() {
        let said_nothing = json!({"content": null});
        let sent_of = |content: &Value| sent(provider, content, &said_nothing).unwrap();
        assert!(sent_of(&content).is_null(), "{provider:?}");
        let cut_off = json!([content[0]]);
        let expected = if provider == Provider::Gemini { cut_off.clone() } else { json!(null) };
        assert_eq!(sent_of(&cut_off), expected, "{provider:?}");
        let text = json!({"content": "I look."});
        let cut_off = json!([content[0], content[1], content[0]]);
        let blocks = sent(provider, &cut_off, &text).unwrap();
        let expected = if provider == Provider::Gemini { 3 } else { 2 };
        assert_eq!(blocks.as_array().unwrap().len(), expected, "{provider:?} {blocks}");
    }
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(
        member in "type|text|toolUse|functionCall|reasoningContent|citationsContent|thought|id|input",
        inner in r#"null|5|"x"|\[\]|\{\}|\{"content":[15]\}|\{"type":"tool_use"\}|"tool_use"|true"#,
        arguments in r#"\{\}|\{"a":1\}"#,
    ) {
        let content: Value = serde_json::from_str(&format!(r#"[{{"{member}":{inner}}}]"#)).unwrap();
        for (provider, _) in answers() {
            let told = json!({"content": "x", "tool_calls": [call("call_0_x", &arguments)]});
            let _ = sent(provider, &content, &told);
        }
    }
}
