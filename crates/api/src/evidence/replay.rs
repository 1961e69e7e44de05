//! Replays of traces: asked for, and looked up.

use std::fmt;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::grade::{Grade, Grades};
use domain::ids::{JobId, StepId, TraceId};
use domain::job::{JobState, Progress};
use domain::money::Usd;
use gateway::{
    Overrides, ReplayJob, ReplayResult, Replayed, ReplayedStep, Skip, TotalChanges, TraceSummary,
};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::FlatBody;
use crate::http::error::Result;
use crate::http::extract::Segments;

/// A trace to replay, and what to do otherwise. Without overrides each call keeps its model.
#[derive(Deserialize, ToSchema)]
pub struct ReplayRequest {
    /// A trace of this key's project.
    trace_id: String,
    /// The model of every call. Not with `compare_models`.
    #[serde(default)]
    force_model: Option<String>,
    /// At most 20 models, each of which makes every call, in a trace of its own.
    #[serde(default)]
    #[schema(min_items = 1, max_items = 20)]
    compare_models: Option<Vec<String>>,
    /// At most 20 models, assigned in turn to calls of the same parent that ran side by side.
    #[serde(default)]
    #[schema(min_items = 1, max_items = 20)]
    force_models: Option<Vec<String>>,
    /// USD: a call is skipped if its estimated cost is higher, or not known, since its model is public and has no price.
    #[serde(default, deserialize_with = "max_cost")]
    #[schema(minimum = 0)]
    max_cost: Option<f64>,
}

/// Reads `max_cost`. A value of another type is no number, and is refused with the others that are out of
/// bounds, by its name.
fn max_cost<'de, D: Deserializer<'de>>(value: D) -> std::result::Result<Option<f64>, D::Error> {
    value.deserialize_any(Amount)
}

/// A number, null, or NaN for anything else, of which nothing is kept.
struct Amount;

impl<'de> Visitor<'de> for Amount {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E>(self, number: f64) -> std::result::Result<Self::Value, E> {
        Ok(Some(number))
    }

    fn visit_u64<E>(self, number: u64) -> std::result::Result<Self::Value, E> {
        Ok(Some(number as f64))
    }

    fn visit_i64<E>(self, number: i64) -> std::result::Result<Self::Value, E> {
        Ok(Some(number as f64))
    }

    fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<Self::Value, E> {
        Ok(Some(f64::NAN))
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<Self::Value, E> {
        Ok(Some(f64::NAN))
    }

    fn visit_seq<A: SeqAccess<'de>>(
        self,
        mut list: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Some(f64::NAN))
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Some(f64::NAN))
    }
}

/// The overrides of a replay.
#[derive(Debug, Serialize, ToSchema)]
pub struct OverridesBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    force_model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    compare_models: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    force_models: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    max_cost: Option<f64>,
}

/// A replay that waits or runs.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReplayAccepted {
    #[schema(value_type = String)]
    job_id: JobId,
    /// `queued`, or `running` if the same was asked for before.
    status: &'static str,
}

/// A replay. Fields that do not apply yet are left out.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReplayBody {
    #[schema(value_type = String)]
    job_id: JobId,
    /// `queued`, `running`, `completed` or `failed`.
    status: &'static str,
    #[schema(value_type = String)]
    source_trace_id: TraceId,
    /// The trace of the replay; of several models, that of the first. Once it is completed or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    replay_trace_id: Option<TraceId>,
    overrides: OverridesBody,
    /// While it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    progress: Option<ProgressBody>,
    /// Once it is completed; of a failed one, what was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    comparison: Option<ComparisonBody>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
}

/// How far a job is: a replay in calls and copies for all models, an export in steps.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProgressBody {
    done: u64,
    total: u64,
}

impl From<Progress> for ProgressBody {
    fn from(Progress { done, total }: Progress) -> Self {
        Self { done, total }
    }
}

/// A trace beside its replays.
#[derive(Debug, Serialize, ToSchema)]
pub struct ComparisonBody {
    source: SummaryBody,
    /// With one model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    replay: Option<ReplayedBody>,
    /// With `compare_models`, in their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    replays: Option<Vec<ReplayedBody>>,
}

/// The figures of a trace that are compared.
#[derive(Debug, Serialize, ToSchema)]
pub struct SummaryBody {
    /// USD.
    total_cost: f64,
    /// `A` to `F`.
    #[schema(value_type = String)]
    optimization_grade: Grade,
    /// From the creation of the trace to the end of its last step.
    total_latency_ms: f64,
    models_used: Vec<String>,
    /// `overall`, `waste` and `latency`, each `A` to `F`.
    #[schema(value_type = Object)]
    grades: Grades,
}

/// A replay on one model.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReplayedBody {
    /// The model, with `compare_models`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    model: Option<String>,
    #[schema(value_type = String)]
    replay_trace_id: TraceId,
    #[serde(flatten)]
    summary: SummaryBody,
    /// The change in the cost of the calls that were answered again, in percent; null if none was, or if they
    /// had cost nothing.
    cost_change_pct: Option<f64>,
    /// The change in the time of these calls, likewise.
    latency_change_pct: Option<f64>,
    totals: TotalsBody,
    /// The completed calls of the source, in their order.
    steps: Vec<ReplayedStepBody>,
}

/// How the totals of a replay differ from those of its source. A call that was not repeated counts on one side
/// alone.
#[derive(Debug, Serialize, ToSchema)]
pub struct TotalsBody {
    /// The change of `total_cost` in percent; null if that of the source is 0.
    cost_change_pct: Option<f64>,
    /// The change of `total_latency_ms`, likewise.
    latency_change_pct: Option<f64>,
}

impl From<TotalChanges> for TotalsBody {
    fn from(TotalChanges { cost_pct, latency_pct }: TotalChanges) -> Self {
        Self { cost_change_pct: cost_pct, latency_change_pct: latency_pct }
    }
}

/// What became of a call of the source.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReplayedStepBody {
    source_step_id: i64,
    /// The step of the replay; null if there is none.
    #[schema(value_type = Option<i64>)]
    step_id: Option<StepId>,
    /// The model that was called, or would have been.
    model: String,
    /// USD; null if the call was not made.
    cost: Option<f64>,
    /// Null if the call was not made.
    latency_ms: Option<f64>,
    /// How alike the two answers are, 0 to 1; null if there are not two.
    similarity: Option<f64>,
    /// The parts of the request in the source that have no form but their vendor's, and that the repetition did
    /// without: the first 20, as `X-Sluice-Dropped-Params` names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    left_out: Vec<String>,
    /// Why the call was left out: `max_cost`, `secure` or `not_repeatable` (an embedding or an image); null if it was not.
    skipped: Option<&'static str>,
    /// Why safety refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    blocked: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
}

impl From<ReplayRequest> for (String, Overrides) {
    fn from(request: ReplayRequest) -> Self {
        let ReplayRequest { trace_id, force_model, compare_models, force_models, max_cost } =
            request;
        (trace_id, Overrides { force_model, compare_models, force_models, max_cost })
    }
}

impl From<Overrides> for OverridesBody {
    fn from(overrides: Overrides) -> Self {
        let Overrides { force_model, compare_models, force_models, max_cost } = overrides;
        Self { force_model, compare_models, force_models, max_cost }
    }
}

impl From<ReplayJob> for ReplayBody {
    fn from(job: ReplayJob) -> Self {
        let is_compared = job.overrides.compare_models.is_some();
        Self {
            job_id: job.id,
            status: job.state.as_str(),
            source_trace_id: job.source,
            replay_trace_id: job.traces.first().copied().filter(|_| job.result.is_some()),
            overrides: job.overrides.into(),
            progress: (job.state == JobState::Running).then(|| job.progress.into()),
            comparison: job.result.map(|result| comparison(result, is_compared)),
            error: job.error,
        }
    }
}

fn comparison(result: ReplayResult, is_compared: bool) -> ComparisonBody {
    let beside = |replayed| ReplayedBody::beside(&result.source, replayed);
    let mut replays: Vec<ReplayedBody> = result.replays.into_iter().map(beside).collect();
    let source = result.source.into();
    if is_compared {
        ComparisonBody { source, replay: None, replays: Some(replays) }
    } else {
        ComparisonBody { source, replay: replays.pop(), replays: None }
    }
}

impl From<TraceSummary> for SummaryBody {
    fn from(summary: TraceSummary) -> Self {
        Self {
            total_cost: summary.total_cost.dollars(),
            optimization_grade: summary.grades.overall,
            total_latency_ms: summary.total_latency_ms,
            models_used: summary.models_used,
            grades: summary.grades,
        }
    }
}

impl ReplayedBody {
    /// A replay beside its source.
    fn beside(source: &TraceSummary, replayed: Replayed) -> Self {
        let totals = source.changes_to(&replayed.summary).into();
        Self {
            model: replayed.model,
            replay_trace_id: replayed.trace,
            summary: replayed.summary.into(),
            cost_change_pct: replayed.cost_change_pct,
            latency_change_pct: replayed.latency_change_pct,
            totals,
            steps: replayed.steps.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<ReplayedStep> for ReplayedStepBody {
    fn from(step: ReplayedStep) -> Self {
        Self {
            source_step_id: step.source,
            step_id: step.step,
            model: step.model,
            cost: step.cost.map(Usd::dollars),
            latency_ms: step.latency_ms,
            similarity: step.similarity,
            left_out: step.left_out,
            skipped: step.skipped.map(Skip::as_str),
            blocked: step.blocked,
            error: step.error,
        }
    }
}

/// A replay that is over is its answer; any other is a job to come back for.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ReplayAnswer {
    /// It waits or runs.
    Accepted(ReplayAccepted),
    /// It is completed.
    Done(Box<ReplayBody>),
}

/// Replay a trace: its calls are made again, with other models or with the same, and compared.
///
/// The calls are paid for by this key, under its caps. The same request within an hour after the end of a
/// replay returns its result.
#[utoipa::path(post, path = "/api/v1/replay", tag = "Replay", request_body = ReplayRequest,
    responses(
        (status = 200, description = "The result of the same request", body = ReplayBody),
        (status = 202, description = "A job that makes the replay", body = ReplayAccepted)))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    FlatBody(request): FlatBody<ReplayRequest>,
) -> Result<(StatusCode, Json<ReplayAnswer>)> {
    let (trace_id, overrides) = request.into();
    let job = app.gateway.replay(&caller, &trace_id, overrides).await?;
    if job.state == JobState::Completed {
        return Ok((StatusCode::OK, Json(ReplayAnswer::Done(Box::new(job.into())))));
    }
    let accepted = ReplayAccepted { job_id: job.id, status: job.state.as_str() };
    Ok((StatusCode::ACCEPTED, Json(ReplayAnswer::Accepted(accepted))))
}

/// A replay of this key's project, for an hour after its end.
#[utoipa::path(get, path = "/api/v1/replay/{job_id}", tag = "Replay",
    params(("job_id" = String, Path)), responses((status = 200, body = ReplayBody)))]
pub async fn show(
    State(app): State<App>,
    ByKey(caller): ByKey,
    path: Segments,
) -> Result<Json<ReplayBody>> {
    Ok(Json(app.gateway.replay_job(&caller, path.text("job_id")?).await?.into()))
}
