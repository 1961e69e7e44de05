//! The interface of every vendor's directory: a pure translation in both directions, and how a request
//! carries its credential.

use domain::conversation::{Body, Prompt, Reply, StreamEvent};
use domain::model::{Model, Provider};
use domain::time::Timestamp;
use domain::usage::Usage;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use serde::Serialize;

use crate::client::Attempt;
use crate::error::Error;
use crate::vendors::anthropic::Anthropic;
use crate::vendors::azure::Azure;
use crate::vendors::bedrock::Bedrock;
use crate::vendors::gemini::Gemini;
use crate::vendors::internal::Internal;
use crate::vendors::openai::Openai;

/// A request as it will go out, before and after it carries its credential.
pub(crate) struct Call {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Call {
    /// Puts a model's key, if it has one, into a header of its own.
    pub(crate) fn set_key(&mut self, name: HeaderName, model: &Model) -> Result<(), Error> {
        key_of(model).map_or(Ok(()), |key| self.set_secret(name, key))
    }

    /// Sends a key as a bearer token.
    pub(crate) fn set_bearer(&mut self, key: &str) -> Result<(), Error> {
        self.set_secret(AUTHORIZATION, &format!("Bearer {key}"))
    }

    fn set_secret(&mut self, name: HeaderName, secret: &str) -> Result<(), Error> {
        let mut value = HeaderValue::try_from(secret)
            .map_err(|_| Error::misconfigured("The model's key cannot be sent in a header"))?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(())
    }
}

/// Returns a model's key; `None` if it has none, or a blank one.
pub(crate) fn key_of(model: &Model) -> Option<&str> {
    let key = model.api_key.as_ref().map(|key| key.expose().trim());
    key.filter(|key| !key.is_empty())
}

/// The body of a request, and the parameters it leaves out.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) body: Vec<u8>,
    /// Parameters that the format lacks, harmless to leave out; they are reported to the caller.
    pub(crate) dropped: Vec<String>,
}

impl Encoded {
    /// Writes a request with the content of a prompt.
    pub(crate) fn write(
        request: &impl Serialize,
        prompt: &Prompt,
        dropped: Vec<String>,
    ) -> Result<Self, Error> {
        let mut body = Vec::with_capacity(size(prompt));
        serde_json::to_writer(&mut body, request)
            .map_err(|_| Error::unsupported("The conversation cannot be written as JSON"))?;
        Ok(Self { body, dropped })
    }
}

/// Estimates the bytes of the body.
fn size(prompt: &Prompt) -> usize {
    let text = |body: &Body| match body {
        Body::Text(text) => text.len() + text.len() / 16,
        Body::Empty => 0,
        Body::Parts(parts) => parts.len() * 256,
    };
    let messages: usize = prompt.messages.iter().map(|message| text(&message.body) + 64).sum();
    256 + messages + prompt.params.len() * 64
}

/// One wire format.
pub(crate) trait Adapter: Send + Sync {
    /// Returns the URL that the model is called at, without a credential.
    fn endpoint(&self, model: &Model, stream: bool) -> Result<String, Error>;

    /// Writes the body of the request.
    fn encode(&self, attempt: &Attempt<'_>) -> Result<Encoded, Error>;

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

    /// Reads a whole answer of a model.
    fn decode(&self, model: &Model, body: &[u8]) -> Result<Reply, Error>;

    /// Returns the content type of a streamed answer.
    fn stream_type(&self) -> &'static str {
        "text/event-stream"
    }

    /// Returns a reader for one streamed answer of a model.
    fn decoder(&self, model: &Model) -> Box<dyn Decoder>;

    /// Returns its way to make embeddings, if it has one.
    fn embedder(&self) -> Option<&'static dyn Embedder> {
        None
    }

    /// Returns its way to make images, if it has one.
    fn painter(&self) -> Option<&'static dyn Painter> {
        None
    }
}

/// One of the requests that a task takes.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) url: String,
    pub(crate) body: Vec<u8>,
}

/// Texts to embed.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingRequest<'a> {
    /// The model to call.
    pub model: &'a Model,
    /// At least one text.
    pub inputs: &'a [String],
    /// Number of components of each vector, if the model lets one choose.
    pub dimensions: Option<u64>,
}

/// Vectors, in the order of the texts.
#[derive(Debug, Default, PartialEq)]
pub struct Embedded {
    /// One for each text.
    pub vectors: Vec<Vec<f32>>,
    /// The name the provider gave the model.
    pub upstream_model: Option<String>,
    /// The tokens of the texts, if the provider reported them.
    pub tokens: Option<u64>,
    /// Whether the tokens are those of only a part of the texts: the others were not counted.
    pub is_part: bool,
}

/// One vendor's way to make embeddings.
pub(crate) trait Embedder: Send + Sync {
    /// Returns the requests; their answers are joined in order.
    fn requests(&self, ask: &EmbeddingRequest<'_>) -> Result<Vec<Outgoing>, Error>;

    /// Reads the vectors of one answer.
    fn read(&self, headers: &HeaderMap, body: &[u8]) -> Result<Embedded, Error>;
}

/// Parses the width and height of a size such as `1024x1024`, in pixels, neither of them zero.
pub fn sides(size: &str) -> Option<(u32, u32)> {
    let side = |text: &str| text.parse().ok().filter(|side| *side > 0);
    let (width, height) = size.split_once('x')?;
    Some((side(width)?, side(height)?))
}

/// An image to make.
#[derive(Clone, Copy, Debug)]
pub struct ImageRequest<'a> {
    /// The model to call.
    pub model: &'a Model,
    /// The description of the image.
    pub prompt: &'a str,
    /// Width and height in pixels, as in `1024x1024`.
    pub size: &'a str,
    /// The quality, in the provider's own words; `None` leaves it to the provider.
    pub quality: Option<&'a str>,
    /// Number of images.
    pub count: u64,
}

/// Images, as URLs: addresses, or `data:` URLs if the provider sent the bytes.
#[derive(Debug, Default, PartialEq)]
pub struct GeneratedImages {
    /// One URL an image.
    pub urls: Vec<String>,
    /// The name the provider gave the model.
    pub upstream_model: Option<String>,
    /// The usage, if the provider reported it.
    pub usage: Option<Usage>,
}

/// One vendor's way to make images.
pub(crate) trait Painter: Send + Sync {
    /// Returns the requests; their answers are joined in order.
    fn requests(&self, ask: &ImageRequest<'_>) -> Result<Vec<Outgoing>, Error>;

    /// Reads the images of one answer.
    fn read(&self, body: &[u8]) -> Result<GeneratedImages, Error>;
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

/// Returns the adapter of a provider.
pub(crate) fn adapter(provider: Provider) -> &'static dyn Adapter {
    match provider {
        Provider::Openai => &Openai,
        Provider::Internal => &Internal,
        Provider::Anthropic => &Anthropic,
        Provider::Azure => &Azure,
        Provider::Bedrock => &Bedrock,
        Provider::Gemini => &Gemini,
    }
}

/// Returns a model's way to make embeddings.
pub(crate) fn embedder(model: &Model) -> Result<&'static dyn Embedder, Error> {
    adapter(model.provider).embedder().ok_or_else(|| without(model, "embeddings"))
}

/// Returns a model's way to make images. The sandbox makes none.
pub(crate) fn painter(model: &Model) -> Result<&'static dyn Painter, Error> {
    let painter = adapter(model.provider).painter().filter(|_| !model.is_sandbox());
    painter.ok_or_else(|| without(model, "images"))
}

fn without(model: &Model, what: &str) -> Error {
    let Model { identifier, provider, .. } = model;
    let who = if model.is_sandbox() {
        "the sandbox".to_owned()
    } else {
        format!("provider {}", provider.as_str())
    };
    Error::unsupported(format!("Model {identifier} does not support {what}: {who} makes none"))
}
