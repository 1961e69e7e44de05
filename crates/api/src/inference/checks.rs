//! Safety checks on their own.

use axum::Json;
use axum::extract::State;
use domain::ids::StepId;
use gateway::CheckResult;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::FlatBody;
use crate::http::error::Result;
use crate::inference::finding::FindingBody;

/// The content to check.
#[derive(Deserialize, ToSchema)]
pub struct CheckRequest {
    /// An open trace of this key's project.
    trace_id: String,
    /// The text.
    input: String,
}

/// The verdict.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckBody {
    /// Whether a request with this text would be passed on.
    allowed: bool,
    #[schema(value_type = i64)]
    step_id: StepId,
    /// The reason if it would not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
    /// The finding that forbids it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cause: Option<FindingBody>,
    meta: CheckMeta,
}

/// The findings.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckMeta {
    pii_detected: bool,
    injection_attempt: bool,
    secret_leaked: bool,
    /// 0 to 1.
    risk_score: f64,
    /// Whether a person should look at it.
    review: bool,
    /// Present when personal data was found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pii_entities: Vec<EntityBody>,
}

/// Personal data in the text.
#[derive(Debug, Serialize, ToSchema)]
pub struct EntityBody {
    r#type: String,
    /// First character, counted in Unicode scalar values.
    start: usize,
    /// One after the last.
    end: usize,
}

impl From<CheckResult> for CheckBody {
    fn from(result: CheckResult) -> Self {
        let security = result.security;
        let entity = |(kind, start, end)| EntityBody { r#type: kind, start, end };
        Self {
            allowed: result.allowed,
            step_id: result.step,
            reason: result.reason,
            cause: FindingBody::of(result.cause),
            meta: CheckMeta {
                pii_detected: security.pii,
                injection_attempt: security.injection,
                secret_leaked: security.secret,
                risk_score: security.risk_score,
                review: security.review,
                pii_entities: result.entities.into_iter().map(entity).collect(),
            },
        }
    }
}

/// Check a text. Always 200; the verdict is in the body and on a step.
#[utoipa::path(post, path = "/api/v1/checks", tag = "Safety", request_body = CheckRequest,
    responses((status = 200, body = CheckBody)))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    FlatBody(request): FlatBody<CheckRequest>,
) -> Result<Json<CheckBody>> {
    Ok(Json(app.gateway.check(&caller, &request.trace_id, &request.input).await?.into()))
}
