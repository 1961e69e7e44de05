//! The sessions of the signed-in user.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::time::Timestamp;
use gateway::SessionView;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::BySession;
use crate::http::error::Result;
use crate::http::extract::Segments;

/// A session of the signed-in user.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionBody {
    /// 16 hex digits.
    id: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The last request, to the minute.
    #[schema(value_type = String, format = DateTime)]
    last_seen_at: Timestamp,
    /// The address that it began from; null if it is older than the list.
    address: Option<String>,
    /// The client that it began with, likewise.
    user_agent: Option<String>,
    /// Whether it is the one that asks.
    current: bool,
}

impl From<SessionView> for SessionBody {
    fn from(view: SessionView) -> Self {
        Self {
            id: view.id,
            created_at: view.created_at,
            last_seen_at: view.last_seen_at,
            address: view.address,
            user_agent: view.user_agent,
            current: view.is_current,
        }
    }
}

/// Your sessions, the latest in use first; at most 100.
#[utoipa::path(get, path = "/api/v1/session/all", tag = "Session",
    responses((status = 200, body = Vec<SessionBody>)))]
pub async fn list(
    State(app): State<App>,
    BySession(by): BySession,
) -> Result<Json<Vec<SessionBody>>> {
    let sessions = app.gateway.own_sessions(&by.token, &by.member).await?;
    Ok(Json(sessions.into_iter().map(Into::into).collect()))
}

/// End one of your sessions.
#[utoipa::path(delete, path = "/api/v1/session/all/{id}", tag = "Session",
    params(("id" = String, Path)), responses((status = 204)))]
pub async fn revoke(
    State(app): State<App>,
    BySession(by): BySession,
    path: Segments,
) -> Result<StatusCode> {
    app.gateway.revoke_session(&by.member, path.text("id")?).await?;
    Ok(StatusCode::NO_CONTENT)
}
