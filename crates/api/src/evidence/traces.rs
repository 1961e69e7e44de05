//! Traces: opened, listed, shown, completed.

use axum::Json;
use axum::extract::State;
use axum::http::header::LINK;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use domain::grade::{Assessment, Grade, Grades};
use domain::ids::TraceId;
use domain::money::Usd;
use domain::time::Timestamp;
use domain::trace::Trace;
use gateway::Order;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::app::App;
use crate::evidence::trace_detail::{self, DetailBody};
use crate::evidence::trace_query::{ListParams, ListQuery};
use crate::http::auth::ByKey;
use crate::http::body::FlatBodyIfAny;
use crate::http::error::Result;
use crate::http::extract::Segments;
use crate::http::json_text::JsonText;
use crate::http::trace_metadata::metadata;

/// A trace that is to be opened.
#[derive(Default, Deserialize, ToSchema)]
pub struct NewTraceRequest {
    /// An object of the caller's own; `{"sensitivity": "secure"}` keeps the trace on private models.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<JsonText>,
    /// The revenue of the work, USD; enables the margin.
    #[serde(default)]
    #[schema(minimum = 0)]
    revenue: Option<f64>,
}

/// A trace without its steps.
#[derive(Debug, Serialize, ToSchema)]
pub struct TraceBody {
    #[schema(value_type = String)]
    id: TraceId,
    /// `pending`, `completed`, `replay` or `failed`.
    status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// USD.
    revenue: Option<f64>,
    /// `A` to `F`, once completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    optimization_grade: Option<Grade>,
    /// `overall`, `waste` and `latency`, each `A` to `F`, once completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    grades: Option<Grades>,
    /// USD, once completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    total_cost: Option<f64>,
    /// Once completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = CostSummary, required = false)]
    summary: Option<CostSummary>,
}

/// The cost and revenue of a trace, USD.
#[derive(Debug, Serialize, ToSchema)]
pub struct CostSummary {
    total_cost: f64,
    revenue: Option<f64>,
    gross_margin: Option<f64>,
    /// Model identifier to cost.
    #[schema(value_type = Object)]
    by_model: Map<String, Value>,
    /// Infrastructure label to cost.
    #[schema(value_type = Object)]
    by_infrastructure: Map<String, Value>,
}

impl From<Trace> for TraceBody {
    fn from(trace: Trace) -> Self {
        let (revenue, assessment) = (trace.revenue, trace.assessment.as_ref());
        Self {
            id: trace.id,
            status: trace.status.as_str(),
            created_at: trace.created_at,
            revenue: revenue.map(Usd::dollars),
            optimization_grade: assessment.map(|assessment| assessment.grades.overall),
            grades: assessment.map(|assessment| assessment.grades),
            total_cost: assessment.map(|assessment| assessment.total_cost.dollars()),
            summary: assessment.map(|assessment| summary(assessment, revenue)),
            metadata: trace.metadata,
        }
    }
}

fn summary(assessment: &Assessment, revenue: Option<Usd>) -> CostSummary {
    let costs = |sums: &[(String, Usd)]| {
        sums.iter().map(|(name, cost)| (name.clone(), json!(cost))).collect()
    };
    CostSummary {
        total_cost: assessment.total_cost.dollars(),
        revenue: revenue.map(Usd::dollars),
        gross_margin: revenue.map(|revenue| (revenue - assessment.total_cost).dollars()),
        by_model: costs(&assessment.by_model),
        by_infrastructure: costs(&assessment.by_infrastructure),
    }
}

/// Open a trace.
#[utoipa::path(post, path = "/api/v1/traces", tag = "Traces", request_body = NewTraceRequest,
    responses((status = 201, body = TraceBody)))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    FlatBodyIfAny(request): FlatBodyIfAny<NewTraceRequest>,
) -> Result<(StatusCode, Json<TraceBody>)> {
    let trace =
        app.gateway.open_trace(&caller, metadata(request.metadata)?, request.revenue).await?;
    Ok((StatusCode::CREATED, Json(trace.into())))
}

/// Traces of this key's project that fit all filters. Headers give the page and, up to 10,000, the total.
/// The texts of prompts and answers cannot be searched for: contents are sealed.
#[utoipa::path(get, path = "/api/v1/traces", tag = "Traces", params(ListParams),
    responses((status = 200, body = Vec<TraceBody>)))]
pub async fn list(
    State(app): State<App>,
    ByKey(caller): ByKey,
    query: ListQuery,
) -> Result<(HeaderMap, Json<Vec<TraceBody>>)> {
    let ListQuery { asked, number, rest } = query;
    let per_page = asked.limit;
    let found = app.gateway.list_traces(&caller, &asked).await?;
    let full = found.traces.len() as i64 == per_page;
    // RFC 8288.
    let link = |from: String, rel: &str| {
        format!("</api/v1/traces?{from}&per_page={per_page}{rest}>; rel=\"{rel}\"")
    };
    let beyond = match asked.order {
        Order::Newest => "before",
        Order::Oldest => "after",
    };
    let links = match (asked.beyond, found.traces.last()) {
        (None, _) => page_links(number, per_page, found.total, full)
            .map(|(page, rel)| link(format!("page={page}"), rel))
            .collect(),
        // It pages from trace to trace, and not by number.
        (Some(_), Some(last)) if full => vec![link(format!("{beyond}={}", last.id), "next")],
        (Some(_), _) => Vec::new(),
    };
    let headers = page_headers(number, per_page, found.total, &links);
    Ok((headers, Json(found.traces.into_iter().map(Into::into).collect())))
}

/// The pages that a page links to, with the relation of each.
fn page_links(
    page: i64,
    per_page: i64,
    total: Option<i64>,
    full: bool,
) -> impl Iterator<Item = (i64, &'static str)> {
    let more = total.map_or(full, |total| page.saturating_mul(per_page) < total);
    let last = total.map(|total| ((total + per_page - 1) / per_page).max(1));
    [
        Some((1, "first")),
        (page > 1).then_some((page - 1, "prev")),
        more.then_some((page + 1, "next")),
        last.map(|last| (last, "last")),
    ]
    .into_iter()
    .flatten()
}

fn page_headers(page: i64, per_page: i64, total: Option<i64>, links: &[String]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_static("x-page"), page.into());
    headers.insert(HeaderName::from_static("x-per-page"), per_page.into());
    if let Some(total) = total {
        headers.insert(HeaderName::from_static("x-total-count"), total.into());
    }
    if !links.is_empty()
        && let Ok(value) = HeaderValue::from_str(&links.join(", "))
    {
        headers.insert(LINK, value);
    }
    headers
}

/// One trace of this key's project, with its steps.
#[utoipa::path(get, path = "/api/v1/traces/{id}", tag = "Traces", params(("id" = String, Path)),
    responses((status = 200, body = DetailBody)))]
pub async fn show(
    State(app): State<App>,
    ByKey(caller): ByKey,
    path: Segments,
) -> Result<Response> {
    let detail = app.gateway.trace(&caller, path.text("id")?).await?;
    Ok(trace_detail::response(&app.gateway, detail)?)
}

/// Complete and grade a trace. Doing it again returns the same result.
#[utoipa::path(patch, path = "/api/v1/traces/{id}/complete", tag = "Traces",
    params(("id" = String, Path)), responses((status = 200, body = TraceBody)))]
pub async fn complete(
    State(app): State<App>,
    ByKey(caller): ByKey,
    path: Segments,
) -> Result<Json<TraceBody>> {
    Ok(Json(app.gateway.complete_trace(&caller, path.text("id")?).await?.into()))
}
