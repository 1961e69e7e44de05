//! Canonical prompt to request body.

use domain::model::Model;
use serde::Serialize;
use serde_json::Value;

use crate::adapter::request::{Attempt, Encoded};
use crate::chat_form::cache;
use crate::chat_form::conversation::Conversation;
use crate::chat_form::effort::{Effort, Thinking};
use crate::chat_form::params::{Format, Params};
use crate::chat_form::tools::{Choice, Naming, Tool, Tools};
use crate::error::Error;
use crate::vendors::gemini::contents::{Content, Piece, contents};
use crate::vendors::gemini::{Thinks, thinks};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Declarations<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    generation_config: GenerationConfig<'a>,
}

/// One entry of `tools` holds all functions.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Declarations<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

/// `parameters` would be an OpenAPI subset; only `parametersJsonSchema` takes any JSON Schema.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters_json_schema: &'a Value,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    function_calling_config: CallingConfig<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CallingConfig<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_function_names: Option<[&'a str; 1]>,
}

#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop_sequences: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

impl GenerationConfig<'_> {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    /// For models from the third generation on.
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    /// For models before the third generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
    /// Whether a summary of the thoughts is returned: a caller who asks for thinking may read it.
    include_thoughts: bool,
}

pub(super) fn encode(attempt: &Attempt<'_>) -> Result<Encoded, Error> {
    let Attempt { model, prompt, max_output_tokens, .. } = *attempt;
    let conversation = Conversation::read(prompt, model)?;
    Naming::Google.check(attempt)?;
    let mut params = Params::of(prompt, model);
    let tools = Tools::take(&mut params)?;
    if tools.one_at_a_time && !tools.list.is_empty() && !params.lose("parallel_tool_calls") {
        return Err(Error::lacking(model, "parallel_tool_calls"));
    }
    let mut dropped = Vec::new();
    if conversation.is_marked() || tools.is_marked() {
        cache::name_dropped(&mut dropped);
    }
    if tools.is_strict() {
        dropped.push("strict".to_owned());
    }
    let config = generation_config(&mut params, model, &mut dropped)?;
    dropped.append(&mut params.finish()?);
    dropped.sort_unstable();
    dropped.dedup();
    let system: Vec<&str> = conversation.system_texts().collect();
    let request = Request {
        system_instruction: (!system.is_empty()).then(|| Content {
            role: None,
            parts: system.into_iter().map(|text| Piece::Text { text }).collect(),
        }),
        contents: contents(&conversation.turns, model)?,
        tools: (!tools.list.is_empty()).then(|| {
            [Declarations { function_declarations: tools.list.iter().map(declaration).collect() }]
        }),
        tool_config: tools.choice.map(tool_config),
        generation_config: GenerationConfig { max_output_tokens, ..config },
    };
    Encoded::write(&request, prompt, dropped)
}

fn declaration<'a>(tool: &'a Tool<'a>) -> Declaration<'a> {
    Declaration {
        name: tool.name,
        description: tool.description,
        parameters_json_schema: &tool.schema,
    }
}

fn tool_config(choice: Choice<'_>) -> ToolConfig<'_> {
    let (mode, name) = match choice {
        Choice::Auto => ("AUTO", None),
        Choice::None => ("NONE", None),
        Choice::Required => ("ANY", None),
        Choice::Named(name) => ("ANY", Some([name])),
    };
    ToolConfig { function_calling_config: CallingConfig { mode, allowed_function_names: name } }
}

fn generation_config<'a>(
    params: &mut Params<'a>,
    model: &Model,
    dropped: &mut Vec<String>,
) -> Result<GenerationConfig<'a>, Error> {
    let top_k = params
        .take("top_k")
        .map(|value| value.as_u64().ok_or_else(|| params.unfit("top_k must be a whole number")));
    let seed = params.take("seed").map(|seed| seed.as_i64().and_then(|seed| seed.try_into().ok()));
    if seed == Some(None) {
        // Seeds have 32 bits here; one that does not fit is dropped.
        dropped.push("seed".to_owned());
    }
    let (response_mime_type, response_json_schema) = match params.format()? {
        None => (None, None),
        Some(Format::Json) => (Some("application/json"), None),
        Some(Format::Schema { schema, .. }) => (Some("application/json"), Some(schema)),
    };
    // It stays, and is dropped by its name, where the model does not think.
    let asked = match thinks(model) {
        Thinks::Never => None,
        Thinks::Always | Thinks::ByBudget | Thinks::ByLevel => params.take("thinking"),
    };
    let asked = asked.and_then(|asked| Thinking::read(asked).effort());
    let effort = params.text("reasoning_effort")?;
    let thinking_config = match effort.or(asked.map(Effort::word)) {
        None => None,
        Some(word) if params.is_lenient() => {
            let nearest = Effort::read(word).and_then(|asked| asked.nearest(efforts(model)));
            if nearest.is_none() {
                params.lose("reasoning_effort");
            }
            nearest.map(|effort| thinking(effort.word(), model)).transpose()?
        }
        Some(word) => Some(thinking(word, model)?),
    };
    Ok(GenerationConfig {
        max_output_tokens: None,
        temperature: params.number("temperature", 0.0..=2.0)?,
        top_p: params.number("top_p", 0.0..=1.0)?,
        top_k: top_k.transpose()?,
        seed: seed.flatten(),
        presence_penalty: params.number("presence_penalty", -2.0..=2.0)?,
        frequency_penalty: params.number("frequency_penalty", -2.0..=2.0)?,
        stop_sequences: params.stop()?,
        response_mime_type,
        response_json_schema,
        thinking_config,
    })
}

/// Returns the efforts that a model is sure to take, least first. The third generation's Pro has no
/// `MINIMAL`, the first of it no `MEDIUM` either.
fn efforts(model: &Model) -> &'static [Effort] {
    use Effort::{High, Low, Medium, Minimal, None};
    let name = model.upstream_name();
    match thinks(model) {
        Thinks::Never => &[],
        Thinks::ByBudget => &[None, Low, Medium, High],
        Thinks::Always => &Effort::USUAL,
        Thinks::ByLevel if name.contains("gemini-3-pro") => &[Low, High],
        Thinks::ByLevel if name.contains("pro") => &Effort::USUAL,
        Thinks::ByLevel => &[Minimal, Low, Medium, High],
    }
}

/// Returns the thinking configuration for an effort.
fn thinking(effort: &str, model: &Model) -> Result<ThinkingConfig, Error> {
    let asked = Effort::read(effort);
    let level = match asked {
        Some(Effort::Minimal) => Some("MINIMAL"),
        Some(Effort::Low) => Some("LOW"),
        Some(Effort::Medium) => Some("MEDIUM"),
        Some(Effort::High) => Some("HIGH"),
        Some(Effort::Xhigh) => Some("XHIGH"),
        Some(Effort::None | Effort::Max) | None => None,
    };
    let budget = asked.filter(|effort| *effort <= Effort::High).map(Effort::budget);
    let (level, budget) = match thinks(model) {
        Thinks::ByLevel => (level, None),
        Thinks::Always => (None, budget.filter(|budget| *budget > 0)),
        Thinks::ByBudget => (None, budget),
        Thinks::Never => (None, None),
    };
    if level.is_none() && budget.is_none() {
        let effort: String = effort.chars().take(20).collect();
        return Err(Error::lacking(model, format_args!("reasoning_effort {effort}")));
    }
    Ok(ThinkingConfig {
        thinking_level: level,
        thinking_budget: budget,
        include_thoughts: budget != Some(0),
    })
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
