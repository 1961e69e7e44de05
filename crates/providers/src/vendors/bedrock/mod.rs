//! AWS Bedrock: `Converse` and `ConverseStream` for conversations, `InvokeModel` for embeddings and
//! images.
//!
//! Shapes and limits are those of the official service model (botocore, `bedrock-runtime`, 2023-09-30);
//! anything it cannot express is from AWS's public documentation.

mod auth;
mod decode;
mod documents;
mod effort;
mod encode;
mod frames;
mod invoke;
#[cfg(test)]
mod round_trip_tests;
#[cfg(test)]
mod sim_tests;
mod stream;

use std::borrow::Cow;

use domain::conversation::{Prompt, Reply};
use domain::model::Model;
use domain::time::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::adapter::embeddings::Embedder;
use crate::adapter::images::ImageGenerator;
use crate::adapter::request::{Attempt, Call, Encoded};
use crate::adapter::{Adapter, Decoder};
use crate::chat_form::cache;
use crate::error::Error;

pub(crate) struct Bedrock;

impl Adapter for Bedrock {
    fn endpoint(&self, model: &Model, stream: bool) -> Result<String, Error> {
        url(model, if stream { "converse-stream" } else { "converse" })
    }

    fn encode(&self, attempt: &Attempt<'_>) -> Result<Encoded, Error> {
        encode::encode(attempt)
    }

    fn keeps_for_an_hour(&self, model: &Model, prompt: &Prompt) -> bool {
        encode::keeps_for_an_hour(model) && cache::asks_for_an_hour(prompt, true)
    }

    fn writes_cache(&self, model: &Model, prompt: &Prompt) -> bool {
        cache::may_write(model, prompt, "amazonaws.com")
    }

    fn authenticate(&self, model: &Model, call: &mut Call, now: Timestamp) -> Result<(), Error> {
        auth::authenticate(model, call, now)
    }

    fn decode(&self, model: &Model, body: &[u8]) -> Result<Reply, Error> {
        decode::decode(model, body)
    }

    fn stream_type(&self) -> &'static str {
        "application/vnd.amazon.eventstream"
    }

    fn decoder(&self, model: &Model) -> Box<dyn Decoder> {
        Box::new(stream::Reader::new(model))
    }

    fn embedder(&self) -> Option<&'static dyn Embedder> {
        Some(&invoke::Invoke)
    }

    fn image_generator(&self) -> Option<&'static dyn ImageGenerator> {
        Some(&invoke::Invoke)
    }
}

/// Characters that are encoded in a path segment: an id's `:` goes out as `%3A`, the `/` of an ARN as
/// `%2F`.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the address of an operation of a model: at its `base_url`, or at the endpoint of its region.
fn url(model: &Model, operation: &str) -> Result<String, Error> {
    let base = match model.base_url.as_deref().filter(|base| !base.is_empty()) {
        Some(base) => Cow::Borrowed(base.trim_end_matches('/')),
        None => {
            let region = configured_region(model)?;
            let china = if region.starts_with("cn-") { ".cn" } else { "" };
            Cow::Owned(format!("https://bedrock-runtime.{region}.amazonaws.com{china}"))
        }
    };
    let id = utf8_percent_encode(model.upstream_name(), SEGMENT);
    Ok(format!("{base}/model/{id}/{operation}"))
}

/// Returns the region for the signature. A host of AWS's own names it, and no other would be accepted
/// there; for any other host it is the region in the model's configuration.
fn region<'a>(model: &'a Model, host: &'a str) -> Result<&'a str, Error> {
    region_of_host(host).map_or_else(|| configured_region(model), Ok)
}

/// Returns `additional_config.region`, or the model's `region` if that is one of AWS's.
fn configured_region(model: &Model) -> Result<&str, Error> {
    let configured = model.config.all.get("region").and_then(|region| region.as_str());
    let region = match configured {
        Some(region) => Some(region),
        None => Some(model.region.as_str()).filter(|tag| *tag != "global"),
    };
    region.filter(|region| is_region(region)).ok_or_else(|| {
        Error::misconfigured(format!(
            "Model {} has no AWS region: set additional_config.region, for example us-east-1",
            model.identifier
        ))
    })
}

/// Returns the region in `bedrock-runtime.us-east-1.amazonaws.com` and its FIPS, VPC and dual-stack
/// forms.
fn region_of_host(host: &str) -> Option<&str> {
    let own = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"];
    if !own.iter().any(|suffix| host.ends_with(suffix)) {
        return None;
    }
    let mut labels = host.split('.').skip_while(|label| !label.starts_with("bedrock-runtime"));
    labels.nth(1).filter(|region| is_region(region))
}

/// Whether a word has the form of AWS's regions, as in `us-gov-west-1`.
pub fn is_region(word: &str) -> bool {
    let mut parts = word.split('-');
    let letters = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
    let number = parts.next_back().is_some_and(|last| {
        (1..=2).contains(&last.len()) && last.bytes().all(|b| b.is_ascii_digit())
    });
    number && word.len() <= 32 && (2..=4).contains(&parts.clone().count()) && parts.all(letters)
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
