//! Second factors: set up, asked for at sign-in, replaced and removed.

use domain::ids::UserId;
use domain::project::Role;
use domain::secret::Secret;
use serde_json::{Map, Value, json};
use store::{Account, Authenticator, Tx};

use crate::audit::Event;
use crate::control::held_account::hold_account;
use crate::control::last_ways_in::{check_owners_get_in, check_way_left};
use crate::control::passkey_names::removed_passkey;
use crate::control::people::hold_people;
use crate::control::session_tokens::hash_token;
use crate::control::sessions::{CameBy, NETWORK_KNOWN, SignedIn, Standing};
use crate::control::{recovery_codes, totp};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::login_throttle::{Booked, Trying};
use crate::state::member::Member;
use crate::state::perimeter_counts::network;

/// An authenticator that its first code will activate.
#[derive(Clone, Debug)]
pub struct NewAuthenticator {
    /// The secret, in base32, to be typed.
    pub secret: Secret,
    /// The secret as an `otpauth` address, to be scanned.
    pub uri: Secret,
}

/// A code that may fit the account, and may be used up.
enum Fitting {
    Step(Authenticator, i64),
    Recovery([u8; 32]),
}

impl Gateway {
    /// Ends a session that awaits its second factor, and begins the one that was asked for. A wrong code
    /// counts like a wrong password.
    pub async fn verify_factor(
        &self,
        token: &str,
        member: &Member,
        account: Account,
        code: &str,
    ) -> Result<SignedIn> {
        let mut booked = self.book_factor(member).await?;
        let fitting = self.fitting(member.user, code, &mut booked).await?;
        let mut tx = self.store.begin().await?;
        // The session's provider is neither changed nor removed before this ends.
        tx.organization(member.org).await?.ok_or(Error::NotFound)?;
        // A password that is set meanwhile ends this session, and the one that would follow it.
        if !tx.confirm_password(&account, None).await? {
            return Err(Error::Unauthorized);
        }
        let Some(used) = use_up(&mut tx, member.user, fitting).await? else {
            drop(tx);
            return self.refuse_factor(&mut booked, member, Error::Unauthorized).await;
        };
        // One of several requests with the same cookie gets through; a session that is signed in has no
        // second factor to come.
        let Some(ended) = tx.end_awaiting(&hash_token(token)).await? else {
            booked.stays();
            return Err(Error::Unauthorized);
        };
        let came = CameBy { provider: ended.provider, ..CameBy::default() };
        let standing = Standing::Full;
        let fresh =
            self.begin_session_by(&mut tx, member.user, standing, came, &member.origin).await?;
        self.note_own_act(&mut tx, member, Event::MfaVerified, used).await?;
        let email = Map::from_iter([("email".to_owned(), Value::from(member.email.as_str()))]);
        self.note_own_act(&mut tx, member, Event::LoginSuccess, email).await?;
        tx.commit().await?;
        booked.forgive().await;
        Ok(SignedIn { token: fresh, account })
    }

    /// Makes the secret of an authenticator, which counts for nothing before its first code.
    pub async fn offer_authenticator(
        &self,
        member: &Member,
        account: &Account,
        password: Secret,
    ) -> Result<NewAuthenticator> {
        self.confirm_factor_owner(member, account, password).await?;
        let secret = totp::new_secret()?;
        let uri = totp::uri(&secret, &account.email)?;
        let mut tx = self.store.begin().await?;
        hold_account(&mut tx, member, account, None).await?;
        let is_new = self.store.offer_authenticator(&mut tx, member.user, &secret).await?;
        tx.commit().await?;
        if !is_new {
            return Err(Error::invalid(
                "An authenticator is set up already: remove it with DELETE /api/v1/session/mfa first",
            ));
        }
        Ok(NewAuthenticator { secret, uri })
    }

    /// Activates the authenticator that was offered, by its first code, and ends the user's other sessions.
    /// Returns the recovery codes, which are not stored.
    pub async fn confirm_authenticator(
        &self,
        member: &Member,
        account: &Account,
        code: &str,
    ) -> Result<Vec<Secret>> {
        let none_offered = || {
            Error::invalid("No authenticator is being set up: POST /api/v1/session/mfa/totp begins")
        };
        let offered = self.store.authenticator(member.user).await?;
        let offered = offered.filter(|offered| offered.last_step == 0).ok_or_else(none_offered)?;
        let mut booked = self.book_factor(member).await?;
        let Some(step) = totp::step_of(&offered.secret, &digits(code), self.clock.now())? else {
            let wrong = Error::invalid("The code is wrong");
            return self.refuse_factor(&mut booked, member, wrong).await;
        };
        let (codes, hashes) = self.new_codes(member.user)?;
        let mut tx = self.store.begin().await?;
        hold_account(&mut tx, member, account, None).await?;
        if !tx.activate_authenticator(member.user, &offered, step).await? {
            return Err(none_offered());
        }
        tx.set_recovery_codes(member.user, &hashes).await?;
        // Other sessions came without the factor.
        tx.end_sessions(member.user, member.session.as_ref()).await?;
        self.note_own_act(&mut tx, member, Event::MfaEnabled, method("totp")).await?;
        tx.commit().await?;
        Ok(codes)
    }

    /// Replaces the recovery codes. Returns the new ones, which are not stored.
    pub async fn replace_recovery_codes(
        &self,
        member: &Member,
        account: &Account,
        code: &str,
    ) -> Result<Vec<Secret>> {
        let mut booked = self.book_factor(member).await?;
        let fitting = self.fitting(member.user, code, &mut booked).await?;
        let (codes, hashes) = self.new_codes(member.user)?;
        let mut tx = self.store.begin().await?;
        hold_account(&mut tx, member, account, None).await?;
        if use_up(&mut tx, member.user, fitting).await?.is_none() {
            drop(tx);
            let wrong = Error::invalid("The code is wrong");
            return self.refuse_factor(&mut booked, member, wrong).await;
        }
        tx.set_recovery_codes(member.user, &hashes).await?;
        self.note_own_act(&mut tx, member, Event::MfaEnabled, method("recovery_codes")).await?;
        tx.commit().await?;
        Ok(codes)
    }

    /// Removes all second factors of the member's own account.
    pub async fn remove_own_factors(
        &self,
        member: &Member,
        account: &Account,
        password: Secret,
        code: &str,
    ) -> Result<()> {
        let organization = self.store.organization(member.org).await?.ok_or(Error::NotFound)?;
        if organization.read_settings()?.security.require_mfa {
            return Err(Error::invalid(
                "Your organization requires a second factor: an owner can reset yours",
            ));
        }
        let wrong = || Error::invalid("The password or the code is wrong");
        let (mut booked, is_owner) = self.confirm_owner(member, account, password).await?;
        // Without the right password no code is used up.
        if !is_owner {
            return self.refuse_factor(&mut booked, member, wrong()).await;
        }
        let fitting = self.fitting(member.user, code, &mut booked).await?;
        let mut tx = self.store.begin().await?;
        tx.organization(member.org).await?.ok_or(Error::NotFound)?;
        hold_account(&mut tx, member, account, None).await?;
        if use_up(&mut tx, member.user, fitting).await?.is_none() {
            drop(tx);
            return self.refuse_factor(&mut booked, member, wrong()).await;
        }
        let removed = tx.remove_second_factors(member.user).await?;
        check_way_left(&mut tx, member.org, member.user).await?;
        for passkey in &removed.passkeys {
            let (event, target, metadata) = removed_passkey(passkey, &member.email);
            self.note_act(&mut tx, member, event, target, metadata).await?;
        }
        self.note_own_act(&mut tx, member, Event::MfaDisabled, Map::new()).await?;
        Ok(tx.commit().await?)
    }

    /// Removes all second factors of another user and ends their sessions: their password alone signs in.
    pub async fn reset_factors(&self, member: &Member, user: UserId) -> Result<()> {
        member.check_person()?;
        member.check_owner()?;
        if user == member.user {
            // A stolen session must not get rid of what it would need a code for.
            return Err(Error::invalid(
                "Your own second factor is removed with DELETE /api/v1/session/mfa",
            ));
        }
        let mut tx = self.store.begin().await?;
        let member = &hold_people(&mut tx, member, self.clock.now()).await?;
        member.check_owner()?;
        let person = tx.person(member.org, user).await?.ok_or(Error::NotFound)?;
        let (email, role) = (person.email, person.role);
        let removed = tx.remove_second_factors(user).await?;
        if role == Role::Owner {
            check_owners_get_in(&mut tx, member.org, None).await?;
        }
        tx.end_sessions(user, None).await?;
        for passkey in &removed.passkeys {
            let (event, target, metadata) = removed_passkey(passkey, &email);
            self.note_act(&mut tx, member, event, target, metadata).await?;
        }
        let target = ("user", user.to_string());
        let metadata = Map::from_iter([("email".to_owned(), Value::String(email))]);
        self.note_act(&mut tx, member, Event::MfaDisabled, target, metadata).await?;
        Ok(tx.commit().await?)
    }

    /// Reads a code, before it is known whether it is used up. A wrong one stays booked, whatever comes then.
    async fn fitting(
        &self,
        user: UserId,
        code: &str,
        booked: &mut Booked<'_>,
    ) -> Result<Option<Fitting>> {
        if let Some(letters) = recovery_codes::read(code) {
            let hash = recovery_codes::hash(self.registry.pepper(), user, &letters);
            return Ok(Some(Fitting::Recovery(hash)));
        }
        let fitting = match self.store.authenticator(user).await? {
            Some(active) => totp::step_of(&active.secret, &digits(code), self.clock.now())?
                .map(|step| Fitting::Step(active, step)),
            None => None,
        };
        if fitting.is_none() {
            booked.stays();
        }
        Ok(fitting)
    }

    /// A set of recovery codes and their hashes.
    pub(crate) fn new_codes(&self, user: UserId) -> Result<(Vec<Secret>, Vec<[u8; 32]>)> {
        let mut codes = Vec::with_capacity(recovery_codes::CODES);
        let mut hashes = Vec::with_capacity(recovery_codes::CODES);
        for _ in 0..recovery_codes::CODES {
            let code = recovery_codes::shown(store::random::<{ recovery_codes::CODE_BYTES }>()?);
            let letters = recovery_codes::read(code.expose());
            let letters = letters.ok_or_else(|| Error::Internal("a code is none".to_owned()))?;
            hashes.push(recovery_codes::hash(self.registry.pepper(), user, &letters));
            codes.push(code);
        }
        Ok((codes, hashes))
    }

    /// Books an attempt of a member's like an attempt to sign in, whatever session it comes by.
    pub(crate) async fn book_factor(&self, member: &Member) -> Result<Booked<'_>> {
        let at = self.clock.now();
        let network = network(member.origin.address);
        let since = at.minus_micros(NETWORK_KNOWN);
        let is_known = self.store.knows_network(member.user, network, since).await?;
        let trying = Trying { who: Ok((member.user, is_known)), network };
        self.login_throttle.book(trying, at).await
    }

    /// Records a wrong password or code, which stays booked.
    pub(crate) async fn refuse_factor<T>(
        &self,
        booked: &mut Booked<'_>,
        member: &Member,
        error: Error,
    ) -> Result<T> {
        booked.stays();
        let mut tx = self.store.begin().await?;
        self.note_own_act(&mut tx, member, Event::MfaFailed, Map::new()).await?;
        tx.commit().await?;
        Err(error)
    }
}

/// Uses up a code. Returns what it was, for the audit; `None` if it is wrong or was used up before.
async fn use_up(
    tx: &mut Tx,
    user: UserId,
    fitting: Option<Fitting>,
) -> Result<Option<Map<String, Value>>> {
    match fitting {
        None => Ok(None),
        Some(Fitting::Step(active, step)) => {
            Ok(tx.use_step(user, &active, step).await?.then(|| method("totp")))
        }
        Some(Fitting::Recovery(hash)) => {
            if !tx.use_recovery_code(user, &hash).await? {
                return Ok(None);
            }
            let mut used = method("recovery_code");
            used.insert(
                "recovery_codes_left".to_owned(),
                tx.recovery_codes_left(user).await?.into(),
            );
            Ok(Some(used))
        }
    }
}

pub(crate) fn method(name: &str) -> Map<String, Value> {
    Map::from_iter([("method".to_owned(), json!(name))])
}

/// The digits of a code that somebody typed: authenticators show them in two groups.
fn digits(typed: &str) -> String {
    typed.chars().filter(|digit| *digit != ' ').take(totp::DIGITS + 1).collect()
}
