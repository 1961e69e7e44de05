//! Conversations by chance, for the tests of every format, and what is said in them.

use domain::conversation::{Body, Message, Prompt, Role};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// What somebody says, in the order in which it must arrive.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
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

pub(crate) fn word() -> impl Strategy<Value = String> {
    "[a-zé🙂\"\\\\ \n]{0,10}x"
}

pub(crate) fn arguments() -> impl Strategy<Value = Map<String, Value>> {
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

/// What a caller asks, and what is said in it.
pub(crate) fn conversation() -> impl Strategy<Value = (Prompt, Vec<Said>)> {
    prop::collection::vec(turn(), 0..8).prop_map(|turns| {
        let (messages, said) = written(turns);
        (Prompt { messages, ..Prompt::default() }, said)
    })
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
