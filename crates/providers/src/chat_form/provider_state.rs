//! Provider state, compared with the message that it comes back with: callers edit their histories, and
//! the provider is to get what they send.

use domain::conversation::{Body, Message};
use domain::model::{Model, Provider};
use serde_json::{Map, Value};

use crate::chat_form::parts::ToolCall;
use crate::chat_form::{STATE, ids, text};

/// The blocks that replace a message.
pub(super) enum Replay<'a> {
    /// The blocks that the model wrote: their content is that of the message. Never thoughts alone, nor
    /// at the end: providers refuse the thoughts of an answer that was cut off.
    Whole(&'a [Value]),
    /// The thoughts that it began with, before the present content of the message.
    Thoughts(&'a [Value]),
    /// No blocks: the message is another model's, or came without provider state.
    Nothing,
}

impl<'a> Replay<'a> {
    /// Compares a message and its calls with its provider state. The error names the fault of the
    /// state.
    pub(super) fn of<'b>(
        message: &'a Message,
        model: &Model,
        calls: impl ExactSizeIterator<Item = &'b ToolCall<'b>>,
    ) -> Result<Self, &'static str> {
        let Some(state) = message.extra.get(STATE) else { return Ok(Self::Nothing) };
        let is_ours = text(state.get("provider")) == model.provider.as_str()
            && text(state.get("model")) == model.upstream_name();
        let Some(content) = state.get("content").filter(|_| is_ours) else {
            return Ok(Self::Nothing);
        };
        let blocks = content.as_array().filter(|blocks| !blocks.is_empty());
        let blocks = blocks.filter(|blocks| blocks.iter().all(Value::is_object));
        let blocks = blocks.ok_or("provider_state.content must be what the model wrote")?;
        let is_thought = |block: &Value| matches!(Block::of(block), Block::Thought);
        let says_something = |block: &Value| match Block::of(block) {
            Block::Thought => false,
            Block::Text(words) => !words.trim().is_empty(),
            Block::Texts(_) | Block::Call(_) | Block::Other => true,
        };
        let end = blocks.iter().rposition(says_something).map_or(0, |last| last + 1);
        let mut said = Vec::new();
        let mut made = Vec::new();
        for block in blocks {
            match Block::of(block) {
                Block::Text(words) => said.push(words),
                Block::Texts(all) => said.extend(all.iter().map(|one| text(one.get("text")))),
                Block::Call(call) => made.push(call),
                Block::Thought | Block::Other => {}
            }
        }
        let same_calls = made.len() == calls.len()
            && made.iter().zip(calls).enumerate().all(|(index, (made, told))| made.is(told, index));
        if same_calls && end > 0 && has_texts(message, &said) {
            return Ok(Self::Whole(&blocks[..end]));
        }
        // Gemini signs parts, not thoughts: the signatures of edited parts fit nothing.
        if model.provider == Provider::Gemini {
            return Ok(Self::Nothing);
        }
        // Later thoughts would be in a position in which the model did not have them.
        let first = blocks.iter().take_while(|block| is_thought(block)).count();
        Ok(Self::Thoughts(&blocks[..first]))
    }
}

/// Whether a message has these texts. Clients join them with white space or without, and drop blank
/// ones.
fn has_texts(message: &Message, texts: &[&str]) -> bool {
    let told: Option<Vec<&str>> = match &message.body {
        Body::Empty => Some(Vec::new()),
        Body::Text(said) => Some(vec![said]),
        Body::Parts(parts) => parts.iter().map(|part| part.get("text")?.as_str()).collect(),
    };
    told.is_some_and(|told| {
        let same = |one: String, other: String| one.split_whitespace().eq(other.split_whitespace());
        same(told.concat(), texts.concat()) || same(told.join(" "), texts.join(" "))
    })
}

/// The kind of a block in a provider's own form.
enum Block<'a> {
    Text(&'a str),
    /// A text with its sources, of Bedrock.
    Texts(&'a [Value]),
    Call(Call<'a>),
    Thought,
    /// Blocks that callers do not see: tools that the provider runs itself, for one.
    Other,
}

impl<'a> Block<'a> {
    fn of(block: &'a Value) -> Self {
        match text(block.get("type")) {
            // Among the other formats' blocks, only Anthropic's name their kind.
            "" => Self::unnamed(block),
            "text" => Self::Text(text(block.get("text"))),
            "tool_use" => Self::Call(Call::of(block, "id", "input")),
            "thinking" | "redacted_thinking" => Self::Thought,
            _ => Self::Other,
        }
    }

    fn unnamed(block: &'a Value) -> Self {
        if let Some(call) = block.get("functionCall") {
            Self::Call(Call::of(call, "id", "args"))
        } else if let Some(call) = block.get("toolUse") {
            let is_servers_own = text(call.get("type")) == "server_tool_use";
            if is_servers_own {
                Self::Other
            } else {
                Self::Call(Call::of(call, "toolUseId", "input"))
            }
        } else if block.get("reasoningContent").is_some() {
            Self::Thought
        } else if block.get("thought") == Some(&Value::Bool(true)) {
            Self::Other
        } else if let Some(cited) = block.get("citationsContent") {
            let texts = cited.get("content").and_then(Value::as_array);
            Self::Texts(texts.map_or(&[], Vec::as_slice))
        } else {
            Self::Text(text(block.get("text")))
        }
    }
}

/// A call in a provider's own form.
struct Call<'a> {
    id: &'a str,
    name: &'a str,
    arguments: Option<&'a Value>,
}

impl<'a> Call<'a> {
    fn of(call: &'a Value, id: &str, arguments: &str) -> Self {
        Self {
            id: text(call.get(id)),
            name: text(call.get("name")),
            arguments: call.get(arguments),
        }
    }

    /// Whether this is the message's call at an index.
    fn is(&self, told: &ToolCall<'_>, index: usize) -> bool {
        let has_id = if self.id.is_empty() {
            ids::index_of(told.id) == Some(index)
        } else {
            self.id == told.id
        };
        let has_arguments = match self.arguments {
            Some(arguments) => is_same(arguments, &told.arguments),
            None => told.arguments.as_object().is_some_and(Map::is_empty),
        };
        has_id && self.name == told.name && has_arguments
    }
}

/// Whether two values are equal to a client that has only one kind of number.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(name, value)| other.get(name).is_some_and(|other| is_same(value, other));
            one.len() == other.len() && one.iter().all(has)
        }
        _ => one == other,
    }
}

#[cfg(test)]
#[path = "provider_state_tests.rs"]
mod tests;
