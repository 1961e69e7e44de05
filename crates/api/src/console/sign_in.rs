//! Signing in and out.

use axum::extract::{FromRequest as _, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use dashboard::{FactorPage, SignInPage, SignOnLink, SignedOutPage};
use domain::secret::Secret;
use gateway::{FACTOR_AWAITED, SESSION_ABSOLUTE, SignIn, SignOnRefusal, SignedIn, Standing};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::language::texts;
use crate::console::visit::{Form, SESSIONS, SEVERAL, Visit, sign_in_path};
use crate::console::{page, page_as};
use crate::control::sign_on::HINT_COOKIE;
use crate::http::auth;
use crate::http::client;
use crate::http::cookie::{MOST_OF_NAME, cookies, with_cookie};
use crate::http::cross_site;
use crate::http::error::Failure;
use crate::http::own_path::Next;
use crate::http::query::query_value;
use crate::http::session_cookies::{SessionCookie, with_session, without_session};

/// The form.
pub(super) async fn show(State(app): State<App>, request: Request) -> Result<Response> {
    let has_passkeys = has_passkeys(&app, &request);
    let (origin, next) = (client::origin(&app, &request), Next::of(&request));
    app.gateway.check_address(&origin).await?;
    let next = next.noted(&app, &origin).await;
    let is_several = query_value(&request, SESSIONS).is_some_and(|word| word == SEVERAL)
        || matches!(SessionCookie::of(&app, &request), SessionCookie::Several);
    // The page that has led here may see another cookie, which no other page sees: it would lead here again.
    if !is_several && auth::own_session_of(&app, &request, Standing::Full).await.is_ok() {
        return Ok(Redirect::to(&next).into_response());
    }
    let refused = query_value(&request, "refused");
    let refusal = refused.and_then(|word| SignOnRefusal::of_word(&word));
    let several = || is_several.then(|| texts().signing_in.several_sessions.to_owned());
    let fault = refusal.map(|refusal| format!("{}.", refusal.sentence())).or_else(several);
    Ok(page(&sign_in_page(&app, has_passkeys, String::new(), next, fault).await?))
}

/// The form, with the other ways to sign in.
async fn sign_in_page(
    app: &App,
    has_passkeys: bool,
    email: String,
    next: String,
    fault: Option<String>,
) -> Result<SignInPage> {
    let (providers, has_password) = ways_in(app, &next).await?;
    let has_mail = app.gateway.has_mail();
    Ok(SignInPage {
        t: texts(),
        email,
        next,
        has_mail,
        has_passkeys,
        providers,
        has_password,
        fault,
    })
}

/// The links that begin a sign-on and lead to a path afterwards, and whether there are passwords.
pub(super) async fn ways_in(app: &App, next: &str) -> Result<(Vec<SignOnLink>, bool)> {
    let (providers, has_password) = app.gateway.ways_to_sign_in().await?;
    let link = |(slug, name)| {
        let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
        SignOnLink { href: format!("/api/v1/sign-on/{slug}?next={next}"), name }
    };
    Ok((providers.into_iter().map(link).collect(), has_password))
}

/// Signs in.
pub(super) async fn enter(State(app): State<App>, request: Request) -> Result<Response> {
    let has_passkeys = has_passkeys(&app, &request);
    let origin = cross_site::open_origin(&app, &request).await?;
    let form = Form::from_request(request, &app).await?;
    let next = Next::read(form.get("next").unwrap_or_default()).noted(&app, &origin).await;
    let email = form.get("email").unwrap_or_default();
    let password = form.get("password").unwrap_or_default();
    match app.gateway.sign_in(email, password, &origin).await {
        Ok(SignIn::Complete(signed_in)) => Ok(entered(&app, &signed_in, &next)),
        Ok(SignIn::AwaitsFactor(token)) => {
            let shown = page(&FactorPage { t: texts(), next, has_passkeys, fault: None });
            Ok(with_session(&app, &token, FACTOR_AWAITED, shown))
        }
        Err(error) => refused(&app, has_passkeys, email, next, error.into()).await,
    }
}

/// The form for the second factor, after a sign-on.
pub(super) async fn show_code(State(app): State<App>, request: Request) -> Result<Response> {
    let (origin, has_passkeys) = (client::origin(&app, &request), has_passkeys(&app, &request));
    let next = Next::of(&request);
    let next = next.noted(&app, &origin).await;
    let awaited = auth::own_session_of(&app, &request, Standing::AwaitsFactor).await;
    Ok(match awaited {
        Ok(_) => page(&FactorPage { t: texts(), next, has_passkeys, fault: None }),
        Err(_) => Redirect::to(&sign_in_path(&next)).into_response(),
    })
}

/// The session has begun: its cookie, and the way to a page.
pub(super) fn entered(app: &App, signed_in: &SignedIn, next: &str) -> Response {
    with_session(app, &signed_in.token, SESSION_ABSOLUTE, Redirect::to(next))
}

/// Signs in with the second factor, after the password.
pub(super) async fn verify(State(app): State<App>, request: Request) -> Result<Response> {
    let has_passkeys = has_passkeys(&app, &request);
    let origin = cross_site::open_origin(&app, &request).await?;
    let session = auth::own_session_of(&app, &request, Standing::AwaitsFactor).await;
    let form = Form::from_request(request, &app).await?;
    let next = Next::read(form.get("next").unwrap_or_default()).noted(&app, &origin).await;
    let session = match session {
        Ok(session) => session,
        // It took too long, or another tab has used it up: the password comes first again.
        Err(failure) if failure.status() == StatusCode::UNAUTHORIZED => {
            return Ok(Redirect::to(&sign_in_path(&next)).into_response());
        }
        Err(failure) => return Err(failure.into()),
    };
    let code = form.get("code").unwrap_or_default().trim();
    let verified =
        app.gateway.verify_factor(&session.token, &session.member, session.account, code);
    match verified.await {
        Ok(signed_in) => Ok(entered(&app, &signed_in, &next)),
        Err(error) => {
            let failure = Failure::from(error);
            let status = failure.status();
            let fault = match status {
                StatusCode::UNAUTHORIZED => texts().signing_in.wrong_code.to_owned(),
                StatusCode::TOO_MANY_REQUESTS => failure.into_body().error,
                _ => return Err(failure.into()),
            };
            Ok(page_as(status, &FactorPage { t: texts(), next, has_passkeys, fault: Some(fault) }))
        }
    }
}

async fn refused(
    app: &App,
    has_passkeys: bool,
    email: &str,
    next: String,
    failure: Failure,
) -> Result<Response> {
    let status = failure.status();
    let fault = match status.as_u16() {
        401 => texts().signing_in.wrong_password.to_owned(),
        429 | 503 => failure.into_body().error,
        _ => return Err(failure.into()),
    };
    let shown = sign_in_page(app, has_passkeys, email.to_owned(), next, Some(fault)).await?;
    Ok(page_as(status, &shown))
}

/// Whether a browser that reaches the gateway like this one can be asked for passkeys.
fn has_passkeys(app: &App, request: &Request) -> bool {
    app.gateway.has_passkeys(cross_site::host(request))
}

/// Signs out; out of the provider of single sign-on too, if the session came by one that has a page for it. A
/// redirect to another host could not follow a form, so a page leads there.
pub(super) async fn leave(State(app): State<App>, visit: Visit) -> Result<Response> {
    // Another host of the domain may have set some.
    let hints = cookies(&visit.headers, HINT_COOKIE.name).take(MOST_OF_NAME).map(str::to_owned);
    let hints: Vec<String> = hints.collect();
    let address = app.gateway.sign_out(&visit.session.token, visit.member(), &hints).await?;
    let response = match address {
        Some(address) => without_session(
            &app,
            page(&SignedOutPage { t: texts(), address: Secret::new(address) }),
        ),
        None => without_session(&app, Redirect::to("/sign-in")),
    };
    Ok(if hints.is_empty() { response } else { with_cookie(&HINT_COOKIE.removed(&app), response) })
}
