//! The people of the organization.

use axum::extract::State;
use axum::response::Response;
use dashboard::{InvitationRow, NewLink, PeoplePage, PersonRow, Section, Texts};
use domain::ids::ProjectId;
use domain::project::Role;
use domain::time::Timestamp;
use gateway::{Error, Handover, InvitationView, Member, NewInvitation, Person, PersonChange};

use crate::app::App;
use crate::console::address::address;
use crate::console::failure::{Result, outcome_of};
use crate::console::paging::{List, READ, no_place, place, read_place};
use crate::console::refusal::show_refusal;
use crate::console::visit::{AFTER, Form, INVITED_AFTER, Visit, done};
use crate::console::{csv, page, page_as};
use crate::http::error::Failure;
use crate::http::extract::Segments;

/// The page of this file.
const PATH: &str = "/people";

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    Ok(page(&people(&app, &visit).await?))
}

const PEOPLE: List = List { path: PATH, parameter: AFTER };
const INVITATIONS: List = List { path: PATH, parameter: INVITED_AFTER };

async fn people(app: &App, visit: &Visit) -> Result<PeoplePage> {
    let member = visit.member();
    let after = visit.get(PEOPLE.parameter).map(|id| id.parse().map_err(|_| no_place()));
    let people = app.gateway.people_after(member, after.transpose()?, READ).await?;
    let after = visit.get(INVITATIONS.parameter).map(read_place::<String>).transpose()?;
    let after = after.as_ref().map(|(made, id)| (*made, id.as_str()));
    let invitations = app.gateway.invitations_after(member, after, READ).await;
    let invitations = invitations.map_err(|error| match error {
        // The place names no invitation.
        Error::NotFound => no_place(),
        error => error,
    })?;
    let (_, has_password) = app.gateway.ways_to_sign_in().await?;
    let frame = visit.frame(Section::People, visit.t.people.title, visit.project()?);
    let (people, pages) = PEOPLE.page(visit, &frame, people, |person| person.user.to_string());
    let place_of = |view: &InvitationView| place(view.created_at, &view.id);
    let (invitations, invitation_pages) = INVITATIONS.page(visit, &frame, invitations, place_of);
    Ok(PeoplePage {
        file: frame.href("/people.csv"),
        invitations_file: frame.href("/people/invitations.csv"),
        frame,
        pages,
        invitation_pages,
        people: people.into_iter().map(|person| row(member, has_password, person)).collect(),
        invitations: invitations.into_iter().map(|view| invitation(member, view)).collect(),
        made: None,
        is_owner: member.role == Role::Owner,
    })
}

/// The people as a file.
pub(super) async fn file(State(app): State<App>, visit: Visit) -> Result<Response> {
    let head =
        ["user", "email", "name", "role", "projects", "ways_in", "second_factor", "last_seen"];
    let mut file = csv::ListFile::new(csv::Place::take(&app)?, "people", &head);
    let mut after = None;
    loop {
        let people = app.gateway.people_after(visit.member(), after, csv::READ).await?;
        after = people.last().map(|person| person.user);
        if !file.add_read(people.iter().map(line), csv::READ) {
            return Ok(file.response(visit.t));
        }
    }
}

fn line(person: &Person) -> Vec<String> {
    vec![
        person.user.to_string(),
        person.email.clone(),
        person.name.clone(),
        person.role.as_str().to_owned(),
        csv::listed(&person.projects),
        csv::listed(person.ways_in()),
        person.mfa_enabled.to_string(),
        csv::time(person.last_seen_at),
    ]
}

/// The invitations as a file.
pub(super) async fn invitations_file(State(app): State<App>, visit: Visit) -> Result<Response> {
    let head = ["email", "role", "projects", "made", "good_until"];
    let mut file = csv::ListFile::new(csv::Place::take(&app)?, "invitations", &head);
    let mut after: Option<(Timestamp, String)> = None;
    loop {
        let place = after.as_ref().map(|(made, id)| (*made, id.as_str()));
        let views = app.gateway.invitations_after(visit.member(), place, csv::READ).await?;
        after = views.last().map(|view| (view.created_at, view.id.clone()));
        let line = |view: InvitationView| {
            vec![
                view.email,
                view.role.as_str().to_owned(),
                csv::listed(view.projects),
                csv::time(Some(view.created_at)),
                csv::time(Some(view.expires_at)),
            ]
        };
        if !file.add_read(views.into_iter().map(line), csv::READ) {
            return Ok(file.response(visit.t));
        }
    }
}

/// `has_password`: whether anybody signs in with a password, to which a link would lead.
fn row(member: &Member, has_password: bool, person: Person) -> PersonRow {
    let is_owner = member.role == Role::Owner;
    PersonRow {
        ways_in: person.ways_in(),
        id: person.user.0,
        may_change: is_owner || person.role != Role::Owner,
        may_reset: has_password && is_owner && person.user != member.user,
        may_reset_factor: is_owner && person.user != member.user && person.mfa_enabled,
        email: person.email,
        name: person.name,
        role: person.role.as_str(),
        projects: person.projects.iter().map(|project| project.0).collect(),
        has_factor: person.mfa_enabled,
        last_seen_at: person.last_seen_at,
    }
}

fn invitation(member: &Member, view: InvitationView) -> InvitationRow {
    let InvitationView { id, email, role, expires_at, .. } = view;
    let may_withdraw = member.role == Role::Owner || role != Role::Owner;
    InvitationRow { id, email, role: role.as_str(), expires_at, may_withdraw }
}

/// Invites a person, and shows the link once.
pub(super) async fn invite(State(app): State<App>, visit: Visit, form: Form) -> Result<Response> {
    let invited = async {
        let (email, role) = (form.text("email"), form.text("role"));
        let new = NewInvitation { email, role, projects: projects(visit.t, &form)? };
        app.gateway.invite(visit.member(), new).await
    };
    match invited.await {
        Ok((view, handover)) => {
            let title = visit.t.people.invitation_of(view.email);
            let made = new_link(&app, &visit, title, visit.t.people.three_days, handover);
            shown_with(&app, &visit, Ok(made)).await
        }
        Err(error) => refused(&app, &visit, error, ("new", &form)).await,
    }
}

/// Changes the role and the projects of a user.
pub(super) async fn change(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
    form: Form,
) -> Result<Response> {
    let user = path.user()?;
    let changed = async {
        // A field that is as the page had it says nothing: somebody else may have changed it meanwhile.
        let is_new = |name: &str, old: &str| form.get(name) != form.get(old);
        let role = form.get("role").filter(|_| is_new("role", "old_role")).map(str::to_owned);
        let projects =
            if is_new("projects", "old_projects") { Some(projects(visit.t, &form)?) } else { None };
        let change = PersonChange { role, projects };
        app.gateway.change_person(visit.member(), user, change).await
    };
    match changed.await {
        Ok(_) => done_or_refused(&app, &visit, Ok(()), "person_changed").await,
        Err(error) => refused(&app, &visit, error, (&user.to_string(), &form)).await,
    }
}

/// The page with a form that was refused, as it was sent.
async fn refused(
    app: &App,
    visit: &Visit,
    error: Error,
    (name, form): (&str, &Form),
) -> Result<Response> {
    let mut shown = people(app, visit).await?;
    // The address as it was sent, in the sentence that it has an account.
    let email = form.text("email").trim().to_lowercase();
    let mut places = vec![
        ("Email", "email"),
        ("role", "role"),
        ("The last owner", "role"),
        ("There is no project", "projects"),
        (visit.t.people.no_projects, "projects"),
    ];
    if !email.is_empty() {
        places.push((&email, "email"));
    }
    let status = show_refusal(&mut shown.frame, error.into(), (name, form), &places);
    Ok(page_as(status, &shown))
}

/// Removes a user.
pub(super) async fn remove(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let removed = app.gateway.remove_person(visit.member(), path.user()?).await;
    done_or_refused(&app, &visit, removed, "person_removed").await
}

/// Makes a link to a new password, and shows it once.
pub(super) async fn offer_password(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let link = app.gateway.offer_password_link(visit.member(), path.user()?).await;
    let made = link.map(|handover| {
        let title = visit.t.people.link_to_password.to_owned();
        new_link(&app, &visit, title, visit.t.people.an_hour, handover)
    });
    shown_with(&app, &visit, made).await
}

/// Ends every way in of a user, and shows the link to a new password once.
pub(super) async fn reset(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let link = app.gateway.reset_ways_in(visit.member(), path.user()?).await;
    let made = link.map(|handover| {
        let title = visit.t.people.ways_have_ended.to_owned();
        new_link(&app, &visit, title, visit.t.people.an_hour, handover)
    });
    shown_with(&app, &visit, made).await
}

/// Removes the second factors of a user, who can set up new ones.
pub(super) async fn reset_factors(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let reset = app.gateway.reset_factors(visit.member(), path.user()?).await;
    done_or_refused(&app, &visit, reset, "factors_reset").await
}

/// Withdraws an invitation.
pub(super) async fn withdraw(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let withdrawn = app.gateway.withdraw_invitation(visit.member(), path.text("id")?).await;
    done_or_refused(&app, &visit, withdrawn, "invitation_withdrawn").await
}

/// The page after a form that makes a link, which it shows, or that was refused.
async fn shown_with(
    app: &App,
    visit: &Visit,
    outcome: std::result::Result<NewLink, Error>,
) -> Result<Response> {
    let mut shown = people(app, visit).await?;
    let (status, made) = outcome_of(&mut shown.frame, outcome.map_err(Failure::from));
    shown.made = made;
    Ok(page_as(status, &shown))
}

/// The page after a form that changes something: it is loaded anew. Users who demote or remove themselves
/// see it no more.
async fn done_or_refused(
    app: &App,
    visit: &Visit,
    outcome: std::result::Result<(), Error>,
    what: &str,
) -> Result<Response> {
    match outcome {
        Ok(()) => Ok(done(&visit.at_place(PATH), visit.project()?, what)),
        Err(error) => shown_with(app, visit, Err(error)).await,
    }
}

/// A link, with the address that the browser uses where the gateway does not know its own.
fn new_link(
    app: &App,
    visit: &Visit,
    title: String,
    good_for: &'static str,
    handover: Handover,
) -> NewLink {
    let address = match handover {
        Handover::Sent => None,
        Handover::Shown(link) => {
            let own = link.address.expose();
            let base = own.starts_with('/').then(|| address(app, &visit.headers));
            Some(base.unwrap_or_default() + own)
        }
    };
    NewLink { title, good_for, address }
}

/// The projects that a form names, by number.
pub(super) fn projects(t: &Texts, form: &Form) -> std::result::Result<Vec<ProjectId>, Error> {
    let numbers = form.get("projects").unwrap_or_default();
    let numbers = numbers.split([',', ' ']).filter(|number| !number.is_empty());
    let read = |number: &str| {
        let fault = || Error::invalid(t.people.no_projects);
        number.parse().map(ProjectId).map_err(|_| fault())
    };
    numbers.map(read).collect()
}
