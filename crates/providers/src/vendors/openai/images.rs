//! Images in OpenAI's format, as Azure and compatible servers have it too.

use domain::usage::{Open, Usage};
use serde::{Deserialize, Serialize};

use crate::adapter::images::{GeneratedImages, ImageRequest};
use crate::adapter::request::Outgoing;
use crate::error::Error;
use crate::vendors::openai::decode::error_in;
use crate::vendors::openai::wire::Text;
use crate::wire::json;
use crate::wire::token_counts::{Count, Group};

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    prompt: &'a str,
    n: u64,
    size: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    quality: Option<&'a str>,
}

/// Returns the request to an address, for the model of this name there. It never contains
/// `response_format`: the GPT image models refuse it, and both forms of answer are understood.
pub(super) fn request(url: String, name: &str, ask: &ImageRequest<'_>) -> Result<Outgoing, Error> {
    let &ImageRequest { prompt, size, quality, count: n, .. } = ask;
    let request = Request { model: name, prompt, n, size, quality };
    let body = serde_json::to_vec(&request)
        .map_err(|_| Error::unsupported("The prompt cannot be written as JSON"))?;
    Ok(Outgoing { url, body })
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    data: Vec<Image<'a>>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    output_format: Option<String>,
    #[serde(default)]
    usage: Group<ImageUsage>,
}

#[derive(Deserialize)]
struct Image<'a> {
    #[serde(default, borrow)]
    url: Text<'a>,
    #[serde(default, borrow)]
    b64_json: Text<'a>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct ImageUsage {
    input_tokens: Count,
    output_tokens: Count,
}

/// Reads the images of an answer, as URLs.
pub(super) fn read(body: &[u8]) -> Result<GeneratedImages, Error> {
    let answer: Answer<'_> = serde_json::from_slice(body).map_err(|_| no_list(body))?;
    let kind = match answer.output_format.as_deref() {
        Some("jpeg" | "jpg") => "jpeg",
        Some("webp") => "webp",
        _ => "png",
    };
    let urls: Result<Vec<String>, Error> =
        answer.data.iter().map(|image| image.url(kind)).collect();
    let usage = match answer.usage {
        Group::Known(usage) => usage.read(),
        Group::Missing | Group::Nonsense => None,
    };
    let urls = urls.map_err(|error| error.having_used(usage))?;
    if urls.is_empty() {
        return Err(Error::malformed("it holds no image").having_used(usage));
    }
    Ok(GeneratedImages {
        urls,
        upstream_model: answer.model.filter(|name| !name.is_empty()),
        usage,
    })
}

impl Image<'_> {
    fn url(&self, kind: &str) -> Result<String, Error> {
        let (data, url) = (&*self.b64_json.0, &*self.url.0);
        if !data.is_empty() {
            if !data.bytes().all(is_base64) {
                return Err(Error::malformed("an image is no base64"));
            }
            return Ok(["data:image/", kind, ";base64,", data].concat());
        }
        if ["https://", "http://", "data:image/"].iter().any(|start| url.starts_with(start)) {
            return Ok(url.to_owned());
        }
        Err(Error::malformed("an image has neither bytes nor an address"))
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

impl ImageUsage {
    /// Returns the usage; `None` when it has no counts.
    fn read(&self) -> Option<Usage> {
        let (prompt, completion) = (self.input_tokens.known(), self.output_tokens.known());
        prompt.or(completion)?;
        let open =
            Open { prompt: prompt.is_none(), completion: completion.is_none(), ..Open::default() };
        let completion = completion.unwrap_or(0);
        Usage { completion, open, ..Usage::of_prompt(prompt.unwrap_or(0)) }.reported()
    }
}

/// Returns the error for a body without a list of images.
fn no_list(body: &[u8]) -> Error {
    let object = json::object(body).ok();
    let said = object.as_ref().and_then(error_in);
    said.unwrap_or_else(|| Error::malformed("it is no list of images"))
}

#[cfg(test)]
#[path = "images_tests.rs"]
mod tests;
