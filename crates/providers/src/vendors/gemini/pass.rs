//! Pass-through: requests that came in this format, and the vendor's own chunks.

use std::collections::{BTreeMap, HashSet};

use domain::conversation::{Message, Prompt, StreamEvent};
use domain::fees::{Charges, ToolCharge, UseBound, VendorTool};
use domain::json_text::{self, Edit, Token, Unreadable, member, quoted, visit};
use domain::original::{
    Carrier, MOST_PIECES, Original, PieceKind, SourceEvent, SourcePiece, VENDOR_PARTS, WireFormat,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::adapter::request::Attempt;
use crate::chat_form::answer::piece_of;
use crate::error::Error;
use crate::vendors::gemini::is_recent;
use crate::vendors::gemini::wire::Shape;
use crate::wire::json::mended;

/// The members that are read or changed, in both of their spellings; the first is the one that is added.
const SETTINGS: [&str; 2] = ["generationConfig", "generation_config"];
const BOUND: [&str; 2] = ["maxOutputTokens", "max_output_tokens"];
const MODALITIES: [&str; 2] = ["responseModalities", "response_modalities"];
const TIER: [&str; 2] = ["serviceTier", "service_tier"];
const MODEL_VERSION: &str = "modelVersion";
/// The classes of service that cost no more than the prices of a model, in small letters.
const PRICED_TIERS: [&str; 4] = ["unspecified", "service_tier_unspecified", "standard", "flex"];
/// The tools that the vendor does not run: the caller does.
const CALLER_RUN_TOOLS: [&str; 2] = ["functiondeclarations", "computeruse"];
/// The vendor's tools that a project has to allow. Money for their results is reserved with that for the
/// documents that the vendor fetches.
const BOUNDED_TOOLS: [&str; 3] = ["urlcontext", "filesearch", "retrieval"];
/// Those of them that search, for a fee beside tokens.
const SEARCHES: [&str; 4] =
    ["googlesearch", "googlesearchretrieval", "googlemaps", "enterprisewebsearch"];
/// The most searches that money is reserved for. The vendor names no bound.
const RESERVED_SEARCHES: u64 = 10;
/// The most chunks after a `finishReason` that wait for the end of the answer.
const MAX_AFTER_FINISH: usize = 64;

/// Returns the body with a bound on the completion that was lowered or added; `None` if it has to be
/// translated.
pub(super) fn body(attempt: &Attempt<'_>, original: &Original) -> Result<Option<Vec<u8>>, Error> {
    let Some(body) = passing_body(original) else { return Ok(None) };
    let (name, settings) = given(body, &SETTINGS)?;
    let settings = settings.unwrap_or("{}");
    if original.untranslatable.is_none() && lacks_signatures(attempt, body) {
        return Ok(None);
    }
    check_priced(body, settings)?;
    // The address names the model.
    let mut edits = vec![("model", Edit::Remove)];
    let mut bounded = None;
    if let Some(bound) = attempt.max_output_tokens {
        let (of_bound, known) = given(settings, &BOUND)?;
        if known.is_none() || attempt.max_output_tokens != attempt.prompt.max_output_tokens {
            let bound = bound.to_string();
            let edit = [(of_bound, Edit::Set(&bound))];
            bounded = Some(json_text::edited(settings, &edit).map_err(unreadable)?);
        }
    }
    edits.extend(bounded.as_deref().map(|settings| (name, Edit::Set(settings))));
    Ok(Some(json_text::edited(body, &edits).map_err(unreadable)?.into_bytes()))
}

fn unreadable(_: Unreadable) -> Error {
    Error::unsupported("The body is no JSON object")
}

/// The body of a request that came in this format.
fn passing_body(original: &Original) -> Option<&str> {
    original.body.as_deref().filter(|_| original.format == WireFormat::GenerateContent)
}

/// The spelling in which an object has a member, and the member's value, if it is not null.
fn given<'b>(
    json: &'b str,
    names: &[&'static str; 2],
) -> Result<(&'static str, Option<&'b str>), Error> {
    let mut spelled = names[0];
    for name in names {
        if let Some(value) = member(json, name).map_err(unreadable)? {
            spelled = name;
            if value != "null" {
                return Ok((name, Some(value)));
            }
        }
    }
    Ok((spelled, None))
}

/// Refuses what costs more than the prices of a model.
fn check_priced(body: &str, settings: &str) -> Result<(), Error> {
    let read =
        |value: Option<&str>| value.and_then(|json| serde_json::from_str::<Value>(json).ok());
    let tier = read(given(body, &TIER)?.1);
    if let Some(tier) = &tier {
        let word = tier.as_str().unwrap_or_default();
        if !PRICED_TIERS.contains(&word.to_ascii_lowercase().as_str()) {
            let word: String = word.chars().take(40).collect();
            return Err(Error::unpriced(format!(
                "serviceTier: '{word}' has other prices than those of the model: leave it out, or ask \
                 for standard or flex"
            )));
        }
    }
    let kinds = read(given(settings, &MODALITIES)?.1);
    let kinds = kinds.as_ref().and_then(Value::as_array);
    let is_text =
        |kind: &Value| kind.as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("text"));
    if kinds.is_some_and(|kinds| !kinds.iter().all(is_text)) {
        return Err(Error::unpriced(
            "generationConfig.responseModalities: answers other than text have no price here: ask for \
             TEXT alone",
        ));
    }
    Ok(())
}

/// A content, as far as it shows whether its calls are signed.
#[derive(Deserialize)]
struct SignedContent {
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    parts: Option<List<SignedPart>>,
}

/// A list, or a single object in its place: the vendor reads that as a list of one.
#[derive(Deserialize)]
#[serde(untagged)]
enum List<T> {
    Many(Vec<T>),
    One(T),
}

impl<T> List<T> {
    fn items(self) -> Vec<T> {
        match self {
            Self::Many(items) => items,
            Self::One(item) => vec![item],
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignedPart {
    #[serde(default, alias = "function_call")]
    function_call: Option<IgnoredAny>,
    #[serde(default, alias = "function_response")]
    function_response: Option<IgnoredAny>,
    #[serde(default, alias = "thought_signature")]
    thought_signature: Option<IgnoredAny>,
}

/// Whether calls of the model's since the user wrote last lack signatures, as the calls of other models do.
/// Models from the third generation on refuse that; a translation signs them. Each user message with
/// anything but results of functions resets the search: the vendor checks the calls after it alone.
fn lacks_signatures(attempt: &Attempt<'_>, body: &str) -> bool {
    let calls = |message: &Message| message.extra.contains_key("tool_calls");
    if !is_recent(attempt.model) || !attempt.prompt.messages.iter().any(calls) {
        return false;
    }
    let contents = member(body, "contents").ok().flatten();
    let contents = contents.and_then(|all| serde_json::from_str::<List<SignedContent>>(all).ok());
    let (mut is_signed, mut lacks) = (false, false);
    for content in contents.map(List::items).into_iter().flatten() {
        let is_model = content.role.as_deref() == Some("model");
        is_signed &= is_model;
        for part in content.parts.map(List::items).into_iter().flatten() {
            let has_call = part.function_call.is_some();
            // The first call of a turn is signed, and the others with it.
            is_signed |= has_call && part.thought_signature.is_some();
            lacks |= is_model && has_call && !is_signed;
            lacks &= is_model || part.function_response.is_some();
        }
    }
    lacks
}

/// A tool of a request: each of its members is one of the vendor's own.
type Tool = BTreeMap<String, Box<RawValue>>;

/// Returns the charges of a request. Only one that goes on as it came has tools of the vendor's.
pub(super) fn charges(prompt: &Prompt) -> Charges {
    let mut charges = Charges::default();
    let body = prompt.original.as_deref().and_then(passing_body);
    let tools = body.and_then(|body| member(body, "tools").ok().flatten());
    let tools = tools.and_then(|tools| serde_json::from_str::<Vec<Tool>>(tools).ok());
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        let given = tool.iter().filter(|(_, value)| value.get() != "null");
        charges.tools.extend(given.filter_map(|(name, _)| charge(index, name)));
    }
    charges
}

/// The charge for a tool that the vendor runs.
fn charge(index: usize, name: &str) -> Option<ToolCharge> {
    let known = name.replace('_', "").to_ascii_lowercase();
    let known = known.as_str();
    if CALLER_RUN_TOOLS.contains(&known) || BOUNDED_TOOLS.contains(&known) {
        return None;
    }
    let name: String = name.chars().take(64).collect();
    let at = format!("tools[{index}] ('{name}')");
    Some(if SEARCHES.contains(&known) {
        let uses = UseBound::OnePass(RESERVED_SEARCHES);
        ToolCharge { at, tool: Some(VendorTool::WebSearch), uses, tokens: Some(0) }
    } else {
        ToolCharge { at, tool: None, uses: UseBound::Missing, tokens: None }
    })
}

/// Hands over the chunks of a stream to pass them through.
#[derive(Debug)]
pub(super) struct PassThrough {
    /// The name by which the caller knows the model.
    model: String,
    /// The string of each candidate that continues: its kind and its number.
    open: BTreeMap<u64, (PieceKind, u64)>,
    begun: u64,
    /// The chunks from the last `finishReason` on. More of the answer may follow: some models send one with
    /// every chunk.
    after_finish: Vec<SourceEvent>,
}

impl PassThrough {
    pub(super) fn new(model: String) -> Self {
        Self { model, open: BTreeMap::new(), begun: 0, after_finish: Vec::new() }
    }

    /// Hands over a chunk.
    pub(super) fn pass(
        &mut self,
        data: &[u8],
        shape: &Shape,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        let event = self.event(data, shape, events)?;
        let has_content = shape.parts().next().is_some();
        if has_content || self.after_finish.len() >= MAX_AFTER_FINISH {
            events.extend(self.after_finish.drain(..).map(StreamEvent::Source));
        }
        if shape.ends || !self.after_finish.is_empty() {
            self.after_finish.push(event);
        } else {
            events.push(StreamEvent::Source(event));
        }
        Ok(())
    }

    /// Hands over the end of the answer.
    pub(super) fn end(&mut self, events: &mut Vec<StreamEvent>) {
        let mut after_finish = std::mem::take(&mut self.after_finish);
        if let Some(first) = after_finish.first_mut() {
            first.ends.extend(self.open.values().map(|(_, block)| *block));
            self.open.clear();
        }
        events.extend(
            after_finish
                .into_iter()
                .map(|event| StreamEvent::Source(SourceEvent { is_end: true, ..event })),
        );
    }

    /// Returns a chunk as it came, but for the name of the model. The texts of all candidates but the
    /// first have no other canonical form than the one that they get here.
    fn event(
        &mut self,
        data: &[u8],
        shape: &Shape,
        events: &mut Vec<StreamEvent>,
    ) -> Result<SourceEvent, Error> {
        let malformed = || Error::malformed("a chunk of the stream is none of the format's");
        let whole = mended(data);
        let data =
            std::str::from_utf8(whole.as_deref().unwrap_or(data)).map_err(|_| malformed())?;
        let name = quoted(&self.model);
        let data = match member(data, MODEL_VERSION).map_err(|_| malformed())? {
            Some(_) => json_text::edited(data, &[(MODEL_VERSION, Edit::Set(&name))]),
            None => Ok(data.to_owned()),
        };
        let data = data.map_err(|_| malformed())?;
        let mut texts = BTreeMap::new();
        visit(&data, |place, token| {
            if let Token::Text(text) = token
                && place.depth() == 6
                && place.member(0) == Some("candidates")
                && (place.member(2), place.member(3)) == (Some("content"), Some("parts"))
                && place.member(5) == Some("text")
                && let (Some(candidate), Some(part)) = (place.index(1), place.index(4))
            {
                texts.insert((candidate, part), (place.range.clone(), text.to_owned()));
            }
        })
        .map_err(|_| malformed())?;
        if texts.len() > MOST_PIECES {
            return Err(Error::malformed("too many strings go on in one chunk of the stream"));
        }
        let (mut pieces, mut ends) = (Vec::with_capacity(texts.len()), Vec::new());
        let mut known = HashSet::new();
        for (position, candidate) in shape.candidates.iter().enumerate() {
            if !known.insert(candidate.index) {
                // The canonical form has the first of them alone: what is no piece is judged beside it.
                continue;
            }
            for (index, part) in candidate.parts.iter().enumerate() {
                let text = texts.remove(&(position, index));
                let Some(kind) = part.kind.filter(|_| text.is_some()) else {
                    // The next text of the candidate is another string.
                    ends.extend(self.open.remove(&candidate.index).map(|(_, block)| block));
                    continue;
                };
                let block = self.block(candidate.index, kind, &mut ends);
                if let Some((range, text)) = text {
                    if candidate.index > 0 && !text.is_empty() {
                        events.push(piece_of(candidate.index, delta(kind, &text)));
                    }
                    let piece = SourcePiece::new(block, kind, range, text);
                    pieces.push(SourcePiece { candidate: candidate.index, ..piece });
                }
            }
        }
        let name = if shape.is_canonical() { "" } else { VENDOR_PARTS }.to_owned();
        let begins_call = shape.parts().any(|part| !part.is_canonical);
        let (beside, is_end) = (None, false);
        // A chunk with text alone may be sent again with the rest of a string, so it is its own carrier.
        let carrier = if shape.is_text() { Carrier::Copy } else { Carrier::Content };
        Ok(SourceEvent { name, data, pieces, ends, beside, begins_call, is_end, carrier })
    }

    /// The number of the string that goes on in a candidate, or begins in it.
    fn block(&mut self, candidate: u64, kind: PieceKind, ends: &mut Vec<u64>) -> u64 {
        match self.open.get(&candidate) {
            Some((open, block)) if *open == kind => *block,
            known => {
                ends.extend(known.map(|(_, block)| *block));
                self.begun += 1;
                self.open.insert(candidate, (kind, self.begun));
                self.begun
            }
        }
    }
}

fn delta(kind: PieceKind, text: &str) -> Value {
    match kind {
        PieceKind::Thought => json!({"reasoning_content": text}),
        PieceKind::Text | PieceKind::Json => json!({"content": text}),
    }
}

#[cfg(test)]
#[path = "pass_tests.rs"]
mod tests;
