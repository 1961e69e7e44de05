//! API keys.

use axum::extract::State;
use axum::response::Response;
use dashboard::{KeyRow, KeysPage, Money, NewSecret, Section};
use domain::ids::ProjectId;
use domain::secret::Secret;
use gateway::{KeyChange, KeyRights, KeyView, NewKey};

use crate::app::App;
use crate::console::address::address;
use crate::console::failure::{Result, outcome_of};
use crate::console::refusal::show_refusal;
use crate::console::visit::{Form, Visit, done};
use crate::console::{page, page_as};
use crate::http::error::Failure;
use crate::http::extract::Segments;

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.project()?;
    Ok(page(&keys(&app, &visit, project)))
}

fn keys(app: &App, visit: &Visit, project: Option<ProjectId>) -> KeysPage {
    let views = app.gateway.list_keys(visit.member());
    let of_project = |view: &KeyView| Some(view.key.project) == project;
    KeysPage {
        frame: visit.frame(Section::Keys, visit.t.keys.title, project),
        rows: views.into_iter().filter(of_project).map(|view| row(app, visit, view)).collect(),
        made: None,
        may_make: visit.member().role.may_manage_keys(),
        may_cap: project.is_some_and(|project| app.gateway.may_cap_keys(visit.member(), project)),
        address: address(app, &visit.headers),
    }
}

fn row(app: &App, visit: &Visit, view: KeyView) -> KeyRow {
    let KeyRights { may_rotate, may_revoke } = app.gateway.key_rights(visit.member(), &view.key);
    let spent = app.gateway.spent_in_hour(view.key.id);
    let key = view.key;
    let cap = key.hourly_limit;
    KeyRow {
        id: key.id.to_string(),
        name: key.name,
        masked: key.masked,
        status: key.status.as_str(),
        spent: Money(spent),
        cap: cap.map(Money),
        share: cap.map(|cap| if cap.0 > 0 { spent.dollars() / cap.dollars() } else { 1.0 }),
        last_used: key.last_used,
        expires_at: key.expires_at,
        may_rotate,
        may_revoke,
    }
}

/// Makes a key, and shows its secret once.
pub(super) async fn create(State(app): State<App>, visit: Visit, form: Form) -> Result<Response> {
    let project = visit.project_of_form(&form)?;
    let made = match form.dollars("hourly_limit", visit.t.keys.cap_no_amount) {
        Ok(hourly_limit) => {
            let name = form.text("name");
            let new = NewKey {
                name,
                project,
                hourly_limit,
                expires_at: None,
                allowed_models: None,
                allowed_endpoints: None,
            };
            app.gateway.create_key(visit.member(), new).await.map_err(Failure::from)
        }
        Err(fault) => Err(fault.into()),
    };
    let failure = match made {
        Ok(made) => return Ok(with_secret(&app, &visit, project, Ok(made))),
        Err(failure) => failure,
    };
    let mut shown = keys(&app, &visit, Some(project));
    let places = [
        ("Name", "name"),
        ("hourly_limit", "hourly_limit"),
        (visit.t.keys.cap_no_amount, "hourly_limit"),
    ];
    let status = show_refusal(&mut shown.frame, failure, ("new", &form), &places);
    Ok(page_as(status, &shown))
}

/// The page with a new secret, which is shown once, or with why there is none.
fn with_secret(
    app: &App,
    visit: &Visit,
    project: ProjectId,
    made: std::result::Result<(KeyView, Secret), Failure>,
) -> Response {
    let mut shown = keys(app, visit, Some(project));
    let (status, made) = outcome_of(&mut shown.frame, made);
    shown.made = made.map(|(view, secret)| NewSecret {
        name: view.key.name,
        secret: secret.expose().to_owned(),
    });
    page_as(status, &shown)
}

/// Gives a key a new secret, and shows it once.
pub(super) async fn rotate(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
    form: Form,
) -> Result<Response> {
    let project = visit.shown_project()?;
    let overlap = form.get("overlap_seconds").unwrap_or("0").parse().unwrap_or(-1);
    let rotated = app.gateway.rotate_key(visit.member(), path.key()?, overlap).await;
    Ok(with_secret(&app, &visit, project, rotated.map_err(Failure::from)))
}

/// Resets a key that has paused itself.
pub(super) async fn reset(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let project = visit.shown_project()?;
    let change = KeyChange { status: Some("active".to_owned()), ..KeyChange::default() };
    app.gateway.update_key(visit.member(), path.key()?, change).await?;
    Ok(done("/keys", project, "key_reset"))
}

/// Revokes a key.
pub(super) async fn revoke(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let project = visit.shown_project()?;
    app.gateway.revoke_key(visit.member(), path.key()?).await?;
    Ok(done("/keys", project, "key_revoked"))
}
