//! Any conversation survives the translation: an independent reader finds the same roles, order,
//! arguments, texts and pictures in the request. Calls have no ids here: results follow the order of
//! the calls that they answer.

use std::collections::HashMap;

use domain::model::{Model, Provider};
use proptest::prelude::*;
use serde_json::Value;

use super::Gemini;
use crate::adapter::Adapter as _;
use crate::chat_form::arbitrary_conversation::{Said, conversation, system_first, text};
use crate::testing::{attempt, model};

/// Replaces the ids of calls by their numbers, and puts results in the order of their calls.
fn numbered(said: Vec<Said>) -> Vec<Said> {
    let (mut numbers, mut results, mut all) = (HashMap::new(), Vec::new(), Vec::new());
    for said in said {
        let Said::Result(id, text) = said else {
            all.append(&mut results);
            all.push(match said {
                Said::Call(id, name, arguments) => {
                    let number = format!("{:03}", numbers.len());
                    numbers.insert(id, number.clone());
                    Said::Call(number, name, arguments)
                }
                other => other,
            });
            continue;
        };
        let number = numbers[&id].clone();
        let before = |said: &Said| matches!(said, Said::Result(other, _) if *other < number);
        results.insert(results.partition_point(before), Said::Result(number, text));
    }
    all.append(&mut results);
    all
}

fn read(body: &Value) -> Vec<Said> {
    let parts = body["systemInstruction"]["parts"].as_array().into_iter().flatten();
    let mut all: Vec<_> = parts.map(|part| Said::Text("system", text(&part["text"]))).collect();
    let (mut calls, mut answered, mut last) = (Vec::new(), 0, "model");
    for content in body["contents"].as_array().unwrap() {
        let role = content["role"].as_str().unwrap();
        assert_ne!(role, last, "the speakers take turns");
        last = role;
        for part in content["parts"].as_array().unwrap() {
            let (call, result) = (&part["functionCall"], &part["functionResponse"]);
            all.push(if call.is_object() {
                calls.push(text(&call["name"]));
                Said::Call(
                    format!("{:03}", calls.len() - 1),
                    text(&call["name"]),
                    call["args"].clone(),
                )
            } else if result.is_object() {
                assert_eq!(text(&result["name"]), calls[answered]);
                answered += 1;
                Said::Result(format!("{:03}", answered - 1), text(&result["response"]["output"]))
            } else if part["inlineData"].is_object() {
                assert_eq!(part["inlineData"]["mimeType"], "image/png");
                Said::Image(text(&part["inlineData"]["data"]))
            } else {
                Said::Text(if role == "user" { "user" } else { "assistant" }, text(&part["text"]))
            });
        }
    }
    all
}

proptest! {
    #[test]
    fn nothing_is_lost((prompt, said) in conversation()) {
        for name in ["gemini-3-pro", "gemini-2.5-pro"] {
            let model = Model { identifier: name.to_owned(), ..model(Provider::Gemini, None) };
            let body = Gemini.encode(&attempt(&model, &prompt)).unwrap().body;
            let read = read(&serde_json::from_slice(&body).unwrap());
            prop_assert_eq!(read, numbered(system_first(said.clone())));
        }
    }
}
