//! What a provider wants back verbatim, held against the message that it comes back with: callers edit
//! their histories, and what they send is what the provider is to get.

use std::borrow::Cow;

use domain::conversation::{Body, Message};
use domain::model::{Model, Provider};
use serde_json::{Map, Value};

use super::conversation::ToolCall;
use super::{STATE, ids, text};

/// The text of a block; of Gemini's, whether it is a thought is said beside it.
const TEXT: &str = "text";
/// A text of Gemini's may carry what has to come back.
const SIGNATURE: &str = "thoughtSignature";

/// The content of the model's own that stands for a message, with the text and the calls that the message
/// has now. `None` where it is another model's, or cannot be brought to say what the message says: then
/// the message is translated like any other.
pub(super) fn content<'a>(
    message: &'a Message,
    model: &Model,
    calls: &[&ToolCall<'_>],
) -> Option<Cow<'a, Value>> {
    let state = message.extra.get(STATE)?;
    let is_ours = text(state.get("provider")) == model.provider.as_str()
        && text(state.get("model")) == model.upstream_name();
    let content = state.get("content").filter(|_| is_ours)?;
    let Some(blocks) = content.as_array() else {
        // What is wrong with it the encoder says.
        return Some(Cow::Borrowed(content));
    };
    let said = text_of(message)?;
    let made = blocks.iter().filter_map(OwnCall::of).enumerate();
    let made: Vec<(OwnCall<'_>, Option<&ToolCall<'_>>)> = made
        .map(|(index, own)| {
            let told = calls.iter().find(|call| own.is(call.id, index));
            (own, told.copied())
        })
        .collect();
    let kept = made.iter().filter(|(_, told)| told.is_some()).count();
    // Only the first of Gemini's parallel calls is signed.
    if kept < calls.len() || (model.provider == Provider::Gemini && kept < made.len()) {
        return None;
    }
    let keeps_text = own_text(blocks).trim() == said.trim();
    let is_as_made = |(own, told): &(OwnCall<'_>, Option<&ToolCall<'_>>)| {
        told.is_some_and(|told| own.has(&told.arguments))
    };
    if keeps_text && made.iter().all(is_as_made) {
        return Some(Cow::Borrowed(content));
    }
    let said = Some(said.as_str()).filter(|_| !keeps_text);
    let told = made.into_iter().map(|(_, told)| told).collect();
    Some(Cow::Owned(edited(blocks, model, said, told)))
}

/// The blocks with what is said now, where that is other than it was, and with the calls as they are told.
fn edited(
    blocks: &[Value],
    model: &Model,
    said: Option<&str>,
    told: Vec<Option<&ToolCall<'_>>>,
) -> Value {
    let mut edited = Vec::with_capacity(blocks.len() + 1);
    let mut told = told.into_iter();
    let mut pending = said.filter(|said| !said.trim().is_empty());
    for block in blocks {
        if OwnCall::of(block).is_some() {
            let Some(call) = told.next().flatten() else { continue };
            edited.extend(pending.take().map(|said| own_block(model, said)));
            edited.push(OwnCall::with(block, &call.arguments));
        } else if said.is_none() || !is_text(block) {
            edited.push(block.clone());
        } else if let Some(said) = pending.take() {
            edited.push(with_text(block, said));
        } else if block.get(SIGNATURE).is_some() {
            edited.push(with_text(block, ""));
        }
    }
    edited.extend(pending.map(|said| own_block(model, said)));
    Value::Array(edited)
}

/// The text of a message; `None` where it says more than text.
fn text_of(message: &Message) -> Option<String> {
    match &message.body {
        Body::Empty => Some(String::new()),
        Body::Text(said) => Some(said.clone()),
        Body::Parts(parts) => parts.iter().map(|part| part.get(TEXT)?.as_str()).collect(),
    }
}

fn own_text(blocks: &[Value]) -> String {
    blocks.iter().filter(|block| is_text(block)).map(|block| text(block.get(TEXT))).collect()
}

/// Whether a block is text that was said: Anthropic names its kind, Gemini marks thoughts.
fn is_text(block: &Value) -> bool {
    let is_of_kind = block.get("type").is_none_or(|kind| kind == TEXT);
    let is_thought = block.get("thought") == Some(&Value::Bool(true));
    block.get(TEXT).is_some_and(Value::is_string) && is_of_kind && !is_thought
}

fn with_text(block: &Value, said: &str) -> Value {
    let mut block = block.clone();
    block[TEXT] = said.into();
    block
}

/// A text in the model's own form.
fn own_block(model: &Model, said: &str) -> Value {
    let mut block = Map::new();
    if model.provider == Provider::Anthropic {
        block.insert("type".to_owned(), TEXT.into());
    }
    block.insert(TEXT.to_owned(), said.into());
    Value::Object(block)
}

/// A call in a provider's own form.
struct OwnCall<'a> {
    id: &'a str,
    arguments: Option<&'a Value>,
}

/// Where the three formats have a call, its id and its arguments; Anthropic's is the block itself.
const FORMS: [(&str, &str, &str); 2] =
    [("toolUse", "toolUseId", "input"), ("functionCall", "id", "args")];

impl<'a> OwnCall<'a> {
    fn of(block: &'a Value) -> Option<Self> {
        if text(block.get("type")) == "tool_use" {
            return Some(Self { id: text(block.get("id")), arguments: block.get("input") });
        }
        let (call, (_, id, arguments)) =
            FORMS.iter().find_map(|form| Some((block.get(form.0)?, form)))?;
        Some(Self { id: text(call.get(*id)), arguments: call.get(*arguments) })
    }

    /// Whether callers know it, the call at an index, by an id.
    fn is(&self, id: &str, index: usize) -> bool {
        if self.id.is_empty() { ids::index_of(id) == Some(index) } else { self.id == id }
    }

    /// Whether it was made with these arguments; none are an empty object.
    fn has(&self, arguments: &Value) -> bool {
        match self.arguments {
            Some(own) => own == arguments,
            None => arguments.as_object().is_some_and(Map::is_empty),
        }
    }

    /// A call with other arguments.
    fn with(block: &Value, arguments: &Value) -> Value {
        let mut block = block.clone();
        let form = FORMS.iter().find(|(call, ..)| block.get(call).is_some());
        match form {
            Some((call, _, name)) => block[call][name] = arguments.clone(),
            None => block["input"] = arguments.clone(),
        }
        block
    }
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;
