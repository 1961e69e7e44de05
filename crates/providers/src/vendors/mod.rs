//! The vendors, and the servers that use their formats: a directory for each wire format.

pub(crate) mod anthropic;
pub(crate) mod azure;
pub(crate) mod bedrock;
pub(crate) mod gemini;
pub(crate) mod internal;
pub(crate) mod openai;

use domain::conversation::Prompt;
use domain::fees::{Charges, PerSurcharge};
use domain::model::{Model, Provider};
use domain::original::WireFormat;
use serde_json::Value;

use crate::adapter::Adapter;
use crate::adapter::embeddings::Embedder;
use crate::adapter::images::ImageGenerator;
use crate::error::Error;
use crate::vendors::anthropic::Anthropic;
use crate::vendors::azure::Azure;
use crate::vendors::bedrock::Bedrock;
use crate::vendors::gemini::Gemini;
use crate::vendors::internal::Internal;
use crate::vendors::openai::Openai;

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

/// Returns the adapter that a prompt goes through: at the model, or at any of its endpoints, that of the
/// format which the request came in.
fn spoken(model: &Model, prompt: &Prompt) -> &'static dyn Adapter {
    let own = adapter(model.provider);
    let Some(original) = &prompt.original else { return own };
    places(model).find_map(|at| own.beside(at, original.format)).unwrap_or(own)
}

/// Returns a model's way to make embeddings.
pub(crate) fn embedder(model: &Model) -> Result<&'static dyn Embedder, Error> {
    adapter(model.provider).embedder().ok_or_else(|| without(model, "embeddings"))
}

/// Returns a model's way to make images. The sandbox makes none.
pub(crate) fn image_generator(model: &Model) -> Result<&'static dyn ImageGenerator, Error> {
    let image_generator = adapter(model.provider).image_generator().filter(|_| !model.is_sandbox());
    image_generator.ok_or_else(|| without(model, "images"))
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

/// Refuses a model whose provider has no embeddings; the provider may still reject the request.
pub fn check_embeddings(model: &Model) -> Result<(), Error> {
    embedder(model).map(drop)
}

/// Whether a provider may write a prompt to its cache for longer than five minutes, which costs more.
pub fn may_keep_for_an_hour(model: &Model, prompt: &Prompt) -> bool {
    let keeps = |model: &Model| adapter(model.provider).keeps_for_an_hour(model, prompt);
    match model.config.endpoints.as_slice() {
        [] => keeps(model),
        endpoints => endpoints.iter().any(|endpoint| keeps(&endpoint.model)),
    }
}

/// Whether a provider may write a prompt to its cache, which costs more with most.
pub fn may_write_cache(model: &Model, prompt: &Prompt) -> bool {
    let writes = |model: &Model| adapter(model.provider).writes_cache(model, prompt);
    match model.config.endpoints.as_slice() {
        [] => writes(model),
        endpoints => endpoints.iter().any(|endpoint| writes(&endpoint.model)),
    }
}

/// Whether a server of a model keeps its answers, for requests that continue them.
pub fn keeps_answers(model: &Model) -> bool {
    let own = adapter(model.provider);
    places(model).any(|at| own.beside(at, WireFormat::Responses).is_some())
}

/// A model, and the model as it is called at each of its endpoints.
fn places(model: &Model) -> impl Iterator<Item = &Model> {
    let endpoints = model.config.endpoints.iter().map(|endpoint| &*endpoint.model);
    std::iter::once(model).chain(endpoints)
}

/// The charges beside tokens that a prompt allows a provider.
pub fn charges(model: &Model, prompt: &Prompt) -> Charges {
    spoken(model, prompt).charges(prompt)
}

/// The tools that the vendor runs among those that items of a response and of its request have added, reduced
/// to what their charges depend on, each once: a stored response makes them available to requests that
/// continue it.
pub fn lasting_tools<'a>(added: impl IntoIterator<Item = &'a Value>) -> Vec<Value> {
    openai::responses::lasting_tools(added)
}

/// The surcharges that a prompt asks a provider for.
pub fn surcharges(model: &Model, prompt: &Prompt) -> PerSurcharge<bool> {
    spoken(model, prompt).surcharges(prompt)
}

/// Refuses a model whose provider makes no images.
pub fn check_images(model: &Model) -> Result<(), Error> {
    image_generator(model).map(drop)
}
