//! A whole answer and its chunks have the same strings.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::safety::answer_strings::{visit, visit_state};
use crate::safety::json_path::JsonPath;
use crate::safety::output_check::{AnswerString, judged_strings};
use crate::streaming::fragments::Fragments;

/// Fields that come whole, in the first chunk that has any part of their message.
const WHOLE: [&str; 10] = [
    "annotations",
    "citations",
    "data",
    "id",
    "phase",
    "provider_state",
    "role",
    "status",
    "stop_sequence",
    "url",
];
/// Fields that come again with every chunk: they tell items of a list apart.
const REPEATED: [&str; 2] = ["index", "type"];

fn words() -> BoxedStrategy<Value> {
    "[a-zé ]{1,12}".prop_map(Value::from).boxed()
}

/// Some of these fields, in this order, each with a value of its own.
fn some_of(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| {
            prop::option::of(value).prop_map(move |value| Some((name.to_owned(), value?)))
        })
        .collect();
    fields.prop_map(|fields| Value::Object(fields.into_iter().flatten().collect())).boxed()
}

fn list(item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop::collection::vec(item, 0..3).prop_map(Value::from).boxed()
}

/// Any JSON below a field that no list knows.
fn unknown() -> BoxedStrategy<Value> {
    let name = prop::sample::select(vec!["text", "arguments", "content", "deep", "status"]);
    words()
        .prop_recursive(3, 8, 3, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec((name.clone(), inner), 0..3).prop_map(|fields| {
                    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value));
                    Value::Object(fields.collect())
                }),
            ]
        })
        .boxed()
}

fn tool_calls() -> BoxedStrategy<Value> {
    let function = some_of(vec![("name", words()), ("arguments", words()), ("other", words())]);
    let call = some_of(vec![("function", function), ("custom", unknown())]);
    prop::collection::vec(call, 1..4)
        .prop_map(|calls| {
            let number = |(index, mut call): (usize, Value)| {
                call["index"] = index.into();
                call["id"] = format!("call_{index}").into();
                call["type"] = "function".into();
                call
            };
            calls.into_iter().enumerate().map(number).collect::<Vec<_>>().into()
        })
        .boxed()
}

/// A message with a field of each kind, and fields that no list knows.
fn message() -> BoxedStrategy<Value> {
    let part = words().prop_map(|text| json!({"type": "text", "text": text})).boxed();
    let note = words().prop_map(|title| json!({"type": "url_citation", "title": title})).boxed();
    let thought = some_of(vec![("text", words()), ("summary", words()), ("signature", words())]);
    let picture = Just(json!({"url": "data:image/png;base64,iVBORw0KGgo="})).boxed();
    let image = picture.prop_map(|url| json!({"type": "image_url", "image_url": url})).boxed();
    let sound =
        some_of(vec![("data", Just(json!("iVBORw0KGgo=")).boxed()), ("transcript", words())]);
    let call = some_of(vec![("name", words()), ("arguments", words())]);
    some_of(vec![
        ("role", Just(json!("assistant")).boxed()),
        ("reasoning", words()),
        ("reasoning_details", list(thought)),
        ("content", prop_oneof![words(), list(part)].boxed()),
        ("refusal", words()),
        ("annotations", list(note)),
        ("phase", words()),
        ("tool_calls", tool_calls()),
        ("function_call", call),
        ("images", list(image)),
        ("audio", sound),
        ("new_field", unknown()),
        ("provider_state", unknown()),
        ("stop_sequence", words()),
    ])
}

/// The part of a value that one of `count` chunks has: of each string that continues a piece, the
/// first of which is not empty.
fn piece(value: &Value, number: usize, count: usize) -> Value {
    match value {
        Value::String(text) => {
            let letters: Vec<char> = text.chars().collect();
            let length = letters.len().div_ceil(count);
            letters.into_iter().skip(number * length).take(length).collect::<String>().into()
        }
        Value::Array(items) => items.iter().map(|item| piece(item, number, count)).collect(),
        Value::Object(fields) => {
            let is_here = |name: &str| number == 0 || !WHOLE.contains(&name);
            let fields = fields.iter().filter(|(name, _)| is_here(name)).map(|(name, value)| {
                let is_whole = [&WHOLE[..], &REPEATED].concat().contains(&name.as_str());
                let value = if is_whole { value.clone() } else { piece(value, number, count) };
                (name.clone(), value)
            });
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

fn answer(field: &str, messages: &[Value], part: impl Fn(&Value) -> Value) -> Map<String, Value> {
    let choices = messages.iter().enumerate();
    let choices: Vec<Value> = choices
        .map(
            |(index, message)| json!({"index": index, field: part(message), "finish_reason": null}),
        )
        .collect();
    Map::from_iter([("choices".to_owned(), choices.into())])
}

/// The properties of a path that decide about its string, beside whether it comes in pieces.
fn kind(path: &JsonPath) -> impl PartialEq + std::fmt::Debug + use<> {
    let place = format!("{path:?}").replace("\"delta\"", "\"message\"");
    let is = [path.is_text(), path.is_refusal(), path.is_json(), path.is_tool_call()];
    (place, path.choice(), is, path.counts_beside_text(), path.tool_call())
}

fn texts(strings: &[AnswerString<'_>]) -> BTreeSet<(String, bool)> {
    strings.iter().map(|string| (string.text.to_string(), string.is_json)).collect()
}

proptest! {
    #[test]
    fn chunks_have_the_strings_of_the_whole_answer(
        messages in prop::collection::vec(message(), 1..3),
        count in 1_usize..5,
    ) {
        let mut whole = answer("message", &messages, Value::clone);
        let mut chunks: Vec<_> = (0..count)
            .map(|number| answer("delta", &messages, |message| piece(message, number, count)))
            .collect();

        // The visitor finds them under the same paths, in the same order.
        let mut expected = Vec::new();
        visit(&mut whole, |path, text| expected.push((kind(path), text.clone())));
        let mut joined: IndexMap<JsonPath, String> = IndexMap::new();
        for chunk in &mut chunks {
            visit(chunk, |path, text| {
                assert_continues(path, &joined);
                joined.entry(path.clone()).or_default().push_str(text);
            });
        }
        let joined: Vec<_> = joined.into_iter().map(|(path, text)| (kind(&path), text)).collect();
        prop_assert_eq!(joined, expected);
        let states = |answer: &Map<String, Value>| {
            let mut states = Vec::new();
            visit_state(answer, |text| states.push(text.to_owned()));
            states
        };
        prop_assert_eq!(chunks.iter().flat_map(states).collect::<Vec<_>>(), states(&whole));

        // So the same strings are judged, and the same message is kept.
        let mut fragments = Fragments::default();
        let mut beside = 0;
        for chunk in &mut chunks {
            beside += fragments.add(chunk).unwrap().bytes;
        }
        let judged = judged_strings("text", Some(&mut whole));
        prop_assert_eq!(texts(&fragments.judged_strings("text")), texts(&judged));
        prop_assert_eq!(beside, crate::safety::answer_strings::beside_text(&mut whole));
        let kept = fragments.message("text");
        let calls = messages[0].get("tool_calls").and_then(Value::as_array);
        prop_assert_eq!(kept.is_some(), calls.is_some());
        for (number, call) in calls.into_iter().flatten().enumerate() {
            let kept = &kept.as_ref().unwrap()["tool_calls"][number];
            prop_assert_eq!(&kept["id"], &call["id"]);
            for field in ["name", "arguments"] {
                let text = call.pointer(&format!("/function/{field}")).and_then(Value::as_str);
                prop_assert_eq!(kept["function"][field].as_str(), Some(text.unwrap_or_default()));
            }
        }
        prop_assert_eq!(
            kept.as_ref().and_then(|kept| kept.get("provider_state")),
            calls.and(messages[0].get("provider_state"))
        );
    }
}

/// Only strings that continue come again.
fn assert_continues(path: &JsonPath, joined: &IndexMap<JsonPath, String>) {
    assert!(path.continues() || !joined.contains_key(path), "{path:?}");
}
