//! The content of a step as attributes: messages in the form of the conventions, as JSON texts.

use domain::json_weight::InnerJson;
use domain::step::{ApiEndpoint, Content, FinishReason, Step, StepKind};
use serde_json::{Map, Value, json};

use super::names;
use super::wire::Attribute;

/// The part of a content that may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The names of tools.
    Names,
    /// Inputs and outputs too.
    Everything,
}

/// Whether the span of a step shows messages, if they may be shown.
pub(super) fn has_messages(step: &Step) -> bool {
    let is_message = matches!(step.kind, StepKind::Run | StepKind::Blocked);
    is_message && step.api_endpoint != ApiEndpoint::Embeddings
}

/// Adds the messages and parameters of a call, or the request that was refused.
pub(super) fn add_messages(attributes: &mut Vec<Attribute>, step: &Step, content: &Content) {
    if !has_messages(step) {
        return;
    }
    let mut inner = InnerJson::default();
    let input = match &content.input {
        Some(Value::String(text)) => Some(vec![message("user", vec![text_part(text)])]),
        Some(Value::Array(messages)) => {
            Some(messages.iter().map(|message| input_message(message, &mut inner)).collect())
        }
        _ => None,
    };
    attributes.extend(input.map(|messages| json_text(names::INPUT_MESSAGES, messages)));
    let output = content.output.as_ref();
    let output = output.and_then(|output| output_parts(output, &mut inner)).map(|parts| {
        let finish = step.call.as_ref().and_then(|call| call.finish);
        let mut message = message("assistant", parts);
        message["finish_reason"] = finish_word(finish).into();
        vec![message]
    });
    attributes.extend(output.map(|messages| json_text(names::OUTPUT_MESSAGES, messages)));
    let bound = content.max_output_tokens.map(|most| Attribute::new(names::MAX_TOKENS, most));
    attributes.extend(bound);
    if let Some(params) = &content.params {
        add_params(attributes, params);
    }
}

/// Adds a tool that the gateway ran, and returns its name; or the names of tools that the caller is to
/// run.
pub(super) fn add_tool(
    attributes: &mut Vec<Attribute>,
    content: &Content,
    shown: Shown,
) -> Option<String> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let input = content.input.as_ref();
    let Some(server) = text(input.and_then(|input| input.get("server_label"))) else {
        let calls = content.output.as_ref().and_then(|output| output.get("tool_calls"));
        let calls = calls.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let names: Vec<String> = calls.iter().filter_map(|call| text(call.get("name"))).collect();
        attributes.push(Attribute::new("sluice.tool.names", names));
        return None;
    };
    attributes.push(Attribute::new("sluice.mcp.server", server));
    let input = input?;
    // The server was not even asked for its tools.
    let name = text(input.get("name"))?;
    attributes.push(Attribute::new(names::OPERATION, names::EXECUTE_TOOL));
    attributes.push(Attribute::new(names::TOOL_NAME, name.as_str()));
    attributes.push(Attribute::new(names::TOOL_TYPE, "extension"));
    let id = text(input.get("id"));
    attributes.extend(id.map(|id| Attribute::new(names::TOOL_CALL_ID, id)));
    if shown == Shown::Everything {
        let arguments = input.get("arguments").map(Value::to_string);
        attributes.extend(arguments.map(|json| Attribute::new(names::TOOL_CALL_ARGUMENTS, json)));
        let result = text(content.output.as_ref());
        attributes.extend(result.map(|text| Attribute::new(names::TOOL_CALL_RESULT, text)));
    }
    Some(name)
}

fn add_params(attributes: &mut Vec<Attribute>, params: &Map<String, Value>) {
    for (name, attribute) in names::NUMBERS {
        let number = params.get(name).and_then(Value::as_f64);
        attributes.extend(number.map(|number| Attribute::new(attribute, number)));
    }
    let integer = |name: &str| params.get(name).and_then(Value::as_i64);
    attributes.extend(integer("seed").map(|seed| Attribute::new(names::SEED, seed)));
    let choices = integer("n").filter(|choices| *choices != 1);
    attributes.extend(choices.map(|choices| Attribute::new(names::CHOICE_COUNT, choices)));
    let stop: Vec<String> = match params.get("stop") {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(texts)) => {
            texts.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    if !stop.is_empty() {
        attributes.push(Attribute::new(names::STOP_SEQUENCES, stop));
    }
    let format = params.get("response_format").and_then(|format| format.get("type")?.as_str());
    if let Some(format) = format {
        let kind = if format == "text" { "text" } else { "json" };
        attributes.push(Attribute::new(names::OUTPUT_TYPE, kind));
    }
    if let Some(tools) = params.get("tools").and_then(Value::as_array) {
        let defined = tools.iter().filter_map(|tool| {
            let name = tool.get("function").unwrap_or(tool).get("name")?;
            Some(json!({"type": tool.get("type")?, "name": name}))
        });
        attributes.push(json_text(names::TOOL_DEFINITIONS, defined.collect()));
    }
}

/// A list as a text of JSON: few backends read attributes that are lists of objects.
fn json_text(name: &str, list: Vec<Value>) -> Attribute {
    Attribute::new(name, Value::Array(list).to_string())
}

fn message(role: &str, parts: Vec<Value>) -> Value {
    json!({"role": role, "parts": parts})
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "content": text})
}

fn input_message(value: &Value, inner: &mut InnerJson) -> Value {
    let role = value.get("role").and_then(Value::as_str).unwrap_or("user");
    if role == "tool" {
        let id = value.get("tool_call_id");
        let response = value.get("content");
        let part = json!({"type": "tool_call_response", "id": id, "response": response});
        return message(role, vec![part]);
    }
    message(role, message_parts(value, inner))
}

/// The parts of an answer; `None` if it is no answer of a conversation.
fn output_parts(output: &Value, inner: &mut InnerJson) -> Option<Vec<Value>> {
    match output {
        Value::String(text) => Some(vec![text_part(text)]),
        Value::Object(_) => Some(message_parts(output, inner)),
        _ => None,
    }
}

fn message_parts(message: &Value, inner: &mut InnerJson) -> Vec<Value> {
    let list = |name: &str| message.get(name).and_then(Value::as_array).into_iter().flatten();
    let text = |name: &str| message.get(name).and_then(Value::as_str).map(text_part);
    let parts = list("content").map(part);
    let calls = list("tool_calls").map(|call| tool_call(call, inner));
    parts.chain(text("content")).chain(text("refusal")).chain(calls).collect()
}

/// A part of a message. One that the conventions have no form for stays as it is: any object with a
/// type is a part there.
fn part(part: &Value) -> Value {
    let text = |path: &str| part.pointer(path).and_then(Value::as_str);
    match text("/type") {
        Some("text") => text_part(text("/text").unwrap_or_default()),
        Some("refusal") => text_part(text("/refusal").unwrap_or_default()),
        Some("image_url") => media("image", text("/image_url/url").unwrap_or_default()),
        Some("input_audio") => {
            let format = text("/input_audio/format").unwrap_or_default();
            let data = text("/input_audio/data").unwrap_or_default();
            let kind = format!("audio/{format}");
            json!({"type": "blob", "modality": "audio", "mime_type": kind, "content": data})
        }
        Some(_) => part.clone(),
        None => json!({"type": "unknown"}),
    }
}

/// A medium at an address, or in it.
fn media(modality: &str, url: &str) -> Value {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((kind, data)) => {
            json!({"type": "blob", "modality": modality, "mime_type": kind, "content": data})
        }
        None => json!({"type": "uri", "modality": modality, "uri": url}),
    }
}

fn tool_call(call: &Value, inner: &mut InnerJson) -> Value {
    let function = call.get("function").unwrap_or(call);
    let arguments = function.get("arguments").cloned().unwrap_or_default();
    // Arguments are a text of JSON in the chat-completions format.
    let read = arguments.as_str().and_then(|text| inner.read::<Value>(text));
    json!({
        "type": "tool_call",
        "id": call.get("id"),
        "name": function.get("name").and_then(Value::as_str).unwrap_or_default(),
        "arguments": read.unwrap_or(arguments),
    })
}

/// Why a model stopped, in the words of the form of messages.
fn finish_word(finish: Option<FinishReason>) -> &'static str {
    match finish {
        None => "error",
        Some(FinishReason::ToolCalls) => "tool_call",
        Some(other) => other.chat_word(),
    }
}
