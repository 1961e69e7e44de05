//! Canonical prompt to a Converse request.

use std::borrow::Cow;
use std::collections::HashSet;

use domain::model::Model;
use serde::Serialize;
use serde_json::{Value, json};

use crate::adapter::request::{Attempt, Encoded};
use crate::chat_form::cache::{self, Keep};
use crate::chat_form::conversation::Conversation;
use crate::chat_form::params::{Format, Params};
use crate::chat_form::parts::{Audio, Image, Part, Turn};
use crate::chat_form::tools::{Choice, Naming, Tool, Tools};
use crate::error::Error;
use crate::vendors::anthropic::rules::{takes_sampling, temperature_and_top_p};
use crate::vendors::anthropic::thoughts::Thoughts;
use crate::vendors::bedrock::documents::{self, Names, TEXT_BESIDE};
use crate::vendors::bedrock::effort::{is_claude, thoughts};

/// The formats of audio that Converse names.
const AUDIO: [&str; 15] = [
    "mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka", "x-aac", "m4a", "mpeg",
    "mpga", "pcm", "webm",
];

/// Most characters of the id of a tool call.
const MOST_ID_CHARS: usize = 64;

pub(super) fn encode(attempt: &Attempt<'_>) -> Result<Encoded, Error> {
    let Attempt { model, prompt, max_output_tokens, .. } = *attempt;
    let conversation = Conversation::read(prompt, model)?;
    Naming::Plain(64).check(attempt)?;
    let mut params = Params::of(prompt, model);
    let tools = Tools::take(&mut params)?;
    let caches = Caches::of(model.upstream_name());
    let loses = (caches == Caches::Nothing && conversation.is_marked())
        || (!caches.has_tools() && tools.is_marked());
    let Thoughts { effort, thinking } = thoughts(&mut params, attempt, &conversation, &tools)?;
    let mut names = Names::default();
    let messages: Vec<Message<'_>> = conversation
        .turns
        .into_iter()
        .map(|turn| message(turn, caches, &mut names))
        .collect::<Result<_, _>>()?;
    let tool_config = tool_config(tools, &messages, model, caches, &mut params)?;
    let (temperature, top_p) = temperature_and_top_p(&mut params, model)?;
    let request = Request {
        messages,
        system: blocks(conversation.system, caches, &mut names)?,
        inference_config: InferenceConfig {
            max_tokens: max_output_tokens,
            temperature,
            top_p,
            stop_sequences: params.stop()?,
        },
        tool_config,
        output_config: OutputConfig { text_format: text_format(&mut params, model)?, effort },
        additional: additional(&mut params, model, thinking),
    };
    let mut dropped = params.finish()?;
    if loses {
        cache::name_dropped(&mut dropped);
    }
    Encoded::write(&request, prompt, dropped)
}

/// Returns the parameters that Converse lacks, such as Claude's `thinking` and `top_k`.
fn additional<'a>(
    params: &mut Params<'a>,
    model: &Model,
    thinking: Option<Cow<'a, Value>>,
) -> Option<Cow<'a, Value>> {
    let given = params.take("additionalModelRequestFields");
    let takes_top_k = is_claude(model) && takes_sampling(model.upstream_name());
    let top_k = if takes_top_k { params.take("top_k") } else { None };
    if thinking.is_none() && top_k.is_none() {
        return given.map(Cow::Borrowed);
    }
    let mut all = given.cloned().unwrap_or_else(|| json!({}));
    if let Some(all) = all.as_object_mut() {
        let thinking = thinking.map(|thinking| ("thinking", thinking.into_owned()));
        let own = thinking.into_iter().chain(top_k.map(|top_k| ("top_k", top_k.clone())));
        all.extend(own.map(|(name, value)| (name.to_owned(), value)));
    }
    Some(Cow::Owned(all))
}

/// Whether a model can be asked to keep anything for an hour.
pub(super) fn keeps_for_an_hour(model: &Model) -> bool {
    Caches::of(model.upstream_name()) == Caches::ToolsForAnHour
}

/// The parts of a prompt that a model can be asked to cache; other models refuse to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caches {
    Nothing,
    /// Messages, but no tools.
    Messages,
    /// Messages and tools.
    Tools,
    /// Messages and tools, also for an hour.
    ToolsForAnHour,
}

impl Caches {
    /// Returns the caches of a model by its name, with or without a region: Claude from 3.5 Haiku and
    /// 3.7 Sonnet on, and Amazon's Nova. The model behind a custom profile is not known.
    fn of(name: &str) -> Self {
        const BEFORE: [&str; 7] = [
            "claude-v2",
            "claude-instant",
            "claude-3-haiku",
            "claude-3-sonnet",
            "claude-3-opus",
            "claude-3-5-sonnet",
            "claude-v1",
        ];
        // Models before 4.5 refuse an hour.
        const FOR_MINUTES: [&str; 4] =
            ["claude-3-", "claude-sonnet-4-2025", "claude-opus-4-2025", "claude-opus-4-1"];
        if name.contains("anthropic.claude-") {
            let is_one_of = |names: &[&str]| names.iter().any(|other| name.contains(other));
            return if is_one_of(&BEFORE) {
                Self::Nothing
            } else if is_one_of(&FOR_MINUTES) {
                Self::Tools
            } else {
                Self::ToolsForAnHour
            };
        }
        let nova = ["nova-micro", "nova-lite", "nova-pro", "nova-premier"];
        let is_nova = nova.iter().any(|nova| name.contains(&format!("amazon.{nova}")));
        if is_nova { Self::Messages } else { Self::Nothing }
    }

    fn has_tools(self) -> bool {
        matches!(self, Self::Tools | Self::ToolsForAnHour)
    }

    fn point(self, kept: Keep) -> CachePoint {
        let ttl = kept.ttl().filter(|_| self == Self::ToolsForAnHour);
        CachePoint { kind: "default", ttl }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "InferenceConfig::is_empty")]
    inference_config: InferenceConfig<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig>,
    #[serde(skip_serializing_if = "OutputConfig::is_empty")]
    output_config: OutputConfig<'a>,
    /// Parameters that only one vendor's models have (`top_k`, `thinking`), in the caller's own words.
    #[serde(rename = "additionalModelRequestFields", skip_serializing_if = "Option::is_none")]
    additional: Option<Cow<'a, Value>>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

/// One member, named after the kind: a union, in terms of the service model.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Block<'a> {
    Text(&'a str),
    Image {
        format: &'static str,
        source: Bytes<'a>,
    },
    Audio {
        format: &'a str,
        source: Bytes<'a>,
    },
    Document {
        format: &'static str,
        name: String,
        source: Bytes<'a>,
    },
    #[serde(rename_all = "camelCase")]
    ToolUse {
        tool_use_id: Cow<'a, str>,
        name: &'a str,
        input: Value,
    },
    #[serde(rename_all = "camelCase")]
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: Vec<ResultBlock<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
    },
    CachePoint(CachePoint),
    /// A block of the model's own, as it came.
    #[serde(untagged)]
    Own(&'a Value),
}

/// A cache point: the provider may keep everything before it.
#[derive(Serialize)]
struct CachePoint {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

#[derive(Serialize)]
struct Bytes<'a> {
    bytes: &'a str,
}

#[derive(Serialize)]
struct ResultBlock<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InferenceConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop_sequences: Vec<&'a str>,
}

impl InferenceConfig<'_> {
    fn is_empty(&self) -> bool {
        self.max_tokens.is_none()
            && self.temperature.is_none()
            && self.top_p.is_none()
            && self.stop_sequences.is_empty()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text_format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
}

impl OutputConfig<'_> {
    fn is_empty(&self) -> bool {
        self.text_format.is_none() && self.effort.is_none()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig {
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
}

fn message<'a>(turn: Turn<'a>, caches: Caches, names: &mut Names) -> Result<Message<'a>, Error> {
    let mut content = blocks(turn.parts, caches, names)?;
    let has = |is: fn(&Block<'_>) -> bool| content.iter().any(is);
    if has(|block| matches!(block, Block::Document { .. }))
        && !has(|block| matches!(block, Block::Text(_)))
    {
        let ends_cached = matches!(content.last(), Some(Block::CachePoint(_)));
        content.insert(content.len() - usize::from(ends_cached), Block::Text(TEXT_BESIDE));
    }
    Ok(Message { role: turn.speaker.role(), content })
}

fn blocks<'a>(
    parts: Vec<Part<'a>>,
    caches: Caches,
    names: &mut Names,
) -> Result<Vec<Block<'a>>, Error> {
    let mut content = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text(text) => content.push(Block::Text(text)),
            Part::Image(image) => content.push(picture(image)?),
            Part::Document(file) => content.push(Block::Document {
                format: documents::format(file.mime)?,
                name: names.name(file),
                source: Bytes { bytes: file.base64 },
            }),
            Part::Audio(Audio { format, base64 }) if AUDIO.contains(&format) => {
                content.push(Block::Audio { format, source: Bytes { bytes: base64 } });
            }
            Part::Audio(_) => {
                let formats = AUDIO.join(", ");
                return Err(Error::unsupported(format!("Bedrock takes audio as {formats} only")));
            }
            Part::Call(call) => content.push(Block::ToolUse {
                tool_use_id: legal_id(call.id),
                name: call.name,
                input: call.arguments,
            }),
            // An empty list is accepted, a blank text is not.
            Part::Result(result) => content.push(Block::ToolResult {
                tool_use_id: legal_id(result.id),
                content: result.texts.into_iter().map(|text| ResultBlock { text }).collect(),
                status: result.is_error.then_some("error"),
            }),
            Part::ProviderBlock(block, _) => content.push(Block::Own(block)),
            Part::Breakpoint(kept) => {
                if caches != Caches::Nothing {
                    content.push(Block::CachePoint(caches.point(kept)));
                }
            }
        }
    }
    Ok(content)
}

fn picture(image: Image<'_>) -> Result<Block<'_>, Error> {
    let Image::Data { mime, base64 } = image else {
        return Err(Error::unsupported(
            "Bedrock fetches no images: send the image itself, as a data: URL",
        ));
    };
    let format = match mime {
        "image/png" => "png",
        "image/jpeg" | "image/jpg" => "jpeg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        _ => return Err(Error::unsupported("Bedrock takes images as png, jpeg, gif or webp")),
    };
    Ok(Block::Image { format, source: Bytes { bytes: base64 } })
}

/// Returns the id of a call as Bedrock takes it. Its own ids are valid; another provider's may be too
/// long, or hold other characters, and the same id must become the same again in the result.
fn legal_id(id: &str) -> Cow<'_, str> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if id.len() <= MOST_ID_CHARS && id.chars().all(legal) {
        return Cow::Borrowed(id);
    }
    let checksum = crc32fast::hash(id.as_bytes());
    let start: String = id.chars().filter(|c| legal(*c)).take(MOST_ID_CHARS - 9).collect();
    Cow::Owned(format!("{start}-{checksum:08x}"))
}

/// Returns the tools, or an error if they cannot be offered as requested.
fn tool_config(
    tools: Tools<'_>,
    messages: &[Message<'_>],
    model: &Model,
    caches: Caches,
    params: &mut Params<'_>,
) -> Result<Option<ToolConfig>, Error> {
    let earlier = called(messages);
    if tools.list.is_empty() {
        // The tools of calls in the history must be declared.
        let tools: Vec<Value> = earlier
            .into_iter()
            .map(|name| specification(name, json!({"type": "object", "properties": {}})))
            .collect();
        return Ok((!tools.is_empty()).then_some(ToolConfig { tools, tool_choice: None }));
    }
    if tools.choice == Some(Choice::None) {
        // The format has no such choice; leaving the tools out has the same effect if the history has
        // no calls.
        if earlier.is_empty() {
            return Ok(None);
        }
        return Err(Error::lacking(model, "tool_choice none after tool calls"));
    }
    if tools.one_at_a_time && !params.lose("parallel_tool_calls") {
        return Err(Error::lacking(model, "parallel_tool_calls: false"));
    }
    let tool_choice = tools.choice.map(|choice| match choice {
        Choice::Auto | Choice::None => json!({"auto": {}}),
        Choice::Required => json!({"any": {}}),
        Choice::Named(name) => json!({"tool": {"name": name}}),
    });
    let mut declared = Vec::with_capacity(tools.list.len());
    for tool in tools.list {
        let kept = tool.kept.filter(|_| caches.has_tools()).map(|kept| caches.point(kept));
        declared.push(declaration(tool));
        declared.extend(kept.map(|point| json!({"cachePoint": point})));
    }
    Ok(Some(ToolConfig { tools: declared, tool_choice }))
}

fn declaration(tool: Tool<'_>) -> Value {
    let mut declared = specification(tool.name, tool.schema);
    if let Some(description) = tool.description {
        declared["toolSpec"]["description"] = description.into();
    }
    if tool.strict {
        declared["toolSpec"]["strict"] = true.into();
    }
    declared
}

fn specification(name: &str, schema: Value) -> Value {
    json!({"toolSpec": {"name": name, "inputSchema": {"json": schema}}})
}

/// Returns the names of the tools that were called, each once, in order.
fn called<'a>(messages: &'a [Message<'_>]) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    let blocks = messages.iter().flat_map(|message| &message.content);
    let names = blocks.filter_map(|block| match block {
        Block::ToolUse { name, .. } => Some(*name),
        Block::Own(block) => block.get("toolUse")?.get("name")?.as_str(),
        _ => None,
    });
    names.filter(|name| seen.insert(*name)).collect()
}

fn text_format(params: &mut Params<'_>, model: &Model) -> Result<Option<Value>, Error> {
    match params.format()? {
        None => Ok(None),
        Some(Format::Json) => Err(Error::unsupported(format!(
            "response_format json_object is not supported by model {}: use json_schema",
            model.identifier
        ))),
        Some(Format::Schema { name, schema }) => Ok(Some(json!({
            "type": "json_schema",
            "structure": {"jsonSchema": {"name": name, "schema": schema.to_string()}},
        }))),
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
