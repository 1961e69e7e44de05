//! The model registry: definitions, their credentials, their prices.

use std::sync::Arc;

use domain::ids::{ModelId, ProjectId};
use domain::model::{Model, Provider};
use domain::secret::Secret;
use serde_json::{Map, Value, json};
use store::{ModelRow, SealingKey};

use crate::audit::Event;
use crate::control::people::admin_of_now;
use crate::control::projects::{audited, check_text, clean_name, settings_that_name};
use crate::control::settings::{DEEPEST, is_shallow};
use crate::control::settings_preview::{check_base, version};
use crate::error::{Error, Faults, Result};
use crate::gateway::Gateway;
use crate::state::caller::Caller;
use crate::state::list_prices;
use crate::state::member::Member;
use crate::state::registry::ProjectState;
use crate::state::stored_model::endpoints::{self, Held};
use crate::state::stored_model::{self, CREDENTIAL, config, fees};

const DEFAULT_RETENTION: i64 = 30;
const DEFAULT_CURRENCY: &str = "CAD";
const DEFAULT_REGION: &str = "global";
const LARGEST_CONFIG: usize = 64 * 1024;

/// A definition as its owners see it.
#[derive(Clone, Debug)]
pub struct ModelView {
    /// The model; its credential is here but is never shown.
    pub model: Arc<Model>,
    /// Warnings about surprising behaviour, given in advance.
    pub warnings: Vec<String>,
    /// The day of the vendors' list that a price of it is from; `None` if its prices are its own.
    pub listed: Option<&'static str>,
}

impl ModelView {
    /// The version of its fields: a change that has it as its base is saved over these alone.
    pub fn base(&self) -> String {
        version(&fields(&self.model))
    }
}

/// The fields that a request sets; `None` leaves a field as it is, or at its default.
#[derive(Clone, Debug, Default)]
pub struct ModelChange {
    /// For people.
    pub name: Option<String>,
    /// The identifier that callers pass as `model`.
    pub identifier: Option<String>,
    /// One of the six, or an alias.
    pub provider: Option<String>,
    /// The inner `None` means the vendor's own endpoint.
    pub base_url: Option<Option<String>>,
    /// The inner `None` forgets the credential.
    pub api_key: Option<Option<Secret>>,
    /// Whether it is public.
    pub is_public: Option<bool>,
    /// USD per 1,000 prompt tokens; the inner `None` means the list price, if there is one.
    pub input_price: Option<Option<f64>>,
    /// USD per 1,000 completion tokens.
    pub output_price: Option<Option<f64>>,
    /// Days, at least 1.
    pub data_retention_days: Option<i64>,
    /// A region tag.
    pub region: Option<String>,
    /// Three letters.
    pub currency: Option<String>,
    /// The whole object.
    pub additional_config: Option<Map<String, Value>>,
    /// The version of the fields that the change was made to, if it is for these alone.
    pub base: Option<String>,
}

impl Gateway {
    /// The models that a key can name, oldest first.
    pub fn callable_models(&self, caller: &Caller) -> Vec<Arc<Model>> {
        caller.callable(by_age(&caller.project))
    }

    /// The model that a key names, by its identifier or an alias.
    pub fn callable_model(&self, caller: &Caller, name: &str) -> Option<Arc<Model>> {
        let model = caller.project.model(name).ok().cloned();
        model.filter(|model| caller.check_model(model).is_ok())
    }

    /// A project's models, oldest first.
    pub fn list_models(&self, member: &Member, project: ProjectId) -> Result<Vec<ModelView>> {
        let project = self.visible_project(member, project)?;
        Ok(by_age(&project).into_iter().map(|model| view(&project, model)).collect())
    }

    /// One model.
    pub fn model(&self, member: &Member, project: ProjectId, id: ModelId) -> Result<ModelView> {
        let project = self.visible_project(member, project)?;
        let model = project.models.values().find(|model| model.id == id).ok_or(Error::NotFound)?;
        Ok(view(&project, model.clone()))
    }

    /// Registers a model.
    pub async fn create_model(
        &self,
        member: &Member,
        project: ProjectId,
        mut change: ModelChange,
    ) -> Result<ModelView> {
        let state = self.visible_project(member, project)?;
        member.check_admin()?;
        // Required fields of a new model are blank if they are not given.
        for required in [&mut change.name, &mut change.identifier, &mut change.provider] {
            required.get_or_insert_default();
        }
        let mut row = ModelRow {
            id: ModelId(0),
            project,
            name: String::new(),
            identifier: String::new(),
            provider: Provider::Openai,
            base_url: None,
            api_key: None,
            endpoint_keys: None,
            is_public: true,
            input_price: None,
            output_price: None,
            data_retention_days: DEFAULT_RETENTION,
            region: DEFAULT_REGION.to_owned(),
            currency: DEFAULT_CURRENCY.to_owned(),
            config: "{}".to_owned(),
            created_at: self.clock.now(),
        };
        let is_internal = change.provider.as_deref() == Some("internal");
        row.is_public = change.is_public.unwrap_or(!is_internal);
        self.apply(&mut row, change, &state.sealing)?;
        let mut tx = self.store.begin().await?;
        let member = &admin_of_now(&mut tx, member, self.clock.now()).await?;
        let id = tx.add_model(&row).await.map_err(taken)?;
        let target = ("model", id.to_string());
        let metadata = audited(&json!({}), &shown(&row));
        self.note_act(&mut tx, member, Event::ModelCreated, target, metadata).await?;
        self.publish(tx).await?;
        self.model(member, project, id)
    }

    /// Changes a model.
    pub async fn update_model(
        &self,
        member: &Member,
        project: ProjectId,
        id: ModelId,
        change: ModelChange,
    ) -> Result<ModelView> {
        let state = self.visible_project(member, project)?;
        member.check_admin()?;
        let mut tx = self.store.begin().await?;
        let member = &admin_of_now(&mut tx, member, self.clock.now()).await?;
        let mut row = tx.model(project, id).await?.ok_or(Error::NotFound)?;
        let before = row.clone();
        if change.base.is_some() {
            let today = stored_model::open(row.clone(), &state.sealing)?;
            check_base(change.base.as_deref(), &fields(&today))?;
        }
        let (brings_key, brought) = (change.api_key.is_some(), brought(&change, &before));
        self.apply(&mut row, change, &state.sealing)?;
        let moved = row.base_url != before.base_url || row.provider != before.provider;
        let dropped = moved && !brings_key && row.api_key.take().is_some();
        let mut metadata = audited(&shown(&before), &shown(&row));
        if let Some(Value::Object(changes)) = metadata.get_mut("changes") {
            changes.extend(brought);
        }
        if dropped {
            let note = "the stored api_key was dropped because base_url or provider changed";
            metadata.insert("note".to_owned(), note.into());
        }
        if row.identifier != before.identifier {
            let named = settings_that_name(&mut tx, project, &before.identifier).await?;
            if !named.is_empty() {
                return Err(Error::invalid(format!(
                    "Identifier {} is named by {}: name another model there first",
                    before.identifier,
                    named.join(", "),
                )));
            }
        }
        tx.save_model(&row, self.clock.now()).await.map_err(taken)?;
        let target = ("model", id.to_string());
        self.note_act(&mut tx, member, Event::ModelUpdated, target, metadata).await?;
        self.publish(tx).await?;
        self.model(member, project, id)
    }

    /// Removes a model, also one that settings name: requests that are routed there are answered
    /// that there is no model for the tier.
    pub async fn delete_model(
        &self,
        member: &Member,
        project: ProjectId,
        id: ModelId,
    ) -> Result<()> {
        self.visible_project(member, project)?;
        member.check_admin()?;
        let mut tx = self.store.begin().await?;
        let member = &admin_of_now(&mut tx, member, self.clock.now()).await?;
        let row = tx.model(project, id).await?.ok_or(Error::NotFound)?;
        let named = settings_that_name(&mut tx, project, &row.identifier).await?;
        tx.delete_model(id, self.clock.now()).await?;
        let target = ("model", id.to_string());
        let mut metadata = audited(&json!({"identifier": row.identifier}), &json!({}));
        if !named.is_empty() {
            // Requests that are routed there now find no model: the audit row gives the reason.
            metadata.insert("named_by".to_owned(), named.into());
        }
        self.note_act(&mut tx, member, Event::ModelDeleted, target, metadata).await?;
        self.publish(tx).await
    }

    /// Writes what a request sets into a row, and checks the whole.
    fn apply(&self, row: &mut ModelRow, change: ModelChange, sealing: &SealingKey) -> Result<()> {
        let mut faults = Faults::default();
        let brings_config = change.additional_config.is_some() || change.provider.is_some();
        let held = Held::of(row, &config::stored(row)?.1, sealing)?;
        if let Some(name) = change.name.and_then(|name| faults.note(clean_name(&name))) {
            row.name = name;
        }
        if let Some(identifier) = change.identifier {
            identifier.trim().clone_into(&mut row.identifier);
        }
        if let Some(region) = change.region {
            let region = region.trim();
            if region.is_empty() { DEFAULT_REGION } else { region }.clone_into(&mut row.region);
        }
        if row.identifier.is_empty() {
            faults.add("Identifier can't be blank".to_owned());
        }
        for (field, text) in [("Identifier", &row.identifier), ("region_restriction", &row.region)]
        {
            if text.len() > config::LONGEST_TEXT {
                let most = config::LONGEST_TEXT;
                faults.add(format!("{field} is too long (maximum is {most} bytes)"));
            }
            faults.note(check_text(field, Some(text)));
        }
        if let Some(provider) = change.provider {
            match Provider::parse_alias(&provider) {
                Some(provider) => row.provider = provider,
                None if provider.trim().is_empty() => {
                    faults.add("Provider can't be blank".to_owned());
                }
                None => faults.add(format!(
                    "Provider must be one of openai, anthropic, gemini, bedrock, azure, internal, not \
                     '{provider}'"
                )),
            }
        }
        if let Some(url) = change.base_url {
            row.base_url = url.filter(|url| !url.trim().is_empty());
        }
        row.is_public = change.is_public.unwrap_or(row.is_public);
        for (given, price, name) in [
            (change.input_price, &mut row.input_price, "input_cost_per_1k"),
            (change.output_price, &mut row.output_price, "output_cost_per_1k"),
        ] {
            if let Some(given) = given {
                match given.map(config::amount) {
                    None => *price = None,
                    Some(Some(amount)) => *price = Some(amount),
                    Some(None) => {
                        faults.add(format!("{name} must be between 0 and 9,000,000,000 USD"));
                    }
                }
            }
        }
        row.data_retention_days = change.data_retention_days.unwrap_or(row.data_retention_days);
        if !(1..=36_500).contains(&row.data_retention_days) {
            faults.add("data_retention_days must be between 1 and 36,500".to_owned());
        }
        row.currency = change.currency.unwrap_or_else(|| row.currency.clone()).to_uppercase();
        if row.currency.len() != 3 || !row.currency.bytes().all(|byte| byte.is_ascii_uppercase()) {
            faults.add("Currency must be a 3-letter code".to_owned());
        }
        let mut asked = Vec::new();
        if let Some(mut config) = change.additional_config {
            asked = endpoints::take_keys(&mut config, faults.sentences());
            let config = Value::Object(config);
            if !is_shallow(&config, DEEPEST) {
                faults.add(format!("additional_config is nested deeper than {DEEPEST} levels"));
            }
            row.config = config.to_string();
        }
        if row.config.len() > LARGEST_CONFIG {
            faults.add(format!("additional_config is larger than {LARGEST_CONFIG} bytes"));
        }
        let read = faults.note(config::read(&row.config).map_err(Error::Invalid));
        if let Some((config, given)) = &read {
            if brings_config {
                faults.note(config::check_texts(config, row.provider));
                fees::read(&config.all, faults.sentences());
            }
            let allowed = &self.config.egress_allow;
            endpoints::check_addresses(row, given, allowed, faults.sentences());
        }
        let (config, given) = read.unwrap_or_default();
        let mut brought = change.api_key.iter().chain(asked.iter().flatten()).flatten();
        if brought.any(|key| key.expose().contains(|c: char| c.is_control() || !c.is_ascii())) {
            faults.add("api_key must not hold line breaks, or what is not ASCII".to_owned());
        }
        if let Some(key) = change.api_key {
            let key = key.filter(|key| !key.expose().trim().is_empty());
            row.api_key =
                key.map(|key| sealing.seal(CREDENTIAL, key.expose().as_bytes())).transpose()?;
        }
        faults.none()?;
        endpoints::settle(row, config.all, &given, asked, held, sealing)
    }
}

fn by_age(project: &ProjectState) -> Vec<Arc<Model>> {
    let mut models: Vec<_> = project.models.values().cloned().collect();
    models.sort_by_key(|model| model.id);
    models
}

/// The credentials that a change sets, for the audit row: whether each was set before, and that it
/// is set now, also if one replaces another.
fn brought(change: &ModelChange, before: &ModelRow) -> Map<String, Value> {
    let told = |was_set: bool| json!({"old": if was_set { "set" } else { "unset" }, "new": "set"});
    let own = change.api_key.iter().flatten().filter(|key| !key.expose().trim().is_empty());
    let own = own.map(|_| ("api_key".to_owned(), told(before.api_key.is_some())));
    let endpoints = change.additional_config.iter().flat_map(|config| {
        endpoints::brought(config, &before.config).map(|(index, was_set)| {
            (format!("additional_config.endpoints[{index}].api_key"), told(was_set))
        })
    });
    own.chain(endpoints).collect()
}

/// The fields that a form has, apart from the credential.
fn fields(model: &Model) -> Map<String, Value> {
    let fields = json!({
        "name": model.name,
        "identifier": model.identifier,
        "provider": model.provider.as_str(),
        "base_url": model.base_url,
        "has_api_key": model.api_key.is_some(),
        "is_public": model.is_public,
        "input_cost_per_1k": model.input_price,
        "output_cost_per_1k": model.output_price,
        "data_retention_days": model.data_retention_days,
        "region_restriction": model.region,
    });
    fields.as_object().cloned().unwrap_or_default()
}

fn taken(error: store::Error) -> Error {
    match error {
        store::Error::Taken => Error::invalid("Identifier has already been taken"),
        other => other.into(),
    }
}

fn view(project: &ProjectState, model: Arc<Model>) -> ModelView {
    let mut warnings = Vec::new();
    let has_price = model.prices().is_some() || model.config.image_price.is_some();
    if !has_price {
        warnings.push(
            "This public model has no price: calls are recorded at no cost, and keys with a cap or projects \
             with a budget cannot use it. Set input_cost_per_1k and output_cost_per_1k."
                .to_owned(),
        );
    }
    let list = list_prices::list_price(model.upstream_name(), model.provider);
    let is_listed = |own: Option<_>, listed| own.is_some() && own == listed;
    let listed = list.filter(|_| has_price).filter(|list| {
        is_listed(model.input_price, list.input)
            || is_listed(model.output_price, list.output)
            || is_listed(model.config.image_price, list.image)
    });
    let listed = listed.map(|_| list_prices::as_of());
    if let Some(day) = listed {
        warnings.push(format!(
            "The price is the vendor's list price of {day}; check it and set your own."
        ));
    }
    if let Some(fallback) = &model.config.fallback
        && !project.models.contains_key(fallback)
    {
        warnings
            .push(format!("The fallback {fallback} is not registered and will be passed over."));
    }
    if model.is_sandbox() {
        warnings.push("This is the built-in sandbox model: its answers are canned.".to_owned());
    }
    ModelView { model, warnings, listed }
}

/// The fields that an audit row compares; the credential only as set or unset.
fn shown(row: &ModelRow) -> Value {
    json!({
        "name": row.name,
        "identifier": row.identifier,
        "provider": row.provider.as_str(),
        "base_url": row.base_url,
        "api_key": if row.api_key.is_some() { "set" } else { "unset" },
        "is_public": row.is_public,
        "input_cost_per_1k": row.input_price,
        "output_cost_per_1k": row.output_price,
        "data_retention_days": row.data_retention_days,
        "region_restriction": row.region,
        "currency": row.currency,
        "additional_config": serde_json::from_str::<Value>(&row.config).unwrap_or_default(),
    })
}
