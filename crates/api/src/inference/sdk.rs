//! The configuration that client libraries read at start-up.

use axum::Json;
use axum::extract::State;
use domain::ids::ProjectId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;

/// The capabilities of this gateway for one key.
#[derive(Debug, Serialize, ToSchema)]
pub struct SdkConfig {
    /// Always `self_hosted`.
    plan: &'static str,
    /// The gateway's version.
    version: &'static str,
    features: Features,
    limits: LimitsBody,
    project: SdkProject,
}

/// The features of this gateway.
#[derive(Debug, Serialize, ToSchema)]
pub struct Features {
    /// Whether the sandbox model is registered: tests need no provider account.
    offline_testing: bool,
    streaming: bool,
    chat_completions: bool,
    replay: bool,
    mcp: bool,
    tools: bool,
    embeddings: bool,
    images: bool,
}

/// Limits of the key's project; null means off.
#[derive(Debug, Serialize, ToSchema)]
pub struct LimitsBody {
    requests_per_hour: Option<u64>,
    loop_requests: Option<u64>,
    loop_window_seconds: u64,
    max_body_bytes: usize,
}

/// The key's project.
#[derive(Debug, Serialize, ToSchema)]
pub struct SdkProject {
    #[schema(value_type = i64)]
    id: ProjectId,
    name: String,
}

/// The limits and features for a client of this key.
#[utoipa::path(get, path = "/api/v1/sdk/config", tag = "SDK",
    responses((status = 200, body = SdkConfig)))]
pub async fn show(State(app): State<App>, ByKey(caller): ByKey) -> Json<SdkConfig> {
    let plan = app.gateway.plan(&caller);
    Json(SdkConfig {
        plan: "self_hosted",
        version: env!("CARGO_PKG_VERSION"),
        features: Features {
            offline_testing: plan.offline_testing,
            streaming: true,
            chat_completions: true,
            replay: true,
            mcp: true,
            tools: true,
            embeddings: true,
            images: true,
        },
        limits: LimitsBody {
            requests_per_hour: plan.limits.requests_per_hour,
            loop_requests: plan.limits.loop_requests,
            loop_window_seconds: plan.limits.loop_window_seconds,
            max_body_bytes: plan.max_body_bytes,
        },
        project: SdkProject { id: caller.project.id(), name: caller.project.project.name.clone() },
    })
}
