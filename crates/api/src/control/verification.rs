//! Addresses that are verified.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::control::session::LARGEST;
use crate::http::auth::BySession;
use crate::http::error::Result;
use crate::http::{body, cross_site};

/// The token of a link.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VerificationRequest {
    /// The text behind `token=` in the link.
    token: String,
}

/// Have a letter sent to your address, whose link verifies it. Needs a mail server.
#[utoipa::path(post, path = "/api/v1/session/verification", tag = "Session",
    responses((status = 202)))]
pub async fn send(State(app): State<App>, BySession(by): BySession) -> Result<StatusCode> {
    app.gateway.send_verification(&by.member).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Verify an address by the link of a letter.
#[utoipa::path(post, path = "/api/v1/verifications/use", tag = "Session",
    request_body = VerificationRequest, responses((status = 204)))]
pub async fn verify(State(app): State<App>, request: Request) -> Result<StatusCode> {
    let origin = cross_site::open_origin(&app, &request).await?;
    let VerificationRequest { token } = body::read_json(request, &app, LARGEST).await?;
    app.gateway.verify_email(&token, &origin).await?;
    Ok(StatusCode::NO_CONTENT)
}
