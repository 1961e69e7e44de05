//! Audit events.

use axum::Json;
use axum::extract::State;
use domain::time::Timestamp;
use gateway::Audit;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::http::auth::BySession;
use crate::http::error::Result;
use crate::http::extract::Query;

/// An action, done or attempted.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditBody {
    id: i64,
    event: String,
    /// The address of the user, if one was signed in; `cli` for the command line.
    actor: Option<String>,
    /// The kind of the object that was acted on.
    target_type: Option<String>,
    /// The id of the object that was acted on.
    target_id: Option<String>,
    ip: String,
    user_agent: String,
    /// Changed fields from old to new; secrets only as set or unset.
    #[schema(value_type = Object)]
    metadata: Value,
    #[schema(value_type = String, format = DateTime)]
    occurred_at: Timestamp,
}

impl From<Audit> for AuditBody {
    fn from(audit: Audit) -> Self {
        Self {
            id: audit.id,
            event: audit.event,
            actor: audit.actor,
            target_type: audit.target_type,
            target_id: audit.target_id,
            ip: audit.ip,
            user_agent: audit.user_agent,
            metadata: audit.metadata,
            occurred_at: audit.at,
        }
    }
}

/// The filter on the events.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Filter {
    /// Only events of this kind.
    event: Option<String>,
}

/// The last 50 events of the organization, newest first (admin or owner).
#[utoipa::path(get, path = "/api/v1/audit-events", tag = "Audit events", params(Filter),
    responses((status = 200, body = Vec<AuditBody>)))]
pub async fn list(
    State(app): State<App>,
    BySession(by): BySession,
    Query(filter): Query<Filter>,
) -> Result<Json<Vec<AuditBody>>> {
    let events = app.gateway.audit_events(&by.member, filter.event.as_deref()).await?;
    Ok(Json(events.into_iter().map(Into::into).collect()))
}
