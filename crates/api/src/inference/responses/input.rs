//! The items of a request as canonical messages.
//!
//! One message of the model becomes several items here (reasoning, a message, calls).

use std::collections::BTreeSet;

use domain::conversation::{Message, Role};
use domain::stored_responses::StoredKind;
use serde_json::Value;

use crate::http::error::Result;
use crate::inference::canonical::documents::document;
use crate::inference::canonical::members::shown;
use crate::inference::canonical::prompt::{
    State, States, assistant, audio_part, call, image_part, plain, result, text_part,
};
use crate::inference::canonical::read::{Node, invalid, malformed};
use crate::inference::canonical::translation_gaps::TranslationGaps;
use crate::inference::responses::custom_tools::arguments_of;
use crate::inference::responses::passing::InputNotes;
use crate::inference::responses::references::{REFERENCE, reference};

/// Members that the vendor's answers have and its clients send back; they have no effect here.
const OF_ANSWERS: [&str; 7] =
    ["id", "status", "phase", "caller", "async", "created_by", "parsed_arguments"];
/// Members that the parts of the vendor's answers have and its clients send back.
const OF_PARTS: [&str; 3] = ["annotations", "logprobs", "parsed"];

/// Items of tools that the vendor has run itself: what they found is in what the model says next, and
/// tools that are deferred to a search are offered at once.
const VENDORS_OWN: [&str; 6] = [
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "mcp_list_tools",
    "tool_search_call",
    "tool_search_output",
];

/// The conversation as far as it has been read.
#[derive(Debug, Default)]
pub struct Input {
    read: Conversation,
    /// The index of the item that is being read.
    at: Option<usize>,
    /// The model's message, while its items are read.
    turn: Turn,
    /// State that came with the reasoning before the items that it belongs to.
    state: Option<State>,
    /// Images in tool results: they follow the last of the results.
    images: Vec<Value>,
    /// The index of the item that they came with.
    images_at: Option<usize>,
    dropped: BTreeSet<String>,
    states: States,
    /// Whether it came in by the vendor's root, where what does no harm is left out.
    is_root: bool,
    gaps: TranslationGaps,
    notes: InputNotes,
}

/// The conversation that was read.
#[derive(Debug, Default)]
pub struct Conversation {
    /// All messages.
    pub messages: Vec<Message>,
    /// For each message, the index of the first item it was made from; none if it was made from no
    /// item.
    pub sources: Vec<Option<usize>>,
    /// The names of the parameters that were left out.
    pub dropped: Vec<String>,
}

/// A message of the model.
#[derive(Debug, Default)]
struct Turn {
    /// The index of its first item.
    at: Option<usize>,
    parts: Vec<Value>,
    calls: Vec<Value>,
    state: Option<State>,
}

impl Input {
    /// Nothing yet, of a request at the vendor's root or at the gateway's own.
    pub(super) fn new(is_root: bool, gaps: TranslationGaps) -> Self {
        Self { is_root, gaps, ..Self::default() }
    }

    /// Adds a message.
    pub fn add(&mut self, message: Message) {
        self.end_turn();
        if message.role != Role::Tool {
            self.show_images();
        }
        self.read.push(message, self.at);
    }

    /// Reads a text or items.
    pub fn read(&mut self, input: Value) -> Result<()> {
        match input {
            Value::String(text) => {
                self.add(plain(Role::User, vec![text_part(text)]));
                Ok(())
            }
            Value::Array(items) => {
                Node::all("input", items).enumerate().try_for_each(|(index, item)| {
                    self.at = Some(index);
                    let read = self.item(item?);
                    self.gaps.allow(read).map(drop)
                })
            }
            _ => Err(malformed("input must be a string or an array of items".to_owned())),
        }
    }

    /// The conversation that was read, and what was noted beside it.
    pub(super) fn finish(mut self) -> (Conversation, TranslationGaps, InputNotes) {
        self.end_turn();
        self.show_images();
        self.notes.is_partial = !self.dropped.is_empty();
        let dropped = self.dropped.into_iter().collect();
        (Conversation { dropped, ..self.read }, self.gaps, self.notes)
    }

    fn item(&mut self, mut item: Node) -> Result<()> {
        let kind = item.maybe_text("type")?;
        match kind.as_deref() {
            None | Some("message") => self.message(item),
            Some("function_call") => {
                let (id, name) = (item.text("call_id")?, item.text("name")?);
                let arguments = item.text("arguments")?;
                self.end_item(item)?;
                self.begin_turn(false);
                self.turn.calls.push(call(&id, &name, &arguments));
                Ok(())
            }
            Some("custom_tool_call") => {
                let (id, name) = (item.text("call_id")?, item.text("name")?);
                let input = item.text("input")?;
                self.end_item(item)?;
                self.begin_turn(false);
                self.turn.calls.push(call(&id, &name, &arguments_of(&input)));
                Ok(())
            }
            Some("function_call_output" | "custom_tool_call_output") => {
                let id = item.text("call_id")?;
                let (message, images) = result(id, self.content(&mut item, "output")?);
                item.pass_over(&["name"]);
                self.end_item(item)?;
                self.add(message);
                if !images.is_empty() {
                    self.images_at = self.at;
                }
                self.images.extend(images);
                Ok(())
            }
            Some("reasoning") => self.reasoning(item),
            Some(REFERENCE) => {
                self.refer(StoredKind::Item, &mut item)?;
                Err(invalid(format!(
                    "{}: an item of type '{REFERENCE}' is not supported, because nothing is kept \
                     between two requests: set store: false in the client, which then sends the item \
                     itself",
                    item.at()
                )))
            }
            Some("image_generation_call") => {
                if item.take("result").is_none() {
                    self.refer(StoredKind::Item, &mut item)?;
                }
                Err(item.unsupported("an item", "image_generation_call"))
            }
            Some(kind) if self.is_root && VENDORS_OWN.contains(&kind) => {
                self.dropped.insert(kind.to_owned());
                Ok(())
            }
            Some(kind) => Err(item.unsupported("an item", kind)),
        }
    }

    /// Notes that an item refers to one that the vendor stores.
    fn refer(&mut self, kind: StoredKind, item: &mut Node) -> Result<()> {
        if self.gaps.may_pass_through() {
            let id = item.maybe_text("id")?.unwrap_or_default();
            self.notes.references.push(reference(kind, id)?);
        }
        Ok(())
    }

    /// Reads a reasoning item. The reasoning itself is in the state, if it can be used at all.
    fn reasoning(&mut self, mut item: Node) -> Result<()> {
        let id = item.maybe_text("id")?;
        let is_own = id.as_deref().is_some_and(is_ours);
        let token = item.maybe_text("encrypted_content")?;
        let state = token.as_deref().and_then(|token| self.states.of(token));
        if let Some(id) = id.filter(|_| self.gaps.may_pass_through() && token.is_none() && !is_own)
        {
            self.notes.references.push(reference(StoredKind::OptionalItem, id)?);
        }
        self.notes.has_gateway_reasoning |= is_own || state.is_some();
        // Our own items have the state in an item of its own, or the provider requires none back.
        if state.is_none() && (token.is_some() || !is_own) {
            self.dropped.insert("reasoning".to_owned());
        }
        self.state = state.or(self.state.take());
        item.pass_over(&["summary", "content"]);
        self.end_item(item)
    }

    /// Ends an item: a member that is left is ignored as one of answers, recorded as lost, or
    /// refused.
    fn end_item(&mut self, mut item: Node) -> Result<()> {
        item.pass_over(&OF_ANSWERS);
        self.lose(&mut item, "namespace");
        self.end(item)
    }

    /// Ends an object: a member that is left is refused or, at the vendor's root, left out.
    fn end(&mut self, object: Node) -> Result<()> {
        if !self.is_root {
            return object.end();
        }
        self.dropped.extend(object.left().map(|name| shown(&name)));
        Ok(())
    }

    /// Takes a hint that is lost.
    fn lose(&mut self, node: &mut Node, name: &'static str) {
        if node.take(name).is_some() {
            self.dropped.insert(name.to_owned());
        }
    }

    fn message(&mut self, mut item: Node) -> Result<()> {
        let role = item.text("role")?;
        let role = match role.as_str() {
            "user" => Role::User,
            "system" => Role::System,
            "developer" => Role::Developer,
            "assistant" => Role::Assistant,
            other => {
                let other: String = other.chars().take(40).collect();
                let at = item.path("role");
                return Err(invalid(format!(
                    "{at} must be user, assistant, system or developer, not '{other}'"
                )));
            }
        };
        let parts = self.content(&mut item, "content")?;
        self.end_item(item)?;
        if role != Role::Assistant {
            self.add(plain(role, parts));
            return Ok(());
        }
        self.begin_turn(true);
        self.turn.parts.extend(parts);
        Ok(())
    }

    /// Continues the model's message, or begins another: at reasoning, and at a second message unless
    /// calls still wait for their results.
    fn begin_turn(&mut self, is_message: bool) {
        let another = is_message && !self.turn.parts.is_empty() && self.turn.calls.is_empty();
        if another || self.state.is_some() {
            let state = self.state.take();
            self.end_turn();
            self.turn.state = state;
        }
        self.turn.at = self.turn.at.or(self.at);
        self.show_images();
    }

    /// Text, images, documents and audio of an item.
    fn content(&mut self, item: &mut Node, name: &str) -> Result<Vec<Value>> {
        let at = item.path(name);
        match item.take(name) {
            Some(Value::String(text)) => Ok(vec![text_part(text)]),
            Some(Value::Array(parts)) => {
                let parts = Node::all(&at, parts).filter_map(|part| {
                    let part = part.and_then(|part| self.part(part));
                    self.gaps.allow(part).transpose()
                });
                parts.collect()
            }
            None => Err(malformed(format!("Missing required parameter: {at}"))),
            Some(_) => Err(malformed(format!("{at} must be a string or an array of parts"))),
        }
    }

    fn part(&mut self, mut part: Node) -> Result<Value> {
        let kind = part.text("type")?;
        self.lose(&mut part, "prompt_cache_breakpoint");
        let read = match kind.as_str() {
            "input_text" | "output_text" | "text" => {
                part.pass_over(&OF_PARTS);
                text_part(part.text("text")?)
            }
            "refusal" => text_part(part.text("refusal")?),
            "input_image" => {
                let detail = part.maybe_text("detail")?.filter(|detail| detail != "auto");
                let Some(url) = part.maybe_text("image_url")? else {
                    let at = part.path("image_url");
                    return Err(invalid(format!("{at} is needed: files are not kept here")));
                };
                image_part(url, detail)
            }
            "input_file" => file(&mut part)?,
            "input_audio" => {
                let Some(mut audio) = part.maybe_node("input_audio")? else {
                    let at = part.path("input_audio");
                    return Err(malformed(format!("Missing required parameter: {at}")));
                };
                let (format, data) = (audio.text("format")?, audio.text("data")?);
                self.end(audio)?;
                audio_part(&format, data)
            }
            _ => return Err(part.unsupported("a part", &kind)),
        };
        self.end(part)?;
        Ok(read)
    }

    fn show_images(&mut self) {
        if !self.images.is_empty() {
            let images = std::mem::take(&mut self.images);
            self.read.push(plain(Role::User, images), self.images_at);
        }
    }

    /// State that no item of the model follows belongs to the message before it.
    fn end_turn(&mut self) {
        let mut turn = std::mem::take(&mut self.turn);
        turn.state = self.state.take().or(turn.state);
        if !turn.parts.is_empty() || !turn.calls.is_empty() {
            self.read.push(assistant(turn.parts, turn.calls, turn.state), turn.at);
        }
    }
}

impl Conversation {
    fn push(&mut self, message: Message, source: Option<usize>) {
        self.messages.push(message);
        self.sources.push(source);
    }
}

/// A document, of which only the bytes themselves are taken.
fn file(part: &mut Node) -> Result<Value> {
    if part.take("file_url").is_some() {
        return Err(invalid(format!(
            "{} is not supported: files are not fetched from addresses; send file_data",
            part.path("file_url")
        ))
        .reaches_address());
    }
    let (name, at) = (part.maybe_text("filename")?, part.path("file_data"));
    let Some(url) = part.maybe_text("file_data")? else {
        return Err(invalid(format!("{at} is needed: files are not kept here")));
    };
    let split = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let (media, data) =
        split.ok_or_else(|| invalid(format!("{at} must be a data: URL in base64")))?;
    document(&at, name, media.split(';').next().unwrap_or_default(), data)
}

/// Whether reasoning has the id that an answer of ours gave it: `rs_`, the step and a number.
fn is_ours(id: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = id.strip_prefix("rs_").and_then(|rest| rest.split_once('_'));
    numbers.is_some_and(|(step, index)| is_number(step) && is_number(index))
}
