//! Anthropic's Messages API.

mod charges;
mod decode;
mod encode;
mod events;
mod pass;
mod reported;
pub(crate) mod rules;
mod stream;
pub(crate) mod thoughts;

use domain::conversation::{Prompt, Reply};
use domain::fees::{Charges, PerSurcharge};
use domain::model::Model;
use domain::original::Original;
use domain::time::Timestamp;
use http::header::{HeaderName, HeaderValue};

use crate::adapter::request::{Attempt, Call, Encoded};
use crate::adapter::{Adapter, Decoder};
use crate::chat_form::cache;
use crate::error::Error;

const BASE_URL: &str = "https://api.anthropic.com";

/// The version that every request names. The later one, 2026-10-21, takes no sampling parameters
/// from anyone; under this one each model decides.
const VERSION: &str = "2023-06-01";

pub(crate) struct Anthropic;

impl Adapter for Anthropic {
    /// The base url is the root of the host; one that ends with the version does as well.
    fn endpoint(&self, model: &Model, _stream: bool) -> Result<String, Error> {
        let base = model.base_url.as_deref().filter(|base| !base.is_empty()).unwrap_or(BASE_URL);
        let base = base.trim_end_matches('/');
        let root = base.strip_suffix("/v1").unwrap_or(base);
        Ok([root, "/v1/messages"].concat())
    }

    fn encode(&self, attempt: &Attempt<'_>) -> Result<Encoded, Error> {
        encode::encode(attempt)
    }

    fn pass(&self, attempt: &Attempt<'_>, original: &Original) -> Result<Option<Vec<u8>>, Error> {
        pass::body(attempt, original)
    }

    fn keeps_for_an_hour(&self, _model: &Model, prompt: &Prompt) -> bool {
        cache::asks_for_an_hour(prompt, true) || prompt.original_has("\"1h\"")
    }

    fn writes_cache(&self, model: &Model, prompt: &Prompt) -> bool {
        cache::may_write(model, prompt, "anthropic.com") || prompt.original_has("cache_control")
    }

    fn charges(&self, prompt: &Prompt) -> Charges {
        charges::of(prompt)
    }

    fn surcharges(&self, prompt: &Prompt) -> PerSurcharge<bool> {
        charges::surcharges(prompt)
    }

    fn authenticate(&self, model: &Model, call: &mut Call, _now: Timestamp) -> Result<(), Error> {
        let version = HeaderValue::from_static(VERSION);
        call.headers.insert(HeaderName::from_static("anthropic-version"), version);
        call.set_key(HeaderName::from_static("x-api-key"), model)
    }

    fn decode(&self, model: &Model, body: &[u8]) -> Result<Reply, Error> {
        decode::decode(model, body)
    }

    fn decoder(&self, model: &Model) -> Box<dyn Decoder> {
        Box::new(stream::Reader::new(model))
    }

    fn passing_decoder(&self, model: &Model) -> Box<dyn Decoder> {
        Box::new(stream::Reader::passing(model))
    }
}

#[cfg(test)]
mod round_trip_tests;
#[cfg(test)]
mod sim_tests;
