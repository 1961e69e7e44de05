//! Any conversation survives the translation: an independent reader finds the same roles, order,
//! ids, arguments and texts in the request.

use domain::conversation::{Body, Message, Prompt, Role};
use domain::model::Provider;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::Anthropic;
use crate::adapter::Adapter as _;
use crate::testing::{attempt, model};

/// What somebody says, in the order in which it must arrive.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Text(&'static str, String),
    Call(String, String, Value),
    Result(String, String),
}

#[derive(Clone, Debug)]
enum Turn {
    User(String),
    Assistant(String),
    /// Names and arguments of parallel calls, and what each gave back.
    Tools(Option<String>, Vec<(String, Map<String, Value>, String)>),
}

fn word() -> impl Strategy<Value = String> {
    "[a-zé🙂\"\\\\ \n]{0,10}x"
}

fn arguments() -> impl Strategy<Value = Map<String, Value>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word().prop_map(Value::from),
        prop::collection::vec(word(), 0..3).prop_map(Value::from),
    ];
    prop::collection::vec((word(), leaf), 0..4).prop_map(|pairs| pairs.into_iter().collect())
}

fn turn() -> impl Strategy<Value = Turn> {
    let calls = prop::collection::vec(("[a-z_]{1,8}", arguments(), word()), 1..4);
    prop_oneof![
        word().prop_map(Turn::User),
        word().prop_map(Turn::Assistant),
        (prop::option::of(word()), calls).prop_map(|(text, calls)| Turn::Tools(text, calls)),
    ]
}

/// The messages of a caller, and what is said in them.
fn written(turns: Vec<Turn>) -> (Vec<Message>, Vec<Said>) {
    let mut messages = vec![Message::user("begin")];
    let mut all = vec![Said::Text("user", "begin".to_owned())];
    let plain =
        |role, text: &str| Message { role, body: Body::Text(text.to_owned()), extra: Map::new() };
    for (number, turn) in turns.into_iter().enumerate() {
        match turn {
            Turn::User(text) => {
                messages.push(plain(Role::User, &text));
                all.push(Said::Text("user", text));
            }
            Turn::Assistant(text) => {
                messages.push(plain(Role::Assistant, &text));
                all.push(Said::Text("assistant", text));
            }
            Turn::Tools(text, calls) => {
                let mut message = plain(Role::Assistant, text.as_deref().unwrap_or_default());
                all.extend(text.map(|text| Said::Text("assistant", text)));
                let id = |index| format!("call_{number}_{index}");
                let listed = calls.iter().enumerate().map(|(index, (name, arguments, _))| {
                    json!({"id": id(index), "type": "function", "function": {"name": name,
                        "arguments": Value::Object(arguments.clone()).to_string()}})
                });
                message.extra.insert("tool_calls".to_owned(), listed.collect());
                messages.push(message);
                let results: Vec<_> =
                    calls.iter().map(|(_, _, result)| result.clone()).enumerate().collect();
                all.extend(calls.into_iter().enumerate().map(|(index, (name, arguments, _))| {
                    Said::Call(id(index), name, Value::Object(arguments))
                }));
                for (index, result) in results {
                    let mut message = plain(Role::Tool, &result);
                    message.extra.insert("tool_call_id".to_owned(), id(index).into());
                    messages.push(message);
                    all.push(Said::Result(id(index), result));
                }
            }
        }
    }
    (messages, all)
}

fn read(body: &Value) -> Vec<Said> {
    let mut all = Vec::new();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut last = "assistant";
    for message in body["messages"].as_array().unwrap() {
        let role = if message["role"] == "user" { "user" } else { "assistant" };
        assert_ne!(role, last, "the speakers take turns");
        last = role;
        for block in message["content"].as_array().unwrap() {
            all.push(match block["type"].as_str().unwrap() {
                "text" => Said::Text(role, text(&block["text"])),
                "tool_use" => {
                    Said::Call(text(&block["id"]), text(&block["name"]), block["input"].clone())
                }
                "tool_result" => Said::Result(text(&block["tool_use_id"]), text(&block["content"])),
                other => panic!("{other}"),
            });
        }
    }
    all
}

proptest! {
    #[test]
    fn nothing_is_lost(turns in prop::collection::vec(turn(), 0..8)) {
        let (messages, said) = written(turns);
        let prompt = Prompt { messages, ..Prompt::default() };
        let model = model(Provider::Anthropic, None);
        let body = Anthropic.encode(&attempt(&model, &prompt)).unwrap().body;
        prop_assert_eq!(read(&serde_json::from_slice(&body).unwrap()), said);
    }

    /// And what a model says comes out of its answer: the same calls, the same text.
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
