//! Insights.

use axum::Json;
use axum::extract::State;
use domain::ids::InsightId;
use domain::insight::Insight;
use domain::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByMember;
use crate::http::error::Result;
use crate::http::extract::Segments;

/// What the records of a project suggest.
#[derive(Debug, Serialize, ToSchema)]
pub struct InsightBody {
    #[schema(value_type = i64)]
    id: InsightId,
    /// `migration_alert`, `latency_alert` or `intent_pattern`.
    insight_type: &'static str,
    /// `active` in lists; `dismissed` once it is dismissed.
    status: &'static str,
    /// Every figure that it was computed from.
    #[schema(value_type = Object)]
    data: Map<String, Value>,
    /// Savings in 30 days, USD; 0 if the calls are of less than a day, or nothing would be saved.
    estimated_savings_usd: f64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<Insight> for InsightBody {
    fn from(insight: Insight) -> Self {
        Self {
            id: insight.id,
            insight_type: insight.facts.kind.as_str(),
            status: insight.status.as_str(),
            data: insight.facts.data,
            estimated_savings_usd: insight.facts.estimated_savings.dollars(),
            created_at: insight.created_at,
        }
    }
}

fn bodies(insights: Vec<Insight>) -> Json<Vec<InsightBody>> {
    Json(insights.into_iter().map(Into::into).collect())
}

/// The active insights of a project, oldest first.
#[utoipa::path(get, path = "/api/v1/projects/{project_id}/insights", tag = "Insights",
    params(("project_id" = i64, Path)), responses((status = 200, body = Vec<InsightBody>)))]
pub async fn list(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<Json<Vec<InsightBody>>> {
    Ok(bodies(app.gateway.list_insights(&member, path.project("project_id")?).await?))
}

/// Compute insights now, and list those that are active (not viewers).
#[utoipa::path(post, path = "/api/v1/projects/{project_id}/insights/refresh", tag = "Insights",
    params(("project_id" = i64, Path)), responses((status = 200, body = Vec<InsightBody>)))]
pub async fn refresh(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<Json<Vec<InsightBody>>> {
    Ok(bodies(app.gateway.refresh_insights(&member, path.project("project_id")?).await?))
}

/// Take an insight off the list until its facts have changed by a quarter (not viewers).
#[utoipa::path(patch, path = "/api/v1/projects/{project_id}/insights/{insight_id}/dismiss",
    tag = "Insights", params(("project_id" = i64, Path), ("insight_id" = i64, Path)),
    responses((status = 200, body = InsightBody)))]
pub async fn dismiss(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<Json<InsightBody>> {
    let (project, insight) = (path.project("project_id")?, path.insight()?);
    Ok(Json(app.gateway.dismiss_insight(&member, project, insight).await?.into()))
}
