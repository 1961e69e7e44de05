//! The items of a request as canonical messages.
//!
//! What the model said in one turn are several items here (reasoning, a message, calls) and one
//! message there.

use std::collections::BTreeSet;

use domain::conversation::{Message, Role};
use serde_json::Value;

use crate::canonical::{
    Node, State, assistant, call, image_part, invalid, malformed, plain, result, state_of,
    text_part,
};
use crate::error::Result;

/// The conversation as far as it has been read.
#[derive(Debug, Default)]
pub struct Input {
    read: Conversation,
    /// The index of the item that is being read.
    at: Option<usize>,
    /// The model's turn, while its items come.
    turn: Turn,
    /// State that came with the reasoning before the items that it belongs to.
    state: Option<State>,
    /// Images that tools gave back: they follow the last of the results.
    images: Vec<Value>,
    /// The index of the item that they came with.
    images_at: Option<usize>,
    left_out: BTreeSet<&'static str>,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Conversation {
    /// All messages.
    pub messages: Vec<Message>,
    /// Of each, the index of the first item it was made from; none where it was made from no item.
    pub sources: Vec<Option<usize>>,
    /// The names of what was left out.
    pub left_out: Vec<String>,
}

/// A turn of the model's.
#[derive(Debug, Default)]
struct Turn {
    /// The index of its first item.
    at: Option<usize>,
    parts: Vec<Value>,
    calls: Vec<Value>,
    state: Option<State>,
}

impl Input {
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
                    self.item(item?)
                })
            }
            _ => Err(malformed("input must be a string or an array of items".to_owned())),
        }
    }

    /// All that was read.
    pub fn finish(mut self) -> Conversation {
        self.end_turn();
        self.show_images();
        Conversation {
            left_out: self.left_out.into_iter().map(str::to_owned).collect(),
            ..self.read
        }
    }

    fn item(&mut self, mut item: Node) -> Result<()> {
        let kind = item.maybe_text("type")?;
        match kind.as_deref() {
            None | Some("message") => self.message(item),
            Some("function_call") => {
                let (id, name) = (item.text("call_id")?, item.text("name")?);
                let arguments = item.text("arguments")?;
                self.begin_turn(false);
                self.turn.calls.push(call(&id, &name, &arguments));
                Ok(())
            }
            Some("function_call_output") => {
                let id = item.text("call_id")?;
                let (message, images) = result(id, content(&mut item, "output")?);
                self.add(message);
                if !images.is_empty() {
                    self.images_at = self.at;
                }
                self.images.extend(images);
                Ok(())
            }
            Some("reasoning") => {
                if let Some(token) = item.maybe_text("encrypted_content")? {
                    let state = state_of(&token);
                    if state.is_none() {
                        self.left_out.insert("reasoning");
                    }
                    self.state = state.or(self.state.take());
                }
                Ok(())
            }
            Some(kind) => Err(item.unsupported("an item", kind)),
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
        let parts = content(&mut item, "content")?;
        if role != Role::Assistant {
            self.add(plain(role, parts));
            return Ok(());
        }
        self.begin_turn(true);
        self.turn.parts.extend(parts);
        Ok(())
    }

    /// Goes on with the model's turn, or begins another: at reasoning, and at a second message unless
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

    fn show_images(&mut self) {
        if !self.images.is_empty() {
            let images = std::mem::take(&mut self.images);
            self.read.push(plain(Role::User, images), self.images_at);
        }
    }

    /// State that nothing of the model's has followed belongs to what came before it.
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

/// Text and images of an item.
fn content(item: &mut Node, name: &str) -> Result<Vec<Value>> {
    let at = item.path(name);
    match item.take(name) {
        Some(Value::String(text)) => Ok(vec![text_part(text)]),
        Some(Value::Array(parts)) => Node::all(&at, parts).map(|part| one_part(part?)).collect(),
        None => Err(malformed(format!("Missing required parameter: {at}"))),
        Some(_) => Err(malformed(format!("{at} must be a string or an array of parts"))),
    }
}

fn one_part(mut part: Node) -> Result<Value> {
    let kind = part.text("type")?;
    match kind.as_str() {
        "input_text" | "output_text" | "text" => Ok(text_part(part.text("text")?)),
        "refusal" => Ok(text_part(part.text("refusal")?)),
        "input_image" => {
            let detail = part.maybe_text("detail")?.filter(|detail| detail != "auto");
            if let Some(url) = part.maybe_text("image_url")? {
                return Ok(image_part(url, detail));
            }
            Err(invalid(format!("{} is needed: files are not kept here", part.path("image_url"))))
        }
        _ => Err(part.unsupported("a part", &kind)),
    }
}
