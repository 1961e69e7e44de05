//! API keys.

use std::collections::HashMap;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use dashboard::{Held, KeyRow, KeysPage, Money, NewSecret, Section, Texts};
use domain::ids::{KeyId, ProjectId, UserId};
use domain::key::Key;
use domain::secret::Secret;
use domain::step::ApiEndpoint;
use domain::time::Timestamp;
use gateway::{Error, KeyChange, KeyHoldings, KeyRights, KeyView, NewKey, Period, Person};
use tokio::time::timeout;

use crate::app::App;
use crate::console::address::address;
use crate::console::failure::{Result, outcome_of};
use crate::console::paging::{List, place, read_place};
use crate::console::refusal::show_refusal;
use crate::console::visit::{AFTER, Form, Visit, done};
use crate::console::{choices, csv, page, page_as};
use crate::http::error::Failure;
use crate::http::extract::Segments;

const LIST: List = List { path: "/keys", parameter: AFTER };

/// The hours over which the spend of own keys is shown.
const OWN_SPEND_HOURS: &str = "720";
/// The longest time that a page waits for it.
const OWN_SPEND_WAIT: Duration = Duration::from_secs(1);

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    Ok(page(&keys(&app, &visit, project).await?))
}

/// The list as a file.
pub(super) async fn file(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let people = people(&app, &visit).await;
    let holdings = app.gateway.holdings(visit.member(), project).await?.keys;
    let holdings = holdings.iter().map(|held| (held.id, held)).collect();
    let head = [
        "key",
        "name",
        "masked",
        "owner",
        "status",
        "spent_usd",
        "reserved_usd",
        "cap_usd",
        "allowed_models",
        "allowed_endpoints",
        "created",
        "last_used",
        "expires",
    ];
    let mut file = csv::ListFile::new(csv::Place::take(&app)?, "keys", &head);
    let views = app.gateway.list_keys(visit.member()).into_iter();
    let keys = views.map(|view| view.key).filter(|key| key.project == project);
    file.add(keys.map(|key| line(&visit, &key, &people, &holdings)));
    Ok(file.response(visit.t))
}

fn line(
    visit: &Visit,
    key: &Key,
    people: &[Person],
    holdings: &HashMap<KeyId, &KeyHoldings>,
) -> Vec<String> {
    let held = holdings.get(&key.id);
    let endpoints = key.allowed_endpoints.as_ref();
    let endpoints = endpoints.map(|list| csv::listed(list.iter().map(|found| found.as_str())));
    vec![
        key.id.to_string(),
        key.name.clone(),
        key.masked.clone(),
        csv::maybe(key.owner.map(|by| owner(visit, people, by))),
        key.status.as_str().to_owned(),
        csv::amount(held.map(|held| held.spent).unwrap_or_default()),
        csv::amount(held.map(|held| held.reserved).unwrap_or_default()),
        key.hourly_limit.map(csv::amount).unwrap_or_default(),
        // An empty list allows nothing, none at all everything.
        key.allowed_models.as_ref().map_or_else(all_allowed, csv::listed),
        endpoints.unwrap_or_else(all_allowed),
        csv::time(Some(key.created_at)),
        csv::time(key.last_used),
        csv::time(key.expires_at),
    ]
}

fn all_allowed() -> String {
    "*".to_owned()
}

/// The people of the organization, for admins.
async fn people(app: &App, visit: &Visit) -> Vec<Person> {
    if !visit.member().role.is_admin() {
        return Vec::new();
    }
    // Numbers stand for people that cannot be read.
    app.gateway.list_people(visit.member()).await.unwrap_or_default()
}

async fn keys(app: &App, visit: &Visit, project: ProjectId) -> Result<KeysPage> {
    let after: Option<(Timestamp, KeyId)> = visit.get(AFTER).map(read_place).transpose()?;
    let is_shown = |key: &Key| {
        key.project == project && after.is_none_or(|after| (key.created_at, key.id) > after)
    };
    let views = app.gateway.list_keys(visit.member()).into_iter();
    let views = views.filter(|view| is_shown(&view.key)).collect();
    let frame = visit.frame(Section::Keys, visit.t.keys.title, Some(project));
    let (views, pages) =
        LIST.page(visit, &frame, views, |view| place(view.key.created_at, view.key.id));
    let people = people(app, visit).await;
    let holdings = app.gateway.holdings(visit.member(), project).await?.keys;
    let models = app.gateway.list_models(visit.member(), project)?;
    Ok(KeysPage {
        file: frame.href("/keys.csv"),
        frame,
        pages,
        rows: views.into_iter().map(|view| row(app, visit, view, &people, &holdings)).collect(),
        own_spend: own_spend(app, visit, project).await,
        models: models
            .iter()
            .take(choices::MOST)
            .map(|view| view.model.identifier.clone())
            .collect(),
        has_more_models: models.len() > choices::MOST,
        endpoints: ApiEndpoint::ALL.iter().map(|endpoint| endpoint.as_str()).collect(),
        made: None,
        may_make: visit.member().role.may_manage_keys(),
        may_cap: app.gateway.may_cap_keys(visit.member(), project),
        address: address(app, &visit.headers),
    })
}

/// The spend of the user's own keys of a project; `None` of somebody who has none. Statistics that are busy or
/// slow leave it out: the page shows secrets once, and revokes keys.
async fn own_spend(app: &App, visit: &Visit, project: ProjectId) -> Option<Money> {
    if !visit.member().role.may_manage_keys() {
        return None;
    }
    let period = Period::read(Some(OWN_SPEND_HOURS), None, None, app.gateway.now()).ok()?;
    let usage = app.gateway.own_usage(visit.member(), period, Some(project));
    let usage = timeout(OWN_SPEND_WAIT, usage).await.ok()?.ok()?;
    (!usage.keys.is_empty()).then(|| Money(usage.cost()))
}

/// The maker of a key, as the user may know them.
fn owner(visit: &Visit, people: &[Person], owner: UserId) -> String {
    if visit.member().person() == Some(owner) {
        return visit.t.keys.you.to_owned();
    }
    let known = people.iter().find(|person| person.user == owner);
    known.map_or_else(|| visit.t.keys.user(owner.0), |person| person.email.clone())
}

fn row(
    app: &App,
    visit: &Visit,
    view: KeyView,
    people: &[Person],
    holdings: &[KeyHoldings],
) -> KeyRow {
    let KeyRights { may_rotate, may_revoke } = app.gateway.key_rights(visit.member(), &view.key);
    let key = view.key;
    let held = holdings.iter().find(|held| held.id == key.id);
    KeyRow {
        id: key.id.to_string(),
        name: key.name,
        masked: key.masked,
        status: key.status.as_str(),
        owner: key.owner.map(|by| owner(visit, people, by)),
        held: Held {
            spent: Money(held.map(|held| held.spent).unwrap_or_default()),
            reserved: Money(held.map(|held| held.reserved).unwrap_or_default()),
            bound: key.hourly_limit.map(Money),
        },
        models: key.allowed_models,
        endpoints: key
            .allowed_endpoints
            .map(|list| list.into_iter().map(ApiEndpoint::as_str).collect()),
        last_used: key.last_used,
        expires_at: key.expires_at,
        may_rotate,
        may_revoke,
    }
}

/// Makes a key, and shows its secret once.
pub(super) async fn create(State(app): State<App>, visit: Visit, form: Form) -> Result<Response> {
    let project = visit.project_of_form(&form)?;
    let made = match new_key(visit.t, project, &form) {
        Ok(new) => app.gateway.create_key(visit.member(), new).await.map_err(Failure::from),
        Err(fault) => Err(fault.into()),
    };
    let failure = match made {
        Ok(made) => return with_secret(&app, &visit, project, Ok(made)).await,
        Err(failure) => failure,
    };
    let mut shown = keys(&app, &visit, project).await?;
    let places = [
        ("Name", "name"),
        ("hourly_limit", "hourly_limit"),
        (visit.t.keys.cap_no_amount, "hourly_limit"),
        ("allowed_models", "allowed_model"),
        (visit.t.keys.models_or_all, "allowed_model"),
        (visit.t.keys.endpoints_or_all, "allowed_endpoint"),
    ];
    let status = show_refusal(&mut shown.frame, failure, ("new", &form), &places);
    Ok(page_as(status, &shown))
}

/// The key that a form describes.
fn new_key(t: &Texts, project: ProjectId, form: &Form) -> std::result::Result<NewKey, Error> {
    let models = ("models", "allowed_model", t.keys.models_or_all);
    let endpoints = ("endpoints", "allowed_endpoint", t.keys.endpoints_or_all);
    Ok(NewKey {
        name: form.text("name"),
        project,
        hourly_limit: form.dollars("hourly_limit", t.keys.cap_no_amount)?,
        expires_at: None,
        allowed_models: allowed(form, models)?,
        allowed_endpoints: allowed(form, endpoints)?,
    })
}

/// The values of a list that are ticked, by the field that says whether they count; `None` allows all. `fault` is the
/// refusal of ticks where all are allowed, and of any other choice.
fn allowed(
    form: &Form,
    (choice, field, fault): (&str, &str, &str),
) -> std::result::Result<Option<Vec<String>>, Error> {
    let ticked: Vec<String> = form.all(field).map(str::to_owned).collect();
    match form.get(choice) {
        Some("all") | None if ticked.is_empty() => Ok(None),
        // A page of the release before has no choice.
        Some("these") | None => Ok(Some(ticked)),
        Some(_) => Err(Error::invalid(fault)),
    }
}

/// The page with a new secret, which is shown once, or with why there is none.
async fn with_secret(
    app: &App,
    visit: &Visit,
    project: ProjectId,
    made: std::result::Result<(KeyView, Secret), Failure>,
) -> Result<Response> {
    let mut shown = keys(app, visit, project).await?;
    let (status, made) = outcome_of(&mut shown.frame, made);
    shown.made = made.map(|(view, secret)| NewSecret {
        name: view.key.name,
        secret: secret.expose().to_owned(),
    });
    Ok(page_as(status, &shown))
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
    with_secret(&app, &visit, project, rotated.map_err(Failure::from)).await
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
    Ok(done(&visit.at_place(LIST.path), project, "key_reset"))
}

/// Revokes a key.
pub(super) async fn revoke(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let project = visit.shown_project()?;
    app.gateway.revoke_key(visit.member(), path.key()?).await?;
    Ok(done(&visit.at_place(LIST.path), project, "key_revoked"))
}
