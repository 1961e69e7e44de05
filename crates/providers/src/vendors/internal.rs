//! Servers of one's own with the chat-completions format: the only difference from OpenAI's is that
//! there is no endpoint to fall back on.

use domain::conversation::{Prompt, Reply};
use domain::fees::{Charges, PerSurcharge};
use domain::model::Model;
use domain::original::{Original, WireFormat};
use domain::time::Timestamp;

use crate::adapter::embeddings::Embedder;
use crate::adapter::images::ImageGenerator;
use crate::adapter::request::{Attempt, Call, Encoded};
use crate::adapter::{Adapter, Decoder};
use crate::error::Error;
use crate::vendors::openai::responses::Responses;
use crate::vendors::openai::{CHAT, Openai, Tasks, below};

pub(crate) struct Internal;

impl Adapter for Internal {
    fn endpoint(&self, model: &Model, _stream: bool) -> Result<String, Error> {
        url(model, CHAT)
    }

    fn encode(&self, attempt: &Attempt<'_>) -> Result<Encoded, Error> {
        Openai.encode(attempt)
    }

    fn pass(&self, attempt: &Attempt<'_>, original: &Original) -> Result<Option<Vec<u8>>, Error> {
        Openai.pass(attempt, original)
    }

    fn keeps_for_an_hour(&self, model: &Model, prompt: &Prompt) -> bool {
        Openai.keeps_for_an_hour(model, prompt)
    }

    fn charges(&self, prompt: &Prompt) -> Charges {
        Openai.charges(prompt)
    }

    fn surcharges(&self, prompt: &Prompt) -> PerSurcharge<bool> {
        Openai.surcharges(prompt)
    }

    fn authenticate(&self, model: &Model, call: &mut Call, now: Timestamp) -> Result<(), Error> {
        Openai.authenticate(model, call, now)
    }

    fn decode(&self, model: &Model, body: &[u8]) -> Result<Reply, Error> {
        Openai.decode(model, body)
    }

    fn decoder(&self, model: &Model) -> Box<dyn Decoder> {
        Openai.decoder(model)
    }

    fn passing_decoder(&self, model: &Model) -> Box<dyn Decoder> {
        Openai.passing_decoder(model)
    }

    fn beside(&self, model: &Model, format: WireFormat) -> Option<&'static dyn Adapter> {
        RESPONSES.at(model, format)
    }

    fn embedder(&self) -> Option<&'static dyn Embedder> {
        Some(&TASKS)
    }

    fn image_generator(&self) -> Option<&'static dyn ImageGenerator> {
        Some(&TASKS)
    }
}

static RESPONSES: Responses =
    Responses { vendor: &Internal, url, name: Model::upstream_name, is_own: |_| false };

static TASKS: Tasks = Tasks { url, name: Model::upstream_name };

fn url(model: &Model, path: &str) -> Result<String, Error> {
    match model.base_url.as_deref() {
        Some(base) if !base.is_empty() => Ok(below(base, path)),
        _ => Err(Error::misconfigured("The model has no base url")),
    }
}
