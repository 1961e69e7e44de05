//! The one table that maps errors to responses.

use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::ids::{StepId, TraceId};
use domain::stored_responses::StoredKind;
use gateway::{Congestion, Error, FaultCode, IdempotencyFault, Unanswered};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::http::trace_headers;

/// The header that stops retries. Official client libraries honour it: a refused request that is
/// sent again feeds its own loop.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

const MFA_REQUIRED: &str = "MFA_REQUIRED";

/// The body of every error, except at endpoints in other vendors' formats.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct ErrorBody {
    /// A description of the error.
    pub error: String,
    /// Every fault of a request that failed validation; `error` is the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub errors: Vec<String>,
    /// The code of the protection that refused, or of a provider's failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub code: Option<&'static str>,
    /// The status with which a provider refused the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub provider_status: Option<u16>,
    /// Details that another vendor's clients use to recover; only the endpoint in that vendor's
    /// format sends them. Boxed: every result of a handler has room for it.
    #[serde(skip)]
    pub details: Option<Box<Value>>,
    /// The meaning, where a vendor's status and code for it differ from ours.
    #[serde(skip)]
    pub meaning: Meaning,
}

/// The meaning of an error for which a vendor has a status and a code of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Meaning {
    /// The status says it.
    #[default]
    OfStatus,
    /// The model does not exist.
    UnknownModel,
    /// The provider refused the request itself: its status is the caller's.
    Rejected {
        /// The provider's code.
        code: Option<FaultCode>,
    },
    /// A vendor's tool or a document would reach an address that the caller chooses, or a tool has no
    /// bound on its cost where one has to hold.
    ReachesAddress,
    /// The `Idempotency-Key` was used for another request.
    OtherRequest,
    /// The provider has too many requests.
    Busy(Congestion),
}

/// A request for embeddings or images that safety has refused: 403, at no cost.
#[derive(Debug, Serialize, ToSchema)]
pub struct GuardBody {
    /// A description of the error.
    pub error: &'static str,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<String>,
    /// The terms of the request that are blocked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub violations: Vec<ViolationBody>,
    /// The step that records it. A 403 of the address list has none.
    #[schema(required = false, value_type = i64)]
    pub step_id: StepId,
}

/// A term that is blocked in image prompts.
#[derive(Debug, Serialize, ToSchema)]
pub struct ViolationBody {
    /// `brand`, `copyright` or `policy`.
    r#type: &'static str,
    /// The term, as it is listed.
    term: String,
}

impl From<gateway::Violation> for ViolationBody {
    fn from(violation: gateway::Violation) -> Self {
        Self { r#type: violation.kind.as_str(), term: violation.term }
    }
}

impl IntoResponse for GuardBody {
    fn into_response(self) -> Response {
        (StatusCode::FORBIDDEN, Json(self)).into_response()
    }
}

/// A failed request.
#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    body: ErrorBody,
    retry_after: Option<u32>,
    /// The advice on a retry, if the client gets any.
    should_retry: Option<bool>,
    /// The trace that was opened for the request.
    trace: Option<TraceId>,
}

/// The result of every handler.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure with nothing but a message.
    pub fn new(status: StatusCode, error: impl Into<String>) -> Self {
        let body = ErrorBody { error: error.into(), ..ErrorBody::default() };
        Self { status, body, retry_after: None, should_retry: None, trace: None }
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Whether a second factor has to be set up first.
    pub fn requires_factor(&self) -> bool {
        self.body.code == Some(MFA_REQUIRED)
    }

    /// Its body, for streams that have begun.
    pub fn into_body(self) -> ErrorBody {
        self.body
    }

    /// Turns any 401 into a plain one.
    pub fn of_session(self) -> Self {
        if self.status == StatusCode::UNAUTHORIZED { Error::Unauthorized.into() } else { self }
    }

    /// Adds details for the clients of another vendor.
    pub fn details(mut self, details: Value) -> Self {
        self.body.details = Some(Box::new(details));
        self
    }

    /// Adds a code.
    pub fn code(mut self, code: &'static str) -> Self {
        self.body.code = Some(code);
        self
    }

    /// Marks an unknown model.
    pub fn unknown_model(self) -> Self {
        self.meaning(Meaning::UnknownModel)
    }

    /// Marks a request to reach an address of the caller's choice.
    pub fn reaches_address(self) -> Self {
        self.meaning(Meaning::ReachesAddress)
    }

    /// The answer to a request whose `Idempotency-Key` is taken: clients would send it again with the same one.
    fn of_idempotency(fault: IdempotencyFault, error: String) -> Self {
        let (status, code) = match fault {
            IdempotencyFault::Running => (StatusCode::CONFLICT, "idempotency_key_in_use"),
            IdempotencyFault::OtherRequest => {
                let mut failure = Self::new(StatusCode::UNPROCESSABLE_ENTITY, error);
                failure.body.errors.push(failure.body.error.clone());
                return failure
                    .code("idempotency_key_reused")
                    .meaning(Meaning::OtherRequest)
                    .stop_retrying();
            }
            IdempotencyFault::Unknown => (StatusCode::CONFLICT, "idempotency_outcome_unknown"),
            IdempotencyFault::Unkept => (StatusCode::CONFLICT, "idempotency_answer_not_kept"),
        };
        Self::new(status, error).code(code).stop_retrying()
    }

    fn meaning(mut self, meaning: Meaning) -> Self {
        self.body.meaning = meaning;
        self
    }

    fn stop_retrying(mut self) -> Self {
        self.should_retry = Some(false);
        self
    }

    fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(u32::try_from(seconds).unwrap_or(u32::MAX));
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let of = |status| Self::new(status, error.to_string());
        match &error {
            Error::Unauthorized | Error::TokenExpired | Error::InvalidToken => {
                of(StatusCode::UNAUTHORIZED)
            }
            Error::SignOn(_) => of(StatusCode::UNAUTHORIZED).code("SIGN_ON_REFUSED"),
            Error::Forbidden => of(StatusCode::FORBIDDEN),
            Error::OutboxFull => of(StatusCode::SERVICE_UNAVAILABLE).retry_after(60),
            Error::MfaRequired => of(StatusCode::FORBIDDEN).code(MFA_REQUIRED),
            Error::PerimeterBlock => of(StatusCode::FORBIDDEN).code("PERIMETER_BLOCK"),
            Error::NotStored(StoredKind::Response, _) => {
                of(StatusCode::NOT_FOUND).code("previous_response_not_found")
            }
            Error::NotFound | Error::NotStored(_, _) => of(StatusCode::NOT_FOUND),
            Error::SettingsChanged => of(StatusCode::CONFLICT),
            Error::Malformed(_) => of(StatusCode::BAD_REQUEST),
            Error::Invalid(faults) => {
                let mut failure = of(StatusCode::UNPROCESSABLE_ENTITY);
                failure.body.errors.clone_from(faults);
                failure
            }
            Error::ExternalAccess(faults) => {
                let mut failure = of(StatusCode::UNPROCESSABLE_ENTITY).reaches_address();
                failure.body.errors.clone_from(faults);
                failure
            }
            Error::Unbounded(_) => of(StatusCode::UNPROCESSABLE_ENTITY).reaches_address(),
            Error::InvalidMessage { .. } | Error::LinkInvalid => {
                Error::invalid(error.to_string()).into()
            }
            Error::ModelNotFound(_) => {
                Self::from(Error::invalid(error.to_string())).unknown_model()
            }
            Error::BudgetExceeded { retry_after } => of(StatusCode::PAYMENT_REQUIRED)
                .code("BUDGET_EXCEEDED")
                .retry_after(*retry_after)
                .stop_retrying(),
            Error::BudgetReserved => {
                of(StatusCode::PAYMENT_REQUIRED).code("BUDGET_EXCEEDED").retry_after(1)
            }
            Error::LimitsUnavailable => {
                let failure = of(StatusCode::SERVICE_UNAVAILABLE).code("limits_unavailable");
                Self { should_retry: Some(true), ..failure.retry_after(1) }
            }
            Error::RateLimited { retry_after } | Error::LoginThrottled { retry_after } => {
                of(StatusCode::TOO_MANY_REQUESTS).retry_after(*retry_after)
            }
            Error::TooManyLiveViews => of(StatusCode::TOO_MANY_REQUESTS).retry_after(30),
            Error::SpendCapped { .. } => {
                of(StatusCode::TOO_MANY_REQUESTS).code("CIRCUIT_OPEN").stop_retrying()
            }
            Error::SpendReserved { .. } => {
                of(StatusCode::TOO_MANY_REQUESTS).code("CIRCUIT_OPEN").retry_after(1)
            }
            Error::ModelNotAllowed => of(StatusCode::FORBIDDEN).code("MODEL_NOT_ALLOWED"),
            Error::EndpointNotAllowed => of(StatusCode::FORBIDDEN).code("ENDPOINT_NOT_ALLOWED"),
            Error::LoopDetected => {
                of(StatusCode::TOO_MANY_REQUESTS).code("LOOP_DETECTED").stop_retrying()
            }
            Error::Idempotency(fault) => Self::of_idempotency(*fault, error.to_string()),
            Error::McpServer(_) => of(StatusCode::BAD_GATEWAY).code("mcp_unreachable"),
            Error::ProviderUnreachable => of(StatusCode::BAD_GATEWAY).code("provider_unreachable"),
            Error::ProviderBusy(congestion) => {
                let failure = of(StatusCode::BAD_GATEWAY).code("provider_unreachable");
                failure.meaning(Meaning::Busy(*congestion))
            }
            Error::ProviderRefusedAccount { status, .. } => {
                let mut failure =
                    of(StatusCode::BAD_GATEWAY).code("provider_rejected").stop_retrying();
                failure.body.provider_status = Some(*status);
                failure
            }
            Error::ProviderRejected { status, message, code } => {
                let (status, message) = (*status, message.clone());
                Self::from(Error::ProviderRefusedAccount { status, message })
                    .meaning(Meaning::Rejected { code: *code })
            }
            Error::Unavailable(_) => of(StatusCode::SERVICE_UNAVAILABLE).retry_after(1),
            Error::Busy { retry_after, .. } => {
                of(StatusCode::SERVICE_UNAVAILABLE).code("busy").retry_after(*retry_after)
            }
            Error::ProjectUnreadable => {
                of(StatusCode::SERVICE_UNAVAILABLE).code("project_unreadable").stop_retrying()
            }
            Error::Internal(cause) => {
                tracing::error!(%cause, "internal error");
                of(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

impl From<Unanswered> for Failure {
    fn from(unanswered: Unanswered) -> Self {
        Self { trace: unanswered.trace, ..unanswered.error.into() }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(&self.body)).into_response();
        // Endpoints in other formats write it in their own form (`vendor_errors.rs`).
        response.extensions_mut().insert(self.body);
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        if let Some(should_retry) = self.should_retry {
            let value = HeaderValue::from_static(if should_retry { "true" } else { "false" });
            response.headers_mut().insert(SHOULD_RETRY, value);
        }
        match self.trace {
            Some(trace) => trace_headers::with_trace_headers(trace, &[], response),
            None => response,
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::money::Usd;

    use super::*;

    #[test]
    fn the_error_table_of_the_interface() {
        let table = [
            (Error::Unauthorized, 401, r#"{"error":"Unauthorized"}"#),
            (Error::TokenExpired, 401, r#"{"error":"Token expired"}"#),
            (Error::InvalidToken, 401, r#"{"error":"Invalid token"}"#),
            (
                Error::BudgetExceeded { retry_after: 9 },
                402,
                r#"{"error":"Monthly budget exceeded.","code":"BUDGET_EXCEEDED"}"#,
            ),
            (Error::Forbidden, 403, r#"{"error":"Forbidden"}"#),
            (Error::NotFound, 404, r#"{"error":"Not found"}"#),
            (
                Error::model_not_found("m"),
                422,
                r#"{"error":"Model not authorized or found: m","errors":["Model not authorized or found: m"]}"#,
            ),
            (
                Error::InvalidMessage { index: 2, fault: "no".to_owned() },
                422,
                r#"{"error":"messages[2]: no","errors":["messages[2]: no"]}"#,
            ),
            (
                Error::LimitsUnavailable,
                503,
                r#"{"error":"Limits cannot be checked right now: try again in a moment","code":"limits_unavailable"}"#,
            ),
            (Error::RateLimited { retry_after: 9 }, 429, r#"{"error":"Rate limit exceeded"}"#),
            (
                Error::SpendCapped { limit: Some(Usd(500_000_000)) },
                429,
                r#"{"error":"Kill switch engaged: hourly limit of $0.50 exceeded.","code":"CIRCUIT_OPEN"}"#,
            ),
            (
                Error::LoopDetected,
                429,
                r#"{"error":"Recursive loop detected. Account throttled.","code":"LOOP_DETECTED"}"#,
            ),
            (
                Error::Unavailable("the disk is slow".into()),
                503,
                r#"{"error":"The gateway cannot read or store this right now (the disk is slow). It may or may not have been recorded; try again later."}"#,
            ),
            (Error::Internal("secret".into()), 500, r#"{"error":"Internal error"}"#),
            (
                Error::McpServer("MCP server a cannot be used".into()),
                502,
                r#"{"error":"MCP server a cannot be used","code":"mcp_unreachable"}"#,
            ),
            (
                Error::ProviderUnreachable,
                502,
                r#"{"error":"Provider request failed","code":"provider_unreachable"}"#,
            ),
        ];
        for (error, status, body) in table {
            let failure = Failure::from(error);
            assert_eq!(failure.status.as_u16(), status);
            assert_eq!(serde_json::to_string(&failure.body).unwrap(), body);
        }
    }

    #[test]
    fn paused_keys_are_not_to_be_retried() {
        let response = Failure::from(Error::LoopDetected).into_response();
        assert_eq!(response.headers()["x-should-retry"], "false");
        let response = Failure::from(Error::BudgetExceeded { retry_after: 9 }).into_response();
        assert_eq!(response.headers()["x-should-retry"], "false");
        assert_eq!(response.headers()["retry-after"], "9");
        let response = Failure::from(Error::BudgetReserved).into_response();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["retry-after"]),
            (402, &HeaderValue::from_static("1"))
        );
        let response = Failure::from(Error::RateLimited { retry_after: 7 }).into_response();
        assert_eq!(response.headers()["retry-after"], "7");
    }
}
