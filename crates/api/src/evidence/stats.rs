//! Statistics.

use axum::Json;
use axum::extract::State;
use domain::ids::ProjectId;
use gateway::{DriftReport, Error, Period, Stats};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::evidence::period::PeriodBody;
use crate::evidence::usage::{self, UsageBody};
use crate::http::auth::{ByEither, Either};
use crate::http::error::Result;
use crate::http::extract::Query;

/// The project and the period.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StatsQuery {
    /// Without one: the key's project, or the first that you may see.
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
    /// `user`, `session`, `tag:NAME`, `model`, `key`, `tier` or `endpoint`: usage by that, and nothing else.
    group_by: Option<String>,
}

/// Statistics, or usage by groups.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum StatsAnswer {
    /// The activity of the project.
    Stats(Box<StatsBody>),
    /// With `group_by`.
    Usage(UsageBody),
}

/// The activity of a project over a period. Money is USD, times are milliseconds.
#[derive(Debug, Serialize, ToSchema)]
pub struct StatsBody {
    period: PeriodBody,
    latency: LatencyBody,
    cost: CostBody,
    revenue: f64,
    gross_margin: f64,
    /// 0 without revenue.
    gross_margin_pct: f64,
    security: SecurityBody,
    agent: AgentBody,
}

/// Latencies of model calls; 0 without any.
#[derive(Debug, Serialize, ToSchema)]
pub struct LatencyBody {
    p50: f64,
    p95: f64,
    p99: f64,
    avg_ms: f64,
}

/// Costs.
#[derive(Debug, Serialize, ToSchema)]
pub struct CostBody {
    total: f64,
    by_model: Vec<ModelCost>,
    by_infrastructure: Vec<InfrastructureCost>,
}

/// The cost of a model.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelCost {
    model: String,
    cost: f64,
}

/// The cost of an infrastructure.
#[derive(Debug, Serialize, ToSchema)]
pub struct InfrastructureCost {
    infrastructure: String,
    cost: f64,
}

/// The safety findings, by trace.
#[derive(Debug, Serialize, ToSchema)]
pub struct SecurityBody {
    /// Executed requests, blocked ones included.
    total_requests: i64,
    /// Percent of traces.
    pii_block_rate: f64,
    /// Percent of traces.
    injection_shadow_rate: f64,
    /// The mean similarity of the answers of shadow calls to those beside them, 0 to 1; null without any.
    shadow_score: Option<f64>,
    /// 0 to 1.
    tool_fidelity_score: f64,
    loop_interventions: i64,
    /// Percent of traces.
    secret_leakage_rate: f64,
}

/// Agent figures.
#[derive(Debug, Serialize, ToSchema)]
pub struct AgentBody {
    mcp_latency: McpLatency,
    chain_depth: ChainDepth,
    /// By model, compared with the period of the same length before. A model with fewer than 50 answers
    /// in either is left out.
    bias_drift: Vec<DriftBody>,
    stall: Stall,
}

/// The change in a model's answers since the period before.
#[derive(Debug, Serialize, ToSchema)]
pub struct DriftBody {
    model: String,
    /// Answers in the period.
    samples: u64,
    /// Answers in the period before.
    baseline_samples: u64,
    psi: DriftPsi,
    /// Whether one of the indices is above 0.2.
    flagged: bool,
}

/// Population stability indices: 0 if nothing has changed.
#[derive(Debug, Serialize, ToSchema)]
pub struct DriftPsi {
    output_length: f64,
    refusal_rate: f64,
    latency: f64,
    language: f64,
}

impl From<DriftReport> for DriftBody {
    fn from(report: DriftReport) -> Self {
        Self {
            model: report.model,
            samples: report.samples,
            baseline_samples: report.baseline_samples,
            psi: DriftPsi {
                output_length: report.output_length,
                refusal_rate: report.refusal_rate,
                latency: report.latency,
                language: report.language,
            },
            flagged: report.flagged,
        }
    }
}

/// Thinking against waiting for tools.
#[derive(Debug, Serialize, ToSchema)]
pub struct McpLatency {
    avg_model_think_ms: f64,
    p95_model_think_ms: f64,
    avg_tool_exec_ms: f64,
    p95_tool_exec_ms: f64,
    tool_call_count: i64,
    overhead_ratio: f64,
}

/// Chains of tool calls.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChainDepth {
    avg_tool_cycles: f64,
    max_tool_cycles: i64,
    deep_loop_count: i64,
}

/// Traces that may be stuck.
#[derive(Debug, Serialize, ToSchema)]
pub struct Stall {
    avg_probability: f64,
    alert_count: i64,
    monitor_count: i64,
    /// Alerts in percent of all requests.
    alert_rate_pct: f64,
}

/// Statistics of a project, for a key or a signed-in user.
#[utoipa::path(get, path = "/api/v1/stats", tag = "Statistics", params(StatsQuery),
    responses((status = 200, body = StatsAnswer)))]
pub async fn show(
    State(app): State<App>,
    ByEither(by): ByEither,
    Query(query): Query<StatsQuery>,
) -> Result<Json<StatsAnswer>> {
    let now = app.gateway.now();
    let period = Period::read(
        query.window.as_deref(),
        query.start_date.as_deref(),
        query.end_date.as_deref(),
        now,
    )?;
    let project = project_of(query.project_id.as_deref())?;
    if let Some(name) = &query.group_by {
        let dimension = usage::dimension(name)?;
        let (gateway, period) = (&app.gateway, period);
        let usage = match by {
            Either::Key(caller) => {
                gateway.usage_for_key(&caller, project, period, &dimension).await?
            }
            Either::Member(member) => {
                gateway.usage_for_member(&member, project, period, &dimension).await?
            }
        };
        return Ok(Json(StatsAnswer::Usage(UsageBody::of(name, usage))));
    }
    let stats = match by {
        Either::Key(caller) => app.gateway.stats_for_key(&caller, project, period).await?,
        Either::Member(member) => app.gateway.stats_for_member(&member, project, period).await?,
    };
    Ok(Json(StatsAnswer::Stats(Box::new(stats.into()))))
}

/// The project that a query names.
pub(super) fn project_of(id: Option<&str>) -> Result<Option<ProjectId>> {
    let malformed = |_| Error::Malformed("project_id must be a whole number".to_owned());
    Ok(id.map(|id| id.parse().map_err(malformed)).transpose()?)
}

impl From<Stats> for StatsBody {
    fn from(stats: Stats) -> Self {
        let margin = stats.revenue - stats.cost;
        let [p50, p95, p99, mean] = stats.latency.map(Option::unwrap_or_default);
        let (found, agent, tools) = (stats.security, stats.agent, stats.tools);
        Self {
            period: stats.period.into(),
            latency: LatencyBody { p50, p95, p99, avg_ms: mean },
            cost: CostBody {
                total: stats.cost.dollars(),
                by_model: stats
                    .by_model
                    .into_iter()
                    .map(|(model, cost)| ModelCost { model, cost: cost.dollars() })
                    .collect(),
                by_infrastructure: stats
                    .by_infrastructure
                    .into_iter()
                    .map(|(infrastructure, cost)| InfrastructureCost {
                        infrastructure,
                        cost: cost.dollars(),
                    })
                    .collect(),
            },
            revenue: stats.revenue.dollars(),
            gross_margin: margin.dollars(),
            gross_margin_pct: percent(margin.0, stats.revenue.0),
            security: SecurityBody {
                total_requests: stats.total_requests,
                pii_block_rate: percent(found.pii, found.traces),
                injection_shadow_rate: percent(found.injection, found.traces),
                shadow_score: stats.shadow_score,
                tool_fidelity_score: agent.fidelity.unwrap_or(1.0),
                loop_interventions: stats.loop_interventions,
                secret_leakage_rate: percent(found.secret, found.traces),
            },
            agent: AgentBody {
                mcp_latency: McpLatency {
                    avg_model_think_ms: mean,
                    p95_model_think_ms: p95,
                    avg_tool_exec_ms: tools.mean.unwrap_or(0.0) / 1000.0,
                    p95_tool_exec_ms: domain::time::millis(tools.p95.unwrap_or(0)),
                    tool_call_count: tools.calls,
                    overhead_ratio: stats.tool_share,
                },
                chain_depth: ChainDepth {
                    avg_tool_cycles: agent.depth_avg.unwrap_or(0.0),
                    max_tool_cycles: agent.depth_max.unwrap_or(0),
                    deep_loop_count: agent.deep,
                },
                bias_drift: stats.bias_drift.into_iter().map(Into::into).collect(),
                stall: Stall {
                    avg_probability: agent.stall_avg.unwrap_or(0.0),
                    alert_count: agent.alerts,
                    monitor_count: agent.monitored,
                    alert_rate_pct: percent(agent.alerts, stats.total_requests),
                },
            },
        }
    }
}

fn percent(part: i64, whole: i64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
