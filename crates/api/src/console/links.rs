//! Pages that one-time links lead to. Looking at one uses nothing up: a form does.

use axum::extract::{FromRequest as _, Request, State};
use axum::http::StatusCode;
use axum::response::{Redirect, Response};
use dashboard::{ForgottenPage, InvitationPage, NewPasswordPage, VerificationPage};
use domain::secret::Secret;
use gateway::{Error, LinkPurpose, SESSION_ABSOLUTE};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::visit::Form;
use crate::console::{page, page_as};
use crate::control::session::{cookie, with_cookie};
use crate::http::error::Failure;
use crate::http::{client, cross_site};

/// The form of an invitation.
pub(super) async fn show_invitation(State(app): State<App>, request: Request) -> Result<Response> {
    let origin = client::origin(&app, &request);
    let token = token(&request);
    let address = app.gateway.link_address(LinkPurpose::Invitation, &token, &origin).await;
    let shown = |email, fault| InvitationPage { email, token, name: String::new(), fault };
    Ok(match address {
        Ok(email) => page(&shown(Some(email), None)),
        Err(error) => {
            let (status, fault) = refused(error)?;
            page_as(status, &shown(None, Some(fault)))
        }
    })
}

/// Accepts an invitation, and signs in.
pub(super) async fn accept(State(app): State<App>, request: Request) -> Result<Response> {
    cross_site::check(&app, &request)?;
    let origin = client::origin(&app, &request);
    app.gateway.check_address(&origin).await?;
    let form = Form::from_request(request, &app).await?;
    let (token, name) = (form.text("token"), form.text("name"));
    let password = Secret::new(form.text("password"));
    match app.gateway.accept_invitation(&token, &name, password, &origin).await {
        Ok(signed_in) => {
            let cookie = cookie(&app, signed_in.token.expose(), SESSION_ABSOLUTE / 1_000_000);
            Ok(with_cookie(cookie, Redirect::to("/")))
        }
        Err(error) => {
            let (status, fault) = refused(error)?;
            let email =
                app.gateway.link_address(LinkPurpose::Invitation, &token, &origin).await.ok();
            Ok(page_as(status, &InvitationPage { email, token, name, fault: Some(fault) }))
        }
    }
}

/// The form of a new password.
pub(super) async fn show_password(State(app): State<App>, request: Request) -> Result<Response> {
    let origin = client::origin(&app, &request);
    let token = token(&request);
    let address = app.gateway.link_address(LinkPurpose::Password, &token, &origin).await;
    let shown = |email, fault| NewPasswordPage { email, token, is_done: false, fault };
    Ok(match address {
        Ok(email) => page(&shown(Some(email), None)),
        Err(error) => {
            let (status, fault) = refused(error)?;
            page_as(status, &shown(None, Some(fault)))
        }
    })
}

/// Sets a new password. Nobody is signed in by it.
pub(super) async fn set_password(State(app): State<App>, request: Request) -> Result<Response> {
    cross_site::check(&app, &request)?;
    let origin = client::origin(&app, &request);
    app.gateway.check_address(&origin).await?;
    let form = Form::from_request(request, &app).await?;
    let token = form.text("token");
    let password = Secret::new(form.text("password"));
    let set = app.gateway.reset_password_by_link(&token, password, &origin).await;
    let Err(error) = set else {
        let done = NewPasswordPage { email: None, token, is_done: true, fault: None };
        return Ok(page(&done));
    };
    let (status, fault) = refused(error)?;
    let email = app.gateway.link_address(LinkPurpose::Password, &token, &origin).await.ok();
    Ok(page_as(status, &NewPasswordPage { email, token, is_done: false, fault: Some(fault) }))
}

/// The form of somebody who has forgotten their password.
pub(super) async fn show_forgotten(State(app): State<App>, request: Request) -> Result<Response> {
    app.gateway.check_address(&client::origin(&app, &request)).await?;
    Ok(page(&ForgottenPage { is_done: false, fault: None }))
}

/// Has a link sent. The page is the same whether the address has an account or not.
pub(super) async fn ask_password(State(app): State<App>, request: Request) -> Result<Response> {
    cross_site::check(&app, &request)?;
    let origin = client::origin(&app, &request);
    app.gateway.check_address(&origin).await?;
    let form = Form::from_request(request, &app).await?;
    Ok(match app.gateway.ask_new_password(&form.text("email"), &origin).await {
        Ok(()) => page(&ForgottenPage { is_done: true, fault: None }),
        Err(error) => {
            let (status, fault) = refused(error)?;
            page_as(status, &ForgottenPage { is_done: false, fault: Some(fault) })
        }
    })
}

/// The form that verifies an address.
pub(super) async fn show_verification(
    State(app): State<App>,
    request: Request,
) -> Result<Response> {
    let origin = client::origin(&app, &request);
    let token = token(&request);
    let address = app.gateway.link_address(LinkPurpose::Email, &token, &origin).await;
    let shown = |email, fault| VerificationPage { email, token, is_done: false, fault };
    Ok(match address {
        Ok(email) => page(&shown(Some(email), None)),
        Err(error) => {
            let (status, fault) = refused(error)?;
            page_as(status, &shown(None, Some(fault)))
        }
    })
}

/// Verifies an address.
pub(super) async fn verify(State(app): State<App>, request: Request) -> Result<Response> {
    cross_site::check(&app, &request)?;
    let origin = client::origin(&app, &request);
    app.gateway.check_address(&origin).await?;
    let form = Form::from_request(request, &app).await?;
    let token = form.text("token");
    let verified = app.gateway.verify_email(&token, &origin).await;
    let shown = |is_done, fault| VerificationPage { email: None, token, is_done, fault };
    Ok(match verified {
        Ok(()) => page(&shown(true, None)),
        Err(error) => {
            let (status, fault) = refused(error)?;
            page_as(status, &shown(false, Some(fault)))
        }
    })
}

/// The token in the address of a link.
fn token(request: &Request) -> String {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "token").map(|(_, token)| token.into_owned()).unwrap_or_default()
}

/// The sentence of a refusal that the page itself shows; other failures have a page of their own.
fn refused(error: Error) -> Result<(StatusCode, String)> {
    let failure = Failure::from(error);
    let status = failure.status();
    match status {
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::TOO_MANY_REQUESTS => {
            Ok((status, failure.into_body().error))
        }
        _ => Err(failure.into()),
    }
}
