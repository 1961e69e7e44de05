//! Passkeys of an account: added, listed, removed.

use std::time::Duration;

use aws_lc_rs::digest;
use domain::ids::UserId;
use domain::secret::Secret;
use domain::time::{MINUTE, Timestamp};
use passkeys::{Ceremony, Site, User};
use serde_json::{Map, Value};
use store::{Account, StoredPasskey, Tx};

use crate::admission::admit::hash_secret;
use crate::audit::Event;
use crate::control::held_account::hold_account;
use crate::control::last_ways_in::check_way_left;
use crate::control::passkey_names::passkey_id;
use crate::control::sealed_state::{self, Opened};
use crate::control::second_factor::method;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::member::Member;

/// A browser has this time to answer, in microseconds.
pub const PASSKEY_ASKED: i64 = 5 * MINUTE;
/// The most passkeys of an account.
const MOST: usize = 20;
/// The most characters of a passkey's name.
const LONGEST_NAME: usize = 100;

/// A request for a passkey, which a browser answers.
#[derive(Clone, Debug)]
pub struct PasskeyOffer {
    /// The options for a public key of `navigator.credentials`, as JSON.
    pub options: Value,
    /// The state that comes back with the answer, sealed.
    pub state: Secret,
}

/// The answer of a browser.
#[derive(Debug)]
pub struct PasskeyAnswer<'a> {
    /// The host that it was sent to.
    pub host: Option<&'a str>,
    /// The state that it was given with the options, if it still has it.
    pub state: Option<&'a str>,
    /// The credential, as JSON.
    pub credential: Value,
}

/// A passkey in the list of its user's.
#[derive(Clone, Debug)]
pub struct PasskeyView {
    /// The first 16 hex digits of the hash of its credential's id.
    pub id: String,
    /// The name that its user has given it.
    pub name: String,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last signed in; `None` if never.
    pub last_used_at: Option<Timestamp>,
}

/// A passkey that was just added.
#[derive(Clone, Debug)]
pub struct AddedPasskey {
    /// The passkey.
    pub view: PasskeyView,
    /// Recovery codes, which are not stored; `None` if the account had some.
    pub recovery_codes: Option<Vec<Secret>>,
}

impl Gateway {
    /// Whether the gateway can have passkeys for browsers that reach it at a host.
    pub fn has_passkeys(&self, host: Option<&str>) -> bool {
        self.passkey_site(host).is_ok()
    }

    /// The site that passkeys are made for: the public address, or the machine itself if there is none. A host
    /// that a request names is not believed further than that.
    pub(crate) fn passkey_site(&self, host: Option<&str>) -> Result<Site> {
        let site = match &self.config.public_url {
            Some(url) => Site::at(url).ok(),
            None if host.is_some_and(is_localhost) => Site::local().ok(),
            None => None,
        };
        site.ok_or_else(|| {
            Error::invalid(
                "Passkeys need the address at which browsers reach this gateway, with a host name: set public_url",
            )
        })
    }

    /// The passkeys of the member's own account, oldest first.
    pub async fn own_passkeys(&self, member: &Member) -> Result<Vec<PasskeyView>> {
        let passkeys = self.store.passkeys(member.user).await?;
        Ok(passkeys.into_iter().map(view).collect())
    }

    /// Begins to add a passkey to the member's own account.
    pub async fn offer_passkey(
        &self,
        member: &Member,
        account: &Account,
        password: Secret,
        host: Option<&str>,
    ) -> Result<PasskeyOffer> {
        let site = self.passkey_site(host)?;
        self.confirm_factor_owner(member, account, password).await?;
        let known: Vec<_> = self.store.passkeys(member.user).await?;
        check_room(known.len())?;
        let known: Vec<_> = known.into_iter().map(|passkey| passkey.credential_id).collect();
        let handle = self.user_handle(member.user);
        let user = User { handle, email: &account.email, name: &account.name };
        let begun = site.offer(user, &known).map_err(internal)?;
        self.sealed_offer(&registration_of(member.user), begun)
    }

    /// Adds a passkey that a browser has made for an offer. The first factor of an account ends its other
    /// sessions.
    pub async fn add_passkey(
        &self,
        member: &Member,
        account: &Account,
        name: &str,
        answer: PasskeyAnswer<'_>,
    ) -> Result<AddedPasskey> {
        let name = clean_name(name)?;
        let site = self.passkey_site(answer.host)?;
        let purpose = registration_of(member.user);
        let state = self.opened_state(&purpose, answer.state)?.ok_or_else(|| {
            Error::invalid(
                "The passkey was asked for too long ago, or for another account: try again",
            )
        })?;
        let new = site.register(&state.state, answer.credential);
        let new = new.map_err(|error| match error {
            passkeys::Error::Malformed(_) => Error::Malformed(error.to_string()),
            error => {
                tracing::info!(%error, user = %member.user, "a new passkey was refused");
                Error::invalid("The passkey does not fit what was asked for: try again")
            }
        })?;
        let now = self.clock.now();
        let row = StoredPasskey {
            credential_id: new.id,
            name: name.clone(),
            credential: new.stored,
            created_at: now,
            last_used_at: None,
        };
        let (codes, hashes) = self.new_codes(member.user)?;
        let mut tx = self.store.begin().await?;
        let is_new = self.spend(&mut tx, account, &state).await?;
        hold_account(&mut tx, member, account, None).await?;
        check_room(tx.passkeys(member.user).await?.len())?;
        if !is_new || !tx.add_passkey(member.user, &row).await? {
            return Err(Error::invalid("The passkey is registered already"));
        }
        let has_codes = tx.recovery_codes_left(member.user).await? > 0;
        if !has_codes {
            tx.set_recovery_codes(member.user, &hashes).await?;
        }
        if !account.mfa_enabled {
            tx.require_own_factor(member.user).await?;
            // Other sessions came without the factor.
            tx.end_sessions(member.user, member.session.as_ref()).await?;
            self.note_own_act(&mut tx, member, Event::MfaEnabled, method("passkey")).await?;
        }
        let view = view(row);
        let metadata = Map::from_iter([("name".to_owned(), Value::String(name))]);
        let target = ("passkey", view.id.clone());
        self.note_act(&mut tx, member, Event::PasskeyAdded, target, metadata).await?;
        tx.commit().await?;
        Ok(AddedPasskey { view, recovery_codes: (!has_codes).then_some(codes) })
    }

    /// Removes a passkey of the member's own account. With the last factor its recovery codes go, unless the
    /// organization requires a factor.
    pub async fn remove_passkey(
        &self,
        member: &Member,
        account: &Account,
        password: Secret,
        id: &str,
    ) -> Result<()> {
        self.confirm_factor_owner(member, account, password).await?;
        let mut tx = self.store.begin().await?;
        let organization = tx.organization(member.org).await?.ok_or(Error::NotFound)?;
        hold_account(&mut tx, member, account, None).await?;
        let passkeys = tx.passkeys(member.user).await?;
        let is_only = passkeys.len() == 1;
        let removed = passkeys.into_iter().find(|passkey| passkey_id(&passkey.credential_id) == id);
        let removed = removed.ok_or(Error::NotFound)?;
        let is_last_factor = is_only && !tx.has_authenticator(member.user).await?;
        if is_last_factor && organization.read_settings()?.security.require_mfa {
            return Err(Error::invalid(
                "Your organization requires a second factor, and this is your last: add another one first",
            ));
        }
        tx.remove_passkey(member.user, &removed.credential_id).await?;
        check_way_left(&mut tx, member.org, member.user).await?;
        let metadata = Map::from_iter([("name".to_owned(), Value::String(removed.name))]);
        let target = ("passkey", id.to_owned());
        self.note_act(&mut tx, member, Event::PasskeyRemoved, target, metadata).await?;
        if is_last_factor {
            tx.remove_second_factors(member.user).await?;
            self.note_own_act(&mut tx, member, Event::MfaDisabled, method("passkey")).await?;
        }
        Ok(tx.commit().await?)
    }

    /// The id by which passkeys know a user: nobody else reads from it who that is.
    pub(crate) fn user_handle(&self, user: UserId) -> [u8; 16] {
        let hash = hash_secret(self.registry.pepper(), &format!("passkey user:{user}"));
        let mut handle = [0; 16];
        handle.copy_from_slice(&hash[..16]);
        handle
    }

    pub(crate) fn sealed_offer(&self, purpose: &str, begun: Ceremony) -> Result<PasskeyOffer> {
        let (pepper, now) = (self.registry.pepper(), self.clock.now());
        let good_for = Duration::from_micros(PASSKEY_ASKED.unsigned_abs());
        let state = sealed_state::seal(pepper, purpose, &begun.state, now, good_for)?;
        Ok(PasskeyOffer { options: begun.options, state })
    }

    pub(crate) fn opened_state(
        &self,
        purpose: &str,
        state: Option<&str>,
    ) -> Result<Option<Opened>> {
        let (pepper, now) = (self.registry.pepper(), self.clock.now());
        state.map_or(Ok(None), |state| sealed_state::open(pepper, purpose, state, now))
    }

    /// Uses up the challenge of a state: a copy of the answer is good for nothing. `false` if it was.
    pub(crate) async fn spend(
        &self,
        tx: &mut Tx,
        account: &Account,
        state: &Opened,
    ) -> Result<bool> {
        let mut hash = [0; 32];
        let digest = digest::digest(&digest::SHA256, state.state.as_bytes());
        hash.copy_from_slice(digest.as_ref());
        // Clocks of nodes differ: it is remembered for longer than it is good.
        let until = Timestamp(state.expires_at.0 + PASSKEY_ASKED);
        Ok(tx.spend_challenge(account.org, &hash, self.clock.now(), until).await?)
    }
}

/// The purpose of a state by which a user adds a passkey: it serves no other.
fn registration_of(user: UserId) -> String {
    format!("passkey:new:{user}")
}

fn view(passkey: StoredPasskey) -> PasskeyView {
    PasskeyView {
        id: passkey_id(&passkey.credential_id),
        name: passkey.name,
        created_at: passkey.created_at,
        last_used_at: passkey.last_used_at,
    }
}

fn check_room(passkeys: usize) -> Result<()> {
    if passkeys < MOST {
        return Ok(());
    }
    Err(Error::invalid(format!("An account has {MOST} passkeys at most: remove one first")))
}

fn clean_name(name: &str) -> Result<String> {
    let name = name.trim();
    let is_sound = (1..=LONGEST_NAME).contains(&name.chars().count());
    if !is_sound || name.contains(char::is_control) {
        return Err(Error::invalid(format!("Name must have 1 to {LONGEST_NAME} characters")));
    }
    Ok(name.to_owned())
}

/// Whether a browser that reaches the gateway at a host is on the same machine.
fn is_localhost(host: &str) -> bool {
    host.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("localhost"))
}

fn internal(error: passkeys::Error) -> Error {
    Error::Internal(error.to_string())
}
