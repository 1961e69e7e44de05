//! The chat-completions format, as OpenAI and every compatible server speak it.

mod decode;
mod encode;
mod stream;
mod wire;

use domain::conversation::Reply;
use domain::model::{Model, Provider};
use domain::time::Timestamp;

use crate::adapter::{Adapter, Call, Decoder, Encoded, key_of};
use crate::error::Error;
use crate::transport::Attempt;

pub(crate) use encode::{Dialect, encode};

const BASE_URL: &str = "https://api.openai.com/v1";

pub(crate) struct Openai;

impl Adapter for Openai {
    fn endpoint(&self, model: &Model, _stream: bool) -> Result<String, Error> {
        let base = model.base_url.as_deref().filter(|base| !base.is_empty());
        Ok(chat_url(base.unwrap_or(BASE_URL)))
    }

    fn encode(&self, attempt: &Attempt<'_>) -> Result<Encoded, Error> {
        let model = attempt.model;
        let dialect = Dialect {
            model: model.upstream_name(),
            bound_name: bound_name(model),
            stream_options: true,
        };
        encode(attempt, dialect)
    }

    fn authenticate(&self, model: &Model, call: &mut Call, _now: Timestamp) -> Result<(), Error> {
        key_of(model).map_or(Ok(()), |key| call.set_bearer(key))
    }

    fn decode(&self, _model: &Model, body: &[u8]) -> Result<Reply, Error> {
        decode::decode(body)
    }

    fn decoder(&self, _model: &Model) -> Box<dyn Decoder> {
        Box::<stream::Reader>::default()
    }
}

/// The address of the chat-completions endpoint below a base URL.
pub(crate) fn chat_url(base: &str) -> String {
    [base.trim_end_matches('/'), "/chat/completions"].concat()
}

/// The parameter that bounds the completion: OpenAI's newer models refuse `max_tokens`, many
/// compatible servers know nothing else.
fn bound_name(model: &Model) -> &'static str {
    let own = model.provider == Provider::Openai
        && model.base_url.as_deref().is_none_or(|base| base.is_empty() || is_openai(base));
    if own { "max_completion_tokens" } else { "max_tokens" }
}

fn is_openai(base: &str) -> bool {
    base.split_once("://")
        .and_then(|(_, rest)| rest.split(['/', ':']).next())
        .is_some_and(|host| host.eq_ignore_ascii_case("api.openai.com"))
}
