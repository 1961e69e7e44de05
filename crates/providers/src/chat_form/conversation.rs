//! The messages of a prompt as turns of two speakers.

use std::collections::HashMap;

use domain::conversation::{Body, Message, Prompt, Role, TOOL_FAILED};
use domain::json_weight::InnerJson;
use domain::model::{Model, Provider};
use serde_json::{Map, Value};

use crate::chat_form::answer::IMAGES;
use crate::chat_form::cache::{self, Keep};
use crate::chat_form::parts::{Audio, Document, Image, Part, Speaker, ToolCall, ToolResult, Turn};
use crate::chat_form::provider_state::Replay;
use crate::chat_form::rounds;
use crate::error::Error;

/// A prompt without its parameters.
#[derive(Debug, Default)]
pub(crate) struct Conversation<'a> {
    /// The application's texts, from system and developer messages, in order, and breakpoints.
    pub(crate) system: Vec<Part<'a>>,
    /// The turns, in order: never two of one speaker in a row, never empty, the user's first.
    pub(crate) turns: Vec<Turn<'a>>,
}

impl<'a> Conversation<'a> {
    /// Reads the messages for a model; provider state in them is used only for its own model.
    pub(crate) fn read(prompt: &'a Prompt, model: &Model) -> Result<Self, Error> {
        rounds::check(&prompt.messages)?;
        let mut conversation = Self::default();
        let (mut names, mut inner) = (HashMap::new(), InnerJson::default());
        for (index, message) in prompt.messages.iter().enumerate() {
            let at = |what: &str| Error::in_message(index, what);
            match message.role {
                Role::System | Role::Developer => conversation.add_system(message, at)?,
                Role::User => {
                    let mut parts = content_parts(message, at)?;
                    mark_end(&mut parts, cache::breakpoint(&message.extra));
                    conversation.add(Speaker::User, parts);
                }
                Role::Assistant => {
                    let calls = calls(message, &mut inner, at)?;
                    names.extend(calls.iter().map(|(call, _)| (call.id, call.name)));
                    if message.extra.get("audio").is_some_and(Value::is_object) {
                        return Err(at("this model cannot take audio"));
                    }
                    if calls.is_empty() && message.extra.get("function_call").is_some() {
                        return Err(at(
                            "this model cannot take a function_call that has no result",
                        ));
                    }
                    let listed = calls.iter().map(|(call, _)| call);
                    let replay = Replay::of(message, model, listed).map_err(at)?;
                    if let Replay::Whole(blocks) = replay {
                        let mut parts = own(blocks);
                        mark_end(&mut parts, cache::last_in(message));
                        conversation.add(Speaker::Model, parts);
                        continue;
                    }
                    let mut parts = content_parts(message, at)?;
                    parts.extend(words(crate::chat_form::text(message.extra.get("refusal"))));
                    parts.extend(generated_images(message, model, at)?);
                    for (call, kept) in calls {
                        parts.push(Part::Call(call));
                        mark_end(&mut parts, kept);
                    }
                    mark_end(&mut parts, cache::breakpoint(&message.extra));
                    // Every provider refuses a turn of nothing but thoughts.
                    if let Replay::Thoughts(thoughts) = replay
                        && !parts.is_empty()
                    {
                        parts.splice(0..0, own(thoughts));
                    }
                    conversation.add(Speaker::Model, parts);
                }
                Role::Tool => conversation.add(Speaker::User, result(message, &names, at)?),
            }
        }
        match conversation.turns.first() {
            Some(turn) if turn.speaker == Speaker::User => {}
            _ => return Err(begun_wrongly(prompt, model)),
        }
        for turn in &mut conversation.turns {
            results_first(&mut turn.parts);
        }
        Ok(conversation)
    }

    fn add_system(
        &mut self,
        message: &'a Message,
        at: impl Fn(&str) -> Error,
    ) -> Result<(), Error> {
        let mut parts = content_parts(message, &at)?;
        mark_end(&mut parts, cache::breakpoint(&message.extra));
        if !parts.iter().all(|part| matches!(part, Part::Text(_) | Part::Breakpoint(_))) {
            return Err(at("a system message can only hold text"));
        }
        self.system.extend(parts);
        Ok(())
    }

    /// Returns the application's texts, without breakpoints.
    pub(crate) fn system_texts(&self) -> impl Iterator<Item = &'a str> {
        self.system.iter().filter_map(|part| match part {
            Part::Text(text) => Some(*text),
            _ => None,
        })
    }

    /// Whether there is a breakpoint anywhere in it.
    pub(crate) fn is_marked(&self) -> bool {
        let parts = self.turns.iter().flat_map(|turn| &turn.parts).chain(&self.system);
        parts.into_iter().any(|part| matches!(part, Part::Breakpoint(_)))
    }

    fn add(&mut self, speaker: Speaker, parts: impl IntoIterator<Item = Part<'a>>) {
        let mut parts = parts.into_iter().peekable();
        if parts.peek().is_none() {
            return;
        }
        match self.turns.last_mut() {
            Some(turn) if turn.speaker == speaker => turn.parts.extend(parts),
            _ => self.turns.push(Turn { speaker, parts: parts.collect() }),
        }
    }
}

/// Returns the error for a conversation whose first turn is not the user's.
fn begun_wrongly(prompt: &Prompt, model: &Model) -> Error {
    let mut messages = prompt.messages.iter().enumerate();
    let first =
        messages.find(|(_, message)| !matches!(message.role, Role::System | Role::Developer));
    let model = &model.identifier;
    match first {
        Some((index, Message { role: Role::User, .. })) => Error::in_message(
            index,
            format!("the first user message is empty, which model {model} does not take"),
        ),
        _ => Error::unsupported(format!(
            "The conversation must begin with a user message for model {model}"
        )),
    }
}

/// Returns the images that the model has generated, for models that take their own back.
fn generated_images<'a>(
    message: &'a Message,
    model: &Model,
    at: impl Fn(&str) -> Error,
) -> Result<Vec<Part<'a>>, Error> {
    let listed = message.extra.get(IMAGES).and_then(Value::as_array);
    let listed = listed.filter(|_| model.provider == Provider::Gemini);
    listed.into_iter().flatten().map(|part| image(part, &at).map(Part::Image)).collect()
}

/// Returns the blocks of one message of the model's.
fn own(blocks: &[Value]) -> Vec<Part<'_>> {
    let mut calls = 0;
    let parts = blocks.iter().map(|block| {
        let before = calls;
        calls += usize::from(block.get("functionCall").is_some());
        Part::ProviderBlock(block, before)
    });
    parts.collect()
}

/// Puts results of tools before everything else; a breakpoint stays after the part it follows.
fn results_first(parts: &mut Vec<Part<'_>>) {
    if !parts.iter().any(|part| matches!(part, Part::Result(_))) {
        return;
    }
    let mut is_result = false;
    let (mut first, mut rest) = (Vec::with_capacity(parts.len()), Vec::new());
    for part in parts.drain(..) {
        if !matches!(part, Part::Breakpoint(_)) {
            is_result = matches!(part, Part::Result(_));
        }
        if is_result { first.push(part) } else { rest.push(part) }
    }
    first.append(&mut rest);
    *parts = first;
}

/// Adds a breakpoint after the last part, if there is one; there are never two in a row.
fn mark_end(parts: &mut Vec<Part<'_>>, kept: Option<Keep>) {
    if !matches!(parts.last(), None | Some(Part::Breakpoint(_))) {
        parts.extend(kept.map(Part::Breakpoint));
    }
}

/// Returns the text, images and documents of a message, and breakpoints between them.
fn content_parts(message: &Message, at: impl Fn(&str) -> Error) -> Result<Vec<Part<'_>>, Error> {
    match &message.body {
        Body::Empty => Ok(Vec::new()),
        Body::Text(said) => Ok(words(said).into_iter().collect()),
        Body::Parts(parts) => {
            let mut read = Vec::with_capacity(parts.len());
            for part in parts {
                match (string(part, "type"), string(part, "text")) {
                    ("text" | "input_text" | "output_text", said) => read.extend(words(said)),
                    ("refusal", _) => read.extend(words(string(part, "refusal"))),
                    ("image_url" | "input_image", _) => read.push(Part::Image(image(part, &at)?)),
                    ("file" | "input_file", _) if has_data(part) => {
                        read.push(Part::Document(document(part, &at)?));
                    }
                    ("input_audio", _) => read.push(Part::Audio(audio(part, &at)?)),
                    (kind, _) => {
                        let kind: String = kind.chars().take(40).collect();
                        return Err(at(&format!("this model cannot take a content part '{kind}'")));
                    }
                }
                mark_end(&mut read, part.as_object().and_then(cache::breakpoint));
            }
            Ok(read)
        }
    }
}

/// Returns a text, if it is not blank.
fn words(text: &str) -> Option<Part<'_>> {
    (!text.trim().is_empty()).then_some(Part::Text(text))
}

/// The member with the data of a file: chat completions nest it.
fn file_of(part: &Value) -> &Value {
    part.get("file").unwrap_or(part)
}

fn has_data(part: &Value) -> bool {
    file_of(part).get("file_data").is_some()
}

fn document(part: &Value, at: impl Fn(&str) -> Error) -> Result<Document<'_>, Error> {
    let file = file_of(part);
    let url = string(file, "file_data").strip_prefix("data:");
    match url.and_then(|url| url.split_once(";base64,")) {
        Some((head, base64)) if !base64.is_empty() => {
            let mime = head.split(';').next().unwrap_or_default();
            Ok(Document { mime, base64, name: string(file, "filename") })
        }
        _ => Err(at("file_data must be a data: URL in base64")),
    }
}

fn audio(part: &Value, at: impl Fn(&str) -> Error) -> Result<Audio<'_>, Error> {
    let audio = part.get("input_audio").unwrap_or(part);
    let (format, base64) = (string(audio, "format"), string(audio, "data"));
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if base64.is_empty() || format.is_empty() || !format.bytes().all(is_plain) {
        return Err(at("input_audio needs data in base64 and a format such as wav or mp3"));
    }
    Ok(Audio { format, base64 })
}

fn image(part: &Value, at: impl Fn(&str) -> Error) -> Result<Image<'_>, Error> {
    let url = match part.get("image_url") {
        Some(Value::String(url)) => url,
        Some(object) => string(object, "url"),
        None => "",
    };
    if let Some(data) = url.strip_prefix("data:") {
        let (head, base64) = data.split_once(',').unwrap_or((data, ""));
        return match head.strip_suffix(";base64") {
            Some(mime) if mime.starts_with("image/") && !base64.is_empty() => {
                Ok(Image::Data { mime, base64 })
            }
            _ => Err(at("an image must be a data: URL of an image in base64, or an https URL")),
        };
    }
    if url.starts_with("https://") || url.starts_with("http://") {
        return Ok(Image::Url(url));
    }
    Err(at("an image must be a data: URL of an image in base64, or an https URL"))
}

/// Returns the calls of a message, each with the breakpoint after it.
fn calls<'a>(
    message: &'a Message,
    inner: &mut InnerJson,
    at: impl Fn(&str) -> Error,
) -> Result<Vec<(ToolCall<'a>, Option<Keep>)>, Error> {
    let listed = message.extra.get("tool_calls").and_then(Value::as_array);
    let calls = listed.into_iter().flatten().map(|call| {
        Ok((one_call(call, inner, &at)?, call.as_object().and_then(cache::breakpoint)))
    });
    calls.collect()
}

fn one_call<'a>(
    call: &'a Value,
    inner: &mut InnerJson,
    at: impl Fn(&str) -> Error,
) -> Result<ToolCall<'a>, Error> {
    let function = call.get("function").ok_or_else(|| at("a tool call has no function"))?;
    let (id, name) = (string(call, "id"), string(function, "name"));
    if id.is_empty() || name.is_empty() {
        return Err(at("a tool call needs an id and a name"));
    }
    let arguments = match function.get("arguments") {
        None | Some(Value::Null) => Some(Map::new()),
        Some(Value::String(text)) if text.trim().is_empty() => Some(Map::new()),
        Some(Value::String(text)) => inner.read(text),
        // Some clients keep arguments as objects.
        Some(Value::Object(arguments)) => Some(arguments.clone()),
        Some(_) => None,
    };
    let arguments =
        arguments.ok_or_else(|| at("the arguments of a tool call must be an object"))?;
    Ok(ToolCall { id, name, arguments: Value::Object(arguments) })
}

/// Returns the result of a tool. Its images follow it: not every model allows them inside a result.
fn result<'a>(
    message: &'a Message,
    names: &HashMap<&'a str, &'a str>,
    at: impl Fn(&str) -> Error,
) -> Result<Vec<Part<'a>>, Error> {
    let id = crate::chat_form::text(message.extra.get("tool_call_id"));
    let name = names.get(id).ok_or_else(|| at("tool_call_id answers no earlier tool call"))?;
    let is_error = message.extra.get(TOOL_FAILED) == Some(&Value::Bool(true));
    let mut result = ToolResult { id, name, texts: Vec::new(), is_error };
    let mut beside = Vec::new();
    for part in content_parts(message, at)? {
        match part {
            Part::Text(text) => result.texts.push(text),
            part => beside.push(part),
        }
    }
    let mut parts = vec![Part::Result(result)];
    for part in beside {
        match part {
            Part::Breakpoint(kept) => mark_end(&mut parts, Some(kept)),
            part => parts.push(part),
        }
    }
    mark_end(&mut parts, cache::breakpoint(&message.extra));
    Ok(parts)
}

fn string<'a>(value: &'a Value, name: &str) -> &'a str {
    crate::chat_form::text(value.get(name))
}
