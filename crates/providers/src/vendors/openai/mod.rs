//! The chat-completions format of OpenAI and every compatible server, and the formats of embeddings and
//! images that belong to it.

pub(crate) mod calls;
mod decode;
mod effort;
mod embeddings;
pub(crate) mod encode;
mod images;
pub(crate) mod pass;
pub(crate) mod responses;
#[cfg(test)]
mod round_trip_tests;
pub(crate) mod searches;
#[cfg(test)]
mod sim_tests;
mod stream;
pub(crate) mod tier;
mod wire;

use domain::conversation::{Prompt, Reply};
use domain::fees::{Charges, PerSurcharge};
use domain::model::Model;
use domain::original::{Original, WireFormat};
use domain::time::Timestamp;
use http::HeaderMap;

use crate::adapter::embeddings::{Embedded, Embedder, EmbeddingRequest};
use crate::adapter::images::{GeneratedImages, ImageGenerator, ImageRequest};
use crate::adapter::request::{Attempt, Call, Encoded, Outgoing, key_of};
use crate::adapter::{Adapter, Decoder};
use crate::chat_form::cache;
use crate::chat_form::tools::Naming;
use crate::error::Error;
use crate::vendors::openai::encode::{Dialect, encode, is_own};
use crate::vendors::openai::responses::Responses;
use crate::vendors::openai::tier::surcharges;

const BASE_URL: &str = "https://api.openai.com/v1";
/// The path of the endpoint of conversations, below a base URL.
pub(crate) const CHAT: &str = "/chat/completions";
const EMBEDDINGS: &str = "/embeddings";
const IMAGES: &str = "/images/generations";

pub(crate) struct Openai;

impl Adapter for Openai {
    fn endpoint(&self, model: &Model, _stream: bool) -> Result<String, Error> {
        Ok(url(model, CHAT))
    }

    fn encode(&self, attempt: &Attempt<'_>) -> Result<Encoded, Error> {
        let model = attempt.model;
        // Other servers of this format have rules of their own.
        if is_own(model) {
            Naming::Plain(64).check(attempt)?;
        }
        encode(attempt, dialect(model))
    }

    fn pass(&self, attempt: &Attempt<'_>, original: &Original) -> Result<Option<Vec<u8>>, Error> {
        pass::body(attempt, original, dialect(attempt.model))
    }

    /// OpenAI has no such cache. Other servers get the callers' breakpoints, never the gateway's own.
    fn keeps_for_an_hour(&self, model: &Model, prompt: &Prompt) -> bool {
        !is_own(model) && cache::asks_for_an_hour(prompt, false)
    }

    fn charges(&self, prompt: &Prompt) -> Charges {
        searches::charges(prompt)
    }

    fn surcharges(&self, prompt: &Prompt) -> PerSurcharge<bool> {
        surcharges(prompt)
    }

    fn authenticate(&self, model: &Model, call: &mut Call, _now: Timestamp) -> Result<(), Error> {
        key_of(model).map_or(Ok(()), |key| call.set_bearer(key))
    }

    fn decode(&self, _model: &Model, body: &[u8]) -> Result<Reply, Error> {
        decode::decode(body)
    }

    fn decoder(&self, _model: &Model) -> Box<dyn Decoder> {
        Box::<stream::Reader>::default()
    }

    fn passing_decoder(&self, model: &Model) -> Box<dyn Decoder> {
        Box::new(stream::Reader::passing(model))
    }

    fn beside(&self, model: &Model, format: WireFormat) -> Option<&'static dyn Adapter> {
        RESPONSES.at(model, format)
    }

    fn embedder(&self) -> Option<&'static dyn Embedder> {
        Some(&OWN)
    }

    fn image_generator(&self) -> Option<&'static dyn ImageGenerator> {
        Some(&OWN)
    }
}

fn dialect(model: &Model) -> Dialect<'_> {
    Dialect { model: model.upstream_name(), bound_name: bound_name(model), stream_options: true }
}

/// The differences between the servers of the format for embeddings and images.
pub(crate) struct Tasks {
    /// Returns the address of the endpoint at this path below a model's base URL.
    pub(crate) url: fn(&Model, &str) -> Result<String, Error>,
    /// Returns the model's name at the server.
    pub(crate) name: fn(&Model) -> &str,
}

static RESPONSES: Responses = Responses {
    vendor: &Openai,
    url: |model, path| Ok(url(model, path)),
    name: Model::upstream_name,
    is_own,
};

static OWN: Tasks = Tasks { url: |model, path| Ok(url(model, path)), name: Model::upstream_name };

impl Embedder for Tasks {
    fn requests(&self, ask: &EmbeddingRequest<'_>) -> Result<Vec<Outgoing>, Error> {
        let url = (self.url)(ask.model, EMBEDDINGS)?;
        embeddings::requests(&url, (self.name)(ask.model), ask)
    }

    fn read(&self, _headers: &HeaderMap, body: &[u8]) -> Result<Embedded, Error> {
        embeddings::read(body)
    }
}

impl ImageGenerator for Tasks {
    fn requests(&self, ask: &ImageRequest<'_>) -> Result<Vec<Outgoing>, Error> {
        let url = (self.url)(ask.model, IMAGES)?;
        Ok(vec![images::request(url, (self.name)(ask.model), ask)?])
    }

    fn read(&self, body: &[u8]) -> Result<GeneratedImages, Error> {
        images::read(body)
    }
}

/// Returns an address at the model's server: OpenAI's own by default.
fn url(model: &Model, path: &str) -> String {
    let base = model.base_url.as_deref().filter(|base| !base.is_empty());
    below(base.unwrap_or(BASE_URL), path)
}

/// Returns the address of a path below a base URL.
pub(crate) fn below(base: &str, path: &str) -> String {
    [base.trim_end_matches('/'), path].concat()
}

/// Returns the parameter that bounds the completion: OpenAI's reasoning models refuse `max_tokens`
/// wherever they are served, many compatible servers support nothing else.
fn bound_name(model: &Model) -> &'static str {
    if is_own(model) || reasons(model.upstream_name()) {
        "max_completion_tokens"
    } else {
        "max_tokens"
    }
}

/// Whether a name is that of one of OpenAI's reasoning models: `o3-mini`, `gpt-5`, `openai/gpt-5-mini`,
/// `ft:o4-mini:acme`.
fn reasons(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    ["o1", "o3", "o4", "gpt-5"].iter().any(|family| {
        let rest = name.strip_prefix(family);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.', ':']))
    })
}
