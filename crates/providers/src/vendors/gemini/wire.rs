//! A `GenerateContentResponse`: a whole answer, or an event of a streamed one.

use domain::fees::MOST_USES;
use domain::original::PieceKind;
use domain::step::FinishReason;
use domain::usage::{MOST_TOKENS, Usage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::chat_form::ids;
use crate::error::Error;
use crate::wire::error_body::error_within;
use crate::wire::json;
use crate::wire::token_counts::{Count, Group};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Generated {
    candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Group<Metadata>,
    pub(super) model_version: Option<String>,
    pub(super) response_id: Option<String>,
    error: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names of the wire format")]
struct Metadata {
    prompt_token_count: Count,
    cached_content_token_count: Count,
    tool_use_prompt_token_count: Count,
    candidates_token_count: Count,
    thoughts_token_count: Count,
    total_token_count: Count,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Candidate {
    index: Option<u64>,
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
    grounding_metadata: Option<Value>,
    citation_metadata: Option<IgnoredAny>,
    url_context_metadata: Option<IgnoredAny>,
    logprobs_result: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Content {
    parts: Option<Vec<Part>>,
}

/// The members of a part that the canonical form of an answer holds.
const CANONICAL: [&str; 5] = ["text", "thought", "thoughtSignature", "functionCall", "inlineData"];

/// A part as it came: the provider state is made of them.
pub(super) type Part = Map<String, Value>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

impl Generated {
    /// Parses a response; an error that came in its place is returned as an error.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Error> {
        json::check_weight(bytes)?;
        let response: Self =
            json::read(bytes).map_err(|_| Error::malformed("it is no GenerateContentResponse"))?;
        if let Some(error) = &response.error {
            return Err(failure(error).having_used(response.usage()));
        }
        Ok(response)
    }

    /// Returns the reason why the prompt was blocked, if it was. There are no candidates then.
    pub(super) fn blocked(&self) -> Option<String> {
        let feedback = self.prompt_feedback.as_ref()?;
        let reason = feedback.block_reason.as_deref()?;
        Some(match feedback.block_reason_message.as_deref().filter(|text| !text.is_empty()) {
            Some(message) => format!("The provider blocked the prompt: {reason}: {message}"),
            None => format!("The provider blocked the prompt: {reason}"),
        })
    }

    /// Returns its shape.
    pub(super) fn shape(&self) -> Shape {
        let candidates = self.candidates.as_deref().unwrap_or_default();
        let is_finished = |candidate: &Candidate| {
            candidate.finish_reason.as_ref().is_some_and(|reason| !reason.is_empty())
        };
        Shape {
            ends: candidates.iter().any(is_finished) || self.blocked().is_some(),
            candidates: candidates.iter().map(Candidate::shape).collect(),
        }
    }

    /// Takes the first candidate: the others have no canonical form.
    pub(super) fn candidate(&mut self) -> Option<Candidate> {
        let candidates = self.candidates.take()?;
        candidates.into_iter().find(|candidate| candidate.index.unwrap_or(0) == 0)
    }

    /// Returns the usage; `None` if none was reported. Completion tokens are those of the candidates,
    /// which may be missing, and those of the thoughts, which Google counts apart.
    pub(super) fn usage(&self) -> Option<Usage> {
        let Group::Known(told) = self.usage_metadata else { return None };
        let (prompt, tools) = (told.prompt_token_count, told.tool_use_prompt_token_count);
        let (candidates, thoughts) = (told.candidates_token_count, told.thoughts_token_count);
        if prompt.known().is_none() && candidates.known().is_none() {
            return None;
        }
        let known = |count: Count| count.known().unwrap_or(0);
        let mut usage = Usage {
            completion: known(candidates).saturating_add(known(thoughts)),
            reasoning: known(thoughts),
            ..Usage::of_prompt(known(prompt).saturating_add(known(tools)))
        };
        usage.open.prompt = prompt.known().is_none() || tools.is_nonsense();
        usage.open.completion = candidates.is_nonsense() || thoughts.is_nonsense();
        usage.cached = told.cached_content_token_count.or_none(&mut usage.open);
        // More tokens were read from the cache than the prompt has: the count is unknown then.
        if usage.cached > usage.prompt && usage.cached <= MOST_TOKENS {
            usage.cached = 0;
            usage.open.detail = true;
        }
        match told.total_token_count {
            Count::Missing => {}
            // Tokens in the total beside all parts were generated: they are paid for.
            Count::Sound(total) if total <= MOST_TOKENS => {
                let sum = usage.prompt.saturating_add(usage.completion);
                usage.open.detail |= total != sum;
                usage.completion = usage.completion.saturating_add(total.saturating_sub(sum));
            }
            _ => usage.open.detail = true,
        }
        usage.reported()
    }

    /// Returns the number of searches that the model's vendor charges for: in the web each one of a recent
    /// model, and for older models the prompt that was answered with any; in maps the prompt that was answered
    /// with a place.
    pub(super) fn searches(&self, is_recent: bool) -> u32 {
        let listed = |name: &'static str| {
            let candidates = self.candidates.iter().flatten();
            let lists = candidates.filter_map(move |candidate| {
                candidate.grounding_metadata.as_ref()?.get(name)?.as_array()
            });
            lists.flatten()
        };
        let made = |query: &&Value| !query.as_str().unwrap_or_default().is_empty();
        let in_web = listed("webSearchQueries").filter(made).count() as u64;
        let in_maps = listed("groundingChunks").any(|chunk| chunk.get("maps").is_some());
        in_web.min(if is_recent { MOST_USES } else { 1 }) as u32 + u32::from(in_maps)
    }

    /// Whether it has a usage, valid or not.
    pub(super) fn is_metered(&self) -> bool {
        !matches!(self.usage_metadata, Group::Missing)
    }
}

/// The shape of a response: which strings go on in the next one, and which of its parts have a canonical
/// form.
pub(super) struct Shape {
    pub(super) candidates: Vec<CandidateShape>,
    /// Whether a candidate, or the answer as a whole, ends with it.
    pub(super) ends: bool,
}

pub(super) struct CandidateShape {
    pub(super) index: u64,
    pub(super) parts: Vec<PartShape>,
    /// Whether it has grounding, citations, a sentence on its end or the like.
    has_notes: bool,
    /// Whether its tokens are repeated with their probabilities.
    repeats_tokens: bool,
}

pub(super) struct PartShape {
    /// The kind of its text, if it has one.
    pub(super) kind: Option<PieceKind>,
    pub(super) is_canonical: bool,
    /// Whether it has nothing but its text.
    is_plain: bool,
}

impl Shape {
    pub(super) fn parts(&self) -> impl Iterator<Item = &PartShape> {
        self.candidates.iter().flat_map(|candidate| &candidate.parts)
    }

    /// Whether the canonical form holds all parts.
    pub(super) fn is_canonical(&self) -> bool {
        let has_notes = self.candidates.iter().any(|candidate| candidate.has_notes);
        !has_notes && self.parts().all(|part| part.is_canonical)
    }

    /// Whether it holds one text and nothing else of the answer.
    pub(super) fn is_text(&self) -> bool {
        let [CandidateShape { parts, has_notes: false, repeats_tokens: false, .. }] =
            &self.candidates[..]
        else {
            return false;
        };
        !self.ends && parts.len() == 1 && parts[0].is_plain
    }
}

impl PartShape {
    fn of(part: &Part) -> Self {
        let has_only = |known: &[&str]| part.keys().all(|name| known.contains(&name.as_str()));
        // The canonical form has the call of a part with both.
        let is_call = part.contains_key("functionCall");
        let is_text = !is_call && part.get("text").is_some_and(Value::is_string);
        let is_thought = part.get("thought") == Some(&Value::Bool(true));
        let kind = if is_thought { PieceKind::Thought } else { PieceKind::Text };
        Self {
            kind: is_text.then_some(kind),
            is_canonical: has_only(&CANONICAL),
            is_plain: is_text && has_only(&["text", "thought"]),
        }
    }
}

impl Candidate {
    fn shape(&self) -> CandidateShape {
        let parts = self.content.as_ref().and_then(|content| content.parts.as_deref());
        let notes = [&self.citation_metadata, &self.url_context_metadata];
        CandidateShape {
            index: self.index.unwrap_or(0),
            parts: parts.unwrap_or_default().iter().map(PartShape::of).collect(),
            has_notes: self.grounding_metadata.is_some()
                || self.finish_message.as_ref().is_some_and(|message| !message.is_empty())
                || notes.into_iter().any(Option::is_some),
            repeats_tokens: self.logprobs_result.is_some(),
        }
    }

    pub(super) fn take_parts(&mut self) -> Vec<Part> {
        self.content.take().and_then(|content| content.parts).unwrap_or_default()
    }

    /// Returns the reason to stop; `None` if it has not stopped. `STOP` also stands for calls of tools. An
    /// answer that broke off is an error, unless it `passes` to its caller as it came.
    pub(super) fn finish(
        &self,
        calls_tools: bool,
        passes: bool,
    ) -> Result<Option<FinishReason>, Error> {
        let Some(word) = self.finish_reason.as_deref().filter(|word| !word.is_empty()) else {
            return Ok(None);
        };
        Ok(Some(match word {
            "MAX_TOKENS" => FinishReason::Length,
            word if is_filter(word) => FinishReason::ContentFilter,
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MISSING_THOUGHT_SIGNATURE"
            | "MALFORMED_RESPONSE"
            | "OTHER"
            | "IMAGE_OTHER"
            | "NO_IMAGE"
                if !passes =>
            {
                return Err(self.broken(word));
            }
            _ if calls_tools => FinishReason::ToolCalls,
            // An unknown reason still ends the answer.
            _ => FinishReason::Stop,
        }))
    }

    fn broken(&self, word: &str) -> Error {
        match self.finish_message.as_deref().filter(|message| !message.is_empty()) {
            Some(message) => Error::unusable(format!("The model broke off: {word}: {message}")),
            None => Error::unusable(format!("The model broke off: {word}")),
        }
    }

    /// Returns the word for a filter that stopped it.
    pub(super) fn filter(&self) -> Option<&str> {
        self.finish_reason.as_deref().filter(|word| is_filter(word))
    }
}

fn is_filter(word: &str) -> bool {
    matches!(
        word,
        "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "LANGUAGE"
            | "MODEL_ARMOR"
            | "JAILBREAK"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
    )
}

/// The content of a part.
#[derive(Debug, PartialEq)]
pub(super) enum PartContent<'a> {
    Text(&'a str),
    Thought(&'a str),
    /// A call, with the id that callers receive.
    Call {
        id: String,
        name: &'a str,
        arguments: String,
    },
    /// An image, as a `data:` URL.
    Image(String),
    /// Any content that a conversation has no part for.
    Other,
}

/// Reads a part. The index is that of a call, should it be one.
pub(super) fn part_content<'a>(
    part: &'a Part,
    index: usize,
    response_id: Option<&str>,
) -> Result<PartContent<'a>, Error> {
    if let Some(call) = part.get("functionCall") {
        let text = |name| call.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let name = text("name").ok_or_else(|| Error::malformed("a function call has no name"))?;
        let arguments = match call.get("args") {
            None | Some(Value::Null) => "{}".to_owned(),
            Some(arguments @ Value::Object(_)) => arguments.to_string(),
            Some(_) => return Err(Error::malformed("the args of a function call are no object")),
        };
        let id = text("id").map_or_else(
            || ids::invent(index, response_id.unwrap_or_default(), name, &arguments),
            str::to_owned,
        );
        return Ok(PartContent::Call { id, name, arguments });
    }
    let thought = part.get("thought") == Some(&Value::Bool(true));
    Ok(match part.get("text").and_then(Value::as_str) {
        Some(text) if thought => PartContent::Thought(text),
        Some(text) => PartContent::Text(text),
        None => image(part).map_or(PartContent::Other, PartContent::Image),
    })
}

/// Returns the image of a part as a `data:` URL. Models that think generate drafts first: those do not
/// count.
pub(super) fn image(part: &Part) -> Option<String> {
    if part.get("thought") == Some(&Value::Bool(true)) {
        return None;
    }
    let data = part.get("inlineData")?;
    let mime = data.get("mimeType")?.as_str().filter(|mime| mime.starts_with("image/"))?;
    let base64 = data.get("data")?.as_str().filter(|data| !data.is_empty())?;
    Some(format!("data:{mime};base64,{base64}"))
}

/// Returns the error that came in place of an answer, with a status of 200 or within a stream.
pub(super) fn failure(error: &Value) -> Error {
    error_within(&Map::from_iter([("error".to_owned(), error.clone())]))
}
