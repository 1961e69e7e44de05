//! Signing in by an issuer: the way there and back, for browsers.

use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, REFERRER_POLICY, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use form_urlencoded::{byte_serialize, parse};
use gateway::{
    Error, FACTOR_AWAITED, SESSION_ABSOLUTE, SIGN_ON_LASTS, SignIn, SignOnAnswer, SignedOn,
};

use crate::app::App;
use crate::control::identities::link_cookie;
use crate::control::session::{AwaitsFactor, cookie, signed_in_answer};
use crate::http::auth;
use crate::http::client;
use crate::http::error::{Failure, Result};
use crate::http::extract::Segments;
use crate::http::own_path::own_path;

/// The cookie of a sign-on whose user is at the issuer.
const FLOW_COOKIE: &str = "sluice_sign_on";
/// The longest parameter that is read, in bytes.
const LONGEST_VALUE: usize = 8 * 1024;

/// Sign in by a provider: leads a browser to it.
#[utoipa::path(get, path = "/api/v1/sign-on/{slug}", tag = "Session",
    params(("slug" = String, Path), ("next" = Option<String>, Query, description = "The path of the console to go to afterwards")),
    responses((status = 303, description = "To the provider"), (status = 401, description = "The provider cannot be used")))]
pub async fn start(State(app): State<App>, path: Segments, request: Request) -> Result<Response> {
    let origin = client::origin(&app, &request);
    let next = parameter(&request, "next").map_or_else(|| "/".to_owned(), |next| own_path(&next));
    let begun = app.gateway.sign_on_start(path.text("slug")?, &next, &origin).await;
    let mut response = match begun {
        Ok(start) => {
            let lasts = SIGN_ON_LASTS / 1_000_000;
            let mut response = Redirect::to(&start.location).into_response();
            set_cookie(&mut response, &flow_cookie(&app, start.cookie.expose(), lasts));
            response
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
    let flow = auth::cookie(request.headers(), FLOW_COOKIE);
    let finished =
        app.gateway.sign_on_finish(path.text("slug")?, answer, flow.as_deref(), &origin).await;
    let response = match finished {
        Ok((SignedOn::In(signed_in), next)) => Ok(entered(&app, signed_in, &next)),
        Ok((SignedOn::LinkFirst(token), _)) => {
            let mut response = link_first(&app);
            set_cookie(&mut response, &link_cookie(&app, token.expose()));
            Ok(response)
        }
        Err(error) => refused(&app, error, "/"),
    };
    // Whatever became of it, the sign-on is over.
    let mut response = response.unwrap_or_else(Failure::into_response);
    set_cookie(&mut response, &flow_cookie(&app, "", 0));
    keep_private(&mut response);
    Ok(response)
}

/// The session has begun, or awaits its second factor.
fn entered(app: &App, signed_in: SignIn, next: &str) -> Response {
    let (cookie, mut response) = match signed_in {
        SignIn::Complete(signed_in) if app.has_console => {
            let lasts = SESSION_ABSOLUTE / 1_000_000;
            (cookie(app, signed_in.token.expose(), lasts), Redirect::to(next).into_response())
        }
        SignIn::Complete(signed_in) => return signed_in_answer(app, *signed_in),
        SignIn::AwaitsFactor(token) => {
            let cookie = cookie(app, token.expose(), FACTOR_AWAITED / 1_000_000);
            let response = if app.has_console {
                Redirect::to(&format!("/sign-in/code?next={}", encoded(next))).into_response()
            } else {
                axum::Json(AwaitsFactor { mfa_required: true }).into_response()
            };
            (cookie, response)
        }
    };
    set_cookie(&mut response, &cookie);
    response
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

/// Of one browser and one sign-on: no cache keeps it, and no page learns its address.
fn keep_private(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

fn flow_cookie(app: &App, value: &str, max_age: i64) -> String {
    let secure = if app.is_https { "; Secure" } else { "" };
    format!(
        "{FLOW_COOKIE}={value}; Path=/api/v1/sign-on; Max-Age={max_age}; HttpOnly; SameSite=Lax{secure}"
    )
}

fn set_cookie(response: &mut Response, cookie: &str) {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(SET_COOKIE, value);
    }
}

/// A parameter of the query; of several the first.
fn parameter(request: &Request, name: &str) -> Option<String> {
    let query = request.uri().query().unwrap_or_default();
    let (_, value) = parse(query.as_bytes()).find(|(known, _)| known == name)?;
    (value.len() <= LONGEST_VALUE).then(|| value.into_owned())
}

fn encoded(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}
