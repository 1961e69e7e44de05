//! Roots that speak a vendor's API and nothing else: its paths, bodies, errors, statuses and headers,
//! over the use cases and formats of the interface. A call that names no trace belongs to that
//! of its session.

pub(crate) mod anthropic;
pub(crate) mod gemini;
pub(crate) mod openai;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use domain::money::Usd;
use gateway::CallRecord;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::http::error::Failure;
use crate::http::trace_headers::{with_step_headers, with_trace_headers};

/// The user that a client names for a call without a conversation.
#[derive(Deserialize)]
#[serde(untagged)]
enum NamedUser {
    Text(String),
    /// No name.
    Other(IgnoredAny),
}

impl NamedUser {
    fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other(_) => None,
        }
    }
}

/// An answer with the headers of its records.
fn recorded(record: CallRecord, dropped: &[String], response: Response) -> Response {
    let CallRecord { step, trace, cost } = record;
    with_trace_headers(trace, dropped, with_step_headers(step, Some(cost), response))
}

/// A refusal by safety of a request whose answers have no place for one, at no cost.
fn refused(reason: String, record: CallRecord) -> Response {
    let failure = Failure::new(StatusCode::BAD_REQUEST, reason).code("content_policy_violation");
    recorded(CallRecord { cost: Usd::ZERO, ..record }, &[], failure.into_response())
}
