//! Pages that one-time links lead to. Looking at one uses nothing up: a form does.

use axum::extract::{FromRequest as _, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use dashboard::{
    ForgottenPage, InvitationPage, NewPasswordPage, Page, SignOnLink, VerificationPage,
};
use domain::secret::Secret;
use gateway::{Error, LinkPurpose, Origin};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::language::texts;
use crate::console::sign_in::{entered, ways_in};
use crate::console::visit::Form;
use crate::console::{page, page_as};
use crate::http::error::Failure;
use crate::http::query::query_value;
use crate::http::{client, cross_site};

/// The form of an invitation, with the providers beside it, or in its place if there are no passwords.
pub(super) async fn show_invitation(State(app): State<App>, request: Request) -> Result<Response> {
    app.gateway.check_address(&client::origin(&app, &request)).await?;
    let (providers, has_password) = ways_in(&app, "/").await?;
    let name = String::new();
    let shown = move |token: String, email, fault| InvitationPage {
        t: texts(),
        email,
        name,
        providers: with_invitation(providers, &token),
        token,
        has_password,
        fault,
    };
    show(&app, &request, LinkPurpose::Invitation, shown).await
}

/// Links to providers that carry the token of an invitation, as the address of its page does: the sign-on accepts it.
/// Queries are never logged, and no other site learns the address of a page (`Referrer-Policy`).
fn with_invitation(providers: Vec<SignOnLink>, token: &str) -> Vec<SignOnLink> {
    let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
    let with = |link: SignOnLink| SignOnLink {
        href: format!("{}&invitation={token}", link.href),
        name: link.name,
    };
    providers.into_iter().map(with).collect()
}

/// Accepts an invitation, and signs in.
pub(super) async fn accept(State(app): State<App>, request: Request) -> Result<Response> {
    let origin = cross_site::open_origin(&app, &request).await?;
    let form = Form::from_request(request, &app).await?;
    let (token, name) = (form.text("token"), form.text("name"));
    let password = Secret::new(form.text("password"));
    match app.gateway.accept_invitation(&token, &name, password, &origin).await {
        Ok(signed_in) => Ok(entered(&app, &signed_in, "/")),
        Err(error) => {
            let email = address_of(&app, LinkPurpose::Invitation, &token, &origin, &error).await;
            let (status, fault) = refused(error)?;
            let (providers, has_password) = ways_in(&app, "/").await?;
            let providers = with_invitation(providers, &token);
            let fault = Some(fault);
            let t = texts();
            let shown = InvitationPage { t, email, token, name, providers, has_password, fault };
            Ok(page_as(status, &shown))
        }
    }
}

/// The form of a new password.
pub(super) async fn show_password(State(app): State<App>, request: Request) -> Result<Response> {
    let shown =
        |token, email, fault| NewPasswordPage { t: texts(), email, token, is_done: false, fault };
    show(&app, &request, LinkPurpose::Password, shown).await
}

/// Sets a new password. Nobody is signed in by it.
pub(super) async fn set_password(State(app): State<App>, request: Request) -> Result<Response> {
    let origin = cross_site::open_origin(&app, &request).await?;
    let form = Form::from_request(request, &app).await?;
    let token = form.text("token");
    let password = Secret::new(form.text("password"));
    let set = app.gateway.reset_password_by_link(&token, password, &origin).await;
    let Err(error) = set else {
        let done = NewPasswordPage { t: texts(), email: None, token, is_done: true, fault: None };
        return Ok(page(&done));
    };
    let email = address_of(&app, LinkPurpose::Password, &token, &origin, &error).await;
    let (status, fault) = refused(error)?;
    Ok(page_as(
        status,
        &NewPasswordPage { t: texts(), email, token, is_done: false, fault: Some(fault) },
    ))
}

/// The form of somebody who has forgotten their password.
pub(super) async fn show_forgotten(State(app): State<App>, request: Request) -> Result<Response> {
    app.gateway.check_address(&client::origin(&app, &request)).await?;
    Ok(page(&ForgottenPage { t: texts(), email: String::new(), is_done: false, fault: None }))
}

/// Has a link sent. The page is the same whether the address has an account or not.
pub(super) async fn ask_password(State(app): State<App>, request: Request) -> Result<Response> {
    let origin = cross_site::open_origin(&app, &request).await?;
    let form = Form::from_request(request, &app).await?;
    let email = form.text("email");
    let asked = app.gateway.ask_new_password(&email, &origin).await;
    let shown = |is_done, fault| ForgottenPage { t: texts(), email, is_done, fault };
    Ok(match asked {
        Ok(()) => page(&shown(true, None)),
        Err(error) => {
            let (status, fault) = refused(error)?;
            page_as(status, &shown(false, Some(fault)))
        }
    })
}

/// The form that verifies an address.
pub(super) async fn show_verification(
    State(app): State<App>,
    request: Request,
) -> Result<Response> {
    let shown =
        |token, email, fault| VerificationPage { t: texts(), email, token, is_done: false, fault };
    show(&app, &request, LinkPurpose::Email, shown).await
}

/// Verifies an address.
pub(super) async fn verify(State(app): State<App>, request: Request) -> Result<Response> {
    let origin = cross_site::open_origin(&app, &request).await?;
    let form = Form::from_request(request, &app).await?;
    let token = form.text("token");
    let verified = app.gateway.verify_email(&token, &origin).await;
    let shown =
        |is_done, fault| VerificationPage { t: texts(), email: None, token, is_done, fault };
    Ok(match verified {
        Ok(()) => page(&shown(true, None)),
        Err(error) => {
            let (status, fault) = refused(error)?;
            page_as(status, &shown(false, Some(fault)))
        }
    })
}

/// The page that a link leads to, by its token, the address that it is for, and why it is refused.
fn show<'a, P, F>(
    app: &'a App,
    request: &Request,
    purpose: LinkPurpose,
    shown: F,
) -> impl Future<Output = Result<Response>> + Send + use<'a, P, F>
where
    P: Page,
    F: FnOnce(String, Option<String>, Option<String>) -> P + Send + 'a,
{
    let (origin, token) =
        (client::origin(app, request), query_value(request, "token").unwrap_or_default());
    async move {
        Ok(match app.gateway.link_address(purpose, &token, &origin).await {
            Ok(email) => page(&shown(token, Some(email), None)),
            Err(error) => {
                let (status, fault) = refused(error)?;
                page_as(status, &shown(token, None, Some(fault)))
            }
        })
    }
}

/// The address of a link whose form was refused, if it is not the link that was.
async fn address_of(
    app: &App,
    purpose: LinkPurpose,
    token: &str,
    origin: &Origin,
    refusal: &Error,
) -> Option<String> {
    if matches!(refusal, Error::LinkInvalid) {
        return None;
    }
    app.gateway.link_address(purpose, token, origin).await.ok()
}

/// The sentence of a refusal that the page itself shows; other failures have a page of their own.
fn refused(error: Error) -> Result<(StatusCode, String)> {
    let failure = Failure::from(error);
    let status = failure.status();
    match status {
        StatusCode::UNPROCESSABLE_ENTITY
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::SERVICE_UNAVAILABLE => Ok((status, failure.into_body().error)),
        _ => Err(failure.into()),
    }
}
