//! Service tokens, for admins and owners.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dashboard::{NewSecret, Section, Texts, TokenRow, TokensPage};
use domain::secret::Secret;
use gateway::{Error, NewServiceToken, ServiceToken, TokenExpiry};

use crate::app::App;
use crate::console::address::address;
use crate::console::failure::Result;
use crate::console::paging::{List, READ, place, read_place};
use crate::console::people::projects;
use crate::console::refusal::show_refusal;
use crate::console::visit::{AFTER, Form, Visit, done};
use crate::console::{csv, page, page_as};
use crate::http::extract::Segments;

/// The page of this file.
const PATH: &str = "/people/tokens";

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    Ok(page(&tokens(&app, &visit).await?))
}

async fn tokens(app: &App, visit: &Visit) -> Result<TokensPage> {
    let after = visit.get(AFTER).map(read_place).transpose()?;
    let tokens = app.gateway.service_tokens_after(visit.member(), after, READ).await?;
    let frame = visit.frame(Section::People, visit.t.tokens.title, visit.project()?);
    let list = List { path: PATH, parameter: AFTER };
    let (tokens, pages) =
        list.page(visit, &frame, tokens, |token| place(token.created_at, token.id));
    let row = |token: ServiceToken| TokenRow {
        has_expired: app.gateway.has_expired(&token),
        id: token.id.to_string(),
        name: token.name,
        masked: token.masked,
        role: token.role.as_str(),
        projects: token.projects.iter().map(|project| project.0).collect(),
        maker: token.maker,
        last_used_at: token.last_used_at,
        expires_at: token.expires_at,
    };
    Ok(TokensPage {
        file: frame.href("/people/tokens.csv"),
        frame,
        pages,
        rows: tokens.into_iter().map(row).collect(),
        has_password: !visit.session.account.password_hash.is_empty(),
        made: None,
        address: address(app, &visit.headers),
    })
}

/// The list as a file.
pub(super) async fn file(State(app): State<App>, visit: Visit) -> Result<Response> {
    let head = ["name", "token", "role", "projects", "made_by", "made", "last_used", "expires"];
    let mut file = csv::ListFile::new(csv::Place::take(&app)?, "tokens", &head);
    let mut after = None;
    loop {
        let tokens = app.gateway.service_tokens_after(visit.member(), after, csv::READ).await?;
        after = tokens.last().map(|token| (token.created_at, token.id));
        let line = |token: ServiceToken| {
            vec![
                token.name,
                token.masked,
                token.role.as_str().to_owned(),
                csv::listed(token.projects),
                token.maker.unwrap_or_default(),
                csv::time(Some(token.created_at)),
                csv::time(token.last_used_at),
                csv::time(token.expires_at),
            ]
        };
        if !file.add_read(tokens.into_iter().map(line), csv::READ) {
            return Ok(file.response(visit.t));
        }
    }
}

/// Makes a token, and shows its secret once.
pub(super) async fn create(State(app): State<App>, visit: Visit, form: Form) -> Result<Response> {
    let made = async {
        let (name, role) = (form.text("name"), form.text("role"));
        let new = NewServiceToken {
            name,
            role,
            projects: projects(visit.t, &form)?,
            expiry: expiry(visit.t, &form)?,
        };
        let (by, password) = (&visit.session, Secret::new(form.text("password")));
        app.gateway.create_service_token(&by.member, &by.account, password, new).await
    };
    let made = made.await;
    let mut shown = tokens(&app, &visit).await?;
    let status = match made {
        Ok((token, secret)) => {
            shown.made = Some(NewSecret { name: token.name, secret: secret.expose().to_owned() });
            StatusCode::CREATED
        }
        Err(error) => {
            let places = [
                ("Name", "name"),
                ("The role", "role"),
                ("A token may have", "projects"),
                ("There is no project", "projects"),
                (visit.t.people.no_projects, "projects"),
                ("expires_in", "days"),
                (visit.t.tokens.no_days, "days"),
            ];
            show_refusal(&mut shown.frame, error.into(), ("new", &form), &places)
        }
    };
    Ok(page_as(status, &shown))
}

fn expiry(t: &Texts, form: &Form) -> std::result::Result<TokenExpiry, Error> {
    let fault = || Error::invalid(t.tokens.no_days);
    match form.get("days") {
        None => Ok(TokenExpiry::Default),
        Some(days) => {
            let days: i64 = days.parse().map_err(|_| fault())?;
            Ok(TokenExpiry::In(days.checked_mul(24 * 3600).ok_or_else(fault)?))
        }
    }
}

/// Revokes a token.
pub(super) async fn revoke(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    app.gateway.revoke_service_token(visit.member(), path.service_token()?).await?;
    Ok(done(&visit.at_place(PATH), visit.project()?, "token_revoked"))
}
