//! What every vendor's directory provides: a pure translation in both directions, and how a
//! request shows its credential.

use domain::conversation::{Reply, StreamEvent};
use domain::model::{Model, Provider};
use domain::time::Timestamp;
use http::{HeaderMap, Uri};

use crate::error::Error;
use crate::internal::Internal;
use crate::openai::Openai;
use crate::transport::Attempt;

/// A request as it will go out, before and after it carries its credential.
pub(crate) struct Call {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// One wire format.
pub(crate) trait Adapter: Send + Sync {
    /// The URL that the model is called at, without a credential.
    fn endpoint(&self, model: &Model, stream: bool) -> Result<String, Error>;

    /// The body of the request.
    fn encode(&self, attempt: &Attempt<'_>) -> Result<Vec<u8>, Error>;

    /// Puts the credential on the request. The time is for formats that sign it.
    fn authenticate(&self, model: &Model, call: &mut Call, now: Timestamp) -> Result<(), Error>;

    /// A whole answer.
    fn decode(&self, body: &[u8]) -> Result<Reply, Error>;

    /// The content type of a streamed answer.
    fn stream_type(&self) -> &'static str {
        "text/event-stream"
    }

    /// A reader for one streamed answer.
    fn decoder(&self) -> Box<dyn Decoder>;
}

/// Reads one streamed answer, piece by piece.
pub(crate) trait Decoder: Send + Sync {
    /// Reads on, and adds every event that became whole.
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error>;

    /// The bytes are over: an error if the answer is not.
    fn end(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error>;

    /// Whether the provider said that the answer is over.
    fn is_done(&self) -> bool;
}

/// The adapter of a provider; `None` while there is none.
pub(crate) fn adapter(provider: Provider) -> Option<&'static dyn Adapter> {
    match provider {
        Provider::Openai => Some(&Openai),
        Provider::Internal => Some(&Internal),
        Provider::Anthropic | Provider::Gemini | Provider::Bedrock | Provider::Azure => None,
    }
}
