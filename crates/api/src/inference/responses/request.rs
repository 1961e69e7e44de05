//! A request in the Responses format as a canonical prompt.

use domain::conversation::{INSTRUCTIONS, Prompt, Role};
use domain::original::Original;
use domain::step::ApiEndpoint;
use gateway::ChatRequest;
use serde_json::{Map, Value, json};

use crate::http::error::Result;
use crate::inference::canonical::members::{self, Offered, Vendor};
use crate::inference::canonical::prompt::{function, plain, text_part};
use crate::inference::canonical::read::{Node, invalid, malformed};
use crate::inference::canonical::translation_gaps::TranslationGaps;
use crate::inference::format::ParsedRequest;
use crate::inference::message_names::MessageNames;
use crate::inference::responses::body::ResponsesBody;
use crate::inference::responses::custom_tools::{CUSTOM, CustomTools};
use crate::inference::responses::hints::Hints;
use crate::inference::responses::input::{Conversation, Input};
use crate::inference::responses::passing::{self, CONVERSATION};

/// Parameters that the chat-completions format has under the same name.
const SAME: [&str; 6] = [
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
    "prompt_cache_options",
];

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
    parse_passing(body, trace, None)
}

/// Parses the body into a canonical request, and the part that shapes its answer.
///
/// If the request may go on as it came, the parts that have no canonical form are noted in `original`:
/// they keep it from being translated, and are no fault otherwise.
pub(super) fn parse_passing(
    mut body: ResponsesBody,
    trace: Option<String>,
    mut original: Option<Original>,
) -> Result<ParsedRequest<AnswerOptions>> {
    let mut gaps = TranslationGaps::of(original.as_ref());
    if let Some(original) = &mut original {
        passing::record_vendor_state(&mut body, original, &mut gaps)?;
    }
    let (is_root, is_resolved) = (body.is_root, body.is_resolved);
    let mut lost = check(&body, &mut gaps)?;
    let echo = echo(&body);
    let mut input = Input::new(is_root, gaps);
    if let Some(instructions) = body.instructions {
        let mut message = plain(Role::System, vec![text_part(instructions)]);
        message.extra.extend(is_root.then(|| (INSTRUCTIONS.to_owned(), true.into())));
        input.add(message);
    }
    let beside = if body.before.is_empty() { "instructions" } else { "previous_response_id" };
    body.before.into_iter().for_each(|message| input.add(message));
    input.read(body.input)?;
    let (Conversation { messages, sources, mut dropped }, mut gaps, notes) = input.finish();
    if messages.is_empty() && !gaps.is_untranslatable() {
        return Err(invalid("input must not be empty"));
    }
    dropped.append(&mut lost);
    dropped.extend(left_out(&body.others, &mut gaps)?);
    let mut custom = CustomTools::default();
    let mut params: Map<String, Value> = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            params.insert(name.to_owned(), value);
        }
    };
    set("temperature", body.temperature.map(Value::Number));
    set("top_p", body.top_p.map(Value::Number));
    let choice = body.tool_choice.map(tool_choice).transpose();
    let choice = gaps.allow(choice)?.flatten();
    let mut has_tools = true;
    if let Some(tools) = body.tools {
        let mut hints = Hints::new(is_root, &mut dropped);
        let offered = offered(tools, &mut custom, &mut hints, &mut gaps)?;
        let (tools, left_out) = offered.choose_if_possible(choice.as_ref(), &mut gaps)?;
        // Vendors refuse a choice among no tools.
        has_tools = left_out.is_empty() || !tools.is_empty();
        if !left_out.is_empty() {
            gaps.record_omitted_tools();
        }
        dropped.extend(left_out);
        set("tools", has_tools.then(|| tools.into()));
    }
    // With the tools of a namespace alone, or with none that is known, the canonical form has none.
    has_tools &= !gaps.may_pass_through() || params_has_tools(&params);
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            params.insert(name.to_owned(), value);
        }
    };
    set("tool_choice", choice.filter(|_| has_tools));
    set("parallel_tool_calls", body.parallel_tool_calls.filter(|_| has_tools).map(Value::Bool));
    let form = AnswerForm { text: body.text, reasoning: body.reasoning, is_root };
    dropped.extend(form.read(&mut params, &mut gaps)?);
    let same = body
        .others
        .into_iter()
        .filter(|(name, value)| SAME.contains(&name.as_str()) && !value.is_null());
    params.extend(same);
    let finish =
        |original| passing::finish_original(original, gaps, notes, is_resolved).map(Box::new);
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
            original: original.map(finish).transpose()?,
        },
        metadata: body.metadata,
    };
    Ok(ParsedRequest {
        request,
        streams: body.stream.unwrap_or(false),
        names: Some(MessageNames { list: "input", beside, sources }),
        dropped,
        options: AnswerOptions { echo, custom },
    })
}

/// The parameters without a canonical form that are left out, but for those that have no effect.
fn left_out(others: &Map<String, Value>, gaps: &mut TranslationGaps) -> Result<Vec<String>> {
    let mut dropped = Vec::new();
    for (name, value) in others {
        if SAME.contains(&name.as_str()) {
            continue;
        }
        let fate = members::leave_out(Vendor::Openai, name, value);
        // The project decides which model answers, and no record shows whose a conversation is.
        let is_final = members::chooses_model(name) || name == CONVERSATION;
        let fate = if is_final { Some(fate?) } else { gaps.allow(fate)? };
        dropped.extend(fate.flatten());
    }
    Ok(dropped)
}

/// The members of a request that shape the words of its answer.
struct AnswerForm {
    text: Option<Map<String, Value>>,
    reasoning: Option<Map<String, Value>>,
    is_root: bool,
}

impl AnswerForm {
    /// Reads them into canonical parameters. Returns the names of those that are left out.
    fn read(
        self,
        params: &mut Map<String, Value>,
        gaps: &mut TranslationGaps,
    ) -> Result<Vec<String>> {
        let mut set = |name: &str, value: Option<Value>| {
            params.extend(value.map(|value| (name.to_owned(), value)));
        };
        let (mut dropped, mut lost) = (Vec::new(), Vec::new());
        let mut end = |object: Node| {
            if !self.is_root {
                return object.end();
            }
            let at = object.at().to_owned();
            let path = |name: String| members::shown(&format!("{at}.{name}"));
            lost.extend(object.left().map(path));
            Ok(())
        };
        if let Some(text) = self.text {
            let mut text = Node::of("text".to_owned(), Value::Object(text))?;
            let form = text.maybe_node("format")?.map(format).transpose();
            set("response_format", gaps.allow(form)?.flatten().flatten());
            set("verbosity", text.maybe_text("verbosity")?.map(Value::from));
            end(text)?;
        }
        if let Some(reasoning) = self.reasoning {
            let mut reasoning = Node::of("reasoning".to_owned(), Value::Object(reasoning))?;
            set("reasoning_effort", reasoning.maybe_text("effort")?.map(Value::from));
            for known in ["summary", "generate_summary"] {
                if reasoning.take(known).is_some() {
                    dropped.push(reasoning.path(known));
                }
            }
            if !self.is_root {
                reasoning.idle("mode", &"standard".into())?;
                reasoning.idle("context", &"auto".into())?;
            }
            end(reasoning)?;
        }
        dropped.append(&mut lost);
        Ok(dropped)
    }
}

fn params_has_tools(params: &Map<String, Value>) -> bool {
    params.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty())
}

/// Refuses values that would need stored state, or a tool that only a vendor has. Returns the names of
/// those that do no harm, at the vendor's root.
fn check(body: &ResponsesBody, gaps: &mut TranslationGaps) -> Result<Vec<String>> {
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
            let refused = invalid(format!("include: '{included}' is not supported"));
            gaps.allow::<()>(Err(refused))?;
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

fn offered(
    tools: Vec<Value>,
    custom: &mut CustomTools,
    hints: &mut Hints<'_>,
    gaps: &mut TranslationGaps,
) -> Result<Offered> {
    let mut offered = Offered::default();
    for tool in Node::all("tools", tools) {
        let mut tool = tool?;
        let kind = tool.text("type")?;
        let read = match kind.as_str() {
            "function" => {
                let function = own_function(tool, hints)?;
                custom.beside(function).map(|function| offered.add(function))
            }
            CUSTOM => custom.read(tool, hints).map(|function| offered.add(function)),
            _ => offered.leave_out(tool, kind),
        };
        gaps.allow(read)?;
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
