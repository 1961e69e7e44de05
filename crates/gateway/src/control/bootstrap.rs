//! The first start: an organization, an owner, a project with the sandbox model, a key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::ids::{KeyId, ModelId, ProjectId};
use domain::model::{Provider, SANDBOX_URL};
use domain::money::Usd;
use domain::project::Role;
use domain::secret::Secret;
use domain::time::Clock;
use serde_json::json;
use store::{ModelRow, Store};

use crate::control::keys::{from_parts, mint};
use crate::control::members::{check_password, clean_email, hash_password};
use crate::error::{Error, Result};

/// The sandbox model's identifier.
const SANDBOX: &str = "sandbox";

/// The first credentials as the environment gives them.
#[derive(Clone, Debug)]
pub struct FirstSettings {
    /// The owner's address.
    pub owner_email: String,
    /// The owner's password; generated when it is not given.
    pub owner_password: Option<Secret>,
    /// The first key in its raw form; generated when it is not given.
    pub key: Option<Secret>,
}

impl FirstSettings {
    /// Refuses what [`bootstrap`] would refuse, without a database. Names the setting.
    pub fn check(&self) -> Result<()> {
        clean_email(&self.owner_email).map_err(in_setting("owner_email"))?;
        if let Some(password) = &self.owner_password {
            check_password(password).map_err(in_setting("owner_password"))?;
        }
        if let Some(key) = &self.key {
            split(key).map_err(in_setting("bootstrap_key"))?;
        }
        Ok(())
    }
}

fn in_setting(name: &'static str) -> impl Fn(Error) -> Error {
    move |error| Error::invalid(format!("{name}: {error}"))
}

/// The first credentials: to be shown once, on a terminal.
#[derive(Debug)]
pub struct FirstCredentials {
    /// The owner's address.
    pub email: String,
    /// The owner's password, if it was generated.
    pub password: Option<Secret>,
    /// The first key in its raw form.
    pub key: Secret,
    /// The first project.
    pub project: ProjectId,
}

/// Sets up an empty database; `None` when it holds an organization already.
pub async fn bootstrap(
    store: &Store,
    settings: &FirstSettings,
    clock: &Clock,
) -> Result<Option<FirstCredentials>> {
    if !store.is_empty().await? {
        return Ok(None);
    }
    let now = clock.now();
    let email = clean_email(&settings.owner_email)?;
    let generated = match &settings.owner_password {
        Some(_) => None,
        None => Some(Secret::new(URL_SAFE_NO_PAD.encode(store::random::<18>()?))),
    };
    let password = settings.owner_password.as_ref().or(generated.as_ref());
    let password = password.ok_or_else(|| Error::Internal("no password".to_owned()))?;
    let hash = hash_password(password)?;
    let pepper = store.pepper().await?;
    let mut tx = store.begin().await?;
    let org = tx.add_org("Default", now).await?;
    tx.add_user(org, &email, &hash, Role::Owner, now).await?;
    let project = tx.add_project(org, "Default", None, now).await?;
    store.add_data_key(&mut tx, project, now).await?;
    tx.add_model(&sandbox(project, now)).await?;
    let mut stored = tx
        .project(project)
        .await?
        .ok_or_else(|| Error::Internal("a project vanished".to_owned()))?;
    let tiers = json!({"simple": SANDBOX, "complex": SANDBOX, "secure": SANDBOX});
    stored.settings.insert("routing_tiers".to_owned(), tiers);
    tx.save_project(&stored).await?;
    let name = "First key".to_owned();
    let (key, raw) = match &settings.key {
        None => mint(&pepper, project, name, now)?,
        Some(raw) => {
            let (id, secret) = split(raw)?;
            from_parts(&pepper, project, name, now, id, secret)
        }
    };
    tx.add_key(&key).await?;
    tx.bump_registry().await?;
    tx.commit().await?;
    let key = settings.key.clone().unwrap_or(raw);
    Ok(Some(FirstCredentials { email, password: generated, key, project }))
}

fn split(raw: &Secret) -> Result<(KeyId, &str)> {
    let parts = raw.expose().split_once('.');
    let parts = parts.and_then(|(id, secret)| Some((id.parse::<KeyId>().ok()?, secret)));
    parts.filter(|(_, secret)| secret.len() >= 8).ok_or_else(|| {
        Error::invalid(
            "The first key must have the form ak_<up to 16 hex digits>.<secret of 8 characters or more>",
        )
    })
}

/// The built-in model. It costs a little, so that costs are seen to work.
fn sandbox(project: ProjectId, now: domain::time::Timestamp) -> ModelRow {
    ModelRow {
        id: ModelId(0),
        project,
        name: "Sandbox (built in, answers are canned)".to_owned(),
        identifier: SANDBOX.to_owned(),
        provider: Provider::Internal,
        base_url: Some(SANDBOX_URL.to_owned()),
        api_key: None,
        endpoint_keys: None,
        is_public: false,
        input_price: Some(Usd(150_000)),
        output_price: Some(Usd(600_000)),
        data_retention_days: 30,
        region: "global".to_owned(),
        currency: "USD".to_owned(),
        config: json!({"infrastructure": "sandbox"}).to_string(),
        created_at: now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_set_up_is_known_before() {
        let secret = |text: &str| Some(Secret::new(text.to_owned()));
        let settings = |email: &str, password, key| FirstSettings {
            owner_email: email.to_owned(),
            owner_password: password,
            key,
        };
        let (password, key) = (|| secret("long-enough"), || secret("ak_1.12345678"));
        assert!(settings("a@b", password(), key()).check().is_ok());
        assert!(settings("a@b", None, None).check().is_ok());
        for (wrong, name) in [
            (settings("a.b", password(), key()), "owner_email: "),
            (settings("a@b", secret("short"), key()), "owner_password: "),
            (settings("a@b", password(), secret("12345678")), "bootstrap_key: "),
            (settings("a@b", password(), secret("ak_1.short")), "bootstrap_key: "),
        ] {
            let said = wrong.check().unwrap_err().to_string();
            assert!(said.starts_with(name) && !said.contains("short"), "{said}");
        }
    }
}
