//! Providers of single sign-on, as owners see and change them.

use std::collections::HashMap;

use domain::ids::{ProjectId, SignOnProviderId};
use domain::project::Role;
use domain::secret::Secret;
use domain::sign_on::SignOnRule;
use domain::time::Timestamp;
use serde_json::{Map, Value, json};
use store::{SignOnProvider, Tx};

use crate::audit::Event;
use crate::control::last_ways_in::{check_made_get_in, check_owners_get_in};
use crate::control::people::{hold_people, read_role};
use crate::control::projects::{audited, clean_name};
use crate::control::sessions::{SESSION_ABSOLUTE, SESSION_IDLE};
use crate::control::settings_preview::{check_base, version};
use crate::control::sign_on::no_public_url;
use crate::error::{Error, Faults, Result};
use crate::gateway::Gateway;
use crate::state::member::Member;

/// The most providers of an organization.
const MOST_PROVIDERS: i64 = 20;
/// The most rules of a provider, and projects of a rule.
const MOST_RULES: usize = 100;
/// The most scopes of a provider.
const MOST_SCOPES: usize = 20;
/// The longest value of a claim, and the longest name of one, in bytes.
const LONGEST_CLAIM: usize = 256;
/// The longest client id and secret, in bytes.
const LONGEST_CREDENTIAL: usize = 4096;

/// A rule as it is asked for.
#[derive(Clone, Debug)]
pub struct NewRule {
    /// The value that a user has in the claim of the groups.
    pub claim_value: String,
    /// The role that it gives.
    pub role: String,
    /// The projects that it makes a member of.
    pub projects: Vec<ProjectId>,
}

/// The fields of a provider that a request gives; a new one needs the first four.
#[derive(Clone, Debug, Default)]
pub struct SignOnProviderChange {
    /// Its name in addresses.
    pub slug: Option<String>,
    /// Its name for people.
    pub name: Option<String>,
    /// The issuer, as it names itself.
    pub issuer: Option<String>,
    /// Our id there.
    pub client_id: Option<String>,
    /// Our secret there; `Some(None)` removes it.
    pub client_secret: Option<Option<Secret>>,
    /// The scopes that are asked for beside `openid`.
    pub scopes: Option<Vec<String>>,
    /// The claim with the groups of a user.
    pub groups_claim: Option<String>,
    /// All rules, in order.
    pub rules: Option<Vec<NewRule>>,
    /// Whether a second factor that the issuer has seen counts.
    pub trusts_factor: Option<bool>,
    /// The version of the fields that the change was made to, if it is for these alone.
    pub base: Option<String>,
}

/// The version of the fields of a provider: a change that has it as its base is saved over these alone.
pub fn provider_base(provider: &SignOnProvider) -> String {
    version(&fields(provider))
}

impl Gateway {
    /// The providers of the organization, by name (owner).
    pub async fn list_sign_on_providers(&self, member: &Member) -> Result<Vec<SignOnProvider>> {
        member.check_owner()?;
        Ok(self.store.sign_on_providers(member.org).await?)
    }

    /// Adds a provider, if its issuer can be used (owner).
    pub async fn add_sign_on_provider(
        &self,
        member: &Member,
        new: SignOnProviderChange,
    ) -> Result<SignOnProvider> {
        member.check_owner()?;
        self.public_url().ok_or_else(no_public_url)?;
        let blank = SignOnProvider {
            id: SignOnProviderId(0),
            org: member.org,
            slug: String::new(),
            name: String::new(),
            issuer: String::new(),
            client_id: String::new(),
            client_secret: None,
            scopes: ["openid", "email", "profile"].map(str::to_owned).to_vec(),
            groups_claim: "groups".to_owned(),
            rules: Vec::new(),
            trusts_factor: false,
            created_at: self.clock.now(),
        };
        // Those that are left out are blank, and refused.
        let new = SignOnProviderChange {
            slug: Some(new.slug.unwrap_or_default()),
            name: Some(new.name.unwrap_or_default()),
            issuer: Some(new.issuer.unwrap_or_default()),
            client_id: Some(new.client_id.unwrap_or_default()),
            ..new
        };
        let provider = self.changed(member, &blank, new)?;
        self.check_issuer(&provider.issuer).await?;
        let mut tx = self.store.begin().await?;
        let member = &hold_owners(&mut tx, member, self.clock.now()).await?;
        if tx.count_sign_on_providers(member.org).await? >= MOST_PROVIDERS {
            return Err(Error::invalid(format!("There are {MOST_PROVIDERS} providers already")));
        }
        let id = match self.store.add_sign_on_provider(&mut tx, &provider).await {
            Err(store::Error::Taken) => return Err(taken()),
            id => id?,
        };
        let provider = SignOnProvider { id, ..provider };
        let metadata = audited(&json!({}), &shown(&provider));
        let event = Event::SignOnProviderCreated;
        self.note_act(&mut tx, member, event, target(id), metadata).await?;
        tx.commit().await?;
        Ok(provider)
    }

    /// How many sessions would end with each provider (owner); providers without any are left out.
    pub async fn sessions_by_providers(
        &self,
        member: &Member,
    ) -> Result<HashMap<SignOnProviderId, i64>> {
        member.check_owner()?;
        let now = self.clock.now();
        let (created, seen) = (now.minus_micros(SESSION_ABSOLUTE), now.minus_micros(SESSION_IDLE));
        let but = member.session.as_ref();
        Ok(self.store.sessions_by_providers(member.org, created, seen, but).await?)
    }

    /// Changes a provider (owner). Another issuer gets no secret that was meant for the one before. With another
    /// issuer or client the sessions that came by it end, but for the one that asks: whoever the one before had
    /// let in may not be known to this one. The second factors that an issuer has seen count no longer once it is
    /// another, or is not trusted any more.
    pub async fn change_sign_on_provider(
        &self,
        member: &Member,
        id: SignOnProviderId,
        change: SignOnProviderChange,
    ) -> Result<SignOnProvider> {
        member.check_owner()?;
        let old = self.sign_on_provider(member, id).await?;
        check_base(change.base.as_deref(), &fields(&old))?;
        let issuer = self.changed(member, &old, change.clone())?.issuer;
        if issuer != old.issuer {
            self.check_issuer(&issuer).await?;
        }
        let mut tx = self.store.begin().await?;
        let member = &hold_owners(&mut tx, member, self.clock.now()).await?;
        // Somebody else may have changed it while its issuer was asked.
        let old = self.sign_on_provider_of_now(&mut tx, member, id).await?;
        check_base(change.base.as_deref(), &fields(&old))?;
        let changed = self.changed(member, &old, change)?;
        match self.store.save_sign_on_provider(&mut tx, &changed).await {
            Err(store::Error::Taken) => return Err(taken()),
            saved => saved?,
        }
        let is_other = !changed.is_client(&old.issuer, &old.client_id);
        if is_other {
            // Its users may be known by other names there, or by none.
            check_owners_get_in(&mut tx, member.org, Some(id)).await?;
        }
        if old.issuer != changed.issuer {
            check_made_get_in(&mut tx, member.org, &old.issuer).await?;
        }
        let ended =
            if is_other { tx.end_sessions_by(id, member.session.as_ref()).await? } else { 0 };
        if is_other || (old.trusts_factor && !changed.trusts_factor) {
            tx.withdraw_factors(id).await?;
        }
        let mut metadata = audited(&shown(&old), &shown(&changed));
        if ended > 0 {
            metadata.insert("sessions".to_owned(), ended.into());
        }
        let secret = |provider: &SignOnProvider| {
            provider.client_secret.as_ref().map(|secret| secret.expose().to_owned())
        };
        if secret(&old) != secret(&changed) {
            metadata.insert("client_secret_changed".to_owned(), true.into());
        }
        let event = Event::SignOnProviderUpdated;
        self.note_act(&mut tx, member, event, target(id), metadata).await?;
        tx.commit().await?;
        Ok(changed)
    }

    /// Removes a provider and ends the sessions that came by it, but for the one that asks (owner).
    pub async fn remove_sign_on_provider(
        &self,
        member: &Member,
        id: SignOnProviderId,
    ) -> Result<()> {
        member.check_owner()?;
        let mut tx = self.store.begin().await?;
        let member = &hold_owners(&mut tx, member, self.clock.now()).await?;
        let old = self.sign_on_provider_of_now(&mut tx, member, id).await?;
        let organization = tx.organization(member.org).await?.ok_or(Error::NotFound)?;
        tx.remove_sign_on_provider(id).await?;
        let ended = tx.end_sessions_by(id, member.session.as_ref()).await?;
        let needs_one = organization.read_settings()?.security.disable_password_login;
        if needs_one && tx.count_sign_on_providers(member.org).await? == 0 {
            return Err(Error::invalid(
                "The last provider stays while settings.security.disable_password_login is true",
            ));
        }
        check_owners_get_in(&mut tx, member.org, None).await?;
        check_made_get_in(&mut tx, member.org, &old.issuer).await?;
        let mut metadata = audited(&shown(&old), &json!({}));
        if ended > 0 {
            metadata.insert("sessions".to_owned(), ended.into());
        }
        let event = Event::SignOnProviderDeleted;
        self.note_act(&mut tx, member, event, target(id), metadata).await?;
        Ok(tx.commit().await?)
    }

    async fn sign_on_provider(
        &self,
        member: &Member,
        id: SignOnProviderId,
    ) -> Result<SignOnProvider> {
        let providers = self.store.sign_on_providers(member.org).await?;
        providers.into_iter().find(|provider| provider.id == id).ok_or(Error::NotFound)
    }

    async fn sign_on_provider_of_now(
        &self,
        tx: &mut Tx,
        member: &Member,
        id: SignOnProviderId,
    ) -> Result<SignOnProvider> {
        self.store.sign_on_provider_of_now(tx, member.org, id).await?.ok_or(Error::NotFound)
    }

    async fn check_issuer(&self, issuer: &str) -> Result<()> {
        let checked = self.issuers.check(issuer, self.clock.now()).await;
        checked.map_err(|fault| Error::invalid(format!("Issuer cannot be used: {fault}")))
    }

    /// A provider with the fields of a change, all of them checked.
    fn changed(
        &self,
        member: &Member,
        old: &SignOnProvider,
        change: SignOnProviderChange,
    ) -> Result<SignOnProvider> {
        let mut faults = Faults::default();
        let mut new = old.clone();
        if let Some(slug) = change.slug {
            faults.note(check_slug(&slug));
            new.slug = slug;
        }
        if let Some(name) = change.name {
            new.name = faults.note(clean_name(&name)).unwrap_or_default();
        }
        if let Some(issuer) = change.issuer {
            let checked = providers::validate_issuer(&issuer, &self.config.egress_allow);
            faults.note(checked.map_err(|fault| Error::invalid(format!("Issuer {fault}"))));
            if issuer != old.issuer {
                new.client_secret = None;
            }
            new.issuer = issuer;
        }
        if let Some(client_id) = change.client_id {
            faults.note(check_visible("Client id", &client_id, LONGEST_CREDENTIAL));
            new.client_id = client_id;
        }
        if let Some(secret) = change.client_secret {
            if let Some(secret) = &secret {
                let checked = check_visible("Client secret", secret.expose(), LONGEST_CREDENTIAL);
                faults.note(checked);
            }
            new.client_secret = secret;
        }
        if let Some(scopes) = change.scopes {
            new.scopes = faults.note(clean_scopes(scopes)).unwrap_or_default();
        }
        if let Some(claim) = change.groups_claim {
            faults.note(check_visible("Groups claim", &claim, LONGEST_CLAIM));
            new.groups_claim = claim;
        }
        if let Some(rules) = change.rules {
            new.rules = faults.note(self.clean_rules(member, rules)).unwrap_or_default();
        }
        new.trusts_factor = change.trusts_factor.unwrap_or(old.trusts_factor);
        faults.none()?;
        Ok(new)
    }

    fn clean_rules(&self, member: &Member, rules: Vec<NewRule>) -> Result<Vec<SignOnRule>> {
        if rules.len() > MOST_RULES {
            return Err(Error::invalid(format!("There may be {MOST_RULES} rules at most")));
        }
        let clean = |rule: NewRule| {
            let NewRule { claim_value, role, projects } = rule;
            let is_value = !claim_value.is_empty()
                && claim_value.len() <= LONGEST_CLAIM
                && !claim_value.contains(char::is_control);
            if !is_value {
                return Err(Error::invalid(format!(
                    "The claim_value of a rule must have 1 to {LONGEST_CLAIM} bytes, none of them a control character"
                )));
            }
            let role = read_role(&role)?;
            if role == Role::Owner {
                return Err(Error::invalid(
                    "The role of a rule must be one of admin, member, viewer: owners are made by owners",
                ));
            }
            if projects.len() > MOST_RULES {
                return Err(Error::invalid(format!(
                    "A rule may have {MOST_RULES} projects at most"
                )));
            }
            self.check_projects(member, &projects)?;
            Ok(SignOnRule { claim_value, role, projects })
        };
        rules.into_iter().map(clean).collect()
    }
}

/// Holds the people of an organization until the transaction ends, for an owner.
async fn hold_owners(tx: &mut Tx, member: &Member, now: Timestamp) -> Result<Member> {
    member.check_person()?;
    let member = hold_people(tx, member, now).await?;
    member.check_owner()?;
    Ok(member)
}

fn check_slug(slug: &str) -> Result<()> {
    let is_slug = (1..=32).contains(&slug.len())
        && slug.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    if is_slug {
        return Ok(());
    }
    Err(Error::invalid("Slug must be 1 to 32 lower-case letters, digits and hyphens"))
}

fn check_visible(what: &str, text: &str, longest: usize) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(format!("{what} can't be blank")));
    }
    if text.len() > longest || text.contains(|c: char| c.is_control()) {
        return Err(Error::invalid(format!(
            "{what} must have at most {longest} bytes, none of them a control character"
        )));
    }
    Ok(())
}

/// Scopes as they are sent: `openid` is one of them.
fn clean_scopes(mut scopes: Vec<String>) -> Result<Vec<String>> {
    // RFC 6749, section 3.3.
    let is_token = |b: u8| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    let is_scope =
        |scope: &String| (1..=LONGEST_CLAIM).contains(&scope.len()) && scope.bytes().all(is_token);
    if scopes.len() > MOST_SCOPES || !scopes.iter().all(is_scope) {
        return Err(Error::invalid(format!(
            "Scopes must be {MOST_SCOPES} at most, of visible characters without quotes"
        )));
    }
    if !scopes.iter().any(|scope| scope == "openid") {
        scopes.insert(0, "openid".to_owned());
    }
    Ok(scopes)
}

fn taken() -> Error {
    Error::invalid("Slug has already been taken")
}

fn target(id: SignOnProviderId) -> (&'static str, String) {
    ("sign_on_provider", id.to_string())
}

fn fields(provider: &SignOnProvider) -> Map<String, Value> {
    shown(provider).as_object().cloned().unwrap_or_default()
}

/// The values that the audit compares.
fn shown(provider: &SignOnProvider) -> Value {
    let rule = |rule: &SignOnRule| json!({"claim_value": rule.claim_value, "role": rule.role.as_str(), "projects": rule.projects});
    json!({
        "slug": provider.slug,
        "name": provider.name,
        "issuer": provider.issuer,
        "client_id": provider.client_id,
        "has_client_secret": provider.client_secret.is_some(),
        "scopes": provider.scopes,
        "groups_claim": provider.groups_claim,
        "rules": provider.rules.iter().map(rule).collect::<Vec<_>>(),
        "trusts_factor": provider.trusts_factor,
    })
}
