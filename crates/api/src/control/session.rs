//! Signing in and out.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use domain::ids::{OrgId, UserId};
use gateway::{Account, FACTOR_AWAITED, SESSION_ABSOLUTE, SignIn as SignInOutcome, SignedIn};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::BySession;
use crate::http::body;
use crate::http::cross_site;
use crate::http::error::Result;
use crate::http::session_cookies::{with_session, without_session};

/// The header with the address at which a user signs out of their provider too.
const END_SESSION: HeaderName = HeaderName::from_static("x-sluice-end-session");
/// The most bytes of a request that carries no credential yet, or only codes and passwords.
pub(super) const LARGEST: usize = 4 * 1024;

/// The credentials of a user who signs in.
#[derive(Deserialize, ToSchema)]
pub struct SignIn {
    /// The address of the account.
    email: String,
    /// The password.
    #[schema(format = Password)]
    password: String,
}

/// The signed-in user.
#[derive(Debug, Serialize, ToSchema)]
pub struct WhoAmI {
    user: UserBody,
    organization: OrganizationBody,
}

/// A user.
#[derive(Debug, Serialize, ToSchema)]
pub struct UserBody {
    #[schema(value_type = i64)]
    id: UserId,
    email: String,
    name: String,
    /// `owner`, `admin`, `member` or `viewer`.
    role: &'static str,
    mfa_enabled: bool,
}

/// An organization.
#[derive(Debug, Serialize, ToSchema)]
pub struct OrganizationBody {
    #[schema(value_type = i64)]
    id: OrgId,
    name: String,
}

/// The password was right, and the second factor is still to come.
#[derive(Debug, Serialize, ToSchema)]
pub struct AwaitsFactor {
    /// Always true: `POST /api/v1/session/mfa` comes next.
    pub(super) mfa_required: bool,
}

/// The answer to a right password.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum SignInAnswer {
    /// Signed in.
    SignedIn(WhoAmI),
    /// Not yet.
    AwaitsFactor(AwaitsFactor),
}

impl From<Account> for WhoAmI {
    fn from(account: Account) -> Self {
        Self {
            user: UserBody {
                id: account.user,
                email: account.email,
                name: account.name,
                role: account.role.as_str(),
                mfa_enabled: account.mfa_enabled,
            },
            organization: OrganizationBody { id: account.org, name: account.org_name },
        }
    }
}

/// Sign in. The session is in the cookie `sluice_session`. With a second factor it is good for
/// `POST /api/v1/session/mfa` alone, for ten minutes.
#[utoipa::path(post, path = "/api/v1/session", tag = "Session", request_body = SignIn,
    responses((status = 200, body = SignInAnswer)))]
pub async fn create(State(app): State<App>, request: Request) -> Result<Response> {
    let origin = cross_site::open_origin(&app, &request).await?;
    let sign_in: SignIn = body::read_json(request, &app, LARGEST).await?;
    match app.gateway.sign_in(&sign_in.email, &sign_in.password, &origin).await? {
        SignInOutcome::Complete(signed_in) => Ok(signed_in_answer(&app, *signed_in)),
        SignInOutcome::AwaitsFactor(token) => {
            let answer = SignInAnswer::AwaitsFactor(AwaitsFactor { mfa_required: true });
            Ok(with_session(&app, &token, FACTOR_AWAITED, Json(answer)))
        }
    }
}

/// The answer that hands out the cookie of a session.
pub(super) fn signed_in_answer(app: &App, signed_in: SignedIn) -> Response {
    let answer = SignInAnswer::SignedIn(signed_in.account.into());
    with_session(app, &signed_in.token, SESSION_ABSOLUTE, Json(answer))
}

/// Read the signed-in user.
#[utoipa::path(get, path = "/api/v1/session", tag = "Session",
    responses((status = 200, body = WhoAmI)))]
pub async fn show(BySession(session): BySession) -> Json<WhoAmI> {
    Json(session.account.into())
}

/// Sign out. If the session came by a provider of single sign-on that has an address for it, the header
/// `X-Sluice-End-Session` is the address at which a browser signs out there too.
#[utoipa::path(delete, path = "/api/v1/session", tag = "Session", responses((status = 204,
    headers(("X-Sluice-End-Session" = String, description = "Where to sign out of the provider")))))]
pub async fn delete(State(app): State<App>, BySession(session): BySession) -> Result<Response> {
    let address = app.gateway.sign_out(&session.token, &session.member, &[]).await?;
    let mut response = without_session(&app, StatusCode::NO_CONTENT);
    if let Some(value) = address.and_then(|address| HeaderValue::try_from(address).ok()) {
        response.headers_mut().insert(END_SESSION, value);
    }
    Ok(response)
}
