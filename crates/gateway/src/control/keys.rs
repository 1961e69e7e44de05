//! API keys: minted, changed, reset, revoked.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::ids::{KeyId, ProjectId};
use domain::key::{EarlierSecret, Key, KeyStatus};
use domain::money::Usd;
use domain::secret::Secret;
use domain::step::ApiEndpoint;
use domain::time::{SECOND, Timestamp};
use serde_json::{Map, Value, json};

use crate::admission::admit::hash_secret;
use crate::audit::Event;
use crate::control::people::{admin_of_now, member_of_now};
use crate::control::projects::{LONGEST_NAME, audited, clean_name};
use crate::control::self_service;
use crate::error::{Error, Faults, Result};
use crate::gateway::Gateway;
use crate::lock::lock;
use crate::state::member::Member;

/// The longest time for which two secrets of a key work, in seconds: a week.
const LONGEST_OVERLAP: i64 = 604_800;
/// The most models or endpoints of a key's list.
const MOST_ALLOWED: usize = 200;

/// A key that is about to be made.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// For people.
    pub name: String,
    /// The only project it is good for.
    pub project: ProjectId,
    /// USD per rolling hour.
    pub hourly_limit: Option<f64>,
    /// An ISO 8601 time.
    pub expires_at: Option<String>,
    /// The models that it may call; `None` allows all.
    pub allowed_models: Option<Vec<String>>,
    /// The endpoints that it may use, as steps name them; `None` allows all.
    pub allowed_endpoints: Option<Vec<String>>,
}

/// The fields that a request changes; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct KeyChange {
    /// A new name.
    pub name: Option<String>,
    /// `active` resets the key.
    pub status: Option<String>,
    /// USD per rolling hour; the inner `None` lifts the cap.
    pub hourly_limit: Option<Option<f64>>,
    /// An ISO 8601 time; the inner `None` lifts the expiry.
    pub expires_at: Option<Option<String>>,
    /// The models that it may call; the inner `None` allows all.
    pub allowed_models: Option<Option<Vec<String>>>,
    /// The endpoints that it may use; the inner `None` allows all.
    pub allowed_endpoints: Option<Option<Vec<String>>>,
}

/// A key as its owners see it.
#[derive(Clone, Debug)]
pub struct KeyView {
    /// The key.
    pub key: Key,
    /// The name of its project.
    pub project_name: String,
}

/// The acts that are open to a member on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRights {
    /// To give it a new secret.
    pub may_rotate: bool,
    /// To revoke it.
    pub may_revoke: bool,
}

impl Gateway {
    /// The keys of the projects that a member may see, oldest first.
    pub fn list_keys(&self, member: &Member) -> Vec<KeyView> {
        let keys = self.registry.keys();
        keys.iter().filter_map(|state| self.key_view(member, state.key.id).ok()).collect()
    }

    /// Makes a key. The raw key is in the answer and nowhere else.
    pub async fn create_key(&self, member: &Member, new: NewKey) -> Result<(KeyView, Secret)> {
        let project = self.visible_project(member, new.project).map_err(|error| match error {
            Error::NotFound => Error::invalid("Project not found"),
            other => other,
        })?;
        if !member.role.may_manage_keys() {
            return Err(Error::Forbidden);
        }
        let mut faults = Faults::default();
        let name = faults.note(clean_name(&new.name)).unwrap_or_default();
        let hourly_limit = new.hourly_limit.and_then(|given| faults.note(limit(given)));
        let expires_at = new.expires_at.and_then(|given| faults.note(expiry(&given)));
        let models = new.allowed_models.and_then(|given| faults.note(allowed_models(given)));
        let endpoints =
            new.allowed_endpoints.and_then(|given| faults.note(allowed_endpoints(&given)));
        faults.none()?;
        let now = self.clock.now();
        let (mut key, raw) = mint(self.registry.pepper(), project.id(), name, now)?;
        (key.hourly_limit, key.expires_at) = (hourly_limit, expires_at);
        (key.allowed_models, key.allowed_endpoints) = (models, endpoints);
        key.owner = member.person();
        let mut tx = self.store.begin().await?;
        let (role, rules) = self_service::held_rules(&mut tx, member, project.id(), now).await?;
        if key.hourly_limit.is_some() && rules.is_none() && !role.is_admin() {
            // A limit is a decision about money.
            return Err(Error::Forbidden);
        }
        if let Some(rules) = &rules {
            self_service::bound(rules, &mut key)?;
            self_service::check_room(&mut tx, rules, member, project.id(), now).await?;
        }
        tx.add_key(&key).await?;
        let metadata = audited(&json!({}), &shown(&key));
        self.note_act(&mut tx, member, Event::KeyCreated, ("key", key.id.to_string()), metadata)
            .await?;
        self.publish(tx).await?;
        Ok((self.key_view(member, key.id)?, raw))
    }

    /// Changes a key, or resets it to `active`: a fresh start for its windows.
    pub async fn update_key(
        &self,
        member: &Member,
        id: KeyId,
        change: KeyChange,
    ) -> Result<KeyView> {
        self.key_view(member, id)?;
        member.check_admin()?;
        let mut tx = self.store.begin().await?;
        let mut key = tx.key(id).await?.ok_or(Error::NotFound)?;
        let member = &admin_of_now(&mut tx, member, self.clock.now()).await?;
        let before = shown(&key);
        let mut faults = Faults::default();
        if let Some(name) = change.name.and_then(|name| faults.note(clean_name(&name))) {
            key.name = name;
        }
        if let Some(given) = change.hourly_limit {
            key.hourly_limit = given.and_then(|given| faults.note(limit(given)));
        }
        if let Some(given) = change.expires_at {
            key.expires_at = given.and_then(|given| faults.note(expiry(&given)));
        }
        if let Some(given) = change.allowed_models {
            key.allowed_models = given.and_then(|given| faults.note(allowed_models(given)));
        }
        if let Some(given) = change.allowed_endpoints {
            key.allowed_endpoints = given.and_then(|given| faults.note(allowed_endpoints(&given)));
        }
        let resets = change.status.is_some();
        if let Some(status) = change.status {
            if status != KeyStatus::Active.as_str() {
                faults.add(format!("Status can only be set to active, not '{status}'"));
            }
            key.status = KeyStatus::Active;
            key.reset_at = Some(self.clock.now());
        }
        faults.none()?;
        let event = if resets { Event::KeyReset } else { Event::KeyUpdated };
        tx.save_key(&key).await?;
        let metadata = audited(&before, &shown(&key));
        self.note_act(&mut tx, member, event, ("key", id.to_string()), metadata).await?;
        self.publish(tx).await?;
        if key.hourly_limit.is_some() {
            // Its spend before a restart was not counted while it had no cap. Shared counters are built from the
            // ledger when it is first asked for.
            let counted = self.recount_own_hours().await;
            if self.fleet.is_none() {
                counted?;
            }
        }
        self.key_view(member, id)
    }

    /// Gives a key a new secret, which is in the answer and nowhere else. The one before works for the
    /// overlap, in seconds; one that was before that stops working now.
    pub async fn rotate_key(
        &self,
        member: &Member,
        id: KeyId,
        overlap_seconds: i64,
    ) -> Result<(KeyView, Secret)> {
        if !self_service::is_own(member, &self.key_view(member, id)?.key) {
            return Err(Error::Forbidden);
        }
        if !(0..=LONGEST_OVERLAP).contains(&overlap_seconds) {
            return Err(Error::invalid(format!(
                "overlap_seconds must be a whole number from 0 to {LONGEST_OVERLAP}"
            )));
        }
        let now = self.clock.now();
        let mut tx = self.store.begin().await?;
        let mut key = tx.key(id).await?.ok_or(Error::NotFound)?;
        let member = &member_of_now(&mut tx, member, now).await?;
        if !self_service::is_own(member, &key) || !member.may_see(key.project) {
            return Err(Error::Forbidden);
        }
        let secret = URL_SAFE_NO_PAD.encode(store::random::<32>()?);
        let (fresh, raw) =
            from_parts(self.registry.pepper(), key.project, key.name.clone(), now, id, &secret);
        let until = now.minus_micros(-overlap_seconds * SECOND);
        let earlier = EarlierSecret { hash: key.secret_hash, until };
        key.earlier = (overlap_seconds > 0).then_some(earlier);
        (key.secret_hash, key.masked) = (fresh.secret_hash, fresh.masked);
        tx.save_key(&key).await?;
        let mut metadata = Map::new();
        metadata.insert("rotated".to_owned(), json!({"overlap_seconds": overlap_seconds}));
        self.note_act(&mut tx, member, Event::KeyUpdated, ("key", id.to_string()), metadata)
            .await?;
        self.publish(tx).await?;
        Ok((self.key_view(member, id)?, raw))
    }

    /// The acts that are open to a member on a key of a project that they see.
    pub fn key_rights(&self, member: &Member, key: &Key) -> KeyRights {
        let may_rotate = self_service::is_own(member, key);
        let project = self.registry.project(key.project).ok().flatten();
        let is_bounded = project.is_none_or(|project| project.settings.self_service.is_some());
        let may_revoke = may_rotate || (member.role.may_manage_keys() && !is_bounded);
        KeyRights { may_rotate, may_revoke }
    }

    /// Revokes a key for good.
    pub async fn revoke_key(&self, member: &Member, id: KeyId) -> Result<()> {
        let key = self.key_view(member, id)?.key;
        if !self.key_rights(member, &key).may_revoke {
            return Err(Error::Forbidden);
        }
        let now = self.clock.now();
        let mut tx = self.store.begin().await?;
        let member = &member_of_now(&mut tx, member, now).await?;
        if !self.key_rights(member, &key).may_revoke || !member.may_see(key.project) {
            return Err(Error::Forbidden);
        }
        if !tx.revoke_key(id, now).await? {
            return Err(Error::NotFound);
        }
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), Value::String(key.name));
        self.note_act(&mut tx, member, Event::KeyRevoked, ("key", id.to_string()), metadata)
            .await?;
        self.publish(tx).await
    }

    fn key_view(&self, member: &Member, id: KeyId) -> Result<KeyView> {
        let state = self.registry.key(id).ok_or(Error::NotFound)?;
        let project = self.visible_project(member, state.key.project)?;
        let mut key = state.key.clone();
        key.last_used = key.last_used.max(lock(&state.windows).last_used());
        Ok(KeyView { key, project_name: project.project.name.clone() })
    }
}

/// A new key and its raw form: `ak_<16 hex>.<43 base64url characters>`.
pub(crate) fn mint(
    pepper: &[u8; 32],
    project: ProjectId,
    name: String,
    now: Timestamp,
) -> Result<(Key, Secret)> {
    let id = KeyId(u64::from_be_bytes(store::random::<8>()?));
    let secret = URL_SAFE_NO_PAD.encode(store::random::<32>()?);
    Ok(from_parts(pepper, project, name, now, id, &secret))
}

/// A key from its parts.
pub(crate) fn from_parts(
    pepper: &[u8; 32],
    project: ProjectId,
    name: String,
    now: Timestamp,
    id: KeyId,
    secret: &str,
) -> (Key, Secret) {
    let raw = format!("{id}.{secret}");
    let tail: String = {
        let mut last: Vec<char> = raw.chars().rev().take(4).collect();
        last.reverse();
        last.into_iter().collect()
    };
    let key = Key {
        id,
        project,
        name,
        secret_hash: hash_secret(pepper, secret),
        masked: format!("{}...{tail}", &raw[..6]),
        status: KeyStatus::Active,
        hourly_limit: None,
        expires_at: None,
        loop_interventions: 0,
        last_used: None,
        reset_at: None,
        created_at: now,
        allowed_models: None,
        allowed_endpoints: None,
        owner: None,
        earlier: None,
    };
    (key, Secret::new(raw))
}

fn limit(dollars: f64) -> Result<Usd> {
    Usd::from_dollars(dollars).filter(|amount| *amount >= Usd::ZERO).ok_or_else(|| {
        Error::invalid("hourly_limit must be between 0 and 9,000,000,000 USD, or null")
    })
}

fn allowed_models(given: Vec<String>) -> Result<Vec<String>> {
    let is_name = |name: &String| {
        (1..=LONGEST_NAME).contains(&name.chars().count()) && !name.contains(char::is_control)
    };
    if given.len() > MOST_ALLOWED || !given.iter().all(is_name) {
        return Err(Error::invalid(format!(
            "allowed_models must be null or at most {MOST_ALLOWED} identifiers of models"
        )));
    }
    Ok(given)
}

fn allowed_endpoints(given: &[String]) -> Result<Vec<ApiEndpoint>> {
    let read = |word: &String| ApiEndpoint::parse(word);
    let endpoints: Option<Vec<ApiEndpoint>> = given.iter().map(read).collect();
    endpoints.filter(|all| all.len() <= MOST_ALLOWED).ok_or_else(|| {
        let words = ApiEndpoint::ALL.iter().map(|endpoint| endpoint.as_str());
        let words = words.collect::<Vec<_>>().join(", ");
        Error::invalid(format!("allowed_endpoints must be null or a list of these: {words}"))
    })
}

fn expiry(text: &str) -> Result<Timestamp> {
    Timestamp::parse(text).ok_or_else(|| {
        Error::invalid("expires_at must be an ISO 8601 time such as 2027-01-31T00:00:00Z")
    })
}

/// The fields that an audit row compares.
pub(crate) fn shown(key: &Key) -> Value {
    json!({
        "name": key.name,
        "project_id": key.project,
        "status": key.status.as_str(),
        "hourly_limit": key.hourly_limit,
        "expires_at": key.expires_at,
        "allowed_models": key.allowed_models,
        "allowed_endpoints": key.allowed_endpoints,
        "owner_id": key.owner,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minted_key_has_the_form_it_is_documented_to_have() {
        let (key, raw) = mint(&[7; 32], ProjectId(1), "k".into(), Timestamp(0)).unwrap();
        let (id, secret) = raw.expose().split_once('.').unwrap();
        assert_eq!(id, key.id.to_string());
        assert_eq!(id.len(), 19);
        assert_eq!(secret.len(), 43);
        assert_eq!(key.masked.len(), 13);
        assert!(key.masked.starts_with("ak_") && raw.expose().ends_with(&key.masked[9..]));
    }
}
