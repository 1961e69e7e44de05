//! Providers of single sign-on, for owners.

use std::mem;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use dashboard::{ProviderForm, Section, SignOnPage, Texts};
use domain::ids::ProjectId;
use domain::secret::Secret;
use domain::sign_on::SignOnRule;
use gateway::{Error, NewRule, SignOnProvider, SignOnProviderChange, provider_base};

use crate::app::App;
use crate::console::failure::{Result, show_fault};
use crate::console::refusal::show_refusal;
use crate::console::visit::{Form, Visit, done};
use crate::console::{page, page_as};
use crate::http::extract::Segments;

/// The page of this file.
const PATH: &str = "/people/sign-on";

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    Ok(page(&shown(&app, &visit).await?))
}

async fn shown(app: &App, visit: &Visit) -> Result<SignOnPage> {
    let providers = app.gateway.list_sign_on_providers(visit.member()).await?;
    let sessions = app.gateway.sessions_by_providers(visit.member()).await?;
    let of = |provider: SignOnProvider| ProviderForm {
        sessions: sessions.get(&provider.id).copied().unwrap_or_default(),
        ..form_of(provider)
    };
    let new = ProviderForm {
        scopes: "openid email profile".to_owned(),
        groups_claim: "groups".to_owned(),
        ..ProviderForm::default()
    };
    Ok(SignOnPage {
        frame: visit.frame(Section::People, visit.t.sign_on.title, visit.project()?),
        providers: providers.into_iter().map(of).collect(),
        new,
        address: app.gateway.public_url().map(str::to_owned),
    })
}

/// Adds a provider.
pub(super) async fn add(State(app): State<App>, visit: Visit, form: Form) -> Result<Response> {
    let added = async {
        app.gateway.add_sign_on_provider(visit.member(), change_of(visit.t, &form)?).await
    };
    match added.await {
        Ok(_) => Ok(done(PATH, visit.project()?, "provider_added")),
        Err(error) => refused(&app, &visit, error, None, &form).await,
    }
}

/// Changes a provider.
pub(super) async fn change(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
    form: Form,
) -> Result<Response> {
    let id = path.sign_on_provider()?;
    let changed = async {
        // A form without a base was shown with no provider.
        let base = Some(form.text("base"));
        let change = SignOnProviderChange { base, ..change_of(visit.t, &form)? };
        app.gateway.change_sign_on_provider(visit.member(), id, change).await
    };
    match changed.await {
        Ok(_) => Ok(done(PATH, visit.project()?, "provider_changed")),
        Err(Error::SettingsChanged) => {
            // The form would undo later changes.
            let mut shown = shown(&app, &visit).await?;
            shown.frame.fault = Some(visit.t.sign_on.is_old.to_owned());
            Ok(page_as(StatusCode::CONFLICT, &shown))
        }
        Err(error) => refused(&app, &visit, error, Some(id.0), &form).await,
    }
}

/// Removes a provider.
pub(super) async fn remove(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let id = path.sign_on_provider()?;
    match app.gateway.remove_sign_on_provider(visit.member(), id).await {
        Ok(()) => Ok(done(PATH, visit.project()?, "provider_removed")),
        Err(error) => {
            let mut shown = shown(&app, &visit).await?;
            let status = show_fault(&mut shown.frame, error.into());
            Ok(page_as(status, &shown))
        }
    }
}

/// The page with a form that was refused, as it was filled in.
async fn refused(
    app: &App,
    visit: &Visit,
    error: Error,
    id: Option<i64>,
    form: &Form,
) -> Result<Response> {
    let mut shown = shown(app, visit).await?;
    let rules = [
        "The claim_value",
        "The role of a rule",
        "A rule",
        "role",
        "There is no project",
        "There may be",
    ];
    let mut places = vec![
        ("Slug", "slug"),
        ("Name", "name"),
        ("Issuer", "issuer"),
        ("Client id", "client_id"),
        ("Client secret", "client_secret"),
        ("Scopes", "scopes"),
        ("Groups claim", "groups_claim"),
    ];
    places.extend(rules.map(|begin| (begin, "rules")));
    let name = format!("provider-{}", id.unwrap_or_default());
    let status = show_refusal(&mut shown.frame, error.into(), (name, form), &places);
    let known = shown.providers.iter_mut().find(|provider| provider.id == id);
    let place = known.unwrap_or(&mut shown.new);
    *place = ProviderForm {
        id: place.id,
        base: form.text("base"),
        slug: form.text("slug"),
        name: form.text("name"),
        issuer: form.text("issuer"),
        client_id: form.text("client_id"),
        has_client_secret: place.has_client_secret,
        scopes: form.text("scopes"),
        groups_claim: form.text("groups_claim"),
        rules: form.text("rules"),
        trusts_factor: form.get("trusts_factor").is_some(),
        sessions: place.sessions,
        stored_issuer: mem::take(&mut place.stored_issuer),
        stored_client_id: mem::take(&mut place.stored_client_id),
    };
    Ok(page_as(status, &shown))
}

fn form_of(provider: SignOnProvider) -> ProviderForm {
    ProviderForm {
        id: Some(provider.id.0),
        base: provider_base(&provider),
        slug: provider.slug,
        name: provider.name,
        stored_issuer: provider.issuer.clone(),
        stored_client_id: provider.client_id.clone(),
        issuer: provider.issuer,
        client_id: provider.client_id,
        has_client_secret: provider.client_secret.is_some(),
        scopes: provider.scopes.join(" "),
        groups_claim: provider.groups_claim,
        rules: provider.rules.iter().map(line_of).collect(),
        trusts_factor: provider.trusts_factor,
        sessions: 0,
    }
}

/// The fields of a form. An empty secret leaves the secret as it is.
fn change_of(t: &Texts, form: &Form) -> std::result::Result<SignOnProviderChange, Error> {
    let rules = form.text("rules");
    let lines = rules.lines().filter(|line| !line.trim().is_empty());
    let secret = form.get("client_secret");
    Ok(SignOnProviderChange {
        slug: Some(form.text("slug")),
        name: Some(form.text("name")),
        issuer: Some(form.text("issuer")),
        client_id: Some(form.text("client_id")),
        client_secret: secret.map(|secret| Some(Secret::new(secret.to_owned()))),
        scopes: Some(form.text("scopes").split_whitespace().map(str::to_owned).collect()),
        groups_claim: Some(form.text("groups_claim")),
        rules: Some(lines.map(|line| rule_of(t, line)).collect::<std::result::Result<_, _>>()?),
        trusts_factor: Some(form.get("trusts_factor").is_some()),
        base: None,
    })
}

/// A rule as a line, such as `engineering = member 1 2`. Only the last equals sign counts: a group may have some.
fn line_of(rule: &SignOnRule) -> String {
    let projects: Vec<String> = rule.projects.iter().map(|project| format!(" {project}")).collect();
    format!("{} = {}{}\n", rule.claim_value, rule.role.as_str(), projects.concat())
}

fn rule_of(t: &Texts, line: &str) -> std::result::Result<NewRule, Error> {
    let fault = || Error::invalid(t.sign_on.no_rule);
    let (value, given) = line.rsplit_once('=').ok_or_else(fault)?;
    let mut words = given.split([' ', ',']).map(str::trim).filter(|word| !word.is_empty());
    let role = words.next().ok_or_else(fault)?.to_owned();
    let projects = words.map(|word| word.parse().map(ProjectId).map_err(|_| fault()));
    let claim_value = value.trim().to_owned();
    Ok(NewRule { claim_value, role, projects: projects.collect::<std::result::Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use domain::project::Role;

    use super::*;

    #[test]
    fn a_rule_is_a_line() {
        for (value, projects) in [("eng", &[][..]), ("cn=eng, ou=x", &[1]), ("a b", &[1, 22])] {
            let projects: Vec<ProjectId> = projects.iter().copied().map(ProjectId).collect();
            let claim_value = value.to_owned();
            let rule = SignOnRule { claim_value, role: Role::Member, projects };
            let read = rule_of(&dashboard::ENGLISH, line_of(&rule).trim_end()).unwrap();
            assert_eq!((read.claim_value, &*read.role), (rule.claim_value, "member"));
            assert_eq!(read.projects, rule.projects);
        }
        for line in ["eng", "eng =", "eng = member one", "= "] {
            assert!(rule_of(&dashboard::ENGLISH, line).is_err(), "{line}");
        }
    }
}
