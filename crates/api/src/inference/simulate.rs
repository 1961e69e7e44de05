//! Simulation of routing.

use axum::Json;
use axum::extract::State;
use domain::ids::ProjectId;
use domain::money::Usd;
use gateway::{Simulated, Simulation};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::FlatBody;
use crate::http::error::Result;
use crate::http::json_text::JsonText;
use crate::http::trace_metadata::metadata;

/// The prompt to simulate.
#[derive(Deserialize, ToSchema)]
pub struct SimulateRequest {
    /// The prompt.
    input: String,
    /// This key's own project.
    #[schema(value_type = i64)]
    project_id: ProjectId,
    /// Read as a trace's metadata is.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<JsonText>,
}

/// The predicted effect of an execution.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum SimulateBody {
    /// A model would be called.
    Resolved {
        /// `simple`, `complex` or `secure`.
        tier: &'static str,
        /// The first model of the path.
        model: String,
        /// USD; null when the model has no price.
        estimated_cost: Option<f64>,
        /// Model identifiers in the order in which they would be tried.
        fallback_path: Vec<String>,
        /// 0 to 1.
        risk_score: f64,
        /// 0 to 1.
        complexity: f64,
        /// The reasons, as sentences.
        reasons: Vec<String>,
    },
    /// Safety would refuse it.
    Blocked {
        /// The reason.
        reason: String,
    },
    /// No model is configured for it.
    Unconfigured {
        /// `simple`, `complex` or `secure`.
        tier: &'static str,
        /// The reason.
        reason: String,
    },
}

impl From<Simulated> for SimulateBody {
    fn from(simulated: Simulated) -> Self {
        match simulated {
            Simulated::Resolved {
                tier,
                model,
                estimated_cost,
                fallback_path,
                risk_score,
                complexity,
                reasons,
            } => Self::Resolved {
                tier: tier.as_str(),
                model,
                estimated_cost: estimated_cost.map(Usd::dollars),
                fallback_path,
                risk_score,
                complexity,
                reasons,
            },
            Simulated::Blocked { reason } => Self::Blocked { reason },
            Simulated::Unconfigured { tier, reason } => {
                Self::Unconfigured { tier: tier.as_str(), reason }
            }
        }
    }
}

/// Predict the model and the possible cost of a prompt. Nothing is called, spent or recorded.
#[utoipa::path(post, path = "/api/v1/simulate", tag = "Routing", request_body = SimulateRequest,
    responses((status = 200, body = SimulateBody)))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    FlatBody(request): FlatBody<SimulateRequest>,
) -> Result<Json<SimulateBody>> {
    let metadata = metadata(request.metadata)?;
    let simulation = Simulation { input: request.input, project: request.project_id, metadata };
    Ok(Json(app.gateway.simulate(&caller, &simulation).await?.into()))
}
