//! What every vendor's directory provides: a pure translation in both directions, and how a
//! request shows its credential.

use domain::conversation::{Body, Prompt, Reply, StreamEvent};
use domain::model::{Model, Provider};
use domain::time::Timestamp;
use domain::usage::Usage;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use serde::Serialize;

use crate::anthropic::Anthropic;
use crate::azure::Azure;
use crate::bedrock::Bedrock;
use crate::error::Error;
use crate::gemini::Gemini;
use crate::internal::Internal;
use crate::openai::Openai;
use crate::transport::Attempt;

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

    /// Shows a key as a bearer token.
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

/// A model's key; `None` where it has none, or a blank one.
pub(crate) fn key_of(model: &Model) -> Option<&str> {
    let key = model.api_key.as_ref().map(|key| key.expose().trim());
    key.filter(|key| !key.is_empty())
}

/// The body of a request, and what it leaves out.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) body: Vec<u8>,
    /// Parameters that the format has not, harmless to leave out; the caller is told.
    pub(crate) dropped: Vec<String>,
}

impl Encoded {
    /// Writes a request that says what a prompt does.
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

/// About how many bytes the body will have.
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
    /// The URL that the model is called at, without a credential.
    fn endpoint(&self, model: &Model, stream: bool) -> Result<String, Error>;

    /// The body of the request.
    fn encode(&self, attempt: &Attempt<'_>) -> Result<Encoded, Error>;

    /// Puts the credential on the request, and whatever headers the vendor requires. The time is
    /// for formats that sign it.
    fn authenticate(&self, model: &Model, call: &mut Call, now: Timestamp) -> Result<(), Error>;

    /// Whether a prompt may be written to a cache of a model for longer than five minutes, as it goes
    /// out.
    fn keeps_for_an_hour(&self, _model: &Model, _prompt: &Prompt) -> bool {
        false
    }

    /// Whether a prompt may be written to a cache of a model at all: some vendors do that, and bill it,
    /// without being asked.
    fn writes_cache(&self, _model: &Model, _prompt: &Prompt) -> bool {
        true
    }

    /// A whole answer of a model.
    fn decode(&self, model: &Model, body: &[u8]) -> Result<Reply, Error>;

    /// The content type of a streamed answer.
    fn stream_type(&self) -> &'static str {
        "text/event-stream"
    }

    /// A reader for one streamed answer of a model.
    fn decoder(&self, model: &Model) -> Box<dyn Decoder>;

    /// How it makes embeddings, if it does.
    fn embedder(&self) -> Option<&'static dyn Embedder> {
        None
    }

    /// How it makes images, if it does.
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
    /// How many numbers each vector is to have, where the model lets one choose.
    pub dimensions: Option<u64>,
}

/// Vectors, in the order of the texts.
#[derive(Debug, Default, PartialEq)]
pub struct Embedded {
    /// One for each text.
    pub vectors: Vec<Vec<f32>>,
    /// The name the provider gave the model.
    pub upstream_model: Option<String>,
    /// The tokens of the texts, if the provider said.
    pub tokens: Option<u64>,
    /// Whether the tokens are those of a part of the texts: the others were not counted.
    pub is_part: bool,
}

/// One vendor's way to make embeddings.
pub(crate) trait Embedder: Send + Sync {
    /// The requests; their answers are joined in order.
    fn requests(&self, ask: &EmbeddingRequest<'_>) -> Result<Vec<Outgoing>, Error>;

    /// The vectors of one answer.
    fn read(&self, headers: &HeaderMap, body: &[u8]) -> Result<Embedded, Error>;
}

/// Width and height of a size such as `1024x1024`, in pixels, neither of them zero.
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
    /// What it is to show.
    pub prompt: &'a str,
    /// Width and height in pixels, as in `1024x1024`.
    pub size: &'a str,
    /// How good, in the provider's own words; `None` leaves it to the provider.
    pub quality: Option<&'a str>,
    /// How many.
    pub count: u64,
}

/// Images, as URLs: addresses, or `data:` URLs where the provider sent the bytes.
#[derive(Debug, Default, PartialEq)]
pub struct GeneratedImages {
    /// One URL an image.
    pub urls: Vec<String>,
    /// The name the provider gave the model.
    pub upstream_model: Option<String>,
    /// What was used, if the provider said.
    pub usage: Option<Usage>,
}

/// One vendor's way to make images.
pub(crate) trait Painter: Send + Sync {
    /// The requests; their answers are joined in order.
    fn requests(&self, ask: &ImageRequest<'_>) -> Result<Vec<Outgoing>, Error>;

    /// The images of one answer.
    fn read(&self, body: &[u8]) -> Result<GeneratedImages, Error>;
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

/// The adapter of a provider.
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

/// How a model makes embeddings.
pub(crate) fn embedder(model: &Model) -> Result<&'static dyn Embedder, Error> {
    adapter(model.provider).embedder().ok_or_else(|| without(model, "embeddings"))
}

/// How a model makes images. The sandbox makes none.
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
