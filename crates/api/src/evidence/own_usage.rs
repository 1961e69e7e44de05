//! The usage of one's own keys.

use axum::Json;
use axum::extract::State;
use domain::ids::ProjectId;
use gateway::Period;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::evidence::period::PeriodBody;
use crate::evidence::stats::project_of;
use crate::evidence::usage::GroupBody;
use crate::http::auth::BySession;
use crate::http::error::Result;
use crate::http::extract::Query;

/// The project and the period.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct OwnUsageQuery {
    /// One project; all that you see without it.
    #[param(value_type = Option<i64>)]
    project_id: Option<String>,
    /// Rolling hours, 24 without any. Not together with dates.
    #[param(value_type = Option<i64>, minimum = 1)]
    window: Option<String>,
    /// An ISO date, inclusive.
    #[param(format = Date)]
    start_date: Option<String>,
    /// An ISO date, inclusive.
    #[param(format = Date)]
    end_date: Option<String>,
}

/// The usage of one's own keys.
#[derive(Debug, Serialize, ToSchema)]
pub struct OwnUsageBody {
    period: PeriodBody,
    /// The cost of all of them, USD.
    cost: f64,
    /// The keys that were used, by project; the dearest of each first.
    keys: Vec<OwnKeyBody>,
    /// Whether some were left out: your latest 10,000 keys are read, in up to 100 projects. `project_id` asks for
    /// the keys of one.
    partial: bool,
}

/// A key of one's own.
#[derive(Debug, Serialize, ToSchema)]
pub struct OwnKeyBody {
    #[schema(value_type = i64)]
    project_id: ProjectId,
    #[serde(flatten)]
    usage: GroupBody,
}

/// The usage of the keys that you have made, also of those that are revoked.
#[utoipa::path(get, path = "/api/v1/usage/own", tag = "Statistics", params(OwnUsageQuery),
    responses((status = 200, body = OwnUsageBody)))]
pub async fn show(
    State(app): State<App>,
    BySession(by): BySession,
    Query(query): Query<OwnUsageQuery>,
) -> Result<Json<OwnUsageBody>> {
    let project = project_of(query.project_id.as_deref())?;
    let period = Period::read(
        query.window.as_deref(),
        query.start_date.as_deref(),
        query.end_date.as_deref(),
        app.gateway.now(),
    )?;
    let usage = app.gateway.own_usage(&by.member, period, project).await?;
    let cost = usage.cost().dollars();
    let keys = usage.keys.into_iter();
    let keys =
        keys.map(|(project_id, group)| OwnKeyBody { project_id, usage: group.into() }).collect();
    let partial = usage.is_partial;
    Ok(Json(OwnUsageBody { period: usage.period.into(), cost, keys, partial }))
}
