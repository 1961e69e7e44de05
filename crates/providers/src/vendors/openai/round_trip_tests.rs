//! Any conversation survives the translation, here and for the servers of the same format.

use domain::model::Provider;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Openai;
use crate::adapter::Adapter;
use crate::chat_form::arbitrary_conversation::{Said, arguments, conversation, text, word};
use crate::testing::{attempt, model};
use crate::vendors::azure::Azure;
use crate::vendors::internal::Internal;

fn read(body: &Value) -> Vec<Said> {
    let mut all = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        let role = match message["role"].as_str().unwrap() {
            "tool" => {
                all.push(Said::Result(text(&message["tool_call_id"]), text(&message["content"])));
                continue;
            }
            "system" | "developer" => "system",
            "user" => "user",
            _ => "assistant",
        };
        let said = message["content"].as_str().filter(|said| !said.is_empty());
        let said = said.or(message["refusal"].as_str());
        all.extend(said.map(|said| Said::Text(role, said.to_owned())));
        for part in message["content"].as_array().into_iter().flatten() {
            all.push(match part["image_url"]["url"].as_str() {
                Some(url) => {
                    Said::Image(url.strip_prefix("data:image/png;base64,").unwrap().to_owned())
                }
                None => Said::Text(role, text(&part["text"])),
            });
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let arguments = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
            all.push(Said::Call(text(&call["id"]), text(&function["name"]), arguments));
        }
    }
    all
}

proptest! {
    #[test]
    fn nothing_is_lost((prompt, said) in conversation()) {
        let adapters: [(Provider, &dyn Adapter); 3] = [
            (Provider::Openai, &Openai), (Provider::Azure, &Azure), (Provider::Internal, &Internal),
        ];
        for (provider, adapter) in adapters {
            let model = model(provider, Some("https://models.example.com/v1"));
            let body = adapter.encode(&attempt(&model, &prompt)).unwrap().body;
            prop_assert_eq!(read(&serde_json::from_slice(&body).unwrap()), said.clone());
        }
    }

    /// The content of a model's answer survives as well: the same calls, the same text.
    #[test]
    fn answers_lose_nothing(
        text in word(),
        calls in prop::collection::vec(("[a-z_]{1,8}", arguments()), 0..4),
    ) {
        let calls: Vec<Value> = calls.into_iter().enumerate().map(|(index, (name, arguments))| {
            let arguments = Value::Object(arguments).to_string();
            json!({"id": format!("t{index}"), "type": "function",
                "function": {"name": name, "arguments": arguments}})
        }).collect();
        let mut message = json!({"role": "assistant", "content": text});
        if !calls.is_empty() {
            message["tool_calls"] = calls.clone().into();
        }
        let answer = json!({"model": "m", "choices": [{"index": 0, "message": message,
            "finish_reason": "stop"}]});
        let model = model(Provider::Openai, None);
        let reply = Openai.decode(&model, answer.to_string().as_bytes()).unwrap();
        prop_assert_eq!(&reply.text, &text);
        let native = reply.native.unwrap_or_default();
        let told = native.get("choices").map_or(&Value::Null, |choices| &choices[0]["message"]["tool_calls"]);
        prop_assert_eq!(told.as_array().cloned().unwrap_or_default(), calls);
    }

    #[test]
    fn no_answer_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..9),
        kept in any::<prop::sample::Index>(),
    ) {
        let mut answer = json!({"model": "m", "error": null, "choices": [{"index": 0, "message":
            {"role": "assistant", "content": [{"type": "text", "text": "a"}], "tool_calls": [
                {"id": "c", "function": {"name": "f", "arguments": {"a": [1, null]}}}]},
            "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": -1}}}).to_string().into_bytes();
        for (place, byte) in changes {
            let place = place.index(answer.len());
            answer[place] = byte;
        }
        answer.truncate(kept.index(answer.len()) + 1);
        let _ = Openai.decode(&model(Provider::Openai, None), &answer);
    }
}
