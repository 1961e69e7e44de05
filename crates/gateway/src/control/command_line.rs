//! The writes of the command line, beside a running gateway or without one. Each write has its
//! audit row, like the writes of signed-in users.

use domain::ids::{OrgId, ProjectId, UserId};
use domain::money::Usd;
use domain::project::Role;
use domain::secret::Secret;
use domain::settings;
use domain::time::Clock;
use serde_json::{Map, Value, json};
use store::{Actor, NewAudit, SealingKey, Store, Tx};

use crate::audit::Event;
use crate::control::keys::{self, mint};
use crate::control::members::{clean_email, hash_password};
use crate::control::passkey_names::removed_passkey;
use crate::control::projects::{audited, clean_name};
use crate::control::service_tokens::{self, Made, NewServiceToken, expiry, token_role};
use crate::error::{Error, Result};

/// A user that is about to be made.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// Their address.
    pub email: String,
    /// Their password, in clear.
    pub password: domain::secret::Secret,
    /// Their role.
    pub role: Role,
    /// The projects they are a member of.
    pub projects: Vec<ProjectId>,
}

/// Makes a user in the first organization.
pub async fn create_user(store: &Store, user: NewUser, clock: &Clock) -> Result<UserId> {
    let email = clean_email(&user.email)?;
    let hash = hash_password(&user.password)?;
    let org = store
        .first_org()
        .await?
        .ok_or_else(|| Error::invalid("the database is empty: start `sluice serve` once"))?;
    let mut tx = store.begin().await?;
    let id = match tx.add_user(org, &email, &hash, user.role, clock.now()).await {
        Err(store::Error::Taken) => {
            return Err(Error::invalid(format!("a user with the address {email} exists already")));
        }
        made => made?,
    };
    // Whoever was removed is let in again.
    tx.forget_removed(&email).await?;
    for &project in &user.projects {
        if tx.project(project).await?.is_none() {
            return Err(Error::invalid(format!("there is no project {project}")));
        }
        tx.add_project_member(project, id).await?;
    }
    let made = json!({"email": email, "role": user.role.as_str(), "projects": user.projects});
    let target = ("user", id.to_string());
    note(&mut tx, org, Event::UserCreated, target, audited(&json!({}), &made), clock).await?;
    tx.commit().await?;
    Ok(id)
}

/// Sets a new password and ends all sessions of the user.
pub async fn reset_password(
    store: &Store,
    email: &str,
    password: &Secret,
    clock: &Clock,
) -> Result<()> {
    let email = clean_email(email)?;
    let hash = hash_password(password)?;
    let account = store
        .account(&email)
        .await?
        .ok_or_else(|| Error::invalid(format!("there is no user with the address {email}")))?;
    let mut tx = store.begin().await?;
    tx.organization(account.org).await?.ok_or(Error::NotFound)?;
    tx.set_password(account.user, &hash).await?;
    let target = ("user", account.user.to_string());
    let metadata = Map::from_iter([("email".to_owned(), Value::String(email))]);
    note(&mut tx, account.org, Event::PasswordReset, target, metadata, clock).await?;
    Ok(tx.commit().await?)
}

/// Removes all second factors of a user and ends their sessions: the way back in for an owner without one.
pub async fn reset_mfa(store: &Store, email: &str, clock: &Clock) -> Result<()> {
    let email = clean_email(email)?;
    let account = store
        .account(&email)
        .await?
        .ok_or_else(|| Error::invalid(format!("there is no user with the address {email}")))?;
    let mut tx = store.begin().await?;
    let removed = tx.remove_second_factors(account.user).await?;
    tx.end_sessions(account.user, None).await?;
    for passkey in &removed.passkeys {
        let (event, target, metadata) = removed_passkey(passkey, &email);
        note(&mut tx, account.org, event, target, metadata, clock).await?;
    }
    let target = ("user", account.user.to_string());
    let metadata = Map::from_iter([("email".to_owned(), Value::String(email))]);
    note(&mut tx, account.org, Event::MfaDisabled, target, metadata, clock).await?;
    Ok(tx.commit().await?)
}

/// Lets the users of the first organization sign in with passwords again: the way in when no provider of
/// single sign-on works. `false` if they may already.
pub async fn allow_password_login(store: &Store, clock: &Clock) -> Result<bool> {
    let empty = || Error::invalid("the database is empty: start `sluice serve` once");
    let org = store.first_org().await?.ok_or_else(empty)?;
    let mut tx = store.begin().await?;
    let mut organization = tx.organization(org).await?.ok_or(Error::NotFound)?;
    if !organization.read_settings()?.security.disable_password_login {
        return Ok(false);
    }
    let before = organization.settings.clone();
    let patch = json!({"security": {"disable_password_login": null}});
    settings::merge(&mut organization.settings, patch.as_object().cloned().unwrap_or_default());
    tx.save_organization(&organization).await?;
    let (before, after) = (json!({"settings": before}), json!({"settings": organization.settings}));
    let target = ("organization", org.to_string());
    let metadata = audited(&before, &after);
    note(&mut tx, org, Event::OrganizationUpdated, target, metadata, clock).await?;
    tx.commit().await?;
    Ok(true)
}

/// Makes a key for a project. A running gateway loads it within a second.
pub async fn create_key(
    store: &Store,
    project: ProjectId,
    name: &str,
    hourly_limit: Option<f64>,
    clock: &Clock,
) -> Result<Secret> {
    let limit = hourly_limit.map(|dollars| {
        Usd::from_dollars(dollars)
            .filter(|amount| *amount >= Usd::ZERO)
            .ok_or_else(|| Error::invalid("the hourly limit must not be negative"))
    });
    let pepper = store.pepper().await?;
    let (mut key, raw) = mint(&pepper, project, clean_name(name)?, clock.now())?;
    key.hourly_limit = limit.transpose()?;
    let mut tx = store.begin().await?;
    let found = tx.project(project).await?;
    let found = found.ok_or_else(|| Error::invalid(format!("there is no project {project}")))?;
    tx.add_key(&key).await?;
    let metadata = audited(&json!({}), &keys::shown(&key));
    let target = ("key", key.id.to_string());
    note(&mut tx, found.org, Event::KeyCreated, target, metadata, clock).await?;
    tx.bump_registry().await?;
    tx.commit().await?;
    Ok(raw)
}

/// Makes a service token in the first organization.
pub async fn create_service_token(
    store: &Store,
    new: NewServiceToken,
    clock: &Clock,
) -> Result<Secret> {
    let empty = || Error::invalid("the database is empty: start `sluice serve` once");
    let org = store.first_org().await?.ok_or_else(empty)?;
    let now = clock.now();
    let role = token_role(&new.role)?;
    let expires_at = expiry(&new.expiry, now)?;
    let made = Made { org, name: clean_name(&new.name)?, role, projects: new.projects, now };
    let (mut token, raw) = service_tokens::mint(&store.pepper().await?, made)?;
    token.expires_at = expires_at;
    let mut tx = store.begin().await?;
    tx.organization(org).await?.ok_or(Error::NotFound)?;
    for &project in &token.projects {
        if tx.project(project).await?.is_none() {
            return Err(Error::invalid(format!("there is no project {project}")));
        }
    }
    service_tokens::add(&mut tx, &token).await?;
    let metadata = audited(&json!({}), &service_tokens::shown(&token));
    let target = service_tokens::target(token.id);
    note(&mut tx, org, Event::ServiceTokenCreated, target, metadata, clock).await?;
    tx.commit().await?;
    Ok(raw)
}

/// Seals everything that the master key seals under another one. No gateway may run. Returns how
/// many values were sealed anew.
pub async fn rotate_master_key(store: &Store, new: &SealingKey, clock: &Clock) -> Result<usize> {
    let org = store.first_org().await?;
    let mut tx = store.begin().await?;
    let count = store.rotate_master_key(&mut tx, new).await?;
    if let Some(org) = org {
        let metadata = Map::from_iter([("values".to_owned(), count.into())]);
        let target = ("organization", org.to_string());
        note(&mut tx, org, Event::MasterKeyRotated, target, metadata, clock).await?;
    }
    tx.commit().await?;
    Ok(count)
}

/// Writes an audit event of the command line.
pub(super) async fn note(
    tx: &mut Tx,
    org: OrgId,
    event: Event,
    target: (&'static str, String),
    metadata: Map<String, Value>,
    clock: &Clock,
) -> Result<()> {
    let event = NewAudit {
        org,
        event: event.as_str(),
        actor: Some(Actor::CommandLine),
        target: Some(target),
        ip: "",
        user_agent: concat!("sluice/", env!("CARGO_PKG_VERSION")),
        metadata,
        at: clock.now(),
    };
    tx.audit(&event).await?;
    Ok(())
}
