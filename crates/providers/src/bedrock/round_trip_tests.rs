//! Any conversation survives the translation: an independent reader finds the same roles, order,
//! ids, arguments, texts and pictures in the request.

use domain::model::Provider;
use proptest::prelude::*;
use serde_json::Value;

use super::Bedrock;
use crate::adapter::Adapter as _;
use crate::any_conversation::{Said, conversation, system_first};
use crate::testing::{attempt, model};

fn read(body: &Value) -> Vec<Said> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let system = body["system"].as_array().into_iter().flatten();
    let mut all: Vec<_> = system.map(|part| Said::Text("system", text(&part["text"]))).collect();
    let mut last = "assistant";
    for message in body["messages"].as_array().unwrap() {
        let role = if message["role"] == "user" { "user" } else { "assistant" };
        assert_ne!(role, last, "the speakers take turns");
        last = role;
        for block in message["content"].as_array().unwrap() {
            let (call, result, image) = (&block["toolUse"], &block["toolResult"], &block["image"]);
            all.push(if call.is_object() {
                Said::Call(text(&call["toolUseId"]), text(&call["name"]), call["input"].clone())
            } else if result.is_object() {
                Said::Result(text(&result["toolUseId"]), text(&result["content"][0]["text"]))
            } else if image.is_object() {
                assert_eq!(image["format"], "png");
                Said::Image(text(&image["source"]["bytes"]))
            } else {
                Said::Text(role, text(&block["text"]))
            });
        }
    }
    all
}

proptest! {
    #[test]
    fn nothing_is_lost((prompt, said) in conversation()) {
        let model = model(Provider::Bedrock, None);
        let body = Bedrock.encode(&attempt(&model, &prompt)).unwrap().body;
        prop_assert_eq!(read(&serde_json::from_slice(&body).unwrap()), system_first(said));
    }
}
