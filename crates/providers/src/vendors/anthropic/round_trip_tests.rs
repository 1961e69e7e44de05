//! Any conversation survives the translation: an independent reader finds the same roles, order,
//! ids, arguments and texts in the request.

use domain::model::Provider;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::Anthropic;
use crate::adapter::Adapter as _;
use crate::chat_form::arbitrary_conversation::{
    Said, arguments, conversation, said_in_blocks, system_first, text, word,
};
use crate::testing::{attempt, model};

fn block(role: &'static str, block: &Value) -> Said {
    match block["type"].as_str().unwrap() {
        "text" => Said::Text(role, text(&block["text"])),
        "image" => {
            assert_eq!(block["source"]["media_type"], "image/png");
            Said::Image(text(&block["source"]["data"]))
        }
        "tool_use" => Said::Call(text(&block["id"]), text(&block["name"]), block["input"].clone()),
        "tool_result" => Said::Result(text(&block["tool_use_id"]), text(&block["content"])),
        other => panic!("{other}"),
    }
}

proptest! {
    #[test]
    fn nothing_is_lost((prompt, said) in conversation()) {
        let model = model(Provider::Anthropic, None);
        let body = Anthropic.encode(&attempt(&model, &prompt)).unwrap().body;
        let read = said_in_blocks(&serde_json::from_slice(&body).unwrap(), block);
        prop_assert_eq!(read, system_first(said));
    }

    /// The content of a model's answer survives as well: the same calls, the same text.
    #[test]
    fn answers_lose_nothing(
        text in word(),
        calls in prop::collection::vec(("[a-z_]{1,8}", arguments()), 0..4),
    ) {
        let mut content = vec![json!({"type": "text", "text": text})];
        content.extend(calls.iter().enumerate().map(|(index, (name, input))| {
            json!({"type": "tool_use", "id": format!("t{index}"), "name": name, "input": input})
        }));
        let answer = json!({"content": content, "stop_reason": "tool_use"});
        let model = model(Provider::Anthropic, None);
        let reply = Anthropic.decode(&model, answer.to_string().as_bytes()).unwrap();
        prop_assert_eq!(reply.text, text);
        let native = Value::from(reply.native.unwrap_or_default());
        let listed = native["choices"][0]["message"]["tool_calls"].as_array();
        let listed: Vec<(String, Map<String, Value>)> = listed.into_iter().flatten().enumerate().map(|(index, call)| {
            assert_eq!(call["id"], format!("t{index}"));
            let arguments = call["function"]["arguments"].as_str().unwrap();
            (call["function"]["name"].as_str().unwrap().to_owned(),
                serde_json::from_str(arguments).unwrap())
        }).collect();
        prop_assert_eq!(listed, calls);
    }

    #[test]
    fn no_body_makes_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Anthropic.decode(&model(Provider::Anthropic, None), &body);
    }
}
