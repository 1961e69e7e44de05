//! Backtests of draft settings: asked for, and looked up.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use domain::ids::{JobId, StepId};
use domain::job::{JobState, Progress};
use domain::money::Usd;
use domain::time::Timestamp;
use gateway::{
    BacktestJob, BacktestReport, BacktestRequest, ByCause, Costs, Limit, ModelCosts, RefusalCounts,
    Refused, StepCounts, TierMove, Window,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByMember;
use crate::http::body::read_json;
use crate::http::error::Result;
use crate::http::extract::Segments;

/// The most bytes of a request: enough for the largest settings.
const LARGEST: usize = 1 << 20;

/// Draft settings, and the window of recorded requests to judge by them.
#[derive(Deserialize, ToSchema)]
pub struct BacktestBody {
    /// Merged over the project's settings as a change of them would be. Two things only a draft has:
    /// `prices`, by model identifier, and `limits.hourly_limit`, the cap of every key.
    #[schema(value_type = Object)]
    settings: Map<String, Value>,
    /// ISO 8601: the begin of the window.
    from: String,
    /// ISO 8601: the end of the window, at most 31 days later; now by default.
    #[serde(default)]
    to: Option<String>,
}

/// A backtest. Fields that do not apply yet are left out.
#[derive(Debug, Serialize, ToSchema)]
pub struct BacktestJobBody {
    #[schema(value_type = String)]
    job_id: JobId,
    /// `queued`, `running`, `completed` or `failed`.
    status: &'static str,
    window: WindowBody,
    /// While it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    progress: Option<StepProgress>,
    /// Once it is completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    report: Option<BacktestReportBody>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
}

/// A stretch of time: steps that ended in it.
#[derive(Debug, Serialize, ToSchema)]
pub struct WindowBody {
    #[schema(value_type = String, format = DateTime)]
    from: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    to: Timestamp,
}

/// How far a backtest is, in steps of the window of any kind.
#[derive(Debug, Serialize, ToSchema)]
pub struct StepProgress {
    done: u64,
    total: u64,
}

/// The differences that a draft would have made. Shares are of the judged requests.
#[derive(Debug, Serialize, ToSchema)]
pub struct BacktestReportBody {
    steps: StepCountsBody,
    blocked: BlockedBody,
    /// Requests that were answered and would be blocked, by the finding that is the cause; most first.
    newly_blocked: Vec<ByCauseBody>,
    /// Requests that were blocked and would pass, by the finding that was the cause; most first.
    newly_passed: Vec<ByCauseBody>,
    tiers: TiersBody,
    /// Answers by model, the dearest of the draft first.
    models: Vec<ModelCostsBody>,
    refused: RefusedBody,
    cost: CostsBody,
    /// The money that the draft would have saved on requests that are answered with and without it, USD;
    /// negative if they would have cost more.
    estimated_savings_usd: f64,
    /// The settings of the draft that have no effect on a backtest: `auto_trace`, `safety.output`.
    ignored_settings: Vec<String>,
}

/// The steps of the window.
#[derive(Debug, Serialize, ToSchema)]
pub struct StepCountsBody {
    /// All steps, of any kind.
    read: u64,
    /// Completed and blocked requests that were judged.
    judged: u64,
    /// Completed and blocked requests whose content is not stored.
    without_content: u64,
    /// Requests that could not be judged: their content is damaged, there was no memory for it, or the part for
    /// which they were blocked is not stored.
    unreadable: u64,
    /// Whether the window has more than 1,000,000 steps: the earliest were read.
    truncated: bool,
}

/// Blocked requests.
#[derive(Debug, Serialize, ToSchema)]
pub struct BlockedBody {
    /// By their record.
    recorded: u64,
    /// By the draft.
    draft: u64,
    newly_blocked: u64,
    newly_blocked_share: f64,
    newly_passed: u64,
    newly_passed_share: f64,
}

/// Requests with one cause.
#[derive(Debug, Serialize, ToSchema)]
pub struct ByCauseBody {
    /// `pii`, `injection`, `secret`, `policy`; `routing` for a request without a model.
    category: String,
    /// The type of the finding. Of `routing` the tier that has no model, or `region` if the model that the
    /// request names is in no allowed one; `secure` also if only a private model may be called and that model
    /// is public.
    r#type: String,
    steps: u64,
    share: f64,
    /// The first 100.
    #[schema(value_type = Vec<i64>)]
    step_ids: Vec<StepId>,
}

/// Routed requests that are answered with and without the draft, by tier; refused ones are left out.
#[derive(Debug, Serialize, ToSchema)]
pub struct TiersBody {
    /// Requests that would be sent to another tier.
    moved: u64,
    moved_share: f64,
    /// A cell for each pair of tiers that occurs.
    matrix: Vec<TierMoveBody>,
}

/// Routed requests of one tier that would be sent to one tier.
#[derive(Debug, Serialize, ToSchema)]
pub struct TierMoveBody {
    from: &'static str,
    to: &'static str,
    steps: u64,
    /// USD.
    recorded_cost: f64,
    /// USD.
    draft_cost: f64,
}

/// The answers of a model.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelCostsBody {
    model: String,
    recorded_steps: u64,
    /// USD.
    recorded_cost: f64,
    /// Without refused requests.
    draft_steps: u64,
    /// USD.
    draft_cost: f64,
}

/// Requests that a limit of the draft would have refused and none of now. The limits of now are replayed in the
/// same way over what was recorded.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefusedBody {
    steps: u64,
    share: f64,
    by_limit: Vec<RefusedByBody>,
    /// Requests that the limits of now would have refused as well: no difference that the draft makes.
    already: u64,
    /// Requests that only the limits of now would have refused.
    no_longer: u64,
}

/// Requests that one limit would have refused.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefusedByBody {
    /// `loop_requests`, `requests_per_hour`, `monthly_budget`, `hourly_limit`, or `no_price`: under a cap or a
    /// budget no model without a price is called, and none that would run a vendor's tool without a price or a
    /// bound.
    limit: &'static str,
    steps: u64,
    /// USD that would not have been spent.
    cost: f64,
    /// The first 100.
    #[schema(value_type = Vec<i64>)]
    step_ids: Vec<StepId>,
}

/// Money, in USD: `draft` is `recorded` - `newly_blocked` + `newly_passed` - `refused` - the savings.
#[derive(Debug, Serialize, ToSchema)]
pub struct CostsBody {
    recorded: f64,
    draft: f64,
    /// The change from `recorded` to `draft` in percent; null if nothing was spent.
    change_pct: Option<f64>,
    /// The recorded cost of newly blocked requests.
    newly_blocked: f64,
    /// The estimated cost of newly passed requests.
    newly_passed: f64,
    /// The cost of refused requests.
    refused: f64,
    /// Requests that would be answered by a model without a price, or by one that is not known, whether or not
    /// they stay with it. Answered ones count with their recorded cost, newly passed ones with none.
    unpriced_steps: u64,
}

impl From<BacktestBody> for BacktestRequest {
    fn from(BacktestBody { settings, from, to }: BacktestBody) -> Self {
        Self { settings, from, to }
    }
}

impl From<BacktestJob> for BacktestJobBody {
    fn from(job: BacktestJob) -> Self {
        let Progress { done, total } = job.progress;
        let Window { from, to } = job.window;
        Self {
            job_id: job.id,
            status: job.state.as_str(),
            window: WindowBody { from, to },
            progress: (job.state == JobState::Running).then_some(StepProgress { done, total }),
            report: job.report.map(Into::into),
            error: job.error,
        }
    }
}

/// A part of the judged requests, 0 to 1.
fn share(part: u64, judged: u64) -> f64 {
    if judged == 0 { 0.0 } else { part as f64 / judged as f64 }
}

impl From<BacktestReport> for BacktestReportBody {
    fn from(report: BacktestReport) -> Self {
        let judged = report.steps.judged;
        let sum = |causes: &[ByCause]| causes.iter().map(|cause| cause.steps).sum::<u64>();
        let (blocked, passed) = (sum(&report.newly_blocked), sum(&report.newly_passed));
        let causes = |causes: Vec<ByCause>| -> Vec<ByCauseBody> {
            causes.into_iter().map(|cause| by_cause(cause, judged)).collect()
        };
        let moves = report.tiers.iter().filter(|cell| cell.from != cell.to);
        let moved = moves.map(|cell| cell.steps).sum();
        let refused = report.refused.values().map(|refused| refused.steps).sum();
        let RefusalCounts { already, no_longer } = report.refusal_counts;
        let mut models: Vec<(String, ModelCosts)> = report.models.into_iter().collect();
        models.sort_by_key(|(_, costs)| std::cmp::Reverse(costs.draft_cost));
        Self {
            steps: report.steps.into(),
            blocked: BlockedBody {
                recorded: report.recorded_blocked,
                draft: report.draft_blocked,
                newly_blocked: blocked,
                newly_blocked_share: share(blocked, judged),
                newly_passed: passed,
                newly_passed_share: share(passed, judged),
            },
            newly_blocked: causes(report.newly_blocked),
            newly_passed: causes(report.newly_passed),
            tiers: TiersBody {
                moved,
                moved_share: share(moved, judged),
                matrix: report.tiers.into_iter().map(Into::into).collect(),
            },
            models: models.into_iter().map(Into::into).collect(),
            refused: RefusedBody {
                steps: refused,
                share: share(refused, judged),
                by_limit: report.refused.into_iter().map(Into::into).collect(),
                already,
                no_longer,
            },
            cost: (&report.costs).into(),
            estimated_savings_usd: report.costs.savings.dollars(),
            ignored_settings: report.ignored_settings,
        }
    }
}

impl From<StepCounts> for StepCountsBody {
    fn from(steps: StepCounts) -> Self {
        let StepCounts { read, judged, without_content, unreadable, truncated } = steps;
        Self { read, judged, without_content, unreadable, truncated }
    }
}

fn by_cause(cause: ByCause, judged: u64) -> ByCauseBody {
    ByCauseBody {
        category: cause.category,
        r#type: cause.kind,
        steps: cause.steps,
        share: share(cause.steps, judged),
        step_ids: cause.step_ids,
    }
}

impl From<TierMove> for TierMoveBody {
    fn from(cell: TierMove) -> Self {
        Self {
            from: cell.from.as_str(),
            to: cell.to.as_str(),
            steps: cell.steps,
            recorded_cost: cell.recorded_cost.dollars(),
            draft_cost: cell.draft_cost.dollars(),
        }
    }
}

impl From<(String, ModelCosts)> for ModelCostsBody {
    fn from((model, costs): (String, ModelCosts)) -> Self {
        Self {
            model,
            recorded_steps: costs.recorded_steps,
            recorded_cost: costs.recorded_cost.dollars(),
            draft_steps: costs.draft_steps,
            draft_cost: costs.draft_cost.dollars(),
        }
    }
}

impl From<(Limit, Refused)> for RefusedByBody {
    fn from((limit, refused): (Limit, Refused)) -> Self {
        let Refused { steps, cost, step_ids } = refused;
        Self { limit: limit.as_str(), steps, cost: cost.dollars(), step_ids }
    }
}

impl From<&Costs> for CostsBody {
    fn from(costs: &Costs) -> Self {
        // Whole nano-dollars, for a change that is exactly a limit not to cross it.
        let change = || (costs.draft - costs.recorded).0 as f64 * 100.0 / costs.recorded.0 as f64;
        Self {
            recorded: costs.recorded.dollars(),
            draft: costs.draft.dollars(),
            change_pct: (costs.recorded != Usd::ZERO).then(change),
            newly_blocked: costs.newly_blocked.dollars(),
            newly_passed: costs.newly_passed.dollars(),
            refused: costs.refused.dollars(),
            unpriced_steps: costs.unpriced_steps,
        }
    }
}

/// Judge the recorded requests of a window by draft settings (admin or owner). Nothing is called or spent.
#[utoipa::path(post, path = "/api/v1/projects/{project_id}/backtests", tag = "Backtests",
    request_body = BacktestBody, params(("project_id" = i64, Path)),
    responses((status = 202, description = "A job that makes the backtest", body = BacktestJobBody)))]
pub async fn create(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
    request: Request,
) -> Result<(StatusCode, Json<BacktestJobBody>)> {
    let project = path.project("project_id")?;
    let asked: BacktestBody = read_json(request, &app, LARGEST).await?;
    let job = app.gateway.backtest(&member, project, asked.into()).await?;
    Ok((StatusCode::ACCEPTED, Json(job.into())))
}

/// A backtest of a project, for an hour after its end.
#[utoipa::path(get, path = "/api/v1/projects/{project_id}/backtests/{job_id}", tag = "Backtests",
    params(("project_id" = i64, Path), ("job_id" = String, Path)),
    responses((status = 200, body = BacktestJobBody)))]
pub async fn show(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<Json<BacktestJobBody>> {
    let (project, id) = (path.project("project_id")?, path.text("job_id")?);
    Ok(Json(app.gateway.backtest_job(&member, project, id).await?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_more_is_ten_percent() {
        for dollars in 1..200 {
            let (recorded, draft) = (Usd(dollars * 1_000_000_000), Usd(dollars * 1_100_000_000));
            let body = CostsBody::from(&Costs { recorded, draft, ..Costs::default() });
            assert_eq!(body.change_pct, Some(10.0), "{dollars}");
        }
        assert_eq!(CostsBody::from(&Costs::default()).change_pct, None);
    }
}
