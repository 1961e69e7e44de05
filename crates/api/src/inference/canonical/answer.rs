//! Whole answers, taken apart.

use gateway::ChatReply;
use serde_json::{Map, Value};

use crate::inference::canonical::prompt::State;

/// The content of a whole answer of a model.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The model's reasoning; empty if there was none.
    pub(crate) thought: String,
    /// The text of the answer.
    pub(crate) text: String,
    /// The reason why it refused; empty when it did not.
    pub(crate) refusal: String,
    /// The tools that it calls, in order.
    pub(crate) calls: Vec<Call>,
    /// The state that its provider requires back verbatim.
    pub(crate) state: Option<State>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The arguments as the model wrote them: usually JSON.
    pub(crate) arguments: String,
}

/// The first choice in a provider's own answer, or in a chunk of one. A choice without an index is
/// the only one.
pub(crate) fn first_choice(native: &mut Map<String, Value>) -> Option<&mut Value> {
    let choices = native.get_mut("choices").and_then(Value::as_array_mut);
    choices.into_iter().flatten().find(|choice| choice["index"].as_u64().unwrap_or(0) == 0)
}

impl Answer {
    /// Takes the content out of a reply.
    pub(crate) fn of(reply: &mut ChatReply) -> Self {
        let native = reply.native.take();
        let mut message = native.and_then(first_message).unwrap_or_default();
        let calls = message.remove("tool_calls");
        let calls = calls.as_ref().and_then(Value::as_array).into_iter().flatten();
        Self {
            thought: thought(&mut message),
            text: std::mem::take(&mut reply.text),
            refusal: taken_text(&mut message, "refusal"),
            calls: calls.filter_map(read_call).collect(),
            state: State::taken(&mut message),
        }
    }
}

/// Takes the reasoning, whose member has two names.
pub(super) fn thought(of: &mut Map<String, Value>) -> String {
    let thought = taken_text(of, "reasoning_content");
    if thought.is_empty() { taken_text(of, "reasoning") } else { thought }
}

/// A text member; empty if there is none.
pub(super) fn taken_text(of: &mut Map<String, Value>, name: &str) -> String {
    match of.remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

fn first_message(mut native: Map<String, Value>) -> Option<Map<String, Value>> {
    let Some(Value::Array(choices)) = native.remove("choices") else { return None };
    let Some(Value::Object(mut choice)) = choices.into_iter().next() else { return None };
    match choice.remove("message") {
        Some(Value::Object(message)) => Some(message),
        _ => None,
    }
}

fn read_call(call: &Value) -> Option<Call> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let function = call.get("function")?;
    Some(Call {
        id: text(call.get("id")),
        name: text(function.get("name")),
        arguments: text(function.get("arguments")),
    })
}
