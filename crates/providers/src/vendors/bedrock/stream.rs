//! Streamed answers to canonical events.

use domain::conversation::StreamEvent;
use domain::json_weight::InnerJson;
use domain::model::Model;
use domain::step::FinishReason;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::adapter::Decoder;
use crate::chat_form::answer::{arguments_piece, call_begins, reasoning_piece, state_piece};
use crate::chat_form::text;
use crate::error::{Error, ErrorDetails};
use crate::vendors::bedrock::decode;
use crate::vendors::bedrock::frames::{Broken, Frame, Frames};
use crate::wire::error_body::message_in;
use crate::wire::json;

/// Most blocks of an answer, and most bytes of them that are kept to be sent back.
const MOST_BLOCKS: usize = 1024;
const MOST_KEPT_BYTES: usize = 8 * 1024 * 1024;

/// Reads one stream.
pub(super) struct Reader {
    frames: Frames,
    answer: Answer,
}

impl Reader {
    pub(super) fn new(model: &Model) -> Self {
        let answer = Answer { model: model.upstream_name().to_owned(), ..Answer::default() };
        Self { frames: Frames::default(), answer }
    }
}

impl Decoder for Reader {
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let answer = &mut self.answer;
        self.frames.feed(bytes, |frame| answer.read(frame, events))
    }

    fn end(&mut self, _events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        match self.answer.broken.take() {
            Some(error) => Err(error),
            None if self.answer.stopped => Ok(()),
            None => Err(Error::cut_off()),
        }
    }

    fn is_done(&self) -> bool {
        self.answer.is_done()
    }
}

impl From<Broken> for Error {
    fn from(broken: Broken) -> Self {
        Self::malformed(broken.why())
    }
}

/// The state of the answer so far.
#[derive(Default)]
struct Answer {
    model: String,
    /// The blocks by their index, in order of appearance.
    blocks: Vec<(u64, Block)>,
    kept: usize,
    calls: usize,
    /// Whether the reason to stop has come; the usage comes after it.
    stopped: bool,
    /// The error, if the reason to stop means that the answer is of no use.
    broken: Option<Error>,
    metered: bool,
}

/// A block in progress.
enum Block {
    Text(String),
    Call {
        index: usize,
        id: String,
        name: String,
        input: String,
    },
    Thought {
        text: String,
        signature: String,
        redacted: Vec<String>,
    },
    /// A kind that is not passed on.
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStart {
    content_block_index: u64,
    start: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockDelta {
    content_block_index: u64,
    delta: Delta,
}

/// One member of these, or one that is not passed on.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta {
    text: Option<String>,
    tool_use: Option<CallDelta>,
    reasoning_content: Option<ThoughtDelta>,
}

#[derive(Deserialize)]
struct CallDelta {
    input: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ThoughtDelta {
    #[serde(default)]
    text: String,
    #[serde(default)]
    signature: String,
    redacted_content: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageStop {
    stop_reason: String,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    usage: Value,
}

impl Answer {
    fn is_done(&self) -> bool {
        self.stopped && self.metered
    }

    fn read(&mut self, frame: &Frame<'_>, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if self.is_done() {
            return Ok(());
        }
        match (frame.message_type, frame.name) {
            ("exception" | "error", _) => return Err(failure(frame)),
            ("event", "contentBlockStart") => self.start(event(frame)?, events)?,
            ("event", "contentBlockDelta") => self.delta(event(frame)?, events)?,
            ("event", "messageStop") if !self.stopped => {
                self.stop(&event::<MessageStop>(frame)?.stop_reason, events);
            }
            ("event", "metadata") => {
                self.metered = true;
                let used = decode::usage(&event::<Metadata>(frame)?.usage);
                events.extend(used.map(StreamEvent::Usage));
            }
            _ => return Ok(()),
        }
        if self.is_done() {
            if let Some(error) = self.broken.take() {
                return Err(error);
            }
            events.push(StreamEvent::Done);
        }
        Ok(())
    }

    /// Only calls are announced; text and thoughts begin with their first piece.
    fn start(&mut self, begun: BlockStart, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let call = begun.start.get("toolUse").filter(|call| !decode::is_servers_own(call));
        let Some(call) = call else {
            self.block(begun.content_block_index, || Block::Other)?;
            return Ok(());
        };
        let (id, name) = (text(call.get("toolUseId")), text(call.get("name")));
        if id.is_empty() || name.is_empty() {
            return Err(Error::malformed("a tool call has no id or no name"));
        }
        let index = self.calls;
        self.keep(id.len() + name.len())?;
        self.block(begun.content_block_index, || Block::Call {
            index,
            id: id.to_owned(),
            name: name.to_owned(),
            input: String::new(),
        })?;
        self.calls += 1;
        events.push(call_begins(index, id, name));
        Ok(())
    }

    fn delta(&mut self, piece: BlockDelta, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let (at, delta) = (piece.content_block_index, piece.delta);
        if let Some(more) = delta.text {
            self.keep(more.len())?;
            if let Block::Text(text) = self.block(at, || Block::Text(String::new()))? {
                text.push_str(&more);
            }
            if !more.is_empty() {
                events.push(StreamEvent::Text(more));
            }
        } else if let Some(CallDelta { input: more }) = delta.tool_use {
            self.keep(more.len())?;
            if let Block::Call { index, input, .. } = self.block(at, || Block::Other)? {
                input.push_str(&more);
                if !more.is_empty() {
                    events.push(arguments_piece(*index, &more));
                }
            }
        } else if let Some(more) = delta.reasoning_content {
            let redacted = more.redacted_content.as_ref().map_or(0, String::len);
            self.keep(more.text.len() + more.signature.len() + redacted)?;
            let begin = || Block::Thought {
                text: String::new(),
                signature: String::new(),
                redacted: Vec::new(),
            };
            if let Block::Thought { text, signature, redacted } = self.block(at, begin)? {
                text.push_str(&more.text);
                signature.push_str(&more.signature);
                redacted.extend(more.redacted_content);
            }
            if !more.text.is_empty() {
                events.push(reasoning_piece(&more.text));
            }
        }
        Ok(())
    }

    fn stop(&mut self, word: &str, events: &mut Vec<StreamEvent>) {
        self.stopped = true;
        let reason = match decode::finish_reason(word) {
            // An unknown reason still ends the answer.
            Ok(reason) => reason.unwrap_or(FinishReason::Stop),
            Err(error) => {
                self.broken = Some(error);
                return;
            }
        };
        // Readers of arguments parse JSON, so empty arguments need an object. A call that was cut off
        // stays as it is.
        let calls = self.blocks.iter().filter(|_| !reason.is_cut_off());
        events.extend(calls.filter_map(|(_, block)| match block {
            Block::Call { index, input, .. } if input.is_empty() => {
                Some(arguments_piece(*index, "{}"))
            }
            _ => None,
        }));
        let mut inner = InnerJson::default();
        let blocks: Option<Vec<Value>> =
            self.blocks.drain(..).flat_map(|(_, block)| block.whole(&mut inner)).collect();
        let state = blocks.and_then(|blocks| decode::state(&self.model, blocks));
        events.extend(state.map(state_piece));
        let calls = self.calls > 0 && reason == FinishReason::Stop;
        events.push(StreamEvent::Finish(if calls { FinishReason::ToolCalls } else { reason }));
    }

    /// Returns the block at an index, begun if it is new.
    fn block(&mut self, at: u64, begin: impl FnOnce() -> Block) -> Result<&mut Block, Error> {
        let known = self.blocks.iter().rposition(|(index, _)| *index == at);
        let place = match known {
            Some(place) => place,
            None if self.blocks.len() < MOST_BLOCKS => {
                self.blocks.push((at, begin()));
                self.blocks.len() - 1
            }
            None => return Err(Error::malformed("it has too many blocks")),
        };
        Ok(&mut self.blocks[place].1)
    }

    fn keep(&mut self, bytes: usize) -> Result<(), Error> {
        self.kept += bytes;
        if self.kept > MOST_KEPT_BYTES {
            return Err(Error::malformed("it is longer than 8 MiB"));
        }
        Ok(())
    }
}

impl Block {
    /// Returns the block, or blocks, as in a whole answer; `None` for one that cannot be sent back,
    /// because the bound on tokens has cut a call's arguments off.
    fn whole(self, inner: &mut InnerJson) -> Vec<Option<Value>> {
        match self {
            Self::Other => Vec::new(),
            Self::Text(text) => vec![Some(json!({"text": text}))],
            Self::Call { id, name, input, .. } => {
                let input = if input.trim().is_empty() { "{}" } else { &input };
                let input: Option<Map<String, Value>> = inner.read(input);
                vec![input.map(
                    |input| json!({"toolUse": {"toolUseId": id, "name": name, "input": input}}),
                )]
            }
            Self::Thought { text, signature, redacted } => {
                let mut blocks = Vec::with_capacity(1 + redacted.len());
                if !text.is_empty() || !signature.is_empty() {
                    let mut said = json!({"text": text});
                    if !signature.is_empty() {
                        said["signature"] = signature.into();
                    }
                    blocks.push(Some(json!({"reasoningContent": {"reasoningText": said}})));
                }
                blocks.extend(
                    redacted
                        .into_iter()
                        .map(|bytes| Some(json!({"reasoningContent": {"redactedContent": bytes}}))),
                );
                blocks
            }
        }
    }
}

/// Parses the payload of an event; it carries padding beside its members.
fn event<T: DeserializeOwned>(frame: &Frame<'_>) -> Result<T, Error> {
    json::check_weight(frame.payload)?;
    json::read(frame.payload)
        .map_err(|_| Error::malformed(format_args!("a {} event is unreadable", frame.name)))
}

/// Errors inside a stream: modelled ones as exceptions, others as bare errors.
fn failure(frame: &Frame<'_>) -> Error {
    let payload = json::object(frame.payload).unwrap_or_default();
    let said = message_in(&payload).unwrap_or_else(|| frame.error_message.to_owned());
    let said = format!("{}: {said}", frame.name);
    // A fault of the request is reported as it is without a stream.
    if frame.name == "validationException" {
        return Error::status(
            400,
            ErrorDetails { message: Some(said), ..ErrorDetails::default() },
            None,
        );
    }
    Error::fault(format!("The provider broke its answer off: {said}"))
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
