//! What a provider wants back verbatim, held against the message that it comes back with: callers edit
//! their histories, and what they send is what the provider is to get.

use domain::conversation::{Body, Message};
use domain::model::{Model, Provider};
use serde_json::{Map, Value};

use super::conversation::ToolCall;
use super::{STATE, ids, text};

/// What goes in the place of a message.
pub(super) enum Replay<'a> {
    /// The blocks that the model wrote: they say what the message says.
    Whole(&'a [Value]),
    /// Its thoughts, before what the message says now.
    Thoughts(Vec<&'a Value>),
    /// Nothing of the model's own: the message is another model's, or came without it.
    Nothing,
}

impl<'a> Replay<'a> {
    /// By a message and its calls. An error says what is wrong with what came with it.
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
        let mut said = String::new();
        let mut made = Vec::new();
        for block in blocks {
            match Block::of(block) {
                Block::Text(words) => said.push_str(words),
                Block::Texts(all) => said.extend(all.iter().map(|one| text(one.get("text")))),
                Block::Call(call) => made.push(call),
                Block::Thought | Block::Other => {}
            }
        }
        let same_calls = made.len() == calls.len()
            && made.iter().zip(calls).enumerate().all(|(index, (made, told))| made.is(told, index));
        if same_calls && says(message, &said) {
            return Ok(Self::Whole(blocks));
        }
        // Gemini signs parts, not thoughts: those that are left of others fit nothing.
        if model.provider == Provider::Gemini {
            return Ok(Self::Nothing);
        }
        let thoughts = blocks.iter().filter(|block| matches!(Block::of(block), Block::Thought));
        Ok(Self::Thoughts(thoughts.collect()))
    }
}

/// Whether a message says these words. Blank blocks are kept by nobody, so white space does not count.
fn says(message: &Message, words: &str) -> bool {
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    match &message.body {
        Body::Empty => bare(words).is_empty(),
        Body::Text(said) => bare(said) == bare(words),
        Body::Parts(parts) => {
            let said: Option<String> =
                parts.iter().map(|part| part.get("text")?.as_str()).collect();
            said.is_some_and(|said| bare(&said) == bare(words))
        }
    }
}

/// What a block of a provider's own is.
enum Block<'a> {
    Text(&'a str),
    /// A text with its sources, of Bedrock.
    Texts(&'a [Value]),
    Call(Call<'a>),
    Thought,
    /// What callers are not told of: tools that the provider runs itself, for one.
    Other,
}

impl<'a> Block<'a> {
    fn of(block: &'a Value) -> Self {
        match text(block.get("type")) {
            // Of the others only Anthropic's name their kind.
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

    /// Whether this is the call that a message tells, the one at an index.
    fn is(&self, told: &ToolCall<'_>, index: usize) -> bool {
        let has_id = if self.id.is_empty() {
            ids::index_of(told.id) == Some(index)
        } else {
            self.id == told.id
        };
        let has_arguments = match self.arguments {
            Some(arguments) => *arguments == told.arguments,
            None => told.arguments.as_object().is_some_and(Map::is_empty),
        };
        has_id && self.name == told.name && has_arguments
    }
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;
