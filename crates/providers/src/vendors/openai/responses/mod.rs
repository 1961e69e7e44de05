//! OpenAI's Responses API, for requests that came in its format: they pass as they came. Prompts in the
//! canonical form go to chat completions, which every server of the vendor's formats has.

mod charges;
mod decode;
mod event;
mod items;
mod pass;
mod stream;

use domain::conversation::{Prompt, Reply};
use domain::fees::{Charges, PerSurcharge};
use domain::model::Model;
use domain::original::{Original, WireFormat};
use domain::time::Timestamp;
use serde_json::Value;

use crate::adapter::request::{Attempt, Call, Encoded};
use crate::adapter::{Adapter, Decoder};
use crate::error::Error;
pub(crate) use crate::vendors::openai::responses::charges::lasting_tools;
use crate::vendors::openai::tier::surcharges;

/// The path of the endpoint, below a base URL.
pub(crate) const RESPONSES: &str = "/responses";
/// The key of `additional_config` by which an operator declares that a model's server has the endpoint,
/// or that it has not.
const SETTING: &str = "responses";

/// The endpoint at one of the vendors that have it.
pub(crate) struct Responses {
    /// The vendor's adapter, which puts the credential on the request.
    pub(crate) vendor: &'static dyn Adapter,
    /// Returns the address of the endpoint at this path below a model's base URL.
    pub(crate) url: fn(&Model, &str) -> Result<String, Error>,
    /// Returns the model's name at the server.
    pub(crate) name: fn(&Model) -> &str,
    /// Whether a model is at a server of the vendor's own, which has the endpoint.
    pub(crate) is_own: fn(&Model) -> bool,
}

impl Responses {
    /// The adapter for a format, if it is this one and the model's server has it.
    pub(crate) fn at(
        &'static self,
        model: &Model,
        format: WireFormat,
    ) -> Option<&'static dyn Adapter> {
        let is_meant = format == WireFormat::Responses && self.is_offered(model);
        is_meant.then_some(self as &dyn Adapter)
    }

    /// Whether a model's server has the endpoint: the vendor's own do, of others the configuration
    /// declares it. Most compatible servers have chat completions alone.
    fn is_offered(&self, model: &Model) -> bool {
        let declared = model.config.all.get(SETTING).and_then(Value::as_bool);
        !model.is_sandbox() && declared.unwrap_or_else(|| (self.is_own)(model))
    }
}

impl Adapter for Responses {
    fn endpoint(&self, model: &Model, _stream: bool) -> Result<String, Error> {
        (self.url)(model, RESPONSES)
    }

    fn stored_response_url(&self, model: &Model, path: &str) -> Result<String, Error> {
        (self.url)(model, &[RESPONSES, path].concat())
    }

    fn encode(&self, _attempt: &Attempt<'_>) -> Result<Encoded, Error> {
        Err(Error::unsupported("The request did not come in the format of /responses"))
    }

    fn pass(&self, attempt: &Attempt<'_>, original: &Original) -> Result<Option<Vec<u8>>, Error> {
        pass::body(attempt, original, (self.name)(attempt.model))
    }

    fn without_encrypted_thoughts(&self, body: &[u8]) -> Option<Vec<u8>> {
        pass::without_encrypted_thoughts(body)
    }

    fn charges(&self, prompt: &Prompt) -> Charges {
        charges::of(prompt)
    }

    fn surcharges(&self, prompt: &Prompt) -> PerSurcharge<bool> {
        surcharges(prompt)
    }

    fn authenticate(&self, model: &Model, call: &mut Call, now: Timestamp) -> Result<(), Error> {
        self.vendor.authenticate(model, call, now)
    }

    fn decode(&self, _model: &Model, body: &[u8]) -> Result<Reply, Error> {
        decode::decode(body)
    }

    fn decoder(&self, _model: &Model) -> Box<dyn Decoder> {
        Box::<stream::Reader>::default()
    }
}

#[cfg(test)]
mod tests;
