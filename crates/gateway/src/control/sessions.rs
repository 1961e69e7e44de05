//! Sessions: signing in, staying signed in, signing out.

use std::time::Duration;

use domain::ids::{OrgId, SignOnProviderId, UserId};
use domain::secret::Secret;
use domain::time::{DAY, HOUR, MINUTE, Timestamp};
use serde_json::Map;
use store::{Account, Actor, NewSession, Tx};
use tokio::sync::SemaphorePermit;

use crate::audit::{Event, Noted};
use crate::capacity::hashing::{HashedFor, Hashing};
use crate::control::members::{hash_of_nobody, hash_password, is_outdated, verify_password};
use crate::control::session_tokens::{hash_token, is_token};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::caller::Origin;
use crate::state::failure_rows::{FailureKind, RowPlace};
use crate::state::login_throttle::Trying;
use crate::state::member::Member;
use crate::state::perimeter_counts::{PerimeterReason, network};

/// A session ends after this time without use, in microseconds.
pub const SESSION_IDLE: i64 = 12 * HOUR;
/// No session lasts longer, in microseconds.
pub const SESSION_ABSOLUTE: i64 = 30 * DAY;
/// A session that awaits its second factor ends after this time, in microseconds.
pub const FACTOR_AWAITED: i64 = 10 * MINUTE;
/// For an account without a password, a sign-in counts as its password for this time, in microseconds.
pub(crate) const FRESH: i64 = 10 * MINUTE;
/// An ended session is still recognised for this time, in microseconds.
pub(crate) const SESSION_REMEMBERED: i64 = 30 * DAY;
/// An address from which an account was signed in to is known to it for this time, in microseconds.
pub(crate) const NETWORK_KNOWN: i64 = 90 * DAY;
/// The most known addresses of an account, the latest: each is one more count of failures.
const KNOWN_NETWORKS: i64 = 10;
/// The longest address of an account, in bytes (RFC 5321, with the brackets that a path has).
const LONGEST_EMAIL: usize = 254;
/// Signing out waits no longer for the issuer's address.
const ISSUER_ASKED: Duration = Duration::from_secs(3);
/// Use is noted to the minute, not with every request.
const TOUCH_EVERY: i64 = MINUTE;

pub(crate) static HASHING: Hashing = Hashing::new();

/// A fresh session.
#[derive(Debug)]
pub struct SignedIn {
    /// The cookie's value. Known to the caller alone: only its hash is stored.
    pub token: Secret,
    /// The account that signed in.
    pub account: Account,
}

/// The origin of a session that did not begin with a password.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CameBy {
    /// The provider of single sign-on.
    pub(crate) provider: Option<SignOnProviderId>,
    /// Whether a trusted issuer has seen a second factor.
    pub(crate) has_factor: bool,
    /// When the issuer had its user sign in; `None` if they have signed in here, now.
    pub(crate) authenticated_at: Option<Timestamp>,
}

/// The outcome of a right password.
#[derive(Debug)]
pub enum SignIn {
    /// The account has no second factor: a session has begun.
    Complete(Box<SignedIn>),
    /// The second factor is still to come: the cookie's value is good for nothing else.
    AwaitsFactor(Secret),
}

/// The uses that a session is good for: each for all of the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The password was right. Good for the second factor, and for signing out.
    AwaitsFactor,
    /// Signed in without a second factor, which the organization requires. Good for the session itself, and
    /// for setting a factor up.
    Enrols,
    /// Signed in.
    Full,
}

impl Gateway {
    /// Signs in.
    pub async fn sign_in(&self, email: &str, password: &str, origin: &Origin) -> Result<SignIn> {
        self.check_address(origin).await?;
        let email = email.trim().to_lowercase();
        let now = self.clock.now();
        // No account has such an address, and not every database accepts it.
        let is_sound = email.len() <= LONGEST_EMAIL && !email.contains(char::is_control);
        let account = if is_sound { self.store.account(&email).await? } else { None };
        let name = if is_sound { email.as_str() } else { "" };
        let network = network(origin.address);
        let user = account.as_ref().map(|account| account.user);
        // Looked up also if there is no account, so that it takes as long.
        let since = now.minus_micros(NETWORK_KNOWN);
        let nobody = UserId(0);
        let is_known = self.store.knows_network(user.unwrap_or(nobody), network, since).await?;
        let who = user.map(|user| (user, is_known)).ok_or(name);
        let mut booked = self.login_throttle.book(Trying { who, network }, now).await?;
        let hash = account.as_ref().map(|account| account.password_hash.clone());
        let password = Secret::new(password.to_owned());
        let is_disabled = self.is_password_login_disabled().await?;
        let hashed_for = if is_known { HashedFor::Known } else { HashedFor::Stranger };
        // A request that is given up before has had nothing hashed.
        let turn = HASHING.turn(hashed_for).await?;
        let (fits, anew) = booked.during(compare(turn, password, hash)).await?;
        let Some(account) = account.filter(|_| fits && !is_disabled) else {
            booked.stays();
            let place = match user {
                // Attempts of an account are booked.
                Some(_) => Some(RowPlace::always()),
                None => self.failure_rows.place(FailureKind::Name, now),
            };
            self.note_failed_login(&email, is_disabled, place, origin).await?;
            return Err(Error::Unauthorized);
        };
        let mut tx = self.store.begin().await?;
        // The password may have been reset since it was read, and a second factor set up or removed.
        if !tx.confirm_password(&account, anew.as_deref()).await? {
            return Err(Error::Unauthorized);
        }
        if account.mfa_enabled {
            let token =
                self.begin_session(&mut tx, account.user, Standing::AwaitsFactor, origin).await?;
            tx.commit().await?;
            booked.take_back().await;
            return Ok(SignIn::AwaitsFactor(token));
        }
        let token = self.begin_session(&mut tx, account.user, Standing::Full, origin).await?;
        let noted = Noted {
            org: account.org,
            event: Event::LoginSuccess,
            actor: Some(Actor::User(account.user, &account.email)),
            target: None,
            metadata: Map::from_iter([("email".to_owned(), email.as_str().into())]),
        };
        self.note(&mut tx, origin, noted).await?;
        tx.commit().await?;
        booked.forgive().await;
        Ok(SignIn::Complete(Box::new(SignedIn { token, account })))
    }

    /// Whether nobody signs in with a password.
    pub(crate) async fn is_password_login_disabled(&self) -> Result<bool> {
        match self.store.first_org().await? {
            Some(org) => self.is_password_login_disabled_in(org).await,
            None => Ok(false),
        }
    }

    /// Whether nobody of an organization signs in with a password.
    pub(crate) async fn is_password_login_disabled_in(&self, org: OrgId) -> Result<bool> {
        let organization = self.store.organization(org).await?.ok_or(Error::NotFound)?;
        Ok(organization.read_settings()?.security.disable_password_login)
    }

    /// Begins a session that came by a password or a link. Returns the value of its cookie.
    pub(crate) async fn begin_session(
        &self,
        tx: &mut Tx,
        user: UserId,
        standing: Standing,
        origin: &Origin,
    ) -> Result<Secret> {
        self.begin_session_by(tx, user, standing, CameBy::default(), origin).await
    }

    /// Begins a session. Returns the value of its cookie.
    pub(crate) async fn begin_session_by(
        &self,
        tx: &mut Tx,
        user: UserId,
        standing: Standing,
        came: CameBy,
        origin: &Origin,
    ) -> Result<Secret> {
        let now = self.clock.now();
        let token = self.new_session_token()?;
        // An issuer that remembers its user asks them for nothing: such a session is none that has just begun.
        let oldest = now.minus_micros(FRESH);
        let at = came.authenticated_at.map_or(now, |at| at.clamp(oldest, now));
        let session = NewSession {
            token_hash: &hash_token(&token),
            user,
            awaits_factor: standing == Standing::AwaitsFactor,
            provider: came.provider,
            has_factor: came.has_factor,
            address: &origin.address.to_string(),
            user_agent: &origin.user_agent,
            at,
        };
        tx.add_session(&session).await?;
        if standing > Standing::AwaitsFactor {
            tx.remember_network(user, network(origin.address), now, KNOWN_NETWORKS).await?;
        }
        Ok(Secret::new(token))
    }

    /// The member that a session cookie stands for. Refuses a session that is good for less than `least`.
    pub async fn session(
        &self,
        token: &str,
        origin: &Origin,
        least: Standing,
    ) -> Result<(Member, Account)> {
        let (member, account, last_seen_at) = self.find_session(token, origin, least).await?;
        let now = self.clock.now();
        if now.since(last_seen_at) > TOUCH_EVERY {
            self.store.touch_session(&hash_token(token), now).await?;
        }
        Ok((member, account))
    }

    /// The member of a session that a page asks for by itself. That is no use of the session: it ends as if
    /// the page were closed.
    pub async fn idle_session(
        &self,
        token: &str,
        origin: &Origin,
        least: Standing,
    ) -> Result<(Member, Account)> {
        let (member, account, _) = self.find_session(token, origin, least).await?;
        Ok((member, account))
    }

    /// The member of a session, and the time of its last use.
    async fn find_session(
        &self,
        token: &str,
        origin: &Origin,
        least: Standing,
    ) -> Result<(Member, Account, Timestamp)> {
        self.check_address(origin).await?;
        let session =
            if is_token(token) { self.store.session(&hash_token(token)).await? } else { None };
        let Some(session) = session else {
            // A tab whose session has ended makes a row too: one for its address and minute.
            let reason = PerimeterReason::UnknownSession;
            Box::pin(self.note_perimeter_block(origin, reason)).await;
            return Err(Error::InvalidToken);
        };
        let now = self.clock.now();
        if now.since(session.last_seen_at) > SESSION_IDLE
            || now.since(session.created_at) > SESSION_ABSOLUTE
        {
            return Err(Error::TokenExpired);
        }
        let standing = if session.awaits_factor {
            Standing::AwaitsFactor
        } else if session.requires_factor && !(session.account.mfa_enabled || session.has_factor) {
            Standing::Enrols
        } else {
            Standing::Full
        };
        if standing == Standing::AwaitsFactor && now.since(session.created_at) > FACTOR_AWAITED {
            return Err(Error::TokenExpired);
        }
        if standing < least {
            let is_awaiting = standing == Standing::AwaitsFactor;
            return Err(if is_awaiting { Error::Unauthorized } else { Error::MfaRequired });
        }
        let account = session.account;
        let projects = if account.role.is_admin() {
            Vec::new()
        } else {
            self.store.member_projects(account.user).await?
        };
        let member = Member {
            user: account.user,
            email: account.email.clone(),
            token: None,
            session: Some(hash_token(token)),
            org: account.org,
            role: account.role,
            projects,
            signed_in_at: session.created_at,
            origin: origin.clone(),
        };
        Ok((member, account, session.last_seen_at))
    }

    /// Signs out. Returns the address at which the user signs out of their issuer too, if the session came by
    /// one that has such an address, and is asked in time. One of `hints` may be that of
    /// [`SignedOn`](crate::SignedOn).
    pub async fn sign_out(
        &self,
        token: &str,
        member: &Member,
        hints: &[String],
    ) -> Result<Option<String>> {
        let hash = hash_token(token);
        let provider = self.store.provider_of_session(&hash).await?;
        let mut tx = self.store.begin().await?;
        tx.end_session(&hash).await?;
        self.note_own_act(&mut tx, member, Event::Logout, Map::new()).await?;
        tx.commit().await?;
        let Some(id) = provider else { return Ok(None) };
        // They are signed out, whatever becomes of the rest.
        let providers = self.store.sign_on_providers(member.org).await.unwrap_or_default();
        let Some(provider) = providers.iter().find(|provider| provider.id == id) else {
            return Ok(None);
        };
        let address = self.end_session_url(provider, member.user, hints);
        let asked = tokio::time::timeout(ISSUER_ASKED, address).await;
        Ok(asked.ok().flatten())
    }

    /// Records a wrong password, and how many before it were not recorded. Nothing is kept of one that finds no
    /// place, which takes as long: the answer must not tell accounts from made-up names.
    async fn note_failed_login(
        &self,
        email: &str,
        is_disabled: bool,
        place: Option<RowPlace<'_>>,
        origin: &Origin,
    ) -> Result<()> {
        let Some(org) = self.store.first_org().await? else { return Ok(()) };
        let mut metadata = Map::new();
        let email: String = email.chars().filter(|c| !c.is_control()).take(254).collect();
        metadata.insert("email".to_owned(), email.into());
        if is_disabled {
            metadata.insert("reason".to_owned(), "password_login_disabled".into());
        }
        if let Some(place) = &place {
            place.tell(&mut metadata);
        }
        let mut tx = self.store.begin().await?;
        let noted = Noted { org, event: Event::LoginFailed, actor: None, target: None, metadata };
        self.note_or_forget(&mut tx, origin, noted, place.is_some()).await?;
        tx.commit().await?;
        if let Some(place) = place {
            place.written();
        }
        Ok(())
    }
}

/// Whether a password fits a hash, and a new hash if that one has another cost than new ones have. Takes as long
/// without a hash, or with one that no password has.
pub(crate) async fn compare(
    permit: SemaphorePermit<'static>,
    password: Secret,
    hash: Option<String>,
) -> Result<(bool, Option<String>)> {
    let compared = tokio::task::spawn_blocking(move || {
        // The request may be dropped: the hash goes on, and holds its permit.
        let _permit = permit;
        // A user who signs in another way has the empty text for a hash.
        let own = hash.as_deref().filter(|hash| !hash.is_empty());
        let hash = own.map_or_else(hash_of_nobody, str::to_owned);
        // The password of nobody signs in nobody.
        let fits = verify_password(password.expose(), &hash) && own.is_some();
        // Another version, or a debug build, has hashed it at another cost.
        let anew = (fits && is_outdated(&hash)).then(|| hash_password(&password).ok()).flatten();
        (fits, anew)
    });
    compared.await.map_err(|error| Error::Internal(error.to_string()))
}

/// The hash of a new password, made beside the event loop.
pub(crate) async fn hash_password_aside(password: Secret, hashed_for: HashedFor) -> Result<String> {
    let permit = HASHING.turn(hashed_for).await?;
    let hash = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        hash_password(&password)
    });
    hash.await.map_err(|error| Error::Internal(error.to_string()))?
}
