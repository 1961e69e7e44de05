//! Random conversations for the tests of every format, and the content expected of their requests.

use domain::conversation::{Body, Message, Prompt, Role};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A piece of expected content, in the order in which it must arrive.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    /// Speaker and text; the application is `system` also under its newer name.
    Text(&'static str, String),
    /// An image of the user's, in base64.
    Image(String),
    /// Id, name and arguments.
    Call(String, String, Value),
    /// Id and result of a call.
    Result(String, String),
}

#[derive(Clone, Debug)]
enum Turn {
    /// Whether the role has the newer name, and the text in one or several parts.
    System(bool, Vec<String>),
    User(String),
    /// Texts, and images in base64.
    Parts(Vec<Result<String, String>>),
    Assistant(String),
    /// The reason why the model refused.
    Refusal(String),
    Tools(Round),
}

/// Parallel calls of tools after a text, and their results, the last one first if they are not in the
/// order of the calls.
#[derive(Clone, Debug)]
struct Round {
    text: Option<String>,
    /// Names, arguments and results.
    calls: Vec<(String, Map<String, Value>, String)>,
    backwards: bool,
}

pub(crate) fn word() -> impl Strategy<Value = String> {
    "[a-zé🙂\"\\\\ \n]{0,10}x"
}

pub(crate) fn arguments() -> impl Strategy<Value = Map<String, Value>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        word().prop_map(Value::from),
        prop::collection::vec(word(), 0..3).prop_map(Value::from),
    ];
    prop::collection::vec((word(), leaf), 0..4).prop_map(|pairs| pairs.into_iter().collect())
}

fn turn() -> impl Strategy<Value = Turn> {
    let words = prop::collection::vec(word(), 1..3);
    let part = prop_oneof![word().prop_map(Ok), "([A-Za-z0-9+/]{4}){1,3}".prop_map(Err)];
    let calls = prop::collection::vec(("[a-z_]{1,8}", arguments(), word()), 1..4);
    prop_oneof![
        (any::<bool>(), words).prop_map(|(is_new, texts)| Turn::System(is_new, texts)),
        word().prop_map(Turn::User),
        prop::collection::vec(part, 1..4).prop_map(Turn::Parts),
        word().prop_map(Turn::Assistant),
        word().prop_map(Turn::Refusal),
        (prop::option::of(word()), calls, any::<bool>())
            .prop_map(|(text, calls, backwards)| Turn::Tools(Round { text, calls, backwards })),
    ]
}

/// A caller's prompt, and its content.
pub(crate) fn conversation() -> impl Strategy<Value = (Prompt, Vec<Said>)> {
    prop::collection::vec(turn(), 0..8).prop_map(|turns| {
        let mut written = Written::default();
        written.turn(Turn::User("begin".to_owned()), 0);
        for (number, turn) in turns.into_iter().enumerate() {
            written.turn(turn, number);
        }
        (Prompt { messages: written.messages, ..Prompt::default() }, written.said)
    })
}

/// The content in the order of formats in which the application speaks before everybody else.
pub(crate) fn system_first(said: Vec<Said>) -> Vec<Said> {
    let (mut first, rest): (Vec<_>, Vec<_>) =
        said.into_iter().partition(|said| matches!(said, Said::Text("system", _)));
    first.extend(rest);
    first
}

/// The content of a request whose system prompt is apart and whose messages hold blocks; `block` reads
/// one, given its speaker.
pub(crate) fn said_in_blocks(
    body: &Value,
    block: impl Fn(&'static str, &Value) -> Said,
) -> Vec<Said> {
    let system = body["system"].as_array().into_iter().flatten();
    let mut all: Vec<_> = system.map(|part| Said::Text("system", text(&part["text"]))).collect();
    let mut last = "assistant";
    for message in body["messages"].as_array().unwrap() {
        let role = if message["role"] == "user" { "user" } else { "assistant" };
        assert_ne!(role, last, "the speakers take turns");
        last = role;
        all.extend(message["content"].as_array().unwrap().iter().map(|said| block(role, said)));
    }
    all
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The messages of a caller, and their content.
#[derive(Default)]
struct Written {
    messages: Vec<Message>,
    said: Vec<Said>,
}

impl Written {
    fn say(&mut self, role: Role, body: Body, extra: Map<String, Value>) {
        self.messages.push(Message { role, body, extra });
    }

    fn turn(&mut self, turn: Turn, number: usize) {
        let text = |text: &String| json!({"type": "text", "text": text});
        match turn {
            Turn::System(is_new, texts) => {
                let role = if is_new { Role::Developer } else { Role::System };
                let body = match texts.as_slice() {
                    [one] => Body::Text(one.clone()),
                    several => Body::Parts(several.iter().map(text).collect()),
                };
                self.say(role, body, Map::new());
                self.said.extend(texts.into_iter().map(|text| Said::Text("system", text)));
            }
            Turn::User(text) => {
                self.say(Role::User, Body::Text(text.clone()), Map::new());
                self.said.push(Said::Text("user", text));
            }
            Turn::Parts(parts) => {
                let written = parts.iter().map(|part| match part {
                    Ok(said) => text(said),
                    Err(picture) => json!({"type": "image_url",
                        "image_url": {"url": format!("data:image/png;base64,{picture}")}}),
                });
                self.say(Role::User, Body::Parts(written.collect()), Map::new());
                self.said.extend(parts.into_iter().map(|part| match part {
                    Ok(text) => Said::Text("user", text),
                    Err(picture) => Said::Image(picture),
                }));
            }
            Turn::Assistant(text) => {
                self.say(Role::Assistant, Body::Text(text.clone()), Map::new());
                self.said.push(Said::Text("assistant", text));
            }
            Turn::Refusal(text) => {
                let extra = Map::from_iter([("refusal".to_owned(), text.clone().into())]);
                self.say(Role::Assistant, Body::Empty, extra);
                self.said.push(Said::Text("assistant", text));
            }
            Turn::Tools(round) => self.round(round, number),
        }
    }

    fn round(&mut self, Round { text, calls, backwards }: Round, number: usize) {
        let id = |index: usize| format!("call_{number}_{index}");
        let listed = calls.iter().enumerate().map(|(index, (name, arguments, _))| {
            json!({"id": id(index), "type": "function", "function":
                {"name": name, "arguments": Value::Object(arguments.clone()).to_string()}})
        });
        let extra = Map::from_iter([("tool_calls".to_owned(), listed.collect())]);
        self.say(Role::Assistant, text.clone().map_or(Body::Empty, Body::Text), extra);
        self.said.extend(text.map(|text| Said::Text("assistant", text)));
        let mut results = Vec::new();
        for (index, (name, arguments, result)) in calls.into_iter().enumerate() {
            self.said.push(Said::Call(id(index), name, Value::Object(arguments)));
            results.push((id(index), result));
        }
        if backwards {
            results.reverse();
        }
        for (id, result) in results {
            let extra = Map::from_iter([("tool_call_id".to_owned(), id.clone().into())]);
            self.say(Role::Tool, Body::Text(result.clone()), extra);
            self.said.push(Said::Result(id, result));
        }
    }
}
