//! The link of an account to a user of a provider of single sign-on, which its owner confirms.

use axum::extract::{FromRequest as _, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use dashboard::{LinkPage, LinkState};
use domain::secret::Secret;
use gateway::{PendingLink, Standing};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::language::texts;
use crate::console::page_as;
use crate::console::visit::{Form, sign_in_path};
use crate::control::identities::LINK_COOKIE;
use crate::http::cookie::with_cookie;
use crate::http::error::Failure;
use crate::http::{auth, client};

/// The page of this file.
const PATH: &str = "/sign-on/link";

/// The page.
pub(super) async fn show_link(State(app): State<App>, request: Request) -> Result<Response> {
    app.gateway.check_address(&client::origin(&app, &request)).await?;
    let session = auth::own_session_of(&app, &request, Standing::Enrols).await.ok();
    let own = session.map(|session| session.account.email);
    Ok(page_of(StatusCode::OK, pending(&app, &request), own, None))
}

/// Links the account.
pub(super) async fn link(State(app): State<App>, request: Request) -> Result<Response> {
    let session = auth::own_session_of(&app, &request, Standing::Enrols).await;
    let session = match session {
        Ok(session) => session,
        Err(failure) if failure.status() == StatusCode::UNAUTHORIZED => {
            return Ok(Redirect::to(&sign_in_path(PATH)).into_response());
        }
        Err(failure) => return Err(failure.into()),
    };
    let cookie = LINK_COOKIE.read(&app, request.headers());
    let pending = pending(&app, &request);
    let form = Form::from_request(request, &app).await?;
    let password = Secret::new(form.text("password"));
    let (member, account) = (&session.member, &session.account);
    match app.gateway.link_identity(member, account, cookie.as_deref(), password).await {
        Ok(()) => {
            let next = pending.map_or_else(|| "/".to_owned(), |pending| pending.next);
            Ok(with_cookie(&LINK_COOKIE.removed(&app), Redirect::to(&next)))
        }
        Err(error) => {
            let failure = Failure::from(error);
            let status = failure.status();
            if !matches!(status.as_u16(), 422 | 429) {
                return Err(failure.into());
            }
            let fault = Some(failure.into_body().error);
            Ok(page_of(status, pending, Some(session.account.email), fault))
        }
    }
}

fn pending(app: &App, request: &Request) -> Option<PendingLink> {
    let cookie = LINK_COOKIE.read(app, request.headers())?;
    app.gateway.pending_link(&cookie)
}

fn page_of(
    status: StatusCode,
    pending: Option<PendingLink>,
    own: Option<String>,
    fault: Option<String>,
) -> Response {
    let t = texts();
    let Some(PendingLink { provider, email, .. }) = pending else {
        let (provider, email) = (String::new(), String::new());
        return page_as(status, &LinkPage { t, state: LinkState::None, provider, email, fault });
    };
    let state = match own {
        None => LinkState::SignInFirst,
        Some(own) if own != email => LinkState::OtherAccount(own),
        Some(_) => LinkState::Confirm,
    };
    page_as(status, &LinkPage { t, state, provider, email, fault })
}
