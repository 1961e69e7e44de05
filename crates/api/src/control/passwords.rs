//! Passwords that are replaced.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use domain::secret::Secret;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::control::invitations::shown_link;
use crate::control::session::LARGEST;
use crate::http::auth::BySession;
use crate::http::error::Result;
use crate::http::extract::Segments;
use crate::http::{body, cross_site};

/// The password of the signed-in user and another one.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePasswordRequest {
    /// The password of today.
    #[schema(format = Password)]
    old_password: String,
    /// 8 to 1,024 characters.
    #[schema(format = Password)]
    new_password: String,
}

/// The token of a link and a new password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPasswordRequest {
    /// The text behind `token=` in the link.
    token: String,
    /// 8 to 1,024 characters.
    #[schema(format = Password)]
    password: String,
}

/// A link to a new password.
#[derive(Debug, Serialize, ToSchema)]
pub struct PasswordLinkBody {
    /// Whether the link goes to the user by letter.
    sent: bool,
    /// The link, good once, for an hour: without a mail server, and in this answer only.
    link: Option<String>,
}

/// Replace your password. All other sessions of yours end.
#[utoipa::path(post, path = "/api/v1/session/password", tag = "Session",
    request_body = ChangePasswordRequest, responses((status = 204)))]
pub async fn change(
    State(app): State<App>,
    BySession(by): BySession,
    request: Request,
) -> Result<StatusCode> {
    let change: ChangePasswordRequest = body::read_json(request, &app, LARGEST).await?;
    let (old, new) = (Secret::new(change.old_password), Secret::new(change.new_password));
    app.gateway.change_own_password(&by.member, &by.account, old, new).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make a link by which a user sets a new password (owner).
#[utoipa::path(post, path = "/api/v1/users/{user_id}/password-link", tag = "Organization",
    params(("user_id" = i64, Path)), responses((status = 200, body = PasswordLinkBody)))]
pub async fn offer(
    State(app): State<App>,
    BySession(by): BySession,
    path: Segments,
) -> Result<Json<PasswordLinkBody>> {
    let link = shown_link(app.gateway.offer_password_link(&by.member, path.user()?).await?);
    Ok(Json(PasswordLinkBody { sent: link.is_none(), link }))
}

/// End every way in of a user (owner): sessions, password, second factors, passkeys, identities, and the service
/// tokens and links that they have made. Makes the link by which they set a new password.
#[utoipa::path(post, path = "/api/v1/users/{user_id}/reset", tag = "Organization",
    params(("user_id" = i64, Path)), responses((status = 200, body = PasswordLinkBody)))]
pub async fn reset_ways_in(
    State(app): State<App>,
    BySession(by): BySession,
    path: Segments,
) -> Result<Json<PasswordLinkBody>> {
    let link = shown_link(app.gateway.reset_ways_in(&by.member, path.user()?).await?);
    Ok(Json(PasswordLinkBody { sent: link.is_none(), link }))
}

/// The address of somebody who has forgotten their password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordResetRequest {
    /// The address of the account.
    email: String,
}

/// Have a link to a new password sent to you. The answer is the same whether the address has an account or
/// not. Needs a mail server.
#[utoipa::path(post, path = "/api/v1/password-resets", tag = "Session",
    request_body = PasswordResetRequest, responses((status = 202)))]
pub async fn ask(State(app): State<App>, request: Request) -> Result<StatusCode> {
    let origin = cross_site::open_origin(&app, &request).await?;
    let PasswordResetRequest { email } = body::read_json(request, &app, LARGEST).await?;
    app.gateway.ask_new_password(&email, &origin).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Set a new password by a link. All sessions of the user end; their second factor stays.
#[utoipa::path(post, path = "/api/v1/password-resets/use", tag = "Session",
    request_body = NewPasswordRequest, responses((status = 204)))]
pub async fn reset(State(app): State<App>, request: Request) -> Result<StatusCode> {
    let origin = cross_site::open_origin(&app, &request).await?;
    let NewPasswordRequest { token, password } = body::read_json(request, &app, LARGEST).await?;
    app.gateway.reset_password_by_link(&token, Secret::new(password), &origin).await?;
    Ok(StatusCode::NO_CONTENT)
}
