//! The stored form of a step's content.

use domain::conversation::{Body, Message, Prompt, Role};
use domain::step::ApiEndpoint;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::pipeline::passed_content::Passed;
use crate::pipeline::screen::Screened;
use crate::tools::mcp::round::Server;

/// A step's content as it is stored; see [`domain::step::Content`].
#[derive(Default, Serialize)]
pub(super) struct Stored<'a> {
    pub(super) input: Option<Input<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) params: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_output_tokens: Option<u64>,
    pub(super) output: Option<Output<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) placeholders: Option<&'a checks::Placeholders>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) passed: Option<Passed<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) untranslatable: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) omitted: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mcp: Option<&'a [Server]>,
}

impl<'a> Stored<'a> {
    /// The prompt, and the originals of the placeholders in it.
    pub(super) fn prompt(screened: &'a Screened) -> Self {
        let (prompt, placeholders) = (screened.prompt(), screened.placeholders());
        Self {
            input: Some(Input::of(screened.context().api_endpoint, prompt)),
            params: (!prompt.params.is_empty()).then_some(&prompt.params),
            max_output_tokens: prompt.max_output_tokens,
            placeholders: (!placeholders.is_empty()).then_some(placeholders),
            ..Self::default()
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Input<'a> {
    Text(&'a str),
    /// The texts to embed.
    Texts(Vec<&'a str>),
    Messages(&'a [Message]),
    Value(&'a Value),
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Output<'a> {
    Text(&'a str),
    Value(&'a Value),
    /// As it was given.
    Json(&'a RawValue),
}

impl<'a> Input<'a> {
    /// The request of an endpoint.
    pub(super) fn of(api_endpoint: ApiEndpoint, prompt: &'a Prompt) -> Self {
        match prompt.messages.as_slice() {
            [_, _, ..] if api_endpoint == ApiEndpoint::Embeddings => {
                Self::Texts(prompt.texts().collect())
            }
            [message] if message.role == Role::User && message.extra.is_empty() => {
                match &message.body {
                    Body::Text(text) => Self::Text(text),
                    _ => Self::Messages(&prompt.messages),
                }
            }
            messages => Self::Messages(messages),
        }
    }
}
