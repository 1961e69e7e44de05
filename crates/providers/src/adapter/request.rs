//! Requests to a provider: the input of an attempt, and what is sent for it.

use domain::conversation::{Body, Prompt};
use domain::model::Model;
use domain::trace_context::CallerTrace;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use serde::Serialize;
use tokio::time::Instant;

use crate::error::Error;

/// The input of one attempt.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The model to call.
    pub model: &'a Model,
    /// The prompt to send.
    pub prompt: &'a Prompt,
    /// Most completion tokens, already decided; `None` sends no bound.
    pub max_output_tokens: Option<u64>,
    /// Most uses of each tool that the vendor runs; `None` leaves them to the request.
    pub max_tool_uses: Option<u64>,
    /// Whether the answer is to be streamed: the methods of [`Client`](crate::Client) override it.
    pub stream: bool,
    /// The trace that the call belongs to; `None` sends none.
    pub trace: Option<&'a CallerTrace>,
    /// Time by which the answer must be complete.
    pub deadline: Instant,
}

/// A request as it will go out, before and after it carries its credential.
pub(crate) struct Call {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Call {
    /// Puts a model's key, if it has one, into a header of its own.
    pub(crate) fn set_key(&mut self, name: HeaderName, model: &Model) -> Result<(), Error> {
        key_of(model).map_or(Ok(()), |key| self.set_secret(name, key))
    }

    /// Sends a key as a bearer token.
    pub(crate) fn set_bearer(&mut self, key: &str) -> Result<(), Error> {
        self.set_secret(AUTHORIZATION, &format!("Bearer {key}"))
    }

    /// Names the trace that the call belongs to.
    pub(crate) fn set_trace(&mut self, trace: &CallerTrace) {
        let mut set = |name: &'static str, value: &str| {
            // Both are printable, by how they were read.
            if let Ok(value) = HeaderValue::try_from(value) {
                self.headers.insert(HeaderName::from_static(name), value);
            }
        };
        set("traceparent", &trace.context.to_string());
        if let Some(state) = &trace.state {
            set("tracestate", state);
        }
    }

    fn set_secret(&mut self, name: HeaderName, secret: &str) -> Result<(), Error> {
        let mut value = HeaderValue::try_from(secret)
            .map_err(|_| Error::misconfigured("The model's key cannot be sent in a header"))?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(())
    }
}

/// Returns a model's key; `None` if it has none, or a blank one.
pub(crate) fn key_of(model: &Model) -> Option<&str> {
    let key = model.api_key.as_ref().map(|key| key.expose().trim());
    key.filter(|key| !key.is_empty())
}

/// The body of a request, and the parameters it leaves out.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) body: Vec<u8>,
    /// Parameters that the format lacks, harmless to leave out; they are reported to the caller.
    pub(crate) dropped: Vec<String>,
}

impl Encoded {
    /// Writes a request with the content of a prompt.
    pub(crate) fn write(
        request: &impl Serialize,
        prompt: &Prompt,
        dropped: Vec<String>,
    ) -> Result<Self, Error> {
        let mut body = Vec::with_capacity(size(prompt));
        serde_json::to_writer(&mut body, request)
            .map_err(|_| Error::unsupported("The conversation cannot be written as JSON"))?;
        Ok(Self { body, dropped })
    }
}

/// Estimates the bytes of the body.
fn size(prompt: &Prompt) -> usize {
    let text = |body: &Body| match body {
        Body::Text(text) => text.len() + text.len() / 16,
        Body::Empty => 0,
        Body::Parts(parts) => parts.len() * 256,
    };
    let messages: usize = prompt.messages.iter().map(|message| text(&message.body) + 64).sum();
    256 + messages + prompt.params.len() * 64
}

/// One of the requests that a task takes.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) url: String,
    pub(crate) body: Vec<u8>,
}
