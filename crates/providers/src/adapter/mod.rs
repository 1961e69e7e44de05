//! The interface of every vendor's directory: a pure translation in both directions, and how a request
//! carries its credential.

pub(crate) mod embeddings;
pub(crate) mod images;
pub(crate) mod request;

use domain::conversation::{Prompt, Reply, StreamEvent};
use domain::fees::{Charges, PerSurcharge};
use domain::model::Model;
use domain::original::{Original, WireFormat};
use domain::time::Timestamp;

use crate::adapter::embeddings::Embedder;
use crate::adapter::images::ImageGenerator;
use crate::adapter::request::{Attempt, Call, Encoded};
use crate::error::Error;

/// One wire format.
pub(crate) trait Adapter: Send + Sync {
    /// Returns the URL that the model is called at, without a credential.
    fn endpoint(&self, model: &Model, stream: bool) -> Result<String, Error>;

    /// Writes the body of the request.
    fn encode(&self, attempt: &Attempt<'_>) -> Result<Encoded, Error>;

    /// Writes the body of a request that came in this format, with what governance changes in it;
    /// `None` if it has to be translated.
    fn pass(&self, _attempt: &Attempt<'_>, _original: &Original) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Returns the body of a request that passes without the thoughts that an account has encrypted: no other
    /// account can read them. `None` if it has none.
    fn without_encrypted_thoughts(&self, _body: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Returns the adapter of another format of the vendor's, if a model's server has it: requests that
    /// came in that format pass through it.
    fn beside(&self, _model: &Model, _format: WireFormat) -> Option<&'static dyn Adapter> {
        None
    }

    /// Returns the URL of a response that a model's server stores, or of something below it, by its path
    /// below the endpoint.
    fn stored_response_url(&self, model: &Model, _path: &str) -> Result<String, Error> {
        Err(Error::unsupported(format!("Model {} keeps no answers", model.identifier)))
    }

    /// Puts the credential on the request, and the headers that the vendor requires. The time is for
    /// formats that sign it.
    fn authenticate(&self, model: &Model, call: &mut Call, now: Timestamp) -> Result<(), Error>;

    /// Whether a prompt, as it is sent, may be written to a model's cache for longer than five minutes.
    fn keeps_for_an_hour(&self, _model: &Model, _prompt: &Prompt) -> bool {
        false
    }

    /// Whether a prompt may be written to a model's cache at all: some vendors do that, and bill it,
    /// without being asked.
    fn writes_cache(&self, _model: &Model, _prompt: &Prompt) -> bool {
        true
    }

    /// The charges that a prompt, as it is sent to a model, allows the vendor beside the tokens of it and
    /// of its answer.
    fn charges(&self, prompt: &Prompt) -> Charges {
        Charges { surcharges: self.surcharges(prompt), ..Charges::default() }
    }

    /// The surcharges that a prompt asks for, as it is sent.
    fn surcharges(&self, _prompt: &Prompt) -> PerSurcharge<bool> {
        PerSurcharge::default()
    }

    /// Reads a whole answer of a model.
    fn decode(&self, model: &Model, body: &[u8]) -> Result<Reply, Error>;

    /// Reads a whole answer to a request that was passed on: its caller gets it as it came.
    fn passing_decode(&self, model: &Model, body: &[u8]) -> Result<Reply, Error> {
        self.decode(model, body)
    }

    /// Returns the content type of a streamed answer.
    fn stream_type(&self) -> &'static str {
        "text/event-stream"
    }

    /// Returns a reader for one streamed answer of a model.
    fn decoder(&self, model: &Model) -> Box<dyn Decoder>;

    /// Returns a reader for the streamed answer to a request that was passed on: it hands over the
    /// provider's own events, too.
    fn passing_decoder(&self, model: &Model) -> Box<dyn Decoder> {
        self.decoder(model)
    }

    /// Returns its way to make embeddings, if it has one.
    fn embedder(&self) -> Option<&'static dyn Embedder> {
        None
    }

    /// Returns its way to make images, if it has one.
    fn image_generator(&self) -> Option<&'static dyn ImageGenerator> {
        None
    }
}

/// Reads one streamed answer, piece by piece.
pub(crate) trait Decoder: Send + Sync {
    /// Reads the next bytes, and adds every event that they complete.
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error>;

    /// Ends the input: an error if the answer is not complete.
    fn end(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error>;

    /// Whether the provider has marked the end of the answer.
    fn is_done(&self) -> bool;
}
