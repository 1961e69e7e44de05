//! Settings of a request in Gemini's format: generation, tools and the choice among them.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::http::error::Result;
use crate::inference::canonical::members::Offered;
use crate::inference::canonical::prompt::{answer_schema, function};
use crate::inference::canonical::read::{Node, invalid, malformed};
use crate::inference::canonical::translation_gaps::TranslationGaps;
use crate::inference::gemini::fields::{Dropped, inner, list, node, whole};
use crate::inference::gemini::schema::json_schema;

/// Settings under names of their own in the canonical form.
const NUMBERS: [(&str, &str); 4] = [
    ("temperature", "temperature"),
    ("topP", "top_p"),
    ("presencePenalty", "presence_penalty"),
    ("frequencyPenalty", "frequency_penalty"),
];

/// The settings of a generation that are no parameters of the canonical form.
#[derive(Debug, Default)]
pub(super) struct Generation {
    pub(super) max_output_tokens: Option<u64>,
    /// Whether the model's thoughts are part of the answer.
    pub(super) with_thoughts: bool,
}

/// Reads the settings of a generation into parameters.
pub(super) fn generation(
    mut config: Node,
    params: &mut Map<String, Value>,
    dropped: &mut Dropped,
    gaps: &mut TranslationGaps,
) -> Result<Generation> {
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            params.insert(name.to_owned(), value);
        }
    };
    for (theirs, ours) in NUMBERS {
        let value = config.take(theirs);
        if value.as_ref().is_some_and(|value| !value.is_number()) {
            return Err(malformed(format!("{} must be a number", config.path(theirs))));
        }
        set(ours, value);
    }
    set("top_k", whole(&mut config, "topK")?.map(Value::from));
    set("seed", seed(&mut config)?);
    set("stop", stop(&mut config)?);
    let max_output_tokens = whole(&mut config, "maxOutputTokens")?;
    if max_output_tokens == Some(0) {
        return Err(invalid("generationConfig.maxOutputTokens must be at least 1"));
    }
    if let Some(count) = whole(&mut config, "candidateCount")?.filter(|count| *count > 1) {
        let fault = "generationConfig.candidateCount must be 1: send a request for each";
        gaps.allow::<()>(Err(invalid(fault)))?;
        // Each further answer may cost as much.
        set("n", Some(count.into()));
    }
    let format = response_format(&mut config);
    set("response_format", gaps.allow(format)?.flatten());
    let mut with_thoughts = false;
    if let Some(mut thinking) = inner(&mut config, "thinkingConfig")? {
        with_thoughts = thinking.flag("includeThoughts")?;
        set("reasoning_effort", effort(&mut thinking, dropped)?.map(Value::from));
        dropped.rest(thinking);
    }
    let read = modalities(&mut config, dropped);
    gaps.allow(read)?;
    dropped.parameters(config, gaps)?;
    Ok(Generation { max_output_tokens, with_thoughts })
}

/// Answers are texts: other kinds are left out beside it, and refused without it.
fn modalities(config: &mut Node, dropped: &mut Dropped) -> Result<()> {
    let kinds = list(config, "responseModalities")?.unwrap_or_default();
    let is_text =
        |kind: &Value| kind.as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("text"));
    if !kinds.is_empty() && !kinds.iter().any(is_text) {
        let at = config.path("responseModalities");
        return Err(invalid(format!("{at} must hold TEXT: there are no other answers")));
    }
    if !kinds.iter().all(is_text) {
        dropped.name("responseModalities");
    }
    Ok(())
}

fn seed(config: &mut Node) -> Result<Option<Value>> {
    match config.take("seed") {
        None => Ok(None),
        Some(seed) if seed.is_i64() => Ok(Some(seed)),
        Some(_) => Err(malformed(format!("{} must be a whole number", config.path("seed")))),
    }
}

fn stop(config: &mut Node) -> Result<Option<Value>> {
    let Some(stops) = list(config, "stopSequences")?.filter(|stops| !stops.is_empty()) else {
        return Ok(None);
    };
    if stops.iter().all(Value::is_string) {
        Ok(Some(stops.into()))
    } else {
        Err(malformed(format!("{} must hold strings", config.path("stopSequences"))))
    }
}

fn response_format(config: &mut Node) -> Result<Option<Value>> {
    let media = config.maybe_text("responseMimeType")?;
    let schema = match config.take("responseJsonSchema") {
        Some(schema) => Some(schema),
        None => config.take("responseSchema").map(json_schema),
    };
    if schema.as_ref().is_some_and(|schema| !schema.is_object()) {
        return Err(malformed(format!("{} must be an object", config.path("responseSchema"))));
    }
    match (media.as_deref(), schema) {
        (Some("application/json") | None, Some(schema)) => Ok(Some(answer_schema(schema))),
        (Some("application/json"), None) => Ok(Some(json!({"type": "json_object"}))),
        (None | Some("" | "text/plain"), None) => Ok(None),
        _ => Err(invalid(
            "generationConfig.responseMimeType must be application/json or text/plain; the former \
             with a schema",
        )),
    }
}

/// The effort of a thinking level, or of a budget of tokens: those of the vendor's own
/// chat-completions endpoint. A budget of -1 leaves it to the model.
fn effort(thinking: &mut Node, dropped: &mut Dropped) -> Result<Option<&'static str>> {
    let level = thinking.maybe_text("thinkingLevel")?.map(|level| level.to_ascii_lowercase());
    let budget = match thinking.take("thinkingBudget") {
        Some(budget) if budget.as_i64() == Some(-1) => None,
        Some(budget) => {
            let fault = || malformed("thinkingBudget must be a whole number or -1".to_owned());
            Some(budget.as_u64().ok_or_else(fault)?)
        }
        None => None,
    };
    Ok(match level.as_deref() {
        Some("minimal") => Some("minimal"),
        Some("low") => Some("low"),
        Some("medium") => Some("medium"),
        Some("high") => Some("high"),
        Some("xhigh") => Some("xhigh"),
        Some("thinking_level_unspecified") | None => budget.map(|budget| match budget {
            0 => "none",
            1..=1024 => "low",
            1025..=8192 => "medium",
            _ => "high",
        }),
        Some(_) => {
            dropped.name("thinkingLevel");
            None
        }
    })
}

/// The choice among tools.
#[derive(Debug, Default)]
pub(super) struct Choice {
    canonical: Option<Value>,
    /// The only functions that may be called, if the caller names several.
    among: Option<HashSet<String>>,
}

/// Reads the choice among tools.
pub(super) fn choice(mut config: Node, dropped: &mut Dropped) -> Result<Choice> {
    let calling = inner(&mut config, "functionCallingConfig")?;
    dropped.rest(config);
    let Some(mut calling) = calling else { return Ok(Choice::default()) };
    let mode = calling.maybe_text("mode")?.unwrap_or_default().to_ascii_uppercase();
    let named = list(&mut calling, "allowedFunctionNames")?.unwrap_or_default();
    let named: Vec<String> = named
        .into_iter()
        .map(|name| match name {
            Value::String(name) => Ok(name),
            _ => Err(malformed(format!(
                "{} must hold strings",
                calling.path("allowedFunctionNames")
            ))),
        })
        .collect::<Result<_>>()?;
    let canonical = match (mode.as_str(), named.as_slice()) {
        ("" | "MODE_UNSPECIFIED", _) => None,
        ("AUTO" | "VALIDATED", _) => Some("auto".into()),
        ("NONE", _) => Some("none".into()),
        ("ANY", [name]) => Some(json!({"type": "function", "function": {"name": name}})),
        ("ANY", _) => Some("required".into()),
        (other, _) => return Err(calling.unsupported("a mode", other)),
    };
    dropped.rest(calling);
    let is_restricted = match mode.as_str() {
        "ANY" => named.len() > 1,
        "VALIDATED" => !named.is_empty(),
        _ => false,
    };
    Ok(Choice { canonical, among: is_restricted.then(|| named.into_iter().collect()) })
}

/// Reads the functions of a request and the choice among them into parameters. Tools that only the
/// vendor has are left out, or refused.
pub(super) fn tools(
    tools: Vec<Value>,
    choice: Choice,
    params: &mut Map<String, Value>,
    dropped: &mut Dropped,
    gaps: &mut TranslationGaps,
) -> Result<()> {
    let mut offered = Offered::default();
    let mut is_left = choice.among.is_none();
    for (index, tool) in tools.into_iter().enumerate() {
        let mut tool = node(format!("tools[{index}]"), tool)?;
        let at = tool.path("functionDeclarations");
        let declared = list(&mut tool, "functionDeclarations")?.unwrap_or_default();
        let place = tool.at().to_owned();
        // Each other member is a tool of the vendor's own.
        for kind in tool.left() {
            let left_out = offered.leave_out(node(place.clone(), json!({}))?, kind);
            gaps.allow(left_out)?;
        }
        for (index, declared) in declared.into_iter().enumerate() {
            let mut declared = node(format!("{at}[{index}]"), declared)?;
            let name = declared.text("name")?;
            let description = declared.maybe_text("description")?;
            let schema = declared.take("parametersJsonSchema");
            let schema = schema.or_else(|| declared.take("parameters").map(json_schema));
            if schema.as_ref().is_some_and(|schema| !schema.is_object()) {
                return Err(malformed(format!(
                    "{} must be an object",
                    declared.path("parameters")
                )));
            }
            dropped.rest(declared);
            if choice.among.as_ref().is_none_or(|among| among.contains(&name)) {
                is_left = true;
                offered.add(function(name, description, schema, None));
            }
        }
    }
    if !is_left {
        gaps.allow::<()>(Err(invalid(
            "toolConfig.functionCallingConfig.allowedFunctionNames must name functions of tools",
        )))?;
    }
    let (functions, left_out) = offered.choose_if_possible(choice.canonical.as_ref(), gaps)?;
    if !left_out.is_empty() {
        gaps.record_omitted_tools();
    }
    dropped.extend(left_out);
    // Vendors refuse a choice among no tools.
    if !functions.is_empty() {
        params.insert("tools".to_owned(), functions.into());
        params.extend(choice.canonical.map(|choice| ("tool_choice".to_owned(), choice)));
    }
    Ok(())
}
