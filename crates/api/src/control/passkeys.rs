//! Passkeys: added, listed, removed, and signed in by.
//!
//! The state of a ceremony is in a cookie of its own. It is sealed: a browser can neither read nor change it.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use domain::secret::Secret;
use domain::time::Timestamp;
use gateway::{AddedPasskey, PASSKEY_ASKED, PasskeyAnswer, PasskeyOffer, PasskeyView};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::app::App;
use crate::control::second_factor::PasswordRequest;
use crate::control::session::{LARGEST, WhoAmI, signed_in_answer};
use crate::http::auth::BySession;
use crate::http::cookie::{Cookie, with_cookie};
use crate::http::error::{ErrorBody, Result};
use crate::http::extract::Segments;
use crate::http::session_cookies::SessionCookie;
use crate::http::{body, cross_site};

/// The cookie with the state of a ceremony.
const STATE_COOKIE: Cookie = Cookie {
    name: "sluice_passkey",
    path: "/api/v1/session",
    same_site: "Strict",
    is_bound: false,
};
/// The most bytes of a request with a credential: one has a key, a signature, and what the device says of itself.
const LARGEST_CREDENTIAL: usize = 16 * 1024;

/// A credential that a browser has made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPasskeyRequest {
    /// 1 to 100 characters, by which you know it.
    name: String,
    /// The result of `navigator.credentials.create`, by its `toJSON()`.
    #[schema(value_type = Object)]
    credential: Value,
}

/// A credential that a browser has found.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PasskeySignInRequest {
    /// The result of `navigator.credentials.get`, by its `toJSON()`.
    #[schema(value_type = Object)]
    credential: Value,
}

/// The options for `navigator.credentials`.
#[derive(Debug, Serialize, ToSchema)]
pub struct PasskeyOptions {
    /// For `PublicKeyCredential.parseCreationOptionsFromJSON`, or `parseRequestOptionsFromJSON`.
    #[serde(rename = "publicKey")]
    #[schema(value_type = Object)]
    public_key: Value,
}

/// A passkey of the signed-in user.
#[derive(Debug, Serialize, ToSchema)]
pub struct PasskeyBody {
    /// 16 hex digits.
    id: String,
    name: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it last signed in; null if never.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_used_at: Option<Timestamp>,
}

/// A passkey that was just added.
#[derive(Serialize, ToSchema)]
pub struct AddedPasskeyBody {
    #[serde(flatten)]
    passkey: PasskeyBody,
    /// Recovery codes, in this answer only; null if the account had some.
    recovery_codes: Option<Vec<String>>,
}

impl From<PasskeyView> for PasskeyBody {
    fn from(view: PasskeyView) -> Self {
        let PasskeyView { id, name, created_at, last_used_at } = view;
        Self { id, name, created_at, last_used_at }
    }
}

impl From<AddedPasskey> for AddedPasskeyBody {
    fn from(added: AddedPasskey) -> Self {
        let shown =
            |codes: Vec<Secret>| codes.iter().map(|code| code.expose().to_owned()).collect();
        Self { passkey: added.view.into(), recovery_codes: added.recovery_codes.map(shown) }
    }
}

/// Begin to add a passkey. The options are for the browser; their challenge is good once, for five minutes.
#[utoipa::path(post, path = "/api/v1/session/passkeys/offer", tag = "Session",
    request_body = PasswordRequest, responses((status = 200, body = PasskeyOptions)))]
pub async fn offer(
    State(app): State<App>,
    BySession(by): BySession,
    request: Request,
) -> Result<Response> {
    let host = host_of(&request);
    let password = body::read_json::<PasswordRequest>(request, &app, LARGEST).await?.into_secret();
    let offer = app.gateway.offer_passkey(&by.member, &by.account, password, host.as_deref());
    Ok(options_answer(&app, offer.await?))
}

/// Add a passkey. The first factor of an account ends its other sessions; from then on its password alone does
/// not sign in.
#[utoipa::path(post, path = "/api/v1/session/passkeys", tag = "Session",
    request_body = NewPasskeyRequest, responses((status = 200, body = AddedPasskeyBody)))]
pub async fn add(
    State(app): State<App>,
    BySession(by): BySession,
    request: Request,
) -> Result<Response> {
    let (host, state) = (host_of(&request), STATE_COOKIE.read(&app, request.headers()));
    let new: NewPasskeyRequest = body::read_json(request, &app, LARGEST_CREDENTIAL).await?;
    let (host, state) = (host.as_deref(), state.as_deref());
    let answer = PasskeyAnswer { host, state, credential: new.credential };
    let added = app.gateway.add_passkey(&by.member, &by.account, &new.name, answer);
    Ok(without_state(&app, Json(AddedPasskeyBody::from(added.await?))))
}

/// Your passkeys, oldest first; at most 20.
#[utoipa::path(get, path = "/api/v1/session/passkeys", tag = "Session",
    responses((status = 200, body = Vec<PasskeyBody>)))]
pub async fn list(
    State(app): State<App>,
    BySession(by): BySession,
) -> Result<Json<Vec<PasskeyBody>>> {
    let passkeys = app.gateway.own_passkeys(&by.member).await?;
    Ok(Json(passkeys.into_iter().map(Into::into).collect()))
}

/// Remove one of your passkeys. The last second factor goes with its recovery codes, unless the organization
/// requires one.
#[utoipa::path(delete, path = "/api/v1/session/passkeys/{id}", tag = "Session",
    params(("id" = String, Path)), request_body = PasswordRequest, responses((status = 204)))]
pub async fn remove(
    State(app): State<App>,
    BySession(by): BySession,
    path: Segments,
    request: Request,
) -> Result<StatusCode> {
    let password = body::read_json::<PasswordRequest>(request, &app, LARGEST).await?.into_secret();
    app.gateway.remove_passkey(&by.member, &by.account, password, path.text("id")?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begin to sign in by a passkey. The options are for the browser; their challenge is good once, for five
/// minutes.
#[utoipa::path(post, path = "/api/v1/session/passkey/challenge", tag = "Session",
    responses(
        (status = 200, body = PasskeyOptions),
        (status = 403, description = "The address may not sign in, or another site asks", body = ErrorBody),
        (status = 422, description = "No passkey can be made for this address", body = ErrorBody)))]
pub async fn challenge(State(app): State<App>, request: Request) -> Result<Response> {
    let host = host_of(&request);
    let origin = cross_site::open_origin(&app, &request).await?;
    Ok(options_answer(&app, app.gateway.passkey_challenge(&origin, host.as_deref()).await?))
}

/// Sign in by a passkey, which is both factors. The answer and the cookie are those of `POST /session`.
#[utoipa::path(post, path = "/api/v1/session/passkey", tag = "Session",
    request_body = PasskeySignInRequest, responses((status = 200, body = WhoAmI)))]
pub async fn sign_in(State(app): State<App>, request: Request) -> Result<Response> {
    let host = host_of(&request);
    let state = STATE_COOKIE.read(&app, request.headers());
    let pending = match SessionCookie::of(&app, &request) {
        SessionCookie::One(token) => Some(token),
        SessionCookie::None | SessionCookie::Planted | SessionCookie::Several => None,
    };
    let origin = cross_site::open_origin(&app, &request).await?;
    let PasskeySignInRequest { credential } =
        body::read_json(request, &app, LARGEST_CREDENTIAL).await?;
    let answer = PasskeyAnswer { host: host.as_deref(), state: state.as_deref(), credential };
    let signed_in = app.gateway.sign_in_by_passkey(answer, pending.as_deref(), &origin).await?;
    Ok(without_state(&app, signed_in_answer(&app, signed_in)))
}

/// The host that a browser has reached the gateway at.
fn host_of(request: &Request) -> Option<String> {
    cross_site::host(request).map(str::to_owned)
}

fn options_answer(app: &App, offer: PasskeyOffer) -> Response {
    let cookie = STATE_COOKIE.lasting(app, offer.state.expose(), PASSKEY_ASKED / 1_000_000);
    with_cookie(&cookie, Json(PasskeyOptions { public_key: offer.options }))
}

/// The challenge is used up.
fn without_state(app: &App, response: impl IntoResponse) -> Response {
    with_cookie(&STATE_COOKIE.removed(app), response)
}
