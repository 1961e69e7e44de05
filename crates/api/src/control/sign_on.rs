//! Signing in by an issuer: the way there and back, for browsers.

use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use form_urlencoded::byte_serialize;
use gateway::{
    Error, FACTOR_AWAITED, SESSION_ABSOLUTE, SIGN_ON_LASTS, SignIn, SignOnAnswer, SignedOn,
};

use crate::app::App;
use crate::control::identities::LINK_COOKIE;
use crate::control::session::{AwaitsFactor, signed_in_answer};
use crate::http::client;
use crate::http::cookie::{Cookie, with_cookie};
use crate::http::error::{Failure, Result};
use crate::http::extract::Segments;
use crate::http::own_path::Next;
use crate::http::query::query_value;
use crate::http::session_cookies::with_session;

/// The cookie of a sign-on whose user is at the issuer.
const FLOW_COOKIE: Cookie =
    Cookie { name: "sluice_sign_on", path: "/api/v1/sign-on", same_site: "Lax", is_bound: true };
/// The cookie of the sign-out, which shows the provider whose session is to end. It is sent to no other page.
pub(crate) const HINT_COOKIE: Cookie =
    Cookie { name: "sluice_sign_out", path: "/sign-out", same_site: "Strict", is_bound: false };
/// The most bytes of the hint and of the address that the response leads to: proxies pass on some kilobytes of headers
/// (nginx 4 KiB), of which others take less than one.
const MOST_OF_HINT: usize = 3072;
/// The longest parameter that is read, in bytes.
const LONGEST_VALUE: usize = 8 * 1024;

/// Sign in by a provider: leads a browser to it.
#[utoipa::path(get, path = "/api/v1/sign-on/{slug}", tag = "Session",
    params(("slug" = String, Path), ("next" = Option<String>, Query, description = "The path of the console to go to afterwards"),
        ("anew" = Option<String>, Query, description = "Whatever it is: the provider has its user sign in once more"),
        ("invitation" = Option<String>, Query, description = "The token of an invitation's link, which the sign-on accepts")),
    responses((status = 303, description = "To the provider"), (status = 401, description = "The provider cannot be used")))]
pub async fn start(State(app): State<App>, path: Segments, request: Request) -> Result<Response> {
    let origin = client::origin(&app, &request);
    let next = Next::of(&request);
    let anew = query_value(&request, "anew").is_some();
    let invitation = parameter(&request, "invitation");
    let next = next.noted(&app, &origin).await;
    let begun = app
        .gateway
        .sign_on_start(path.text("slug")?, &next, anew, invitation.as_deref(), &origin)
        .await;
    let mut response = match begun {
        Ok(start) => {
            let lasts = SIGN_ON_LASTS / 1_000_000;
            let cookie = FLOW_COOKIE.lasting(&app, start.cookie.expose(), lasts);
            with_cookie(&cookie, Redirect::to(&start.location))
        }
        Err(error) => refused(&app, error, &next)?,
    };
    keep_private(&mut response);
    Ok(response)
}

/// The way back from a provider.
#[utoipa::path(get, path = "/api/v1/sign-on/{slug}/callback", tag = "Session",
    params(("slug" = String, Path), ("state" = Option<String>, Query), ("code" = Option<String>, Query),
        ("error" = Option<String>, Query), ("iss" = Option<String>, Query)),
    responses(
        (status = 200, body = AwaitsFactor, description = "The second factor is still to come (without a console)"),
        (status = 303, description = "Signed in; or to the page that says why not"),
        (status = 401, description = "The sign-on was refused (without a console)")))]
pub async fn finish(State(app): State<App>, path: Segments, request: Request) -> Result<Response> {
    let origin = client::origin(&app, &request);
    let answer = SignOnAnswer {
        state: parameter(&request, "state"),
        code: parameter(&request, "code"),
        error: parameter(&request, "error"),
        iss: parameter(&request, "iss"),
    };
    let flow = FLOW_COOKIE.read(&app, request.headers());
    let finished =
        app.gateway.sign_on_finish(path.text("slug")?, answer, flow.as_deref(), &origin).await;
    let response = match finished {
        Ok((SignedOn::In { signed_in, hint }, next)) => {
            let response = entered(&app, signed_in, &next);
            Ok(if app.has_console { with_hint(&app, hint.expose(), response) } else { response })
        }
        Ok((SignedOn::LinkFirst(token), _)) => {
            let lasts = SIGN_ON_LASTS / 1_000_000;
            let cookie = LINK_COOKIE.lasting(&app, token.expose(), lasts);
            Ok(with_cookie(&cookie, link_first(&app)))
        }
        Err(error) => refused(&app, error, "/"),
    };
    // The sign-on is over, however it has ended.
    let response = response.unwrap_or_else(Failure::into_response);
    let mut response = with_cookie(&FLOW_COOKIE.removed(&app), response);
    keep_private(&mut response);
    Ok(response)
}

/// The session has begun, or awaits its second factor.
fn entered(app: &App, signed_in: SignIn, next: &str) -> Response {
    let (token, lasts, response) = match signed_in {
        SignIn::Complete(signed_in) if app.has_console => {
            (signed_in.token, SESSION_ABSOLUTE, Redirect::to(next).into_response())
        }
        SignIn::Complete(signed_in) => return signed_in_answer(app, *signed_in),
        SignIn::AwaitsFactor(token) => {
            let response = if app.has_console {
                Redirect::to(&format!("/sign-in/code?next={}", encoded(next))).into_response()
            } else {
                axum::Json(AwaitsFactor { mfa_required: true }).into_response()
            };
            (token, FACTOR_AWAITED, response)
        }
    };
    with_session(app, &token, lasts, response)
}

/// The response with the hint for the sign-out, if there is room for it; one of an earlier sign-on is removed.
fn with_hint(app: &App, hint: &str, response: Response) -> Response {
    let location = response.headers().get(LOCATION).map_or(0, HeaderValue::len);
    let has_room = hint.len() + location <= MOST_OF_HINT;
    let cookie = if has_room {
        HINT_COOKIE.lasting(app, hint, SESSION_ABSOLUTE / 1_000_000)
    } else {
        HINT_COOKIE.removed(app)
    };
    with_cookie(&cookie, response)
}

/// The owner of the account has to confirm first that it is theirs.
fn link_first(app: &App) -> Response {
    if app.has_console {
        return Redirect::to("/sign-on/link").into_response();
    }
    let sentence = "An account with your e-mail address exists: sign in to it, then link it with POST /api/v1/session/identities";
    Failure::new(StatusCode::UNAUTHORIZED, sentence).into_response()
}

/// The page that says why a sign-on was refused; without a console, an error.
fn refused(app: &App, error: Error, next: &str) -> Result<Response> {
    let Error::SignOn(refusal) = &error else { return Err(error.into()) };
    if !app.has_console {
        return Err(error.into());
    }
    let page = format!("/sign-in?refused={}&next={}", refusal.word(), encoded(next));
    Ok(Redirect::to(&page).into_response())
}

/// The response concerns one browser and one sign-on: no cache keeps it, and no page learns its address.
fn keep_private(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

/// A parameter of the query; of several the first.
fn parameter(request: &Request, name: &str) -> Option<String> {
    query_value(request, name).filter(|value| value.len() <= LONGEST_VALUE)
}

fn encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}
