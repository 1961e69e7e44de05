//! The pieces of a streamed answer.

use domain::ids::{StepId, TraceId};
use domain::step::FinishReason;
use domain::time::Timestamp;
use domain::usage::Usage;
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::pipeline::refusal::Refusal;

/// The data of a stream that are known before its first piece.
#[derive(Clone, Debug)]
pub struct Started {
    /// The step that will record it.
    pub step: StepId,
    /// Its trace.
    pub trace: TraceId,
    /// The identifier of the model that answers.
    pub model: String,
    /// The time at which it began.
    pub created: Timestamp,
    /// Parameters that the model does not have and that were left out, by name.
    pub dropped: Vec<String>,
    /// How the call went to its provider.
    pub mode: Mode,
    /// Whether the pieces are the provider's own events.
    pub has_sources: bool,
}

/// How a call goes to its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The request goes on as it came, but for what governance changes.
    Passthrough,
    /// It is written in the provider's format.
    Translated,
}

impl Mode {
    pub(crate) fn of(passes: bool) -> Self {
        if passes { Self::Passthrough } else { Self::Translated }
    }

    /// The word in the header of an answer.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passthrough => "passthrough",
            Self::Translated => "translated",
        }
    }
}

/// One piece of a streamed answer.
#[derive(Debug)]
pub enum Piece {
    /// More text.
    Text(String),
    /// A chunk in the chat-completions format that holds more than text.
    Native(Map<String, Value>),
    /// The provider's own event, in the format of the request: its name and its JSON text.
    Source(String, String),
    /// The end, recorded.
    End {
        /// Why the model stopped.
        finish: FinishReason,
        /// The usage: as the provider reported it, else as it was counted here.
        usage: Usage,
        /// Why the answer was withheld, if it was.
        blocked: Option<String>,
    },
    /// The stream broke; what came before it is recorded.
    Broken(Error),
}

/// A streamed answer, or a refusal.
pub enum Streamed {
    /// Pieces follow, several at a time when they came together.
    Pieces(Started, BoxStream<'static, Vec<Piece>>),
    /// Refused by safety or routing, at no cost.
    Blocked(Refusal),
}
