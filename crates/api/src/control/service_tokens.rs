//! Service tokens: made, listed, revoked.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use domain::ids::{ProjectId, ServiceTokenId, UserId};
use domain::secret::Secret;
use domain::time::Timestamp;
use gateway::{Error, NewServiceToken, ServiceToken, TokenExpiry};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::control::session::LARGEST;
use crate::http::auth::BySession;
use crate::http::body;
use crate::http::error::Result;
use crate::http::extract::{Segments, given};

/// A service token that is not revoked.
#[derive(Debug, Serialize, ToSchema)]
pub struct ServiceTokenBody {
    /// `st_` and 16 hex digits. The audit names the token by it.
    #[schema(value_type = String)]
    id: ServiceTokenId,
    name: String,
    /// The full secret; only in the answer that makes the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    token: Option<String>,
    /// First six and last four characters.
    masked: String,
    /// `admin`, `member` or `viewer`.
    role: &'static str,
    /// The projects that it sees. With the role `admin` it sees all.
    #[schema(value_type = Vec<i64>)]
    projects: Vec<ProjectId>,
    /// The user who made it; null if the command line did.
    created_by: Option<MakerBody>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The time from which on it is no longer good; null if it does not expire.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// Its last request, to the minute; null if it was never used.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_used_at: Option<Timestamp>,
}

/// The user who made a token.
#[derive(Debug, Serialize, ToSchema)]
pub struct MakerBody {
    #[schema(value_type = i64)]
    id: UserId,
    email: String,
}

impl From<ServiceToken> for ServiceTokenBody {
    fn from(token: ServiceToken) -> Self {
        let maker = token.created_by.zip(token.maker);
        Self {
            id: token.id,
            name: token.name,
            token: None,
            masked: token.masked,
            role: token.role.as_str(),
            projects: token.projects,
            created_by: maker.map(|(id, email)| MakerBody { id, email }),
            created_at: token.created_at,
            expires_at: token.expires_at,
            last_used_at: token.last_used_at,
        }
    }
}

/// A service token that is to be made. Without `expires_at` and `expires_in` it is good for 90 days.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceTokenRequest {
    /// The password of the signed-in user: the token outlives the session. Empty for a user without one.
    #[schema(format = Password)]
    password: String,
    name: String,
    /// `admin`, `member` or `viewer`.
    role: String,
    /// The projects that it sees. With the role `admin` it sees all.
    #[serde(default)]
    #[schema(value_type = Vec<i64>)]
    projects: Vec<ProjectId>,
    /// The time from which on it is no longer good, at most 366 days from now.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Option<String>>,
    /// The seconds for which it is good, instead of `expires_at`.
    #[serde(default)]
    #[schema(minimum = 60, maximum = 31_622_400)]
    expires_in: Option<i64>,
}

/// Make a service token (admin or owner, in a session). Its secret is returned once, here.
#[utoipa::path(post, path = "/api/v1/service-tokens", tag = "Organization",
    request_body = ServiceTokenRequest, responses((status = 201, body = ServiceTokenBody)))]
pub async fn create(
    State(app): State<App>,
    BySession(by): BySession,
    request: Request,
) -> Result<(StatusCode, Json<ServiceTokenBody>)> {
    let new: ServiceTokenRequest = body::read_json(request, &app, LARGEST).await?;
    let password = Secret::new(new.password);
    let expiry = match (new.expires_at, new.expires_in) {
        (None, None) => TokenExpiry::Default,
        (Some(None), None) => TokenExpiry::Never,
        (Some(Some(at)), None) => TokenExpiry::At(at),
        (None, Some(seconds)) => TokenExpiry::In(seconds),
        (Some(_), Some(_)) => {
            return Err(Error::invalid("Give expires_at or expires_in, not both").into());
        }
    };
    let new = NewServiceToken { name: new.name, role: new.role, projects: new.projects, expiry };
    let made = app.gateway.create_service_token(&by.member, &by.account, password, new);
    let (token, raw) = made.await?;
    let body = ServiceTokenBody { token: Some(raw.expose().to_owned()), ..token.into() };
    Ok((StatusCode::CREATED, Json(body)))
}

/// The service tokens that are not revoked, newest first (admin or owner, in a session).
#[utoipa::path(get, path = "/api/v1/service-tokens", tag = "Organization",
    responses((status = 200, body = Vec<ServiceTokenBody>)))]
pub async fn list(
    State(app): State<App>,
    BySession(by): BySession,
) -> Result<Json<Vec<ServiceTokenBody>>> {
    let tokens = app.gateway.list_service_tokens(&by.member).await?;
    Ok(Json(tokens.into_iter().map(Into::into).collect()))
}

/// Revoke a service token for good (admin or owner, in a session). It counts from its next request on.
#[utoipa::path(delete, path = "/api/v1/service-tokens/{id}", tag = "Organization",
    params(("id" = String, Path)), responses((status = 204)))]
pub async fn delete(
    State(app): State<App>,
    BySession(by): BySession,
    path: Segments,
) -> Result<StatusCode> {
    app.gateway.revoke_service_token(&by.member, path.service_token()?).await?;
    Ok(StatusCode::NO_CONTENT)
}
