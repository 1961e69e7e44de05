//! The headers of a conversation: its trace, and the parameters that were left out.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use domain::ids::{StepId, TraceId};
use domain::money::Usd;

/// Names the trace, in requests and in answers.
const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");

/// Names the parameters that were left out.
const DROPPED: HeaderName = HeaderName::from_static("x-sluice-dropped-params");

/// Names the step that records a call.
const STEP_ID: HeaderName = HeaderName::from_static("x-sluice-step-id");

/// The cost of a call in US dollars.
const COST: HeaderName = HeaderName::from_static("x-sluice-cost");

/// The trace that a request's headers name.
pub fn trace_of(headers: &HeaderMap) -> Option<String> {
    headers.get(TRACE_ID).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// Adds to an answer the headers of its trace and of the parameters that were left out because the
/// endpoint or the model does not support them.
pub fn with_trace_headers(trace: TraceId, dropped: &[String], mut response: Response) -> Response {
    let headers = response.headers_mut();
    if !dropped.is_empty()
        && let Ok(names) = HeaderValue::try_from(dropped.join(", "))
    {
        headers.insert(DROPPED, names);
    }
    if let Ok(value) = HeaderValue::from_str(&trace.to_string()) {
        headers.insert(TRACE_ID, value);
    }
    response
}

/// Adds to an answer the headers of its step and of its cost, which is not known at the beginning of a
/// stream.
pub fn with_step_headers(step: StepId, cost: Option<Usd>, mut response: Response) -> Response {
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::try_from(step.to_string()) {
        headers.insert(STEP_ID, value);
    }
    let amount = cost.map(|cost| cost.to_string().replacen('$', "", 1));
    if let Some(Ok(value)) = amount.map(HeaderValue::try_from) {
        headers.insert(COST, value);
    }
    response
}
