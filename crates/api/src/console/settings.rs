//! Settings of the project and of the organization. A change is shown before it is saved.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use dashboard::{
    Choice, DifferenceRow, McpServer, OrganizationFields, ProjectFields, ProposedChange, Section,
    SettingsPage, Texts,
};
use domain::ids::ProjectId;
use domain::project::Role;
use domain::settings::{LOOP_REQUESTS, REQUESTS_PER_HOUR, Settings};
use domain::tier::Tier;
use gateway::{Error, OrganizationChange, ProjectChange, SettingsDifference, SettingsPreview};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::console::failure::{Result, show_fault};
use crate::console::patch::{draft, read_patch};
use crate::console::refusal::show_refusal;
use crate::console::visit::{Form, Visit, done};
use crate::console::{choices, page, page_as};
use crate::http::error::Failure;

/// The word for a limit that is off.
const OFF: &str = "off";

/// The settings that a change is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    Project,
    Organization,
}

impl Subject {
    fn read(form: &Form) -> Self {
        match form.get("subject") {
            Some("organization") => Self::Organization,
            _ => Self::Project,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Organization => "organization",
        }
    }
}

/// The page.
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.project()?;
    Ok(page(&settings(&app, &visit, project).await?))
}

/// The settings of the organization, and those of a project if there is one.
async fn settings(app: &App, visit: &Visit, project: Option<ProjectId>) -> Result<SettingsPage> {
    let member = visit.member();
    member.check_admin()?;
    let organization = app.gateway.organization(member).await?;
    let security = &organization.settings.security;
    let roles = [Role::Viewer, Role::Member, Role::Admin].map(Role::as_str);
    let mut shown = SettingsPage {
        frame: visit.frame(Section::Settings, visit.t.settings.title, project),
        name: String::new(),
        fields: ProjectFields::default(),
        json: String::new(),
        organization: OrganizationFields {
            name: organization.name,
            requires_factor: security.require_mfa,
            disables_passwords: security.disable_password_login,
            may_disable_passwords: member.role == Role::Owner,
            roles: Choice::all_of(roles, security.default_role.map(Role::as_str)),
            base: organization.base,
            json: pretty(&json!({"security": {
                "require_mfa": security.require_mfa,
                "default_role": security.default_role.map(Role::as_str),
                "disable_password_login": security.disable_password_login,
            }})),
        },
        servers: Vec::new(),
        draft: String::new(),
        proposed: None,
    };
    if let Some(id) = project {
        add_project(app, visit, id, &mut shown)?;
    }
    Ok(shown)
}

fn add_project(app: &App, visit: &Visit, id: ProjectId, shown: &mut SettingsPage) -> Result<()> {
    let member = visit.member();
    let project = app.gateway.project(member, id)?;
    let (base, project) = (project.base(), project.project);
    let read = Settings::parse(&project.settings).map_err(Error::Invalid)?;
    let models = app.gateway.list_models(member, id)?;
    let choices = |chosen: Option<&String>| {
        let identifiers = models.iter().map(|view| view.model.identifier.as_str());
        choices::bounded(Choice::all_of(identifiers, chosen.map(String::as_str)))
    };
    // An empty field is a value that is not set.
    let budget = project.settings.get("monthly_budget").filter(|value| value.is_number());
    let limits = project.settings.get("limits");
    let limit = |name: &str| match limits.and_then(|limits| limits.get(name)) {
        None => String::new(),
        Some(Value::Null) => OFF.to_owned(),
        Some(value) => value.to_string(),
    };
    let tiers = Tier::ALL.iter().map(|tier| (tier.as_str(), choices(read.routing_tiers.get(tier))));
    let tokens = project.settings.get("mcp").and_then(|mcp| mcp.get("credentials"));
    let has_token = |address: &String| tokens.is_some_and(|tokens| tokens[address] == true);
    let server = |(index, address): (usize, &String)| McpServer {
        form: format!("mcp-{index}"),
        address: address.clone(),
        has_token: has_token(address),
    };
    shown.servers = read.mcp_servers.iter().enumerate().map(server).collect();
    shown.fields = ProjectFields {
        tiers: tiers.collect(),
        has_more_models: models.len() > choices::MOST,
        budget: budget.map(Value::to_string).unwrap_or_default(),
        requests: limit("requests_per_hour"),
        loop_requests: limit("loop_requests"),
        stores_content: !read.discard_content,
        traces: read.auto_trace,
        base,
    };
    shown.name.clone_from(&project.name);
    shown.json = pretty(&Value::Object(project.settings));
    Ok(())
}

fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

/// Shows what a change would make of the settings, and saves nothing.
pub(super) async fn preview(State(app): State<App>, visit: Visit, form: Form) -> Result<Response> {
    let project = visit.any_project_of_form(&form)?;
    let mut shown = settings(&app, &visit, project).await?;
    // The fields are those of the settings that the page had: what has changed since would be undone.
    let base = match Subject::read(&form) {
        Subject::Project => &shown.fields.base,
        Subject::Organization => &shown.organization.base,
    };
    if form.get("form") == Some("fields") && form.get("base") != Some(base) {
        shown.frame.fault = Some(visit.t.settings.fields_are_old.to_owned());
        return Ok(page_as(StatusCode::CONFLICT, &shown));
    }
    match proposed(&app, &visit, project, &form).await {
        Ok(proposed) => {
            shown.proposed = Some(proposed);
            Ok(page(&shown))
        }
        Err(failure) => Ok(refused(shown, &form, failure)),
    }
}

/// The page with a change that was refused, as it was sent.
fn refused(mut shown: SettingsPage, form: &Form, failure: Failure) -> Response {
    let t = &shown.frame.t.settings;
    let mut is_cut = false;
    let name = match (form.get("form"), Subject::read(form)) {
        (Some("fields"), Subject::Project) => "fields",
        (Some("fields"), Subject::Organization) => "organization",
        _ => {
            (shown.draft, is_cut) = draft(form.text_area("patch"));
            "patch"
        }
    };
    let unknown = ["tier_simple", "tier_complex", "tier_secure"].into_iter().filter_map(|field| {
        let model = form.get(field)?;
        Some((format!("Model not authorized or found: {model}"), field))
    });
    let mut unknown: Vec<_> = unknown.collect();
    // A name may begin with another.
    unknown.sort_by_key(|(begin, _)| std::cmp::Reverse(begin.len()));
    let mut places = vec![
        (t.budget_no_number, "budget"),
        ("settings.monthly_budget", "budget"),
        (t.requests_no_number, "requests"),
        ("settings.limits.requests_per_hour", "requests"),
        (t.loop_requests_no_number, "loop_requests"),
        ("settings.limits.loop_requests", "loop_requests"),
        ("settings.routing_tiers.secure", "tier_secure"),
        ("settings.security.default_role", "default_role"),
    ];
    places.extend(unknown.iter().map(|(begin, field)| (begin.as_str(), *field)));
    let status = show_refusal(&mut shown.frame, failure, (name, form), &places);
    if is_cut {
        shown.frame.refused.faults.push(("patch", t.patch_is_cut.to_owned()));
    }
    page_as(status, &shown)
}

async fn proposed(
    app: &App,
    visit: &Visit,
    project: Option<ProjectId>,
    form: &Form,
) -> std::result::Result<ProposedChange, Failure> {
    let (t, gateway, member) = (visit.t, &app.gateway, visit.member());
    let of_project = || project.ok_or(Error::NotFound);
    let is_fields = form.get("form") == Some("fields");
    let subject = Subject::read(form);
    let patch = match (is_fields, subject) {
        (false, _) => read_patch(t, &form.text_area("patch"))?,
        (true, Subject::Project) => {
            let today = gateway.project(member, of_project()?)?.project.settings;
            project_patch(t, form, &today)?
        }
        (true, Subject::Organization) => {
            let today = gateway.organization(member).await?.settings.security;
            let is_disabled = today.disable_password_login;
            organization_patch(form, (member.role == Role::Owner).then_some(is_disabled))
        }
    };
    let SettingsPreview { differences, base } = match subject {
        Subject::Project => gateway.preview_settings(member, of_project()?, patch.clone()).await?,
        Subject::Organization => gateway.preview_organization(member, patch.clone()).await?,
    };
    Ok(ProposedChange {
        subject: subject.as_str(),
        patch: Value::Object(patch).to_string(),
        base,
        rows: differences.into_iter().map(row).collect(),
    })
}

/// The patch that makes the settings those of the fields: what they leave as it is, is no part of it.
fn project_patch(
    t: &Texts,
    form: &Form,
    today: &Map<String, Value>,
) -> std::result::Result<Map<String, Value>, Failure> {
    let number = |field: &str, fault: &str| {
        let read = |text: &str| {
            let number: std::result::Result<serde_json::Number, _> =
                serde_json::from_str(text.trim().trim_start_matches('$'));
            number.map(Value::Number).map_err(|_| Error::invalid(fault))
        };
        form.get(field).map(read).transpose()
    };
    // Null turns a limit off: an empty field is the default.
    let limit = |field: &str, fault: &str, default: u64| match form.get(field).map(str::trim) {
        Some(text) if text.eq_ignore_ascii_case(OFF) => Ok(Value::Null),
        _ => Ok::<_, Error>(number(field, fault)?.unwrap_or_else(|| default.into())),
    };
    let tiers = Tier::ALL.iter().map(|tier| {
        let model = form.get(&format!("tier_{tier}"));
        (tier.as_str().to_owned(), model.map_or(Value::Null, Value::from))
    });
    let wanted = json!({
        "routing_tiers": tiers.collect::<Map<_, _>>(),
        "monthly_budget": number("budget", t.settings.budget_no_number)?,
        "limits": {
            "requests_per_hour":
                limit("requests", t.settings.requests_no_number, REQUESTS_PER_HOUR)?,
            "loop_requests": limit("loop_requests", t.settings.loop_requests_no_number, LOOP_REQUESTS)?,
        },
        "store_content": form.get("store_content").is_some(),
        "auto_trace": form.get("auto_trace").is_some(),
    });
    let defaults = json!({
        "limits": {"requests_per_hour": REQUESTS_PER_HOUR, "loop_requests": LOOP_REQUESTS},
        "store_content": true,
        "auto_trace": false,
    });
    let Value::Object(wanted) = wanted else { return Ok(Map::new()) };
    Ok(changed(wanted, Some(today), defaults.as_object()))
}

/// The part of a patch that changes something; a value that is not set counts as its default, null without one.
fn changed(
    patch: Map<String, Value>,
    today: Option<&Map<String, Value>>,
    defaults: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    let part = |(name, value): (String, Value)| {
        let now = today.and_then(|today| today.get(&name));
        let default = defaults.and_then(|defaults| defaults.get(&name));
        match value {
            Value::Object(inner) => {
                let [now, default] =
                    [now, default].map(|section| section.and_then(Value::as_object));
                let inner = changed(inner, now, default);
                (!inner.is_empty()).then_some((name, Value::Object(inner)))
            }
            value if now.or(default).unwrap_or(&Value::Null) == &value => None,
            value => Some((name, value)),
        }
    };
    patch.into_iter().filter_map(part).collect()
}

/// The patch of the organization's fields. Owners have one more: whether passwords are disabled, as it is today.
fn organization_patch(form: &Form, are_disabled: Option<bool>) -> Map<String, Value> {
    let mut security = json!({
        "require_mfa": form.get("require_mfa").is_some(),
        "default_role": form.get("default_role"),
    });
    let disables = form.get("disable_password_login").is_some();
    if are_disabled.is_some_and(|today| today != disables) {
        security["disable_password_login"] = disables.into();
    }
    Map::from_iter([("security".to_owned(), security)])
}

fn row(difference: SettingsDifference) -> DifferenceRow {
    let shown = |value: Option<Value>| value.as_ref().map(pretty);
    DifferenceRow {
        path: difference.path,
        before: shown(difference.before),
        after: shown(difference.after),
    }
}

/// Saves a change that was shown, if the settings are those that it was shown with.
pub(super) async fn save(State(app): State<App>, visit: Visit, form: Form) -> Result<Response> {
    let project = visit.any_project_of_form(&form)?;
    let (t, gateway, member) = (visit.t, &app.gateway, visit.member());
    // A form without a base was shown with no settings.
    let base = Some(form.text("base"));
    let saved = async {
        let settings = Some(read_patch(t, &form.text_area("patch"))?);
        match Subject::read(&form) {
            Subject::Project => {
                let change = ProjectChange { settings, base, ..ProjectChange::default() };
                let id = project.ok_or(Error::NotFound)?;
                gateway.update_project(member, id, change).await.map(drop)?;
            }
            Subject::Organization => {
                let change = OrganizationChange { settings, base, ..OrganizationChange::default() };
                gateway.update_organization(member, change).await.map(drop)?;
            }
        }
        Ok::<_, Failure>(())
    };
    let Err(failure) = saved.await else {
        return Ok(done("/settings", project, "settings_saved").into_response());
    };
    let mut shown = settings(&app, &visit, project).await?;
    if failure.status() != StatusCode::CONFLICT {
        return Ok(refused(shown, &form, failure));
    }
    let status = show_fault(&mut shown.frame, failure);
    match proposed(&app, &visit, project, &form).await {
        Ok(proposed) => {
            shown.proposed = Some(proposed);
            Ok(page_as(status, &shown))
        }
        Err(failure) => Ok(refused(shown, &form, failure)),
    }
}

/// Stores a token of an MCP server in the place of an earlier one, or removes it. An empty field keeps it.
pub(super) async fn save_token(
    State(app): State<App>,
    visit: Visit,
    form: Form,
) -> Result<Response> {
    let project = visit.project_of_form(&form)?;
    let mut shown = settings(&app, &visit, Some(project)).await?;
    let server = form.text("server");
    let known = shown.servers.iter().find(|known| known.address == server);
    let (name, has_token) =
        known.map(|known| (known.form.clone(), known.has_token)).unwrap_or_default();
    let places = [("settings.mcp", "token"), (shown.frame.t.settings.no_mcp_token, "token")];
    // Blanks are no token: the gateway takes an empty one for none any more.
    let token = form.get("token").map(str::trim).filter(|token| !token.is_empty());
    let token = match (form.get("remove"), token) {
        (Some(_), _) => Value::Null,
        (None, Some(token)) => Value::from(token),
        (None, None) if has_token => return Ok(done("/settings", project, "mcp_token_kept")),
        (None, None) => {
            let fault = Error::invalid(shown.frame.t.settings.no_mcp_token);
            let status = show_refusal(&mut shown.frame, fault.into(), (name, &form), &places);
            return Ok(page_as(status, &shown));
        }
    };
    let done_word = if token.is_null() { "mcp_token_removed" } else { "mcp_token_saved" };
    let tokens = Value::Object(Map::from_iter([(server, token)]));
    let patch = Map::from_iter([("mcp".to_owned(), json!({"credentials": tokens}))]);
    let change = ProjectChange { settings: Some(patch), ..ProjectChange::default() };
    match app.gateway.update_project(visit.member(), project, change).await {
        Ok(_) => Ok(done("/settings", project, done_word)),
        Err(error) => {
            let status = show_refusal(&mut shown.frame, error.into(), (name, &form), &places);
            Ok(page_as(status, &shown))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_left_alone_are_no_part_of_the_patch() {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let today = object(json!({"routing_tiers": {"simple": "a"}, "limits": {"other": 1}}));
        let patch = object(json!({
            "routing_tiers": {"simple": "b", "complex": null},
            "limits": {"other": 1},
            "store_content": true, "auto_trace": true}));
        let defaults = object(json!({"store_content": true, "auto_trace": false}));
        let found = Value::Object(changed(patch, Some(&today), Some(&defaults)));
        assert_eq!(found, json!({"routing_tiers": {"simple": "b"}, "auto_trace": true}));
    }
}
