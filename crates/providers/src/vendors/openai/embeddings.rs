//! Embeddings in OpenAI's format, as Azure and compatible servers have it too.

use std::fmt;

use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine as _, GeneralPurpose, GeneralPurposeConfig};
use domain::usage::Usage;
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize as Read, Serialize};

use crate::adapter::embeddings::{Embedded, EmbeddingRequest};
use crate::adapter::request::Outgoing;
use crate::error::Error;
use crate::vendors::openai::decode::error_in;
use crate::vendors::openai::wire::WireUsage;
use crate::wire::json;
use crate::wire::token_counts::Group;

/// Some servers leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Most texts of one request: at 3,072 numbers each, their vectors stay well below the bound on an
/// answer.
const MOST_TEXTS: usize = 1024;

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u64>,
}

/// Returns the requests to an address, for the model of this name there. They ask for base64, as the
/// official clients do: numbers in decimal take four times the bytes. A server without base64 answers
/// with numbers.
pub(super) fn requests(
    url: &str,
    name: &str,
    ask: &EmbeddingRequest<'_>,
) -> Result<Vec<Outgoing>, Error> {
    let request = |texts| {
        let request = Request {
            model: name,
            input: texts,
            encoding_format: "base64",
            dimensions: ask.dimensions,
        };
        let body = serde_json::to_vec(&request)
            .map_err(|_| Error::unsupported("The texts cannot be written as JSON"))?;
        Ok(Outgoing { url: url.to_owned(), body })
    };
    ask.inputs.chunks(MOST_TEXTS).map(request).collect()
}

#[derive(Read)]
struct Answer {
    data: Vec<Item>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    usage: Group<WireUsage>,
}

#[derive(Read)]
struct Item {
    embedding: Vector,
    #[serde(default)]
    index: Option<u64>,
}

/// Numbers, or the base64 of their bytes: float32, least significant byte first.
struct Vector(Vec<f32>);

/// Reads the vectors of an answer, in the order of the texts.
pub(super) fn read(body: &[u8]) -> Result<Embedded, Error> {
    let mut answer: Answer = json::read(body).map_err(|_| no_list(body))?;
    let tokens = match answer.usage {
        Group::Known(usage) => usage.prompt(),
        Group::Missing | Group::Nonsense => None,
    };
    answer.data.sort_by_key(|item| item.index);
    let indexed = |(place, item): (usize, &Item)| item.index == Some(place as u64);
    let unnumbered = answer.data.first().is_some_and(|first| {
        first.index.unwrap_or(0) == 0 && answer.data.iter().all(|item| item.index == first.index)
    });
    if !unnumbered && !answer.data.iter().enumerate().all(indexed) {
        let error = Error::malformed("its embeddings are not numbered from 0 on");
        return Err(error.having_used(tokens.map(Usage::of_prompt)));
    }
    Ok(Embedded {
        vectors: answer.data.into_iter().map(|item| item.embedding.0).collect(),
        upstream_model: answer.model.filter(|name| !name.is_empty()),
        tokens,
        ..Embedded::default()
    })
}

/// Returns the error for a body without a list of embeddings.
fn no_list(body: &[u8]) -> Error {
    let object = json::object(body).ok();
    let said = object.as_ref().and_then(error_in);
    said.unwrap_or_else(|| Error::malformed("it is no list of embeddings"))
}

impl<'de> Deserialize<'de> for Vector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct VectorVisitor;
        impl<'de> Visitor<'de> for VectorVisitor {
            type Value = Vec<f32>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("numbers, or the base64 of them")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let bytes = BASE64.decode(text).map_err(E::custom)?;
                let (numbers, rest) = bytes.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(E::custom("a number is cut off"));
                }
                Ok(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut numbers = Vec::new();
                while let Some(number) = seq.next_element()? {
                    numbers.push(number);
                }
                Ok(numbers)
            }
        }
        let numbers = deserializer.deserialize_any(VectorVisitor)?;
        // JSON could not represent any other numbers.
        if numbers.is_empty() || !numbers.iter().all(|number| number.is_finite()) {
            return Err(D::Error::custom("no vector of finite numbers"));
        }
        Ok(Self(numbers))
    }
}

#[cfg(test)]
#[path = "embeddings_tests.rs"]
mod tests;
