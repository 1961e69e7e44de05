//! Audit events.

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, LINK};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use domain::time::Timestamp;
use gateway::Audit;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::app::App;
use crate::control::audit_query::{self, FilterParams, PageParams};
use crate::http::auth::ByMember;
use crate::http::error::Result;

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

/// A page of the organization's events, newest first: the last 50, unless the query has another `limit` (admin
/// or owner). `Link` leads to the next page, if there is one.
#[utoipa::path(get, path = "/api/v1/audit-events", tag = "Audit events", params(FilterParams, PageParams),
    responses((status = 200, body = Vec<AuditBody>)))]
pub async fn list(
    State(app): State<App>,
    ByMember(member): ByMember,
    RawQuery(query): RawQuery,
) -> Result<(HeaderMap, Json<Vec<AuditBody>>)> {
    let asked = audit_query::read(query.as_deref().unwrap_or_default())?;
    let page = app.gateway.audit_page(&member, &asked.query).await?;
    let mut headers = HeaderMap::new();
    if let Some(next) = page.next {
        let link = format!("</api/v1/audit-events?{}>; rel=\"next\"", asked.page_before(next));
        // Every byte of a query that is not plain is escaped.
        headers.extend(HeaderValue::from_str(&link).ok().map(|link| (LINK, link)));
    }
    Ok((headers, Json(page.events.into_iter().map(Into::into).collect())))
}

/// The organization's events as JSON Lines, oldest first, each with its place in the chain of its node (admin
/// or owner). An event of its own, `audit_exported`, comes first; without filters it is the last line.
#[utoipa::path(get, path = "/api/v1/audit-events/export", tag = "Audit events", params(FilterParams),
    responses((status = 200, description = "A line for each event",
        content((String = "application/x-ndjson")))))]
pub async fn export(
    State(app): State<App>,
    ByMember(member): ByMember,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let filter = audit_query::read_filter(query.as_deref().unwrap_or_default())?;
    let lines = app.gateway.export_audit(&member, filter).await?;
    let headers = [
        (CONTENT_TYPE, "application/x-ndjson"),
        (CONTENT_DISPOSITION, "attachment; filename=\"sluice-audit.jsonl\""),
    ];
    Ok((headers, Body::from_stream(lines.into_stream())).into_response())
}
