//! The one model of a conversation that every endpoint translates to and every adapter from.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};

use crate::original::{Original, SourceEvent};
use crate::safety::Origin;
use crate::step::FinishReason;
use crate::stored_responses::StoredResponse;
use crate::usage::Usage;

/// The member of an assistant's message that holds the state that its provider requires back with it,
/// unchanged: thoughts with their signatures and the like.
pub const PROVIDER_STATE: &str = "provider_state";

/// The member of an answer's message that holds the details that Anthropic reports of a refusal,
/// unchanged: its category, and its explanation, which is the message's `refusal` as well.
pub const STOP_DETAILS: &str = "stop_details";

/// The member of an answer's message that holds the caller's stop sequence that has ended it, if its
/// provider reports it.
pub const STOP_SEQUENCE: &str = "stop_sequence";

/// The member of a tool's message that is true if the tool failed: chat completions have none for it.
pub const TOOL_FAILED: &str = "tool_failed";

/// The member of a system message that is true if it is the instructions of one request only: a request
/// that continues the conversation does not inherit it.
pub const INSTRUCTIONS: &str = "is_instructions";

/// The role of a message, as the chat-completions format names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The application.
    System,
    /// The application, under the newer name.
    Developer,
    /// The end user.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

impl Role {
    /// The word on the wire.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// Reads the word; `None` for any other.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "system" => Self::System,
            "developer" => Self::Developer,
            "user" => Self::User,
            "assistant" => Self::Assistant,
            "tool" | "function" => Self::Tool,
            _ => return None,
        })
    }

    /// How far safety trusts its text.
    pub fn origin(&self) -> Origin {
        match self {
            Self::System | Self::Developer => Origin::System,
            Self::User => Origin::User,
            Self::Assistant => Origin::Assistant,
            Self::Tool => Origin::Tool,
        }
    }
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Nothing (an assistant turn that only calls tools).
    Empty,
    /// Plain text.
    Text(String),
    /// Content parts in the chat-completions form (text, images, ...).
    Parts(Vec<Value>),
}

impl Body {
    /// The content parts; none if it is no list of them.
    pub fn parts(&self) -> &[Value] {
        match self {
            Self::Parts(parts) => parts,
            Self::Empty | Self::Text(_) => &[],
        }
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The role of its author.
    pub role: Role,
    /// The content.
    pub body: Body,
    /// Other members that the caller sent with it (`name`, `tool_calls`, `tool_call_id`, ...).
    pub extra: Map<String, Value>,
}

impl Message {
    /// A plain user message.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, body: Body::Text(text.into()), extra: Map::new() }
    }
}

impl Message {
    /// Reads the form that [`Message`] serializes to; `None` for anything else.
    pub fn read(value: Value) -> Option<Self> {
        let Value::Object(mut extra) = value else { return None };
        let role = Role::parse(extra.shift_remove("role")?.as_str()?)?;
        let body = match extra.shift_remove("content") {
            None | Some(Value::Null) => Body::Empty,
            Some(Value::String(text)) => Body::Text(text),
            Some(Value::Array(parts)) => Body::Parts(parts),
            Some(_) => return None,
        };
        Some(Self { role, body, extra })
    }
}

/// The message in the chat-completions form: `role`, `content`, and its other members.
impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2 + self.extra.len()))?;
        map.serialize_entry("role", self.role.as_str())?;
        match &self.body {
            Body::Empty => map.serialize_entry("content", &())?,
            Body::Text(text) => map.serialize_entry("content", text)?,
            Body::Parts(parts) => map.serialize_entry("content", parts)?,
        }
        for (key, value) in &self.extra {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// The member by which a content part, a message, a tool call, a tool or a whole request permits a
/// provider to cache it and everything before it: for `5m` or for `1h`. Only adapters of formats with
/// prompt caches of this kind read it.
pub const CACHE_BREAKPOINT: &str = "cache_breakpoint";

/// The callers' name for it: the name in Anthropic's format, and in extensions of chat completions by
/// others.
pub const CACHE_CONTROL: &str = "cache_control";

/// A request to a model, independent of any wire format.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    /// The conversation so far, oldest first.
    pub messages: Vec<Message>,
    /// The caller's bound on completion tokens.
    pub max_output_tokens: Option<u64>,
    /// Whether it came in another format than chat completions. Content that chat completions lack is
    /// refused then by models of that format, and not passed on.
    pub is_translated: bool,
    /// Whether it came in by a vendor's root: what another vendor's model lacks and the reader of an
    /// answer does not rely on is left out then, and named, where `/api/v1` refuses it.
    pub is_lenient: bool,
    /// Every other parameter of a chat-completions request, as the caller sent it
    /// (`temperature`, `tools`, `response_format`, ...).
    pub params: Map<String, Value>,
    /// The request as it came, if it can go on so to a provider of its own format.
    pub original: Option<Box<Original>>,
}

impl Prompt {
    /// One message of a user.
    pub fn question(text: String) -> Self {
        Self { messages: vec![Message::user(text)], ..Self::default() }
    }

    /// Whether the request as it came has these words anywhere.
    pub fn original_has(&self, words: &str) -> bool {
        let body = self.original.as_ref().and_then(|original| original.body.as_ref());
        body.is_some_and(|body| memchr::memmem::find(body.as_bytes(), words.as_bytes()).is_some())
    }

    /// The tokens of what the provider keeps and adds to the prompt, at most.
    pub fn continued_tokens(&self) -> u64 {
        self.original.as_ref().map_or(0, |original| original.continuation.tokens)
    }

    /// The texts of its messages, one text a message; those that are no plain text are passed over.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().filter_map(|message| match &message.body {
            Body::Text(text) => Some(text.as_str()),
            Body::Empty | Body::Parts(_) => None,
        })
    }

    /// How many of the completion tokens are for thinking, if the caller sets that as in Anthropic's
    /// format. An answer needs more than these.
    pub fn thinking_budget(&self) -> Option<u64> {
        let thinking = self.params.get("thinking")?;
        let is_on = thinking.get("type").and_then(Value::as_str) == Some("enabled");
        thinking.get("budget_tokens").and_then(Value::as_u64).filter(|_| is_on)
    }
}

/// A whole answer.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The model's text; empty when it only called tools.
    pub text: String,
    /// Why it stopped.
    pub finish: Option<FinishReason>,
    /// The usage, if the provider reported it.
    pub usage: Option<Usage>,
    /// The name the provider gave the model.
    pub upstream_model: Option<String>,
    /// The provider's own answer, if it is in the chat-completions format: endpoints of the same format
    /// pass on members that the canonical form does not carry.
    pub native: Option<Map<String, Value>>,
    /// Whether the request went to the provider as it came.
    pub passes: bool,
    /// The provider's own answer as it came then. One that can be read in two ways must not leave so.
    pub source: Option<String>,
    /// The names of parameters that the model does not support and that were left out.
    pub dropped: Vec<String>,
    /// The response as the provider stores it for later requests.
    pub stored: Option<StoredResponse>,
}

/// One event of a streamed answer.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// More text of choice 0.
    Text(String),
    /// A chunk in the chat-completions format that holds more than text of choice 0 (tool calls, further
    /// choices, log probabilities): passed on as it is by endpoints of that format. `text` is the text
    /// of choice 0 in it.
    Native {
        /// Text of choice 0 in this chunk.
        text: String,
        /// The whole chunk.
        chunk: Map<String, Value>,
    },
    /// The provider's own event, if the request went to it as it came. What it holds is also in the
    /// events before and after it.
    Source(SourceEvent),
    /// Why choice 0 stopped.
    Finish(FinishReason),
    /// The usage of the call.
    Usage(Usage),
    /// The count of the prompt, if it is reported before the answer: the only usage of a stream that is
    /// left or breaks off. Its completion counts are ignored.
    Prompt(Usage),
    /// The provider's name of the model.
    Model(String),
    /// The answer as the provider stores it for later requests.
    Stored(StoredResponse),
    /// The provider's mark that the stream is over.
    Done,
}
