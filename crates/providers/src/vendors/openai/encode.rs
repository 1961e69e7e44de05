//! Canonical prompt to request body.

use std::borrow::Cow;

use domain::conversation::{INSTRUCTIONS, Message, Role, TOOL_FAILED};
use domain::model::{Model, Provider};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};

use crate::adapter::request::{Attempt, Encoded};
use crate::chat_form::answer::IMAGES;
use crate::chat_form::{STATE, STOP_DETAILS, STOP_SEQUENCE, cache, rounds};
use crate::error::Error;
use crate::vendors::openai::effort::{Chosen, EFFORT, THINKING, choose};

/// Parameters that the gateway decides itself, never the caller.
const OURS: [&str; 6] =
    ["model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens"];

/// The differences between the servers of the format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialect<'a> {
    /// The model's name at the server.
    pub(crate) model: &'a str,
    /// The parameter that bounds the completion.
    pub(crate) bound_name: &'static str,
    /// Whether it supports `stream_options`.
    pub(crate) stream_options: bool,
}

/// The parameter of Anthropic's format that this one lacks, and that cannot be left out.
const LACKING: &str = "inference_geo";

/// The parameter of other formats that this one lacks, and that is left out.
const TOP_K: &str = "top_k";

pub(crate) fn encode(attempt: &Attempt<'_>, dialect: Dialect<'_>) -> Result<Encoded, Error> {
    let params = &attempt.prompt.params;
    let lacks = |name: &str| attempt.prompt.is_translated && params.contains_key(name);
    if lacks(LACKING) {
        return Err(Error::lacking(attempt.model, LACKING));
    }
    // Other servers of the format may take rounds that the vendor refuses.
    if is_vendor(attempt.model) {
        rounds::check(&attempt.prompt.messages)?;
        check_audio(attempt)?;
    }
    let mut dropped = Vec::new();
    let failed = |message: &Message| message.extra.get(TOOL_FAILED) == Some(&Value::Bool(true));
    if attempt.prompt.messages.iter().any(failed) {
        dropped.push("is_error".to_owned());
    }
    if lacks(TOP_K) {
        dropped.push(TOP_K.to_owned());
    }
    let effort = choose(attempt, &mut dropped);
    if !cache::is_marked(attempt.prompt) {
        return Encoded::write(&Request { attempt, dialect, effort }, attempt.prompt, dropped);
    }
    let prompt = &cache::unmarked(attempt.prompt);
    let attempt = &Attempt { prompt, ..*attempt };
    cache::name_dropped(&mut dropped);
    Encoded::write(&Request { attempt, dialect, effort }, prompt, dropped)
}

/// Refuses audio in a format that the vendor does not take; other formats have more of them.
fn check_audio(attempt: &Attempt<'_>) -> Result<(), Error> {
    if !attempt.prompt.is_translated {
        return Ok(());
    }
    let parts = attempt.prompt.messages.iter().flat_map(|message| message.body.parts());
    let mut formats = parts.filter_map(|part| part.pointer("/input_audio/format")?.as_str());
    match formats.find(|format| !matches!(*format, "wav" | "mp3")) {
        None => Ok(()),
        Some(_) => Err(Error::unsupported("OpenAI takes audio as wav or mp3 only")),
    }
}

/// Whether it is OpenAI's own server, or Azure's.
pub(super) fn is_vendor(model: &Model) -> bool {
    model.provider == Provider::Azure || is_own(model)
}

/// Whether a model is served by OpenAI itself.
pub(super) fn is_own(model: &Model) -> bool {
    model.provider == Provider::Openai
        && model.base_url.as_deref().is_none_or(|base| base.is_empty() || is_openai(base))
}

fn is_openai(base: &str) -> bool {
    const HOST: &[u8] = b"api.openai.com";
    let rest = base.find(':').and_then(|colon| base[colon..].strip_prefix("://"));
    rest.and_then(|rest| rest.as_bytes().split_at_checked(HOST.len())).is_some_and(
        |(host, rest)| {
            host.eq_ignore_ascii_case(HOST) && matches!(rest.first(), None | Some(b'/' | b':'))
        },
    )
}

struct Request<'a> {
    attempt: &'a Attempt<'a>,
    dialect: Dialect<'a>,
    effort: Chosen,
}

impl Serialize for Request<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Attempt { prompt, max_output_tokens, stream, .. } = self.attempt;
        let Dialect { model, bound_name, stream_options } = self.dialect;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", model)?;
        let is_vendor = is_vendor(self.attempt.model);
        map.serialize_entry("messages", &Messages { all: &prompt.messages, is_vendor })?;
        for (name, value) in &prompt.params {
            let name = name.as_str();
            let is_lacking = prompt.is_translated && [THINKING, TOP_K].contains(&name);
            let is_chosen = name == EFFORT && self.effort != Chosen::AsAsked;
            if !OURS.contains(&name) && !is_lacking && !is_chosen {
                map.serialize_entry(name, value)?;
            }
        }
        if let Chosen::Instead(effort) = self.effort {
            map.serialize_entry(EFFORT, effort.word())?;
        }
        if let Some(bound) = max_output_tokens {
            map.serialize_entry(bound_name, bound)?;
        }
        if *stream {
            map.serialize_entry("stream", &true)?;
        }
        if *stream && stream_options {
            map.serialize_entry("stream_options", &WithUsage(prompt.params.get("stream_options")))?;
        }
        map.end()
    }
}

/// Whether a member of a message does not go to a provider of this format: provider state of others,
/// and members of answers that requests lack.
fn is_foreign(message: &Message, name: &str, is_vendor: bool) -> bool {
    match message.role {
        // An answer in the legacy form has its call twice.
        Role::Assistant if name == "function_call" => calls_of(message).next().is_some(),
        // Servers leave an empty list in their answers, and vendors refuse it.
        Role::Assistant if name == "tool_calls" => calls_of(message).next().is_none(),
        // Thoughts of another provider's model, which requires its own form of them back.
        Role::Assistant if name == "reasoning_content" => message.extra.contains_key(STATE),
        Role::Assistant => {
            matches!(name, STATE | STOP_DETAILS | STOP_SEQUENCE | "annotations" | "parsed")
                || (is_vendor && name == IMAGES)
        }
        Role::Tool => matches!(name, "name" | TOOL_FAILED),
        _ => matches!(name, STATE | TOOL_FAILED | INSTRUCTIONS),
    }
}

pub(super) fn calls_of(message: &Message) -> impl Iterator<Item = &Value> {
    message.extra.get("tool_calls").and_then(Value::as_array).into_iter().flatten()
}

/// Whether a call has fields that belong to a stream alone: the vendor's own package for Python leaves the
/// index of the call in the stream in it, and its parsed arguments.
pub(super) fn has_stream_fields(call: &Value) -> bool {
    call.get("index").is_some() || call["function"].get("parsed_arguments").is_some()
}

fn tidy(call: &mut Value) {
    if let Some(call) = call.as_object_mut() {
        call.shift_remove("index");
        if let Some(Value::Object(function)) = call.get_mut("function") {
            function.shift_remove("parsed_arguments");
        }
    }
}

/// The messages without members foreign to the format.
struct Messages<'a> {
    all: &'a [Message],
    /// Whether they go to the vendor, who refuses other servers' additions to the format.
    is_vendor: bool,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { all, is_vendor } = *self;
        serializer.collect_seq(all.iter().map(|message| {
            if !message.extra.keys().any(|name| is_foreign(message, name, is_vendor))
                && !calls_of(message).any(has_stream_fields)
            {
                return Cow::Borrowed(message);
            }
            let mut own = message.clone();
            own.extra.retain(|name, _| !is_foreign(message, name, is_vendor));
            if let Some(Value::Array(calls)) = own.extra.get_mut("tool_calls") {
                calls.iter_mut().for_each(tidy);
            }
            Cow::Owned(own)
        }))
    }
}

/// The caller's stream options, with usage requested: the gateway needs it to compute the cost.
struct WithUsage<'a>(Option<&'a Value>);

impl Serialize for WithUsage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("include_usage", &true)?;
        for (name, value) in self.0.and_then(Value::as_object).into_iter().flat_map(Map::iter) {
            if name != "include_usage" {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
