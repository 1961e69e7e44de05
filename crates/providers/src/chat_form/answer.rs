//! Answers of other formats, whole and streamed, in the chat-completions form.

use domain::conversation::{Reply, StreamEvent};
use domain::model::Provider;
use domain::step::FinishReason;
use domain::usage::Usage;
use serde_json::{Map, Value, json};

use crate::chat_form::{STATE, STOP_DETAILS, STOP_SEQUENCE};

/// The content of a whole answer.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// The model's reasoning; empty when there is none.
    pub(crate) reasoning: String,
    /// The text of a refusal.
    pub(crate) refusal: Option<String>,
    /// Anthropic's details of a refusal; see [`STOP_DETAILS`].
    pub(crate) stop_details: Option<Value>,
    /// The stop sequence that has ended the answer, if it was reported.
    pub(crate) stop_sequence: Option<String>,
    /// Images, as `data:` URLs.
    pub(crate) images: Vec<String>,
    /// Calls in order: id, name, arguments as JSON.
    pub(crate) calls: Vec<(String, String, String)>,
    /// The provider state, to be sent back verbatim with the next turn; see [`STATE`].
    pub(crate) state: Option<Value>,
    pub(crate) finish: Option<FinishReason>,
    pub(crate) usage: Option<Usage>,
    pub(crate) upstream_model: Option<String>,
}

impl Answer {
    /// Returns the canonical reply. Everything but text is in the native form.
    pub(crate) fn reply(self) -> Reply {
        let is_plain = self.reasoning.is_empty()
            && self.refusal.is_none()
            && self.stop_details.is_none()
            && self.stop_sequence.is_none()
            && self.images.is_empty()
            && self.calls.is_empty()
            && self.state.is_none();
        let native = (!is_plain).then(|| self.native());
        Reply {
            text: self.text,
            finish: self.finish,
            usage: self.usage,
            upstream_model: self.upstream_model,
            native,
            passes: false,
            source: None,
            dropped: Vec::new(),
            stored: None,
        }
    }

    fn native(&self) -> Map<String, Value> {
        let content = if self.text.is_empty() { Value::Null } else { self.text.clone().into() };
        let mut message = json!({"role": "assistant", "content": content, "refusal": self.refusal});
        if let Some(details) = &self.stop_details {
            message[STOP_DETAILS] = details.clone();
        }
        if let Some(sequence) = &self.stop_sequence {
            message[STOP_SEQUENCE] = sequence.clone().into();
        }
        if !self.images.is_empty() {
            message[IMAGES] = self.images.iter().map(|url| image(url)).collect();
        }
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = self.reasoning.clone().into();
        }
        if !self.calls.is_empty() {
            let calls = self.calls.iter().map(|(id, name, arguments)| {
                json!({"id": id, "type": "function",
                    "function": {"name": name, "arguments": arguments}})
            });
            message["tool_calls"] = calls.collect();
        }
        if let Some(state) = &self.state {
            message[STATE] = state.clone();
        }
        let finish = self.finish.map(FinishReason::chat_word);
        let choice =
            json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish});
        let mut native = Map::new();
        native.insert("choices".to_owned(), json!([choice]));
        native.insert("usage".to_owned(), self.usage.as_ref().map(Usage::chat_form).into());
        native
    }
}

/// Wraps the content that a provider requires back verbatim, for the member [`STATE`].
pub(crate) fn state(provider: Provider, model: &str, content: Value) -> Value {
    json!({"provider": provider.as_str(), "model": model, "content": content})
}

/// Creates a piece of a streamed answer other than plain text.
fn piece(delta: Value) -> StreamEvent {
    piece_of(0, delta)
}

/// Creates a piece of a choice other than plain text of the first.
pub(crate) fn piece_of(choice: u64, delta: Value) -> StreamEvent {
    let mut chunk = Map::new();
    let choice = json!({"index": choice, "delta": delta, "logprobs": null, "finish_reason": null});
    chunk.insert("choices".to_owned(), json!([choice]));
    StreamEvent::Native { text: String::new(), chunk }
}

/// Creates the beginning of the call at an index.
pub(crate) fn call_begins(index: usize, id: &str, name: &str) -> StreamEvent {
    piece(json!({"tool_calls": [{"index": index, "id": id, "type": "function",
        "function": {"name": name, "arguments": ""}}]}))
}

/// Creates a piece of the arguments of the call at an index.
pub(crate) fn arguments_piece(index: usize, text: &str) -> StreamEvent {
    piece(json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]}))
}

/// Creates a piece of the reasoning.
pub(crate) fn reasoning_piece(text: &str) -> StreamEvent {
    piece(json!({"reasoning_content": text}))
}

/// Creates a piece of a refusal.
pub(crate) fn refusal_piece(text: &str) -> StreamEvent {
    piece(json!({"refusal": text}))
}

/// Most calls of tools of one answer: those of a stream are remembered until its end.
pub(crate) const MOST_CALLS: usize = 4096;
/// The member in which servers of the format put the images of an answer; the vendor has none.
pub(crate) const IMAGES: &str = "images";

fn image(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

/// Creates a piece with an image, as a `data:` URL.
pub(crate) fn image_piece(index: usize, url: &str) -> StreamEvent {
    let mut image = image(url);
    image["index"] = index.into();
    piece(json!({IMAGES: [image]}))
}

/// Creates a piece with the stop sequence that has ended the answer.
pub(crate) fn stop_sequence_piece(sequence: &str) -> StreamEvent {
    piece(json!({STOP_SEQUENCE: sequence}))
}

/// Creates a piece with Anthropic's details of a refusal; its words follow.
pub(crate) fn stopped_piece(details: Value) -> StreamEvent {
    piece(json!({STOP_DETAILS: details}))
}

/// Creates a piece with the provider state; it comes once, before the end.
pub(crate) fn state_piece(state: Value) -> StreamEvent {
    piece(json!({STATE: state}))
}
