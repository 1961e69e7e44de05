//! Errors in the formats of other vendors: any error on the way to such an endpoint, its guard
//! included, is written as that vendor's clients expect it. Statuses and headers stay.

use axum::Json;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gateway::FaultCode;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::http::dialect::Dialect;
use crate::http::error::{ErrorBody, Failure, Meaning, SHOULD_RETRY};

pub(crate) const OUR_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The header in which Anthropic's clients look for the id of a request.
pub(crate) const THEIR_ID: HeaderName = HeaderName::from_static("request-id");

/// An error as Anthropic's clients read it.
#[derive(Debug, Serialize, ToSchema)]
pub struct MessagesError {
    /// Always `error`.
    #[serde(rename = "type")]
    kind: &'static str,
    error: MessagesFault,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    request_id: Option<String>,
}

/// The error itself.
#[derive(Debug, Serialize, ToSchema)]
pub struct MessagesFault {
    /// `invalid_request_error`, `authentication_error`, `rate_limit_error` and the like.
    #[serde(rename = "type")]
    kind: &'static str,
    message: String,
    /// The code of the protection that refused, or of a provider's failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    code: Option<&'static str>,
    /// The status with which a provider refused the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    provider_status: Option<u16>,
    /// The details, in the vendor's form, that its clients read to continue without an unsupported
    /// feature.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, nullable = false)]
    details: Option<Box<Value>>,
}

/// An error as OpenAI's clients read it.
#[derive(Debug, Serialize, ToSchema)]
pub struct ResponsesError {
    error: ResponsesFault,
}

/// The error itself.
#[derive(Debug, Serialize, ToSchema)]
pub struct ResponsesFault {
    message: String,
    /// `invalid_request_error`, `authentication_error`, `rate_limit_error` and the like.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Always null: the message names the parameter.
    #[schema(value_type = Option<String>)]
    param: (),
    /// The code of the protection that refused, or of a provider's failure.
    code: Option<&'static str>,
    /// The status with which a provider refused the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    provider_status: Option<u16>,
}

/// An error as Gemini's clients read it.
#[derive(Debug, Serialize, ToSchema)]
pub struct GeminiError {
    error: GeminiFault,
}

/// The error itself.
#[derive(Debug, Serialize, ToSchema)]
pub struct GeminiFault {
    /// The HTTP status.
    code: u16,
    message: String,
    /// `INVALID_ARGUMENT`, `UNAUTHENTICATED`, `RESOURCE_EXHAUSTED` and the like.
    status: &'static str,
    /// When to try again, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>, nullable = false)]
    details: Option<Value>,
}

impl GeminiError {
    /// An error within a stream.
    pub fn of(failure: Failure) -> Self {
        let (status, body) = in_dialect(failure, Dialect::Vendor);
        Self::told(gemini_status(status), body, None)
    }

    fn told(status: StatusCode, body: ErrorBody, retry_after: Option<u64>) -> Self {
        let code = status.as_u16();
        let status = match code {
            401 => "UNAUTHENTICATED",
            402 => "FAILED_PRECONDITION",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            408 | 504 => "DEADLINE_EXCEEDED",
            409 => "ABORTED",
            429 => "RESOURCE_EXHAUSTED",
            400..=499 => "INVALID_ARGUMENT",
            502 | 503 => "UNAVAILABLE",
            _ => "INTERNAL",
        };
        let details = retry_after.map(|seconds| {
            json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": format!("{seconds}s")}])
        });
        Self { error: GeminiFault { code, message: body.error, status, details } }
    }
}

/// The vendor's status: it has none of its own for an overload.
fn gemini_status(status: StatusCode) -> StatusCode {
    match status.as_u16() {
        529 => StatusCode::SERVICE_UNAVAILABLE,
        _ => status,
    }
}

impl MessagesError {
    /// An error within a stream.
    pub fn of(failure: Failure, dialect: Dialect) -> Self {
        let (status, body) = in_dialect(failure, dialect);
        let code = body.code.filter(|_| dialect == Dialect::Sluice);
        Self::told(status, ErrorBody { code, ..body }, None)
    }

    fn told(status: StatusCode, body: ErrorBody, request_id: Option<String>) -> Self {
        let kind = match status.as_u16() {
            401 => "authentication_error",
            402 => "billing_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 | 529 => "overloaded_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        };
        let ErrorBody { error: message, code, provider_status, details, .. } = body;
        let error = MessagesFault { kind, message, code, provider_status, details };
        Self { kind: "error", error, request_id }
    }
}

impl ResponsesError {
    /// An error within a stream.
    pub fn of(failure: Failure, dialect: Dialect) -> Self {
        let (status, body) = in_dialect(failure, dialect);
        Self::told(status, body)
    }

    fn told(status: StatusCode, body: ErrorBody) -> Self {
        let kind = match status.as_u16() {
            401 => "authentication_error",
            402 => "insufficient_quota",
            403 => "permission_error",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "server_error",
        };
        let ErrorBody { error: message, code, provider_status, .. } = body;
        let error = ResponsesFault { message, kind, param: (), code, provider_status };
        Self { error }
    }
}

/// Writes the errors of endpoints for Anthropic's clients.
pub async fn messages(request: Request, next: Next) -> Response {
    let id = request.headers().get(OUR_ID).cloned();
    for_messages(next.run(request).await, id)
}

/// Writes the errors of endpoints for OpenAI's clients.
pub async fn responses(request: Request, next: Next) -> Response {
    for_responses(next.run(request).await)
}

/// Writes the errors below Anthropic's root.
pub async fn anthropic_root(request: Request, next: Next) -> Response {
    let id = request.headers().get(OUR_ID).cloned();
    at_anthropic_root(next.run(request).await, id)
}

/// Writes the errors below OpenAI's root.
pub async fn openai_root(request: Request, next: Next) -> Response {
    for_responses(as_vendor(next.run(request).await))
}

/// Writes the errors below Gemini's root.
pub async fn gemini_root(request: Request, next: Next) -> Response {
    at_gemini_root(next.run(request).await)
}

fn at_gemini_root(response: Response) -> Response {
    let mut response = as_vendor(response);
    if response.extensions().get::<ErrorBody>().is_some() {
        *response.status_mut() = gemini_status(response.status());
    }
    let retry_after = response.headers().get(RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
    retold(response, |status, body| GeminiError::told(status, body, retry_after))
}

fn at_anthropic_root(response: Response, id: Option<HeaderValue>) -> Response {
    let mut response = as_vendor(response);
    if let Some(body) = response.extensions_mut().get_mut::<ErrorBody>() {
        body.code = None;
    }
    for_messages(response, id)
}

/// A failure with the status, code and headers that a vendor gives it; any other response as it is.
fn as_vendor(mut response: Response) -> Response {
    let Some(body) = response.extensions_mut().remove::<ErrorBody>() else { return response };
    let (status, busy) = (response.status(), body.meaning);
    let (status, body) = of_vendor(status, body);
    response.extensions_mut().insert(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if let Meaning::Busy(congestion) = busy {
        if let Some(seconds) = congestion.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        headers.insert(SHOULD_RETRY, should_retry(congestion.passes));
    } else if headers.contains_key(RETRY_AFTER) && !headers.contains_key(SHOULD_RETRY) {
        headers.insert(SHOULD_RETRY, should_retry(true));
    }
    response
}

fn should_retry(does: bool) -> HeaderValue {
    HeaderValue::from_static(if does { "true" } else { "false" })
}

/// The status and body of a failure.
pub(crate) fn in_dialect(failure: Failure, dialect: Dialect) -> (StatusCode, ErrorBody) {
    let status = failure.status();
    match dialect {
        Dialect::Sluice => (status, failure.into_body()),
        Dialect::Vendor => of_vendor(status, failure.into_body()),
    }
}

/// The status and body that a vendor gives a failure. The codes are OpenAI's.
fn of_vendor(status: StatusCode, body: ErrorBody) -> (StatusCode, ErrorBody) {
    let passed_on = |told: u16| StatusCode::from_u16(told).unwrap_or(status);
    let ErrorBody { error, code, provider_status, details, meaning, .. } = body;
    let (status, error, code) = match meaning {
        // Vendors have no 422 for a fault of the request, and some clients repeat one.
        Meaning::OfStatus if status == StatusCode::UNPROCESSABLE_ENTITY => {
            (StatusCode::BAD_REQUEST, error, code)
        }
        Meaning::OfStatus | Meaning::ReachesAddress | Meaning::OtherRequest => {
            (status, error, code)
        }
        Meaning::UnknownModel => (StatusCode::NOT_FOUND, error, Some("model_not_found")),
        Meaning::Rejected { code } => {
            let code = code.and_then(FaultCode::name);
            (provider_status.map_or(status, passed_on), error, code)
        }
        Meaning::Busy(congestion) => {
            let why = match congestion.status {
                429 => "The provider is rate limiting",
                _ => "The provider is overloaded",
            };
            (passed_on(congestion.status), why.to_owned(), None)
        }
    };
    let code = code.or(match status.as_u16() {
        401 => Some("invalid_api_key"),
        429 => Some("rate_limit_exceeded"),
        _ => None,
    });
    (status, ErrorBody { error, code, details, ..ErrorBody::default() })
}

/// A failure at a path without an endpoint, in the format of the endpoints beside it.
pub fn at(request: &Request, failure: Failure) -> Response {
    let id = request.headers().get(OUR_ID).cloned();
    in_form_of(request.uri().path(), id, failure.into_response())
}

/// A response of the endpoint at a path, whose failure is written in the format of that endpoint; any other response
/// as it is. `id` is that of its request.
pub fn in_form_of(path: &str, id: Option<HeaderValue>, response: Response) -> Response {
    let is_of = |api_endpoint: &str| {
        let rest = path.strip_prefix(api_endpoint);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if is_of("/anthropic") {
        at_anthropic_root(response, id)
    } else if is_of("/gemini") {
        at_gemini_root(response)
    } else if is_of("/openai") {
        for_responses(as_vendor(response))
    } else if is_of("/api/v1/messages") {
        for_messages(response, id)
    } else if is_of("/api/v1/responses") || is_of("/api/v1/models") {
        for_responses(response)
    } else {
        response
    }
}

fn for_messages(response: Response, id: Option<HeaderValue>) -> Response {
    let text = |id: &HeaderValue| id.to_str().ok().map(str::to_owned);
    let told = id.as_ref().and_then(text);
    let mut response = retold(response, |status, body| MessagesError::told(status, body, told));
    if let Some(id) = id {
        response.headers_mut().insert(THEIR_ID, id);
    }
    response
}

fn for_responses(response: Response) -> Response {
    retold(response, ResponsesError::told)
}

/// A failure in the vendor's format; any other response as it is.
fn retold<T: Serialize>(
    mut response: Response,
    tell: impl FnOnce(StatusCode, ErrorBody) -> T,
) -> Response {
    let Some(body) = response.extensions_mut().remove::<ErrorBody>() else { return response };
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    let body = Json(tell(parts.status, body)).into_response().into_body();
    Response::from_parts(parts, body)
}

#[cfg(test)]
#[path = "vendor_errors_tests.rs"]
mod tests;
