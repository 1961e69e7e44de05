//! The accounts of the signed-in user at issuers.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use domain::secret::Secret;
use domain::time::Timestamp;
use gateway::LinkedIdentity;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::control::second_factor::PasswordRequest;
use crate::control::session::LARGEST;
use crate::http::auth::BySession;
use crate::http::body;
use crate::http::cookie::{Cookie, with_cookie};
use crate::http::error::Result;
use crate::http::extract::Segments;

/// The cookie of a user of an issuer who has not confirmed that an account is theirs.
pub(crate) const LINK_COOKIE: Cookie =
    Cookie { name: "sluice_link", path: "/", same_site: "Lax", is_bound: true };

/// An account of yours at an issuer.
#[derive(Debug, Serialize, ToSchema)]
pub struct IdentityBody {
    /// 16 hex digits.
    id: String,
    issuer: String,
    /// The address that the issuer gave when it was linked.
    email: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<LinkedIdentity> for IdentityBody {
    fn from(identity: LinkedIdentity) -> Self {
        let id = gateway::identity_id(&identity);
        let LinkedIdentity { issuer, email, created_at, .. } = identity;
        Self { id, issuer, email, created_at }
    }
}

/// Your accounts at providers of single sign-on, the latest first.
#[utoipa::path(get, path = "/api/v1/session/identities", tag = "Session",
    responses((status = 200, body = Vec<IdentityBody>)))]
pub async fn list(
    State(app): State<App>,
    BySession(by): BySession,
) -> Result<Json<Vec<IdentityBody>>> {
    let identities = app.gateway.own_identities(&by.member).await?;
    Ok(Json(identities.into_iter().map(Into::into).collect()))
}

/// Link your account to the sign-on that this browser has made a moment ago: the cookie `sluice_link` names it.
#[utoipa::path(post, path = "/api/v1/session/identities", tag = "Session",
    request_body = PasswordRequest, responses((status = 204)))]
pub async fn link(
    State(app): State<App>,
    BySession(by): BySession,
    request: Request,
) -> Result<Response> {
    let link = LINK_COOKIE.read(&app, request.headers());
    let PasswordRequest { password } = body::read_json(request, &app, LARGEST).await?;
    let password = Secret::new(password);
    app.gateway.link_identity(&by.member, &by.account, link.as_deref(), password).await?;
    Ok(with_cookie(&LINK_COOKIE.removed(&app), StatusCode::NO_CONTENT))
}

/// Unlink your account from an account at a provider. Your last way in stays; your other sessions end.
#[utoipa::path(delete, path = "/api/v1/session/identities/{id}", tag = "Session",
    params(("id" = String, Path)), request_body = PasswordRequest, responses((status = 204)))]
pub async fn unlink(
    State(app): State<App>,
    BySession(by): BySession,
    path: Segments,
    request: Request,
) -> Result<StatusCode> {
    let PasswordRequest { password } = body::read_json(request, &app, LARGEST).await?;
    let (password, id) = (Secret::new(password), path.text("id")?);
    app.gateway.unlink_identity(&by.member, &by.account, password, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
