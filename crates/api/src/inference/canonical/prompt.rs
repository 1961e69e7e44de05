//! The pieces that a canonical prompt is made of.

use std::collections::HashSet;

use domain::conversation::{Body, CACHE_BREAKPOINT, Message, PROVIDER_STATE as STATE, Role};
use domain::json_weight::InnerJson;
use serde_json::{Map, Value, json};

/// The state that a provider requires back verbatim, as a text that a client keeps without reading
/// it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State(Value);

impl State {
    /// The member of a message or a chunk, if it is there.
    pub(crate) fn taken(from: &mut Map<String, Value>) -> Option<Self> {
        from.remove(STATE).filter(Value::is_object).map(Self)
    }

    /// The text.
    pub(crate) fn token(&self) -> String {
        self.0.to_string()
    }
}

/// Bytes of all states of a prompt beside their proportion: they are kept while the call lasts.
const STATE_ALLOWANCE: usize = 1024 * 1024;

/// Reads the states of one prompt.
#[derive(Debug)]
pub(crate) struct States(InnerJson);

impl Default for States {
    fn default() -> Self {
        Self(InnerJson::within(STATE_ALLOWANCE))
    }
}

impl States {
    /// The state in a text that a client sends back; `None` if it is not one of ours.
    pub(crate) fn of(&mut self, token: &str) -> Option<State> {
        let state: Map<String, Value> = self.0.read(token)?;
        let is_ours = ["provider", "model", "content"].iter().all(|name| state.contains_key(*name));
        is_ours.then(|| State(Value::Object(state)))
    }
}

/// A content part that is text.
pub(crate) fn text_part(text: String) -> Value {
    json!({"type": "text", "text": text})
}

/// A content part that is an image.
pub(crate) fn image_part(url: String, detail: Option<String>) -> Value {
    let mut image = json!({"url": url});
    if let Some(detail) = detail {
        image["detail"] = detail.into();
    }
    json!({"type": "image_url", "image_url": image})
}

/// A content part that is a recording, in base64.
pub(crate) fn audio_part(format: &str, data: String) -> Value {
    json!({"type": "input_audio", "input_audio": {"data": data, "format": format}})
}

/// A tool call.
pub(crate) fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

/// A function that may be called.
pub(crate) fn function(
    name: String,
    description: Option<String>,
    parameters: Option<Value>,
    strict: Option<Value>,
) -> Value {
    let mut function = Map::new();
    function.insert("name".to_owned(), name.into());
    let more = [
        ("description", description.map(Value::from)),
        ("parameters", parameters),
        ("strict", strict),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            function.insert(name.to_owned(), value);
        }
    }
    json!({"type": "function", "function": function})
}

/// Puts the breakpoint of a cache after a part, a call or a tool.
pub(crate) fn marked(mut what: Value, breakpoint: Option<&'static str>) -> Value {
    if let Some(kept) = breakpoint {
        what[CACHE_BREAKPOINT] = kept.into();
    }
    what
}

/// A message with content only.
pub(crate) fn plain(role: Role, parts: Vec<Value>) -> Message {
    let mut extra = Map::new();
    Message { role, body: body(parts, &mut extra), extra }
}

/// A message that is one text.
pub(crate) fn text_alone(role: Role, text: String) -> Message {
    Message { role, body: Body::Text(text), extra: Map::new() }
}

/// A message of the assistant.
pub(crate) fn assistant(parts: Vec<Value>, calls: Vec<Value>, state: Option<State>) -> Message {
    let mut extra = Map::new();
    let body = if parts.is_empty() { Body::Empty } else { body(parts, &mut extra) };
    if !calls.is_empty() {
        extra.insert("tool_calls".to_owned(), calls.into());
    }
    if let Some(State(state)) = state {
        extra.insert(STATE.to_owned(), state);
    }
    Message { role: Role::Assistant, body, extra }
}

/// The result of a tool. The canonical form cannot hold images in it: they are returned, for the
/// user's next message.
pub(crate) fn result(id: String, parts: Vec<Value>) -> (Message, Vec<Value>) {
    let is_text = |part: &Value| part.get("type").and_then(Value::as_str) == Some("text");
    let (texts, images) = parts.into_iter().partition(is_text);
    let mut extra = Map::new();
    extra.insert("tool_call_id".to_owned(), id.into());
    (Message { role: Role::Tool, body: body(texts, &mut extra), extra }, images)
}

/// One text goes as a plain string: not every server of the format reads lists. A breakpoint after
/// it becomes the message's.
fn body(mut parts: Vec<Value>, extra: &mut Map<String, Value>) -> Body {
    match parts.as_mut_slice() {
        [] => Body::Text(String::new()),
        [part] => match part.get_mut("text").map(Value::take) {
            Some(Value::String(text)) => {
                let kept = part.get_mut(CACHE_BREAKPOINT).map(Value::take);
                extra.extend(kept.map(|kept| (CACHE_BREAKPOINT.to_owned(), kept)));
                Body::Text(text)
            }
            _ => Body::Parts(parts),
        },
        _ => Body::Parts(parts),
    }
}

/// The parameter that has an answer fit a schema.
pub(crate) fn answer_schema(schema: Value) -> Value {
    let mut spec = json!({"name": "answer", "schema": schema});
    // Strict models behind this format accept only schemas without optional members.
    if is_closed(&spec["schema"]) {
        spec["strict"] = true.into();
    }
    json!({"type": "json_schema", "json_schema": spec})
}

/// Whether every object in a schema names all of its members, and needs all of them.
fn is_closed(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            let named = members.get("properties").and_then(Value::as_object);
            let is_object = named.is_some()
                || match members.get("type") {
                    Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
                    kind => kind.is_some_and(|kind| kind == "object"),
                };
            let required = members.get("required").and_then(Value::as_array);
            let required: HashSet<&str> =
                required.into_iter().flatten().filter_map(Value::as_str).collect();
            let needs = |name: &String| required.contains(name.as_str());
            let is_closed_here = !is_object
                || (members.get("additionalProperties") == Some(&Value::Bool(false))
                    && named.is_some_and(|named| named.keys().all(needs)));
            is_closed_here && members.values().all(is_closed)
        }
        Value::Array(values) => values.iter().all(is_closed),
        _ => true,
    }
}
