//! Google's generateContent, in the form of the Gemini Developer API.

mod contents;
mod decode;
mod embed;
mod encode;
mod images;
mod pass;
mod provider_state;
mod stream;
mod wire;

#[cfg(test)]
mod round_trip_tests;
#[cfg(test)]
mod sim_tests;

use domain::conversation::{Prompt, Reply};
use domain::fees::Charges;
use domain::model::Model;
use domain::original::Original;
use domain::time::Timestamp;
use http::HeaderName;

use crate::adapter::embeddings::Embedder;
use crate::adapter::images::ImageGenerator;
use crate::adapter::request::{Attempt, Call, Encoded};
use crate::adapter::{Adapter, Decoder};
use crate::error::Error;

const BASE_URL: &str = "https://generativelanguage.googleapis.com";
/// The version of the API that has every field we send.
const VERSION: &str = "v1beta";
/// The key never goes into the URL, where logs would keep it.
const KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

pub(crate) struct Gemini;

impl Adapter for Gemini {
    fn endpoint(&self, model: &Model, stream: bool) -> Result<String, Error> {
        // Without `alt=sse` a streamed answer is one long JSON array.
        let method = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
        url(model, method)
    }

    fn encode(&self, attempt: &Attempt<'_>) -> Result<Encoded, Error> {
        encode::encode(attempt)
    }

    fn pass(&self, attempt: &Attempt<'_>, original: &Original) -> Result<Option<Vec<u8>>, Error> {
        pass::body(attempt, original)
    }

    fn charges(&self, prompt: &Prompt) -> Charges {
        pass::charges(prompt)
    }

    fn authenticate(&self, model: &Model, call: &mut Call, _now: Timestamp) -> Result<(), Error> {
        call.set_key(KEY, model)
    }

    fn decode(&self, model: &Model, body: &[u8]) -> Result<Reply, Error> {
        decode::decode(model, body)
    }

    fn passing_decode(&self, model: &Model, body: &[u8]) -> Result<Reply, Error> {
        decode::decode_passing(model, body)
    }

    fn decoder(&self, model: &Model) -> Box<dyn Decoder> {
        Box::new(stream::Reader::new(model))
    }

    fn passing_decoder(&self, model: &Model) -> Box<dyn Decoder> {
        Box::new(stream::Reader::passing(model))
    }

    fn embedder(&self) -> Option<&'static dyn Embedder> {
        Some(&embed::Embeddings)
    }

    fn image_generator(&self) -> Option<&'static dyn ImageGenerator> {
        Some(&images::Images)
    }
}

/// Returns the address of a method of a model. The base URL may end with the version or without it.
fn url(model: &Model, method: &str) -> Result<String, Error> {
    let base = model.base_url.as_deref().filter(|base| !base.is_empty()).unwrap_or(BASE_URL);
    let base = base.trim_end_matches('/');
    let name = resource(model)?;
    Ok(match base.rsplit('/').next() {
        Some("v1" | "v1alpha" | VERSION) => format!("{base}/{name}:{method}"),
        _ => format!("{base}/{VERSION}/{name}:{method}"),
    })
}

/// Returns the model as Google names it: `models/x`, or `tunedModels/x` if it was registered so.
fn resource(model: &Model) -> Result<String, Error> {
    let name = model.upstream_name();
    let is_plain = |segment: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !segment.is_empty() && !matches!(segment, "." | "..") && segment.bytes().all(known)
    };
    if !name.split('/').all(is_plain) {
        return Err(Error::misconfigured("The model's name is none that Gemini can have"));
    }
    Ok(if name.contains('/') { name.to_owned() } else { format!("models/{name}") })
}

/// Returns the generation in a model's name: 3 for `gemini-3.1-pro`. Names without one are newer.
fn generation(model: &Model) -> Option<u32> {
    let (_, rest) = model.upstream_name().split_once("gemini-")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

/// Whether a model is of the third generation or a later one: those sign their function calls, and take
/// a thinking level instead of a budget.
fn is_recent(model: &Model) -> bool {
    generation(model).is_none_or(|generation| generation >= 3)
}

/// A model's way to set the amount of thinking.
enum Thinks {
    /// It does not think.
    Never,
    /// A number of tokens, which may be zero.
    ByBudget,
    /// A number of tokens that cannot be zero.
    Always,
    /// A level.
    ByLevel,
}

fn thinks(model: &Model) -> Thinks {
    let name = model.upstream_name();
    if is_recent(model) {
        Thinks::ByLevel
    } else if !name.contains("gemini-2.5") || name.contains("-image") || name.contains("-tts") {
        Thinks::Never
    } else if name.contains("2.5-pro") {
        Thinks::Always
    } else {
        Thinks::ByBudget
    }
}

#[cfg(test)]
mod tests {
    use domain::model::Provider;

    use super::*;
    use crate::testing::{CANARY, model};

    fn named(name: &str, base: Option<&str>) -> Model {
        let mut model = model(Provider::Gemini, base);
        model.config.upstream_model = Some(name.to_owned());
        model
    }

    #[test]
    fn the_base_url_may_have_a_version_or_none() {
        let google = "https://generativelanguage.googleapis.com/v1beta";
        for (base, name, begins) in [
            (None, "gemini-3.1-pro", format!("{google}/models/gemini-3.1-pro")),
            (Some(""), "gemini-3.1-pro", format!("{google}/models/gemini-3.1-pro")),
            (Some(google), "models/gemini-x", format!("{google}/models/gemini-x")),
            (Some("http://x/"), "tunedModels/y", "http://x/v1beta/tunedModels/y".to_owned()),
            (Some("http://x/p/v1beta/"), "y", "http://x/p/v1beta/models/y".to_owned()),
            (Some("http://x/v1"), "y", "http://x/v1/models/y".to_owned()),
        ] {
            let model = named(name, base);
            let whole = Gemini.endpoint(&model, false).unwrap();
            assert_eq!(whole, format!("{begins}:generateContent"));
            let streamed = Gemini.endpoint(&model, true).unwrap();
            assert_eq!(streamed, format!("{begins}:streamGenerateContent?alt=sse"));
        }
    }

    #[test]
    fn a_name_cannot_change_the_address() {
        for name in ["", "../x", "a/../b", "a?b", "a#b", "a%2fb", "a b", "a:b", "a//b", "/a"] {
            assert!(Gemini.endpoint(&named(name, None), false).is_err(), "{name}");
        }
    }

    #[test]
    fn generations_are_read_from_names() {
        for (name, recent) in [
            ("gemini-1.5-flash", false),
            ("models/gemini-2.5-pro", false),
            ("gemini-3.1-pro", true),
            ("gemini-10-pro", true),
            ("gemini-flash-latest", true),
            ("other", true),
        ] {
            assert_eq!(is_recent(&named(name, None)), recent, "{name}");
        }
    }

    #[test]
    fn the_key_travels_in_its_header() {
        let model = named("x", None);
        let call = || Call {
            uri: "http://x/".parse().unwrap(),
            headers: http::HeaderMap::new(),
            body: Vec::new(),
        };
        let mut with = call();
        Gemini.authenticate(&model, &mut with, Timestamp(0)).unwrap();
        assert_eq!(with.headers[&KEY], CANARY);
        assert!(with.headers[&KEY].is_sensitive() && with.uri.query().is_none());
        let mut without = call();
        Gemini.authenticate(&Model { api_key: None, ..model }, &mut without, Timestamp(0)).unwrap();
        assert!(without.headers.is_empty());
    }
}
