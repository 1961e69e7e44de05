//! Whether the gateway serves, and whether it is well.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::http::error::{Failure, Result};

/// The process serves.
#[derive(Debug, Serialize, ToSchema)]
pub struct UpBody {
    /// Always `ok`.
    status: &'static str,
    version: &'static str,
}

const UP: UpBody = UpBody { status: "ok", version: env!("CARGO_PKG_VERSION") };

/// Whether the process serves.
#[utoipa::path(get, path = "/up", tag = "Health", responses((status = 200, body = UpBody)))]
pub async fn up() -> Json<UpBody> {
    Json(UP)
}

/// Whether the database, the writer and the registry are well.
#[utoipa::path(get, path = "/ready", tag = "Health", responses((status = 200, body = UpBody)))]
pub async fn ready(State(app): State<App>) -> Result<Json<UpBody>> {
    match app.gateway.ready().await {
        Ok(()) => Ok(Json(UP)),
        Err(why) => {
            tracing::warn!(%why, "not ready");
            Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "Not ready: see the log"))
        }
    }
}
