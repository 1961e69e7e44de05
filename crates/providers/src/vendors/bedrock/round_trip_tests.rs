//! Any conversation survives the translation: an independent reader finds the same roles, order,
//! ids, arguments, texts and pictures in the request.

use domain::model::Provider;
use proptest::prelude::*;
use serde_json::Value;

use super::Bedrock;
use crate::adapter::Adapter as _;
use crate::chat_form::arbitrary_conversation::{
    Said, conversation, said_in_blocks, system_first, text,
};
use crate::testing::{attempt, model};

fn block(role: &'static str, block: &Value) -> Said {
    let (call, result, image) = (&block["toolUse"], &block["toolResult"], &block["image"]);
    if call.is_object() {
        Said::Call(text(&call["toolUseId"]), text(&call["name"]), call["input"].clone())
    } else if result.is_object() {
        Said::Result(text(&result["toolUseId"]), text(&result["content"][0]["text"]))
    } else if image.is_object() {
        assert_eq!(image["format"], "png");
        Said::Image(text(&image["source"]["bytes"]))
    } else {
        Said::Text(role, text(&block["text"]))
    }
}

proptest! {
    #[test]
    fn nothing_is_lost((prompt, said) in conversation()) {
        let model = model(Provider::Bedrock, None);
        let body = Bedrock.encode(&attempt(&model, &prompt)).unwrap().body;
        let read = said_in_blocks(&serde_json::from_slice(&body).unwrap(), block);
        prop_assert_eq!(read, system_first(said));
    }
}
