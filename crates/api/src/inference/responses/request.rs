//! A request in the Responses format as a canonical prompt.

use domain::conversation::{INSTRUCTIONS, Message, Prompt, Role};
use domain::step::ApiEndpoint;
use gateway::ChatRequest;
use serde::Deserialize;
use serde_json::{Map, Number, Value, json};
use utoipa::ToSchema;

use crate::http::error::Result;
use crate::inference::canonical::members::{self, Offered, Vendor};
use crate::inference::canonical::prompt::{function, plain, text_part};
use crate::inference::canonical::read::{Node, invalid, malformed};
use crate::inference::format::ParsedRequest;
use crate::inference::message_names::MessageNames;
use crate::inference::responses::custom_tools::{CUSTOM, CustomTools};
use crate::inference::responses::input::{Conversation, Input};

/// Parameters that the chat-completions format has under the same name.
const SAME: [&str; 6] = [
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
    "prompt_cache_options",
];

/// A request in the Responses format, and `trace_id`.
#[derive(Deserialize, ToSchema)]
pub struct ResponsesBody {
    /// An open trace of this key's project; the header `X-Trace-Id` does as well.
    #[serde(default)]
    trace_id: Option<String>,
    /// A registered model; without one the request is routed.
    #[serde(default)]
    model: Option<String>,
    /// A text, or items: messages, `function_call`, `function_call_output`, `custom_tool_call`,
    /// `custom_tool_call_output`, `reasoning`.
    pub(super) input: Value,
    /// The instructions of the application.
    #[serde(default)]
    instructions: Option<String>,
    /// Answer with server-sent events.
    #[serde(default)]
    stream: Option<bool>,
    /// The most completion tokens.
    #[serde(default)]
    #[schema(minimum = 1)]
    max_output_tokens: Option<u64>,
    #[serde(default)]
    #[schema(value_type = Option<f64>)]
    temperature: Option<Number>,
    #[serde(default)]
    #[schema(value_type = Option<f64>)]
    top_p: Option<Number>,
    /// Functions and custom tools; tools that only a vendor has are left out and named.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// `auto`, `none`, `required`, or a function.
    #[serde(default)]
    tool_choice: Option<Value>,
    #[serde(default)]
    parallel_tool_calls: Option<bool>,
    /// `format` and `verbosity`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    text: Option<Map<String, Value>>,
    /// `effort` counts.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    reasoning: Option<Map<String, Value>>,
    /// Comes back with the answer.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// `true` is refused: nothing is kept.
    #[serde(default)]
    store: Option<bool>,
    /// `reasoning.encrypted_content` is always included; anything else is refused.
    #[serde(default)]
    include: Option<Vec<String>>,
    /// All other parameters. None is supported but `user`, `service_tier` and the like; most can be
    /// left out without harm.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub(super) others: Map<String, Value>,
    /// Whether it came in by the vendor's root.
    #[serde(skip)]
    pub(super) is_root: bool,
    /// The conversation that it continues, by `previous_response_id`.
    #[serde(skip)]
    #[schema(ignore)]
    pub(super) before: Vec<Message>,
    /// The response that it continues.
    #[serde(skip)]
    pub(super) previous: Option<String>,
}

/// The part of a request that shapes its answer.
#[derive(Debug, Default)]
pub(crate) struct AnswerOptions {
    /// The parameters that every answer repeats.
    pub(crate) echo: Map<String, Value>,
    /// The tools whose calls are answered with a text.
    pub(crate) custom: CustomTools,
}

/// Parses the body into a canonical request, and the part that shapes its answer.
pub(super) fn parse(
    body: ResponsesBody,
    trace: Option<String>,
) -> Result<ParsedRequest<AnswerOptions>> {
    let is_root = body.is_root;
    let mut lost = check(&body)?;
    let echo = echo(&body);
    let mut input = Input::new(is_root);
    if let Some(instructions) = body.instructions {
        let mut message = plain(Role::System, vec![text_part(instructions)]);
        message.extra.extend(is_root.then(|| (INSTRUCTIONS.to_owned(), true.into())));
        input.add(message);
    }
    let beside = if body.previous.is_some() { "previous_response_id" } else { "instructions" };
    body.before.into_iter().for_each(|message| input.add(message));
    input.read(body.input)?;
    let Conversation { messages, sources, mut dropped } = input.finish();
    if messages.is_empty() {
        return Err(invalid("input must not be empty"));
    }
    dropped.append(&mut lost);
    let mut end = |object: Node| {
        if !is_root {
            return object.end();
        }
        let at = object.at().to_owned();
        let path = |name: String| members::shown(&format!("{at}.{name}"));
        lost.extend(object.left().map(path));
        Ok(())
    };
    for (name, value) in &body.others {
        if !SAME.contains(&name.as_str()) {
            dropped.extend(members::leave_out(Vendor::Openai, name, value)?);
        }
    }
    let mut custom = CustomTools::default();
    let mut params: Map<String, Value> = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            params.insert(name.to_owned(), value);
        }
    };
    set("temperature", body.temperature.map(Value::Number));
    set("top_p", body.top_p.map(Value::Number));
    let choice = body.tool_choice.map(tool_choice).transpose()?;
    let mut has_tools = true;
    if let Some(tools) = body.tools {
        let (tools, left_out) =
            offered(tools, &mut custom, &mut Hints::new(is_root, &mut dropped))?
                .choose(choice.as_ref())?;
        // Vendors refuse a choice among no tools.
        has_tools = left_out.is_empty() || !tools.is_empty();
        dropped.extend(left_out);
        set("tools", has_tools.then(|| tools.into()));
    }
    set("tool_choice", choice.filter(|_| has_tools));
    set("parallel_tool_calls", body.parallel_tool_calls.filter(|_| has_tools).map(Value::Bool));
    if let Some(text) = body.text {
        let mut text = Node::of("text".to_owned(), Value::Object(text))?;
        set("response_format", text.maybe_node("format")?.map(format).transpose()?.flatten());
        set("verbosity", text.maybe_text("verbosity")?.map(Value::from));
        end(text)?;
    }
    if let Some(reasoning) = body.reasoning {
        let mut reasoning = Node::of("reasoning".to_owned(), Value::Object(reasoning))?;
        set("reasoning_effort", reasoning.maybe_text("effort")?.map(Value::from));
        for known in ["summary", "generate_summary"] {
            if reasoning.take(known).is_some() {
                dropped.push(reasoning.path(known));
            }
        }
        if !is_root {
            reasoning.idle("mode", &"standard".into())?;
            reasoning.idle("context", &"auto".into())?;
        }
        end(reasoning)?;
    }
    for (name, value) in body.others {
        let is_same = SAME.contains(&name.as_str());
        set(&name, Some(value).filter(|value| is_same && !value.is_null()));
    }
    dropped.append(&mut lost);
    let request = ChatRequest {
        api_endpoint: ApiEndpoint::Responses,
        trace_id: body.trace_id.or(trace),
        model: body.model.filter(|model| !model.is_empty()),
        prompt: Prompt {
            messages,
            max_output_tokens: body.max_output_tokens,
            is_translated: true,
            is_lenient: false,
            params,
            original: None,
        },
    };
    Ok(ParsedRequest {
        request,
        streams: body.stream.unwrap_or(false),
        names: Some(MessageNames { list: "input", beside, sources }),
        dropped,
        options: AnswerOptions { echo, custom },
    })
}

/// Refuses values that would need stored state, or a tool that only a vendor has. Returns the names of
/// those that do no harm, at the vendor's root.
fn check(body: &ResponsesBody) -> Result<Vec<String>> {
    let mut lost = Vec::new();
    if body.max_output_tokens == Some(0) {
        return Err(invalid("max_output_tokens must be at least 1"));
    }
    if body.store == Some(true) && !body.is_root {
        return Err(invalid("store is not supported: nothing is kept between two requests"));
    }
    for included in body.include.iter().flatten() {
        if included == "message.output_text.logprobs" || !body.is_root {
            if included == "reasoning.encrypted_content" {
                continue;
            }
            let included: String = included.chars().take(64).collect();
            return Err(invalid(format!("include: '{included}' is not supported")));
        }
        if included != "reasoning.encrypted_content" {
            lost.push(members::shown(&format!("include.{included}")));
        }
    }
    Ok(lost)
}

/// The parameters of the request that every answer repeats, or the defaults that were applied.
fn echo(body: &ResponsesBody) -> Map<String, Value> {
    let text = body.text.clone().map_or_else(|| json!({"format": {"type": "text"}}), Value::Object);
    let effort = body.reasoning.as_ref().map(|reasoning| reasoning.get("effort"));
    let reasoning = effort.map(|effort| json!({"effort": effort, "summary": null}));
    let echo = json!({
        "background": false,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "metadata": body.metadata.clone().unwrap_or_default(),
        "parallel_tool_calls": body.parallel_tool_calls.unwrap_or(true),
        "previous_response_id": body.previous,
        "reasoning": reasoning,
        "store": body.is_root && body.store != Some(false),
        "temperature": body.temperature,
        "text": text,
        "tool_choice": body.tool_choice.clone().unwrap_or_else(|| "auto".into()),
        "tools": body.tools.clone().unwrap_or_default(),
        "top_p": body.top_p,
        "truncation": "disabled",
    });
    match echo {
        Value::Object(echo) => echo,
        _ => Map::new(),
    }
}

/// Members of tools that other vendors' models lack: refused, or at the vendor's root left out.
pub(super) struct Hints<'a> {
    is_root: bool,
    dropped: &'a mut Vec<String>,
}

impl<'a> Hints<'a> {
    pub(super) fn new(is_root: bool, dropped: &'a mut Vec<String>) -> Self {
        Self { is_root, dropped }
    }

    /// Ends the reading of a tool. A deferred one is offered at once, to every model.
    pub(super) fn end(&mut self, mut tool: Node) -> Result<()> {
        let idle = [
            ("allowed_callers", json!(["direct"])),
            ("defer_loading", false.into()),
            ("async", false.into()),
        ];
        for (name, value) in idle {
            match tool.idle(name, &value) {
                Err(_) if self.is_root => self.dropped.push(name.to_owned()),
                idle => idle?,
            }
        }
        if !self.is_root {
            return tool.end();
        }
        self.dropped.extend(tool.left().map(|name| members::shown(&name)));
        Ok(())
    }
}

fn offered(tools: Vec<Value>, custom: &mut CustomTools, hints: &mut Hints<'_>) -> Result<Offered> {
    let mut offered = Offered::default();
    for tool in Node::all("tools", tools) {
        let mut tool = tool?;
        let kind = tool.text("type")?;
        match kind.as_str() {
            "function" => offered.add(custom.beside(own_function(tool, hints)?)?),
            CUSTOM => offered.add(custom.read(tool, hints)?),
            _ => offered.leave_out(tool, kind)?,
        }
    }
    Ok(offered)
}

fn own_function(mut tool: Node, hints: &mut Hints<'_>) -> Result<Value> {
    let name = tool.text("name")?;
    let description = tool.maybe_text("description")?;
    let function = function(name, description, tool.take("parameters"), tool.take("strict"));
    hints.end(tool)?;
    Ok(function)
}

fn tool_choice(choice: Value) -> Result<Value> {
    if let Value::String(word) = &choice {
        return match word.as_str() {
            "auto" | "none" | "required" => Ok(choice),
            _ => Err(invalid("tool_choice must be auto, none, required or a function")),
        };
    }
    let mut choice = Node::of("tool_choice".to_owned(), choice)?;
    let kind = choice.text("type")?;
    if kind != "function" && kind != CUSTOM {
        return Err(choice.unsupported("a choice", &kind));
    }
    let name = choice.text("name")?;
    choice.end()?;
    Ok(json!({"type": "function", "function": {"name": name}}))
}

/// The form that the text must have; plain text is none.
fn format(mut format: Node) -> Result<Option<Value>> {
    let kind = format.text("type")?;
    let canonical = match kind.as_str() {
        "text" => None,
        "json_object" => Some(json!({"type": "json_object"})),
        "json_schema" => {
            let mut schema = Map::new();
            schema.insert("name".to_owned(), format.text("name")?.into());
            for name in ["schema", "strict", "description"] {
                if let Some(value) = format.take(name) {
                    schema.insert(name.to_owned(), value);
                }
            }
            if !schema.get("schema").is_some_and(Value::is_object) {
                return Err(malformed(format!("{} must be an object", format.path("schema"))));
            }
            Some(json!({"type": "json_schema", "json_schema": schema}))
        }
        _ => return Err(format.unsupported("a format", &kind)),
    };
    format.end()?;
    Ok(canonical)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
