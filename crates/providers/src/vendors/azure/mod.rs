//! The chat-completions format as Azure serves it: the differences are the address of a model, how the
//! request carries its key, and the parameters that older versions of the API lack.

use domain::conversation::{Prompt, Reply};
use domain::fees::{Charges, PerSurcharge};
use domain::model::Model;
use domain::original::{Original, WireFormat};
use domain::time::Timestamp;
use http::Uri;
use http::header::HeaderName;
use serde_json::Value;
use url::form_urlencoded::byte_serialize;

use crate::adapter::embeddings::Embedder;
use crate::adapter::images::ImageGenerator;
use crate::adapter::request::{Attempt, Call, Encoded};
use crate::adapter::{Adapter, Decoder};
use crate::chat_form::tools::Naming;
use crate::error::Error;
use crate::vendors::openai::encode::{Dialect, encode};
use crate::vendors::openai::responses::Responses;
use crate::vendors::openai::tier::surcharges;
use crate::vendors::openai::{CHAT, Openai, Tasks, pass, searches};

/// The first version with `max_completion_tokens` and `stream_options`, preview or not.
const NEWER: &str = "2024-09-01";

pub(crate) struct Azure;

impl Adapter for Azure {
    fn endpoint(&self, model: &Model, _stream: bool) -> Result<String, Error> {
        url(model, CHAT)
    }

    fn encode(&self, attempt: &Attempt<'_>) -> Result<Encoded, Error> {
        let dialect = dialect(attempt.model)?;
        Naming::Plain(64).check(attempt)?;
        encode(attempt, dialect)
    }

    fn pass(&self, attempt: &Attempt<'_>, original: &Original) -> Result<Option<Vec<u8>>, Error> {
        pass::body(attempt, original, dialect(attempt.model)?)
    }

    fn charges(&self, prompt: &Prompt) -> Charges {
        searches::charges(prompt)
    }

    fn surcharges(&self, prompt: &Prompt) -> PerSurcharge<bool> {
        surcharges(prompt)
    }

    fn authenticate(&self, model: &Model, call: &mut Call, _now: Timestamp) -> Result<(), Error> {
        call.set_key(HeaderName::from_static("api-key"), model)
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

    /// The endpoint is in the v1 form alone.
    fn beside(&self, model: &Model, format: WireFormat) -> Option<&'static dyn Adapter> {
        let is_v1 = matches!(Form::of(model), Ok(Form::V1 { .. }));
        RESPONSES.at(model, format).filter(|_| is_v1)
    }

    fn embedder(&self) -> Option<&'static dyn Embedder> {
        Some(&TASKS)
    }

    fn image_generator(&self) -> Option<&'static dyn ImageGenerator> {
        Some(&TASKS)
    }
}

fn dialect(model: &Model) -> Result<Dialect<'_>, Error> {
    let newer = match Form::of(model)? {
        Form::V1 { .. } => true,
        Form::Deployment { version, .. } => version >= NEWER,
    };
    Ok(Dialect {
        // The v1 form finds the deployment by this name; the other form ignores it.
        model: deployment(model),
        bound_name: if newer { "max_completion_tokens" } else { "max_tokens" },
        stream_options: newer,
    })
}

static RESPONSES: Responses = Responses { vendor: &Azure, url, name: deployment, is_own };

/// The domains of the vendor's own servers.
const OWN: [&str; 3] =
    [".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"];

/// Whether a model is at one of the vendor's own servers.
fn is_own(model: &Model) -> bool {
    let base = model.base_url.as_deref().unwrap_or_default();
    let host = base.parse::<Uri>().ok().and_then(|base| base.host().map(str::to_lowercase));
    host.is_some_and(|host| OWN.iter().any(|domain| host.ends_with(domain)))
}

static TASKS: Tasks = Tasks { url, name: deployment };

/// Returns the address of one of the format's endpoints, given by its path.
fn url(model: &Model, path: &str) -> Result<String, Error> {
    match Form::of(model)? {
        Form::V1 { root, version } => {
            let url = [root, "/openai/v1", path].concat();
            Ok(match version {
                Some(version) => url + "?api-version=" + version,
                None => url,
            })
        }
        Form::Deployment { root, version } => {
            let name = segment(deployment(model))?;
            Ok([root, "/openai/deployments/", &name, path, "?api-version=", version].concat())
        }
    }
}

/// The two kinds of address.
enum Form<'a> {
    /// Below `/openai/v1`, which the base url may end in: no dated version, and the form if none is
    /// configured. A version such as `preview` is valid only here.
    V1 { root: &'a str, version: Option<&'a str> },
    /// The resource's own address: each deployment has a path of its own, for one version.
    Deployment { root: &'a str, version: &'a str },
}

impl<'a> Form<'a> {
    fn of(model: &'a Model) -> Result<Self, Error> {
        let base = model.base_url.as_deref().unwrap_or_default().trim_end_matches('/');
        if base.is_empty() {
            return Err(Error::misconfigured("The model has no base url"));
        }
        let version = text(model, "api_version").map(checked_version).transpose()?;
        let is_dated = |version: &str| version.starts_with(|first: char| first.is_ascii_digit());
        if let Some(root) = base.strip_suffix("/openai/v1") {
            return match version {
                Some(version) if is_dated(version) => Err(Error::misconfigured(
                    "The model's base url ends in /openai/v1, where no dated \
                    additional_config.api_version is taken: leave one of them out",
                )),
                version => Ok(Self::V1 { root, version }),
            };
        }
        let root = base.strip_suffix("/openai").unwrap_or(base);
        Ok(match version {
            Some(version) if is_dated(version) => Self::Deployment { root, version },
            version => Self::V1 { root, version },
        })
    }
}

/// Checks a version, which goes into the URL as it is.
fn checked_version(version: &str) -> Result<&str, Error> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if version.bytes().all(fits) {
        return Ok(version);
    }
    Err(Error::misconfigured(
        "additional_config.api_version must be a version such as 2024-10-21 or 2025-04-01-preview",
    ))
}

/// Returns the name of the deployment; by default that of the model.
fn deployment(model: &Model) -> &str {
    text(model, "deployment").unwrap_or_else(|| model.upstream_name())
}

/// Encodes a name as one segment of a path. A name that would change the path cannot be encoded.
fn segment(name: &str) -> Result<String, Error> {
    if matches!(name, "." | "..") {
        return Err(Error::misconfigured("The model's deployment has no valid name"));
    }
    // The form encoding writes a space as a plus.
    Ok(byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20"))
}

fn text<'a>(model: &'a Model, key: &str) -> Option<&'a str> {
    let value = model.config.all.get(key).and_then(Value::as_str).map(str::trim);
    value.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod sim_tests;
