//! Projects: made, changed, archived, deleted.

use std::sync::Arc;

use domain::ids::ProjectId;
use domain::model::Model;
use domain::money::Usd;
use domain::project::{Project, ProjectStatus};
use domain::settings::{self, Settings};
use domain::tier::Tier;
use limits::LONGEST_LOOP_WINDOW;
use serde_json::{Map, Value, json};
use store::{SealingKey, Tx};

use crate::audit::{Event, changes};
use crate::control::people::admin_of_now;
use crate::control::safety_preview::check_new_patterns;
use crate::control::settings::{DEEPEST, is_shallow, read_settings};
use crate::control::settings_preview::{check_base, version};
use crate::error::{Error, Faults, Result};
use crate::gateway::Gateway;
use crate::state::mcp_tokens::{self, Given as GivenTokens};
use crate::state::member::Member;
use crate::state::registry::ProjectState;

/// The longest name, in characters.
pub(crate) const LONGEST_NAME: usize = 255;

/// A project as its members see it.
#[derive(Clone, Debug)]
pub struct ProjectView {
    /// The project.
    pub project: Project,
    /// Its spend in this calendar month.
    pub month_spend: Usd,
}

impl ProjectView {
    /// The version of its settings: a change that has it as its base is saved over these alone.
    pub fn base(&self) -> String {
        version(&self.project.settings)
    }
}

/// The fields that a request changes; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct ProjectChange {
    /// A new name.
    pub name: Option<String>,
    /// A new description; the inner `None` clears it.
    pub description: Option<Option<String>>,
    /// A new status, as a word.
    pub status: Option<String>,
    /// Settings to merge.
    pub settings: Option<Map<String, Value>>,
    /// The version of the settings that the change was previewed with, if it is for these alone.
    pub base: Option<String>,
}

impl Gateway {
    /// The projects that a member may see.
    pub fn list_projects(&self, member: &Member) -> Vec<ProjectView> {
        self.visible_projects(member).iter().map(|project| self.view(project)).collect()
    }

    /// The numbers and names of the projects that a member may see.
    pub fn project_names(&self, member: &Member) -> Vec<(ProjectId, String)> {
        let named = |project: &Arc<ProjectState>| (project.id(), project.project.name.clone());
        self.visible_projects(member).iter().map(named).collect()
    }

    /// One project.
    pub fn project(&self, member: &Member, id: ProjectId) -> Result<ProjectView> {
        self.visible_project(member, id).map(|project| self.view(&project))
    }

    /// Makes a project.
    pub async fn create_project(
        &self,
        member: &Member,
        change: ProjectChange,
    ) -> Result<ProjectView> {
        member.check_admin()?;
        let mut faults = Faults::default();
        let name = faults.note(clean_name(change.name.as_deref().unwrap_or_default()));
        let name = name.unwrap_or_default();
        let description = change.description.flatten();
        faults.note(check_text("Description", description.as_deref()));
        // Trying patterns takes long: it is skipped for a request that is refused anyway.
        if let Some(patch) = change.settings.as_ref().filter(|_| faults.sentences().is_empty()) {
            faults.note(check_new_patterns(&Map::new(), patch).await);
        }
        let now = self.clock.now();
        let mut tx = self.store.begin().await?;
        let member = &admin_of_now(&mut tx, member, now).await?;
        let id = tx.add_project(member.org, &name, description.as_deref(), now).await?;
        let sealing = self.store.add_data_key(&mut tx, id, now).await?;
        let mut project =
            tx.project(id).await?.ok_or_else(|| Error::Internal("a project vanished".into()))?;
        let mut tokens = Map::new();
        if let Some(patch) = change.settings {
            let merged = self.merge_settings(&mut project, patch, &[], &sealing);
            tokens = faults.note(merged).unwrap_or_default();
            tx.save_project(&project).await?;
        }
        faults.none()?;
        let mut metadata = audited(&json!({}), &shown(&project));
        note_tokens(&mut metadata, tokens);
        let target = ("project", id.to_string());
        self.note_act(&mut tx, member, Event::ProjectCreated, target, metadata).await?;
        self.publish(tx).await?;
        self.project(member, id)
    }

    /// Changes a project; its settings are merged at every depth.
    pub async fn update_project(
        &self,
        member: &Member,
        id: ProjectId,
        change: ProjectChange,
    ) -> Result<ProjectView> {
        let state = self.visible_project(member, id)?;
        member.check_admin()?;
        let mut faults = Faults::default();
        let name = change.name.and_then(|name| faults.note(clean_name(&name)));
        if let Some(description) = &change.description {
            faults.note(check_text("Description", description.as_deref()));
        }
        let status = change.status.and_then(|status| {
            let known = ProjectStatus::parse(&status);
            if known.is_none() {
                faults.add(format!("Status must be active or archived, not '{status}'"));
            }
            known
        });
        // Before the transaction, since it may take a second, and skipped for a request that is
        // refused anyway.
        if let Some(patch) = change.settings.as_ref().filter(|_| faults.sentences().is_empty()) {
            faults.note(check_new_patterns(&state.project.settings, patch).await);
        }
        let models: Vec<&Arc<Model>> = state.models.values().collect();
        let mut tx = self.store.begin().await?;
        let member = &admin_of_now(&mut tx, member, self.clock.now()).await?;
        let mut project = tx.project(id).await?.ok_or(Error::NotFound)?;
        check_base(change.base.as_deref(), &project.settings)?;
        let before = shown(&project);
        if let Some(name) = name {
            project.name = name;
        }
        if let Some(description) = change.description {
            project.description = description;
        }
        if let Some(status) = status {
            project.status = status;
        }
        let mut tokens = Map::new();
        if let Some(patch) = change.settings {
            let merged = self.merge_settings(&mut project, patch, &models, &state.sealing);
            tokens = faults.note(merged).unwrap_or_default();
        }
        faults.none()?;
        tx.save_project(&project).await?;
        let mut metadata = audited(&before, &shown(&project));
        note_tokens(&mut metadata, tokens);
        let target = ("project", id.to_string());
        self.note_act(&mut tx, member, Event::ProjectUpdated, target, metadata).await?;
        self.publish(tx).await?;
        self.project(member, id)
    }

    /// Hides a project at once; its rows are purged later, in batches.
    pub async fn delete_project(&self, member: &Member, id: ProjectId) -> Result<()> {
        let state = self.visible_project(member, id)?;
        member.check_admin()?;
        let now = self.clock.now();
        let mut tx = self.store.begin().await?;
        let member = &admin_of_now(&mut tx, member, now).await?;
        if !tx.delete_project(id, now).await? {
            return Err(Error::NotFound);
        }
        let metadata = audited(&shown(&state.project), &json!({}));
        let target = ("project", id.to_string());
        self.note_act(&mut tx, member, Event::ProjectDeleted, target, metadata).await?;
        self.publish(tx).await
    }

    /// Commits a change of projects, models or keys and makes it count on this node before the
    /// caller is answered. Other nodes poll.
    pub(crate) async fn publish(&self, mut tx: Tx) -> Result<()> {
        tx.bump_registry().await?;
        tx.commit().await?;
        self.reload().await
    }

    /// Merges a patch into a project's settings. Returns which tokens of MCP servers it has set, for
    /// the audit.
    pub(crate) fn merge_settings(
        &self,
        project: &mut Project,
        mut patch: Map<String, Value>,
        models: &[&Arc<Model>],
        sealing: &SealingKey,
    ) -> Result<Map<String, Value>> {
        let tokens = GivenTokens::take(&mut patch)?;
        let (given, touches_mcp) = (tokens.servers(), patch.contains_key("mcp"));
        let (read, mut faults) = merged(project, patch, models)?;
        if touches_mcp {
            faults.extend(mcp_tokens::faults(&read.mcp_servers, &self.config.egress_allow));
            faults.extend(tokens.settle(project, &read, sealing)?);
        }
        if faults.is_empty() { Ok(given) } else { Err(Error::Invalid(faults)) }
    }

    fn view(&self, state: &ProjectState) -> ProjectView {
        ProjectView {
            project: state.project.clone(),
            month_spend: state.month_spend(self.clock.now()),
        }
    }
}

fn note_tokens(metadata: &mut Map<String, Value>, tokens: Map<String, Value>) {
    if !tokens.is_empty() {
        metadata.insert("mcp_credentials".to_owned(), tokens.into());
    }
}

/// A name that is not blank and that a database can hold.
pub(crate) fn clean_name(name: &str) -> Result<String> {
    let name = name.trim();
    if name.is_empty() {
        return Err(Error::invalid("Name can't be blank"));
    }
    if name.chars().count() > LONGEST_NAME {
        return Err(Error::invalid(format!(
            "Name is too long (maximum is {LONGEST_NAME} characters)"
        )));
    }
    check_text("Name", Some(name))?;
    Ok(name.to_owned())
}

/// Refuses a text with a NUL character, which PostgreSQL cannot store, or of more than 16 KiB.
pub(crate) fn check_text(field: &str, text: Option<&str>) -> Result<()> {
    match text {
        Some(text) if text.contains('\0') => {
            Err(Error::invalid(format!("{field} must not contain a NUL character")))
        }
        Some(text) if text.len() > 16 * 1024 => {
            Err(Error::invalid(format!("{field} is too long (maximum is 16384 bytes)")))
        }
        _ => Ok(()),
    }
}

/// The settings as they are merged, and what is wrong with them.
fn merged(
    project: &mut Project,
    patch: Map<String, Value>,
    models: &[&Arc<Model>],
) -> Result<(Settings, Vec<String>)> {
    // Settings that a patch does not touch are not checked: a budget can be set although a tier's
    // model is gone.
    let named = patch.get("routing_tiers").and_then(Value::as_object);
    let touched: Vec<Tier> =
        named.into_iter().flat_map(Map::keys).filter_map(|tier| Tier::parse(tier)).collect();
    let aliases = patch.get("model_aliases").and_then(Value::as_object);
    let aliases: Vec<String> = aliases.into_iter().flat_map(Map::keys).cloned().collect();
    let touches_shadow = patch.contains_key("shadow_model");
    let (touches_safety, touches_limits) =
        (patch.contains_key("safety"), patch.contains_key("limits"));
    if patch.values().any(|value| !is_shallow(value, DEEPEST)) {
        return Err(Error::invalid(format!("settings are nested deeper than {DEEPEST} levels")));
    }
    settings::merge(&mut project.settings, patch);
    let read = read_settings(&project.settings)?;
    let tiers = read.routing_tiers.iter().filter(|(tier, _)| touched.contains(tier));
    let mut faults = tier_faults(tiers, models);
    let targets = read.model_aliases.all().filter(|(alias, _)| aliases.contains(alias));
    faults.extend(targets.filter_map(|(alias, target)| {
        let is_registered = models.iter().any(|model| model.identifier == target);
        (!is_registered).then(|| {
            let shown: String = target.chars().take(64).collect();
            format!("settings.model_aliases.{alias} names {shown}, which is not registered")
        })
    }));
    if let Some(shadow) = read.shadow_model.as_ref().and_then(|shadow| shadow.model.as_deref())
        && touches_shadow
        && !models.iter().any(|model| model.identifier == shadow)
    {
        faults.push(format!("Model not authorized or found: {shadow}"));
    }
    let shadow = read.shadow_model.as_ref();
    if touches_shadow && shadow.is_some_and(|shadow| shadow.enabled && shadow.model.is_none()) {
        faults
            .push("settings.shadow_model.model is missing: set it before it is enabled".to_owned());
    }
    if let Err(more) = checks::Policy::compile(&read.safety) {
        faults.extend(more);
    }
    faults.extend(checks::wrong_kinds(&read.safety).filter(|_| touches_safety));
    if touches_limits && read.limits.loop_window_seconds > LONGEST_LOOP_WINDOW {
        faults.push(format!(
            "settings.limits.loop_window_seconds must be at most {LONGEST_LOOP_WINDOW}"
        ));
    }
    Ok((read, faults))
}

fn tier_faults<'a>(
    tiers: impl Iterator<Item = (&'a Tier, &'a String)>,
    models: &[&Arc<Model>],
) -> Vec<String> {
    let fault = |(tier, identifier): (&Tier, &String)| match models
        .iter()
        .find(|model| model.identifier == *identifier)
    {
        None => Some(format!("Model not authorized or found: {identifier}")),
        Some(model) if *tier == Tier::Secure && !model.is_private() => Some(format!(
            "settings.routing_tiers.secure names {identifier}, which is public: it takes a model with \
                 is_public false or provider internal"
        )),
        Some(_) => None,
    };
    tiers.filter_map(fault).collect()
}

/// The settings of a project that name a model; requests depend on them. (Fallbacks do not count:
/// one that is gone is passed over.)
pub(crate) async fn settings_that_name(
    tx: &mut Tx,
    project: ProjectId,
    identifier: &str,
) -> Result<Vec<String>> {
    let project = tx.project(project).await?.ok_or(Error::NotFound)?;
    let read = Settings::parse(&project.settings).map_err(Error::Invalid)?;
    let tiers = read.routing_tiers.iter().filter(|(_, named)| *named == identifier);
    let mut places: Vec<String> =
        tiers.map(|(tier, _)| format!("settings.routing_tiers.{tier}")).collect();
    let aliases = read.model_aliases.all().filter(|(_, named)| *named == identifier);
    places.extend(aliases.map(|(alias, _)| format!("settings.model_aliases.{alias}")));
    if read.shadow_model.is_some_and(|shadow| shadow.model.as_deref() == Some(identifier)) {
        places.push("settings.shadow_model.model".to_owned());
    }
    Ok(places)
}

/// The fields that an audit row compares.
fn shown(project: &Project) -> Value {
    let mut fields = json!({
        "name": project.name,
        "description": project.description,
        "status": project.status.as_str(),
    });
    if let Value::Object(fields) = &mut fields {
        for (key, value) in &project.settings {
            fields.insert(format!("settings.{key}"), value.clone());
        }
    }
    fields
}

/// Audit metadata: the changed fields, old and new.
pub(crate) fn audited(old: &Value, new: &Value) -> Map<String, Value> {
    let mut metadata = Map::new();
    let mut changed = changes(old, new);
    if let (Value::Object(old), Value::Object(new)) = (old, new) {
        for (key, value) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
            changed.insert(key.clone(), json!({"old": value, "new": null}));
        }
    }
    metadata.insert("changes".to_owned(), Value::Object(changed));
    metadata
}
