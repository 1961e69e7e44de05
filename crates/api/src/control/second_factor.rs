//! Second factors: asked for at sign-in, set up, replaced, removed, reset.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use domain::secret::Secret;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::control::session::{LARGEST, WhoAmI, signed_in_answer};
use crate::http::auth::BySession;
use crate::http::body;
use crate::http::error::Result;
use crate::http::extract::Segments;

/// A code of an authenticator, or a recovery code.
#[derive(Deserialize, ToSchema)]
pub struct CodeRequest {
    /// Six digits, or `xxxx-xxxx-xxxx-xxxx`.
    code: String,
}

/// The password of the signed-in user, once more.
#[derive(Deserialize, ToSchema)]
pub struct PasswordRequest {
    /// The password. For an account without one it is empty, and the session must have begun less than ten
    /// minutes ago.
    #[schema(format = Password)]
    pub(super) password: String,
}

impl PasswordRequest {
    pub(super) fn into_secret(self) -> Secret {
        Secret::new(self.password)
    }
}

/// The password of the signed-in user and a code.
#[derive(Deserialize, ToSchema)]
pub struct PasswordAndCodeRequest {
    /// The password. For an account without one it is empty, and the session must have begun less than ten
    /// minutes ago.
    #[schema(format = Password)]
    password: String,
    /// Six digits, or a recovery code.
    code: String,
}

/// An authenticator that its first code will activate.
#[derive(Serialize, ToSchema)]
pub struct AuthenticatorBody {
    /// The secret in base32, to be typed.
    secret: String,
    /// The secret as an address, to be shown as a QR code and scanned.
    otpauth_uri: String,
}

/// Recovery codes. Each signs in once; they are in this answer only.
#[derive(Serialize, ToSchema)]
pub struct RecoveryCodesBody {
    recovery_codes: Vec<String>,
}

impl From<Vec<Secret>> for RecoveryCodesBody {
    fn from(codes: Vec<Secret>) -> Self {
        Self { recovery_codes: codes.iter().map(|code| code.expose().to_owned()).collect() }
    }
}

/// Sign in with the second factor, after the password. The answer and the cookie are those of a sign-in
/// without one.
#[utoipa::path(post, path = "/api/v1/session/mfa", tag = "Session", request_body = CodeRequest,
    responses((status = 200, body = WhoAmI)))]
pub async fn verify(
    State(app): State<App>,
    BySession(by): BySession,
    request: Request,
) -> Result<Response> {
    let CodeRequest { code } = body::read_json(request, &app, LARGEST).await?;
    let signed_in = app.gateway.verify_factor(&by.token, &by.member, by.account, &code).await?;
    Ok(signed_in_answer(&app, signed_in))
}

/// Begin to set up an authenticator. It counts for nothing before its first code.
#[utoipa::path(post, path = "/api/v1/session/mfa/totp", tag = "Session", request_body = PasswordRequest,
    responses((status = 200, body = AuthenticatorBody)))]
pub async fn offer(
    State(app): State<App>,
    BySession(by): BySession,
    request: Request,
) -> Result<Json<AuthenticatorBody>> {
    let PasswordRequest { password } = body::read_json(request, &app, LARGEST).await?;
    let password = Secret::new(password);
    let new = app.gateway.offer_authenticator(&by.member, &by.account, password).await?;
    Ok(Json(AuthenticatorBody {
        secret: new.secret.expose().to_owned(),
        otpauth_uri: new.uri.expose().to_owned(),
    }))
}

/// Activate the authenticator by its first code. All other sessions of yours end.
#[utoipa::path(post, path = "/api/v1/session/mfa/totp/confirm", tag = "Session",
    request_body = CodeRequest, responses((status = 200, body = RecoveryCodesBody)))]
pub async fn confirm(
    State(app): State<App>,
    BySession(by): BySession,
    request: Request,
) -> Result<Json<RecoveryCodesBody>> {
    let CodeRequest { code } = body::read_json(request, &app, LARGEST).await?;
    let codes = app.gateway.confirm_authenticator(&by.member, &by.account, &code);
    Ok(Json(codes.await?.into()))
}

/// Replace the recovery codes: those that are left end.
#[utoipa::path(post, path = "/api/v1/session/mfa/recovery-codes", tag = "Session",
    request_body = CodeRequest, responses((status = 200, body = RecoveryCodesBody)))]
pub async fn replace_codes(
    State(app): State<App>,
    BySession(by): BySession,
    request: Request,
) -> Result<Json<RecoveryCodesBody>> {
    let CodeRequest { code } = body::read_json(request, &app, LARGEST).await?;
    Ok(Json(app.gateway.replace_recovery_codes(&by.member, &by.account, &code).await?.into()))
}

/// Remove your second factor, unless the organization requires one.
#[utoipa::path(delete, path = "/api/v1/session/mfa", tag = "Session",
    request_body = PasswordAndCodeRequest, responses((status = 204)))]
pub async fn remove(
    State(app): State<App>,
    BySession(by): BySession,
    request: Request,
) -> Result<StatusCode> {
    let PasswordAndCodeRequest { password, code } = body::read_json(request, &app, LARGEST).await?;
    let password = Secret::new(password);
    app.gateway.remove_own_factors(&by.member, &by.account, password, &code).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remove the second factor of another user and end their sessions (owner).
#[utoipa::path(delete, path = "/api/v1/users/{user_id}/mfa", tag = "Organization",
    params(("user_id" = i64, Path)), responses((status = 204)))]
pub async fn reset(
    State(app): State<App>,
    BySession(by): BySession,
    path: Segments,
) -> Result<StatusCode> {
    app.gateway.reset_factors(&by.member, path.user()?).await?;
    Ok(StatusCode::NO_CONTENT)
}
