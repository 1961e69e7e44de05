//! Canonical prompt to request body.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use crate::adapter::request::{Attempt, Encoded};
use crate::chat_form::cache::Keep;
use crate::chat_form::conversation::Conversation;
use crate::chat_form::params::{Format, Params};
use crate::chat_form::parts::{Document, Image, Part, Speaker, Turn};
use crate::chat_form::tools::{Choice, Naming, Tools};
use crate::error::Error;
use crate::vendors::anthropic::decode::is_blank_text;
use crate::vendors::anthropic::rules::{max_tokens, takes_sampling, temperature_and_top_p};
use crate::vendors::anthropic::thoughts::Thoughts;

pub(super) fn encode(attempt: &Attempt<'_>) -> Result<Encoded, Error> {
    let Attempt { model, prompt, .. } = *attempt;
    let conversation = Conversation::read(prompt, model)?;
    Naming::Plain(128).check(attempt)?;
    let mut params = Params::of(prompt, model);
    let offered = Tools::take(&mut params)?;
    let thoughts = Thoughts::take(&mut params, attempt, &conversation, &offered)?;
    let (tools, tool_choice) = tools(offered, &conversation);
    let format = match params.format()? {
        None => None,
        Some(Format::Schema { schema, .. }) => {
            Some(json!({"type": "json_schema", "schema": schema}))
        }
        Some(Format::Json) => {
            let model = &model.identifier;
            return Err(Error::unsupported(format!(
                "response_format json_object is not supported by model {model}; send a json_schema"
            )));
        }
    };
    let max_tokens = max_tokens(attempt, thoughts.budget())?;
    let Thoughts { effort, thinking } = thoughts;
    let asks = format.is_some() || effort.is_some();
    let (temperature, top_p) = temperature_and_top_p(&mut params, model)?;
    let request = Request {
        model: model.upstream_name(),
        max_tokens,
        cache_control: params.breakpoint().map(CacheControl::of),
        system: blocks(conversation.system, Speaker::User)?,
        messages: conversation.turns.into_iter().map(message).collect::<Result<_, _>>()?,
        tools,
        tool_choice,
        output_config: asks.then_some(OutputConfig { format, effort }),
        stop_sequences: params.stop()?,
        thinking,
        inference_geo: params.text("inference_geo")?,
        metadata: params.text("user")?.map(|user_id| Metadata { user_id }),
        stream: attempt.stream,
        temperature,
        top_p,
        top_k: takes_sampling(model.upstream_name()).then(|| params.take("top_k")).flatten(),
    };
    Encoded::write(&request, prompt, params.finish()?)
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Marked<'a>>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop_sequences: Vec<&'a str>,
    /// In the vendor's own form: the chat-completions format has no such parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Cow<'a, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inference_geo: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<&'a Value>,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    user_id: &'a str,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Marked<'a>>,
}

/// A block, and whether the cache may end after it.
#[derive(Serialize)]
struct Marked<'a> {
    #[serde(flatten)]
    block: Block<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl CacheControl {
    fn of(kept: Keep) -> Self {
        Self { kind: "ephemeral", ttl: kept.ttl() }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "str::is_empty")]
        title: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: Value,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<ResultContent<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// A block in the form in which it came from the provider.
    #[serde(untagged)]
    Own(&'a Value),
}

/// The result of a tool.
#[derive(Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(&'a str),
    Blocks(Vec<Block<'a>>),
}

impl<'a> ResultContent<'a> {
    fn of(texts: &[&'a str]) -> Option<Self> {
        match texts {
            [] => None,
            [text] => Some(Self::Text(text)),
            texts => Some(Self::Blocks(texts.iter().map(|text| Block::Text { text }).collect())),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: Value,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct ToolChoice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disable_parallel_tool_use: bool,
}

fn message(turn: Turn<'_>) -> Result<Message<'_>, Error> {
    Ok(Message { role: turn.speaker.role(), content: blocks(turn.parts, turn.speaker)? })
}

fn blocks(parts: Vec<Part<'_>>, speaker: Speaker) -> Result<Vec<Marked<'_>>, Error> {
    let plain = |block| Marked { block, cache_control: None };
    let mut content: Vec<Marked<'_>> = Vec::with_capacity(parts.len());
    for part in parts {
        let block = match part {
            Part::Text(text) => Block::Text { text },
            Part::Image(_) if speaker == Speaker::Model => {
                return Err(Error::unsupported("An assistant message cannot hold an image"));
            }
            Part::Image(image) => Block::Image { source: source(image)? },
            Part::Document(_) if speaker == Speaker::Model => {
                return Err(Error::unsupported("An assistant message cannot hold a document"));
            }
            Part::Document(Document { mime: media_type @ "application/pdf", base64, name }) => {
                Block::Document { source: Source::Base64 { media_type, data: base64 }, title: name }
            }
            Part::Document(_) => {
                return Err(Error::unsupported("This model takes documents as PDF only"));
            }
            Part::Audio(_) => {
                return Err(Error::unsupported(
                    "Claude takes no audio: send a transcript, or call a model that takes it",
                ));
            }
            Part::Call(call) => {
                Block::ToolUse { id: id(call.id), name: call.name, input: call.arguments }
            }
            Part::Result(result) => Block::ToolResult {
                tool_use_id: id(result.id),
                content: ResultContent::of(&result.texts),
                is_error: result.is_error,
            },
            Part::ProviderBlock(block, _) if is_blank_text(block) => continue,
            Part::ProviderBlock(block, _) => Block::Own(block),
            Part::Breakpoint(kept) => {
                // The mark never follows a thought, which the vendor refuses: none comes last.
                if let Some(marked) = content.last_mut() {
                    marked.cache_control = Some(CacheControl::of(kept));
                }
                continue;
            }
        };
        content.push(plain(block));
    }
    Ok(content)
}

/// Returns the source of an image. The vendor takes four kinds.
fn source(image: Image<'_>) -> Result<Source<'_>, Error> {
    match image {
        Image::Url(url) => Ok(Source::Url { url }),
        Image::Data { mime: "image/jpg", base64 } => {
            Ok(Source::Base64 { media_type: "image/jpeg", data: base64 })
        }
        Image::Data {
            mime: mime @ ("image/jpeg" | "image/png" | "image/gif" | "image/webp"),
            base64,
        } => Ok(Source::Base64 { media_type: mime, data: base64 }),
        Image::Data { .. } => {
            Err(Error::unsupported("This model takes images as JPEG, PNG, GIF or WebP only"))
        }
    }
}

/// Returns an id as the format allows it (`^[a-zA-Z0-9_-]+$`): other vendors' may hold other
/// characters, and a trace may continue with another model than it began with.
fn id(id: &str) -> Cow<'_, str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if id.bytes().all(fits) {
        return Cow::Borrowed(id);
    }
    let mut written = String::with_capacity(id.len() + 8);
    for byte in id.bytes() {
        if fits(byte) {
            written.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(written, "_{byte:02x}");
        }
    }
    Cow::Owned(written)
}

fn tools<'a>(
    tools: Tools<'a>,
    conversation: &Conversation<'a>,
) -> (Vec<Tool<'a>>, Option<ToolChoice<'a>>) {
    if tools.list.is_empty() {
        return called_before(conversation);
    }
    let choice = |kind, name| ToolChoice {
        kind,
        name,
        disable_parallel_tool_use: tools.one_at_a_time && kind != "none",
    };
    let choice = match tools.choice {
        None if !tools.one_at_a_time => None,
        None | Some(Choice::Auto) => Some(choice("auto", None)),
        Some(Choice::None) => Some(choice("none", None)),
        Some(Choice::Required) => Some(choice("any", None)),
        Some(Choice::Named(name)) => Some(choice("tool", Some(name))),
    };
    let list = tools.list.into_iter().map(|tool| Tool {
        name: tool.name,
        description: tool.description,
        input_schema: tool.schema,
        strict: tool.strict,
        cache_control: tool.kept.map(CacheControl::of),
    });
    (list.collect(), choice)
}

/// Returns the tools of earlier calls. Calls in the history are refused without a list of tools. A
/// caller who gives none wants no further calls: the tools are named, and may not be called.
fn called_before<'a>(conversation: &Conversation<'a>) -> (Vec<Tool<'a>>, Option<ToolChoice<'a>>) {
    let mut seen = HashSet::new();
    let parts = conversation.turns.iter().flat_map(|turn| &turn.parts);
    let names = parts.filter_map(|part| match part {
        Part::Call(call) => Some(call.name),
        Part::Result(result) => Some(result.name),
        _ => None,
    });
    let list: Vec<_> = names
        .filter(|name| seen.insert(*name))
        .map(|name| Tool {
            name,
            description: None,
            input_schema: json!({"type": "object"}),
            strict: false,
            cache_control: None,
        })
        .collect();
    let none = ToolChoice { kind: "none", name: None, disable_parallel_tool_use: false };
    let choice = (!list.is_empty()).then_some(none);
    (list, choice)
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
