//! The model that the gateway serves itself: deterministic, without an account, in the
//! chat-completions format, so that everything but the network is exercised as with a real one.
//!
//! It answers with the first sentence of the prompt, calls a declared tool when asked to, answers from
//! a tool's result, fills in a JSON schema, keeps to its bound, and reports usage. Its tokens are a
//! plain count, not a vendor's: a run of letters or digits, or of punctuation, is one token per twelve
//! characters or part of it.

mod answer;
mod embed;
mod response;
mod schema;
mod tokens;

use bytes::Bytes;
use domain::time::Timestamp;
use serde_json::{Map, Value};

/// Returns the body of a whole answer to a request body.
pub(crate) fn answer(request: &[u8], now: Timestamp) -> Vec<u8> {
    let (bytes, request) = (request, parse(request));
    let frame = response::Frame::new(bytes, &request, now);
    response::whole(&frame, &answer::think(&request))
}

/// Returns the pieces of a streamed answer, one event each.
pub(crate) fn stream(request: &[u8], now: Timestamp) -> Vec<Bytes> {
    let (bytes, request) = (request, parse(request));
    let frame = response::Frame::new(bytes, &request, now);
    response::stream(&frame, &answer::think(&request))
}

/// Returns the body of an answer to a request for embeddings.
pub(crate) fn embed(request: &[u8]) -> Vec<u8> {
    embed::answer(&parse(request))
}

fn parse(request: &[u8]) -> Map<String, Value> {
    // The request was written by our own adapter.
    serde_json::from_slice(request).unwrap_or_default()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
