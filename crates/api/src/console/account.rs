//! The user's own account.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::response::Response;
use dashboard::{
    AccountPage, IdentityRow, OfferedAuthenticator, PasskeyRow, Section, SessionRow, SignOnLink,
};
use domain::secret::Secret;
use gateway::{Error, LinkedIdentity, PasskeyView, SessionView};

use crate::app::App;
use crate::console::failure::{Result, show_fault};
use crate::console::visit::{Form, Visit, done};
use crate::console::{page, page_as};
use crate::http::error::Failure;
use crate::http::extract::Segments;

/// The longest secret and address of an authenticator that a form sends back.
const LONGEST_OFFER: usize = 1_024;

/// The page.
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response> {
    Ok(page(&account(&app, &visit).await?))
}

/// The page as it is now. (The account of the visit is that of before its form.)
async fn account(app: &App, visit: &Visit) -> Result<AccountPage> {
    let member = visit.member();
    let own = app.gateway.own_account(member).await?;
    let passkeys = app.gateway.own_passkeys(member).await?;
    let identities = app.gateway.own_identities(member).await?;
    let has_password = !visit.session.account.password_hash.is_empty();
    let providers = if has_password { Vec::new() } else { app.gateway.ways_to_sign_in().await?.0 };
    let host = visit.headers.get(HOST).and_then(|host| host.to_str().ok());
    let sessions = app.gateway.own_sessions(&visit.session.token, member).await?;
    Ok(AccountPage {
        frame: visit.frame(Section::Account, visit.t.account.title, visit.project()?),
        has_password,
        sign_in_anew: providers.into_iter().map(anew_link).collect(),
        verified_at: own.email_verified_at,
        has_mail: app.gateway.has_mail(),
        has_authenticator: own.has_authenticator,
        has_factor: own.mfa_enabled,
        requires_factor: own.requires_factor,
        codes_left: own.recovery_codes_left,
        offered: None,
        codes: Vec::new(),
        has_passkeys: app.gateway.has_passkeys(host),
        passkeys: passkeys.into_iter().map(passkey_row).collect(),
        identities: identities.iter().map(identity_row).collect(),
        sessions: sessions.into_iter().map(row).collect(),
    })
}

/// The way to a provider that has its user sign in once more, and back to the page.
fn anew_link((slug, name): (String, String)) -> SignOnLink {
    SignOnLink { href: format!("/api/v1/sign-on/{slug}?anew=1&next=/account"), name }
}

fn identity_row(identity: &LinkedIdentity) -> IdentityRow {
    IdentityRow {
        id: gateway::identity_id(identity),
        issuer: identity.issuer.clone(),
        email: identity.email.clone(),
        created_at: identity.created_at,
    }
}

fn row(view: SessionView) -> SessionRow {
    SessionRow {
        id: view.id,
        user_agent: view.user_agent.filter(|agent| !agent.is_empty()),
        address: view.address,
        created_at: view.created_at,
        last_seen_at: view.last_seen_at,
        is_current: view.is_current,
    }
}

fn passkey_row(view: PasskeyView) -> PasskeyRow {
    let PasskeyView { id, name, created_at, last_used_at } = view;
    PasskeyRow { id, name, created_at, last_used_at }
}

/// Replaces the password.
pub(super) async fn change_password(
    State(app): State<App>,
    visit: Visit,
    form: Form,
) -> Result<Response> {
    let (old, new) = (secret(&form, "old_password"), secret(&form, "new_password"));
    let by = &visit.session;
    let changed = app.gateway.change_own_password(&by.member, &by.account, old, new);
    done_or_refused(&app, &visit, changed.await, "password_changed").await
}

/// Shows the secret of a new authenticator.
pub(super) async fn offer(State(app): State<App>, visit: Visit, form: Form) -> Result<Response> {
    let by = &visit.session;
    let offered =
        app.gateway.offer_authenticator(&by.member, &by.account, secret(&form, "password"));
    match offered.await {
        Ok(new) => {
            let mut shown = account(&app, &visit).await?;
            let (secret, uri) = (new.secret.expose().to_owned(), new.uri.expose().to_owned());
            shown.offered = Some(OfferedAuthenticator { secret, uri });
            Ok(page(&shown))
        }
        Err(error) => refused(&app, &visit, error).await,
    }
}

/// Activates the authenticator, and shows the recovery codes once.
pub(super) async fn confirm(
    State(app): State<App>,
    mut visit: Visit,
    form: Form,
) -> Result<Response> {
    let (by, code) = (&visit.session, code(&form));
    let confirmed = app.gateway.confirm_authenticator(&by.member, &by.account, &code);
    match confirmed.await {
        Ok(codes) => {
            // The rest of the console is open from now on.
            visit.enrols = false;
            with_codes(&app, &visit, &codes).await
        }
        Err(error) => {
            let failure = Failure::from(error);
            let mut shown = account(&app, &visit).await?;
            shown.offered = offered_again(&form).filter(|_| !shown.has_authenticator);
            Ok(shown_with(shown, failure))
        }
    }
}

/// The authenticator that a form had shown: the gateway does not show its secret a second time.
fn offered_again(form: &Form) -> Option<OfferedAuthenticator> {
    let (secret, uri) = (form.text("secret"), form.text("uri"));
    let is_one = uri.starts_with("otpauth://totp/") && uri.len() + secret.len() < LONGEST_OFFER;
    is_one.then_some(OfferedAuthenticator { secret, uri })
}

/// Replaces the recovery codes, and shows the new ones once.
pub(super) async fn replace_codes(
    State(app): State<App>,
    visit: Visit,
    form: Form,
) -> Result<Response> {
    let by = &visit.session;
    match app.gateway.replace_recovery_codes(&by.member, &by.account, &code(&form)).await {
        Ok(codes) => with_codes(&app, &visit, &codes).await,
        Err(error) => refused(&app, &visit, error).await,
    }
}

/// Removes all second factors.
pub(super) async fn remove_factors(
    State(app): State<App>,
    visit: Visit,
    form: Form,
) -> Result<Response> {
    let (by, password) = (&visit.session, secret(&form, "password"));
    let removed =
        app.gateway.remove_own_factors(&by.member, &by.account, password, &code(&form)).await;
    done_or_refused(&app, &visit, removed, "factors_removed").await
}

/// Removes a passkey.
pub(super) async fn remove_passkey(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
    form: Form,
) -> Result<Response> {
    let (by, password) = (&visit.session, secret(&form, "password"));
    let id = path.text("id")?;
    let removed = app.gateway.remove_passkey(&by.member, &by.account, password, id).await;
    done_or_refused(&app, &visit, removed, "passkey_removed").await
}

/// Unlinks an account at an issuer.
pub(super) async fn unlink(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
    form: Form,
) -> Result<Response> {
    let (by, password) = (&visit.session, secret(&form, "password"));
    let id = path.text("id")?;
    let unlinked = app.gateway.unlink_identity(&by.member, &by.account, password, id).await;
    done_or_refused(&app, &visit, unlinked, "identity_unlinked").await
}

/// Has a letter sent whose link verifies the address.
pub(super) async fn verify_address(State(app): State<App>, visit: Visit) -> Result<Response> {
    let sent = app.gateway.send_verification(visit.member()).await;
    done_or_refused(&app, &visit, sent, "letter_sent").await
}

/// Ends a session.
pub(super) async fn revoke_session(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let ended = app.gateway.revoke_session(visit.member(), path.text("id")?).await;
    done_or_refused(&app, &visit, ended, "session_ended").await
}

async fn with_codes(app: &App, visit: &Visit, codes: &[Secret]) -> Result<Response> {
    let mut shown = account(app, visit).await?;
    shown.codes = codes.iter().map(|code| code.expose().to_owned()).collect();
    Ok(page_as(StatusCode::CREATED, &shown))
}

async fn done_or_refused(
    app: &App,
    visit: &Visit,
    outcome: std::result::Result<(), Error>,
    what: &str,
) -> Result<Response> {
    match outcome {
        Ok(()) => Ok(done(Section::Account.path(), visit.project()?, what)),
        Err(error) => refused(app, visit, error).await,
    }
}

async fn refused(app: &App, visit: &Visit, error: Error) -> Result<Response> {
    Ok(shown_with(account(app, visit).await?, error.into()))
}

fn shown_with(mut shown: AccountPage, failure: Failure) -> Response {
    let status = show_fault(&mut shown.frame, failure);
    page_as(status, &shown)
}

fn secret(form: &Form, field: &str) -> Secret {
    Secret::new(form.text(field))
}

fn code(form: &Form) -> String {
    form.text("code").trim().to_owned()
}
