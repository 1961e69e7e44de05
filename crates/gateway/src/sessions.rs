//! Sessions: signing in, staying signed in, signing out.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{LazyLock, Mutex};

use aws_lc_rs::digest;
use domain::ids::UserId;
use domain::secret::Secret;
use domain::time::{DAY, HOUR, MINUTE, Timestamp};
use serde_json::Map;
use store::{Account, Actor};
use tokio::sync::Semaphore;

use crate::Gateway;
use crate::accounts::{Member, hash_password, is_outdated, verify_password};
use crate::admit::Origin;
use crate::audit::{Event, Noted};
use crate::blocks::network;
use crate::error::{Error, Result};
use crate::registry::lock;

/// A session that was not used for so long has ended, in microseconds.
pub const SESSION_IDLE: i64 = 12 * HOUR;
/// No session lasts longer, in microseconds.
pub const SESSION_ABSOLUTE: i64 = 30 * DAY;
/// One that has ended is known as such for so long.
pub(crate) const SESSION_REMEMBERED: i64 = 30 * DAY;
/// Failures within [`FAILURE_WINDOW`] after which an account or an address has to wait.
const FAILURES: usize = 6;
const FAILURE_WINDOW: i64 = 15 * MINUTE;
/// An address from which an account was signed in to is known to it for so long, in microseconds.
const NETWORK_KNOWN: i64 = 90 * DAY;
/// So many addresses are known to an account, the latest: each is one more count of failures.
const KNOWN_NETWORKS: i64 = 10;
/// Accounts, other names and addresses that are watched at once, each.
const WATCHED: usize = 10_000;
/// The longest address of an account, in bytes (RFC 5321, with the brackets that a path has).
const LONGEST_EMAIL: usize = 254;
/// Use is noted to the minute, not with every request.
const TOUCH_EVERY: i64 = MINUTE;

/// Password hashes take 19 MiB and tens of milliseconds each: two at a time.
static HASHING: Semaphore = Semaphore::const_new(2);

/// What an unknown address is compared with, so that it takes as long as a known one.
static NOBODY: LazyLock<String> = LazyLock::new(|| {
    crate::accounts::hash_password(&Secret::new("nobody has this password".to_owned()))
        .unwrap_or_default()
});

/// A fresh session.
#[derive(Debug)]
pub struct SignedIn {
    /// The cookie's value. Known to the caller alone: only its hash is stored.
    pub token: Secret,
    /// Who signed in.
    pub account: Account,
}

impl Gateway {
    /// Signs in.
    pub async fn sign_in(&self, email: &str, password: &str, origin: &Origin) -> Result<SignedIn> {
        self.check_address(origin).await?;
        let email = email.trim().to_lowercase();
        let now = self.clock.now();
        // Nobody is called so, and not every database takes it.
        let is_sound = email.len() <= LONGEST_EMAIL && !email.contains(char::is_control);
        let account = if is_sound { self.store.account(&email).await? } else { None };
        let name = if is_sound { email.as_str() } else { "" };
        let network = network(origin.address);
        let user = account.as_ref().map(|account| account.user);
        // Looked up also where there is no account, so that it takes as long.
        let since = now.minus_micros(NETWORK_KNOWN);
        let nobody = UserId(0);
        let is_known = self.store.knows_network(user.unwrap_or(nobody), network, since).await?;
        let who = user.map(|user| (user, is_known)).ok_or(name);
        let trying = Trying { who, network };
        self.logins.book(&trying, now)?;
        let hash = account.as_ref().map(|account| account.password_hash.clone());
        let password = Secret::new(password.to_owned());
        let permit = HASHING.acquire().await;
        let compared = tokio::task::spawn_blocking(move || {
            let hash = hash.as_deref().unwrap_or(&NOBODY);
            let fits = verify_password(password.expose(), hash);
            // Another version, or a debug build, has hashed it at another cost.
            let anew = (fits && is_outdated(hash)).then(|| hash_password(&password).ok()).flatten();
            (fits, anew)
        });
        let (fits, anew) = compared.await.map_err(|error| Error::Internal(error.to_string()))?;
        drop(permit);
        let Some(account) = account.filter(|_| fits) else {
            self.note_login(Event::LoginFailed, None, &email, origin).await?;
            return Err(Error::Unauthorized);
        };
        self.logins.forgive(&trying, now);
        let token = hex(&store::random::<32>()?);
        let mut tx = self.store.begin().await?;
        tx.add_session(&hash_token(&token), account.user, now).await?;
        tx.remember_network(account.user, network, now, KNOWN_NETWORKS).await?;
        if let Some(anew) = anew {
            tx.rehash_password(account.user, &account.password_hash, &anew).await?;
        }
        tx.commit().await?;
        self.note_login(Event::LoginSuccess, Some(&account), &email, origin).await?;
        Ok(SignedIn { token: Secret::new(token), account })
    }

    /// Who a session cookie stands for.
    pub async fn session(&self, token: &str, origin: &Origin) -> Result<(Member, Account)> {
        self.check_address(origin).await?;
        // Ours are 64 hex digits: anything else was not made here.
        if token.len() != 64 || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Error::InvalidToken);
        }
        let hash = hash_token(token);
        let session = self.store.session(&hash).await?.ok_or(Error::InvalidToken)?;
        let now = self.clock.now();
        if now.since(session.last_seen_at) > SESSION_IDLE
            || now.since(session.created_at) > SESSION_ABSOLUTE
        {
            return Err(Error::TokenExpired);
        }
        if now.since(session.last_seen_at) > TOUCH_EVERY {
            self.store.touch_session(&hash, now).await?;
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
            org: account.org,
            role: account.role,
            projects,
            origin: origin.clone(),
        };
        Ok((member, account))
    }

    /// Signs out.
    pub async fn sign_out(&self, token: &str, member: &Member) -> Result<()> {
        let mut tx = self.store.begin().await?;
        tx.end_session(&hash_token(token)).await?;
        let noted = Noted {
            org: member.org,
            event: Event::Logout,
            actor: Some(Actor::User(member.user, &member.email)),
            target: None,
            metadata: Map::new(),
        };
        self.note(&mut tx, &member.origin, noted).await?;
        Ok(tx.commit().await?)
    }

    async fn note_login(
        &self,
        event: Event,
        account: Option<&Account>,
        email: &str,
        origin: &Origin,
    ) -> Result<()> {
        let org = match account {
            Some(account) => Some(account.org),
            None => self.store.first_org().await?,
        };
        let Some(org) = org else { return Ok(()) };
        let mut metadata = Map::new();
        let email: String = email.chars().filter(|c| !c.is_control()).take(254).collect();
        metadata.insert("email".to_owned(), email.into());
        let actor = account.map(|account| Actor::User(account.user, &account.email));
        let mut tx = self.store.begin().await?;
        self.note(&mut tx, origin, Noted { org, event, actor, target: None, metadata }).await?;
        Ok(tx.commit().await?)
    }
}

/// Failures to sign in.
#[derive(Debug, Default)]
pub(crate) struct LoginThrottle(Mutex<Failures>);

#[derive(Debug, Default)]
struct Failures {
    /// Of accounts. Made-up names cannot drive them out. Every network that an account knows has a
    /// count of its own there; all others have one between them, so that strangers can use up their
    /// own tries only.
    accounts: Recent<(UserId, Option<IpAddr>)>,
    /// Of names that nobody has: they are refused as those of accounts are.
    strangers: Recent<String>,
    /// Of addresses; IPv6 by /64.
    networks: Recent<IpAddr>,
}

/// When each of at most [`WATCHED`] has failed. Under attack those whose last failure is the longest
/// past make room.
#[derive(Debug)]
struct Recent<K> {
    /// The half that is being filled.
    newer: HashMap<K, VecDeque<Timestamp>>,
    older: HashMap<K, VecDeque<Timestamp>>,
}

/// Who tries to sign in, and where from.
struct Trying<'a> {
    /// The account and whether it knows the network, or the name that nobody has.
    who: std::result::Result<(UserId, bool), &'a str>,
    network: IpAddr,
}

impl Trying<'_> {
    /// What failures of the account are counted by.
    fn account(&self) -> std::result::Result<(UserId, Option<IpAddr>), &str> {
        self.who.map(|(user, is_known)| (user, is_known.then_some(self.network)))
    }
}

impl LoginThrottle {
    /// Books an attempt as a failure before it is made, so that many at once do not all find room.
    /// Refuses it when an account or an address has failed too often.
    fn book(&self, trying: &Trying<'_>, now: Timestamp) -> Result<()> {
        let all = &mut *lock(&self.0);
        let by_account = match trying.account() {
            Ok(account) => all.accounts.check(&account, now),
            Err(name) => all.strangers.check(name, now),
        };
        let by_network = all.networks.check(&trying.network, now);
        by_account.and(by_network)?;
        match trying.account() {
            Ok(account) => all.accounts.add(account, now),
            Err(name) => all.strangers.add(name.to_owned(), now),
        }
        all.networks.add(trying.network, now);
        Ok(())
    }

    /// Takes back what a success has booked: everything in the count that it was booked in for the
    /// account, for the address this.
    fn forgive(&self, trying: &Trying<'_>, booked: Timestamp) {
        let mut all = lock(&self.0);
        if let Ok(account) = trying.account() {
            all.accounts.forget(&account);
        }
        if let Some(failures) = all.networks.find(&trying.network)
            && let Some(own) = failures.iter().rposition(|at| *at == booked)
        {
            failures.remove(own);
        }
    }
}

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self { newer: HashMap::new(), older: HashMap::new() }
    }
}

impl<K: Eq + Hash> Recent<K> {
    fn find<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut VecDeque<Timestamp>>
    where
        K: Borrow<Q>,
    {
        match self.newer.get_mut(key) {
            Some(failures) => Some(failures),
            None => self.older.get_mut(key),
        }
    }

    fn check<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, now: Timestamp) -> Result<()>
    where
        K: Borrow<Q>,
    {
        let Some(failures) = self.find(key) else { return Ok(()) };
        // A clock that went back must not make failures count for longer.
        for at in failures.iter_mut() {
            *at = (*at).min(now);
        }
        failures.retain(|at| now.since(*at) < FAILURE_WINDOW);
        if failures.len() < FAILURES {
            return Ok(());
        }
        let first = failures.front().copied().unwrap_or(now);
        let wait = FAILURE_WINDOW - now.since(first);
        Err(Error::LoginThrottled { retry_after: wait.unsigned_abs().div_ceil(1_000_000).max(1) })
    }

    fn add(&mut self, key: K, now: Timestamp) {
        let known = self.older.remove(&key).unwrap_or_default();
        if self.newer.len() >= WATCHED / 2 && !self.newer.contains_key(&key) {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.entry(key).or_insert(known).push_back(now);
    }

    fn forget(&mut self, key: &K) {
        self.newer.remove(key);
        self.older.remove(key);
    }
}

fn hash_token(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    hash
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp(1_000 * MINUTE + seconds * 1_000_000)
    }

    fn trying(who: std::result::Result<i64, &str>, address: u32) -> Trying<'_> {
        Trying { who: who.map(|user| (UserId(user), false)), network: IpAddr::V4(address.into()) }
    }

    fn known(user: i64, address: u32) -> Trying<'static> {
        Trying { who: Ok((UserId(user), true)), network: IpAddr::V4(address.into()) }
    }

    #[test]
    fn the_seventh_try_has_to_wait() {
        for who in [Ok(1), Err("a@b")] {
            let throttle = LoginThrottle::default();
            for minute in 0..6 {
                throttle.book(&trying(who, 1), at(60 * minute)).unwrap();
            }
            let wait = throttle.book(&trying(who, 2), at(60 * 6)).unwrap_err();
            assert!(matches!(wait, Error::LoginThrottled { retry_after: 540 }), "{wait:?}");
            assert!(throttle.book(&trying(Ok(2), 1), at(60 * 6)).is_err());
            throttle.book(&trying(Ok(2), 2), at(60 * 6)).unwrap();
            throttle.book(&trying(who, 1), at(60 * 15)).unwrap();
        }
    }

    #[test]
    fn a_success_is_no_failure() {
        let throttle = LoginThrottle::default();
        for one in [trying(Ok(1), 1), known(1, 2)] {
            for second in 0..20 {
                throttle.book(&one, at(second)).unwrap();
                throttle.forgive(&one, at(second));
            }
        }
    }

    #[test]
    fn strangers_lock_out_strangers_only() {
        let throttle = LoginThrottle::default();
        for address in 100..106 {
            throttle.book(&trying(Ok(1), address), at(0)).unwrap();
        }
        assert!(throttle.book(&trying(Ok(1), 106), at(1)).is_err(), "strangers share a count");
        for second in 0..6 {
            throttle.book(&known(1, 1), at(second)).unwrap();
        }
        assert!(throttle.book(&known(1, 1), at(7)).is_err(), "a known address has six as well");
        // From another known address the owner gets in, and opens the account to nobody else.
        throttle.book(&known(1, 2), at(8)).unwrap();
        throttle.forgive(&known(1, 2), at(8));
        assert!(throttle.book(&trying(Ok(1), 107), at(9)).is_err());
        assert!(throttle.book(&known(1, 1), at(9)).is_err());
    }

    #[test]
    fn a_clock_that_went_back_locks_nobody_out_for_long() {
        let throttle = LoginThrottle::default();
        let year = 365 * 24 * 3600;
        for _ in 0..6 {
            throttle.book(&trying(Ok(1), 1), at(year)).unwrap();
        }
        assert!(throttle.book(&trying(Ok(1), 1), at(0)).is_err());
        throttle.book(&trying(Ok(1), 1), at(15 * 60)).unwrap();
    }

    #[test]
    fn a_flood_hides_nobody() {
        let throttle = LoginThrottle::default();
        for _ in 0..6 {
            throttle.book(&trying(Ok(1), 1), at(0)).unwrap();
        }
        let most = u32::try_from(WATCHED).unwrap();
        for n in 2..3 * most {
            throttle.book(&trying(Err(&format!("{n}@b")), n), at(1)).unwrap();
        }
        let all = lock(&throttle.0);
        assert!(all.strangers.newer.len() + all.strangers.older.len() <= WATCHED);
        assert!(all.networks.newer.len() + all.networks.older.len() <= WATCHED);
        drop(all);
        assert!(
            throttle.book(&trying(Ok(1), most * 4), at(2)).is_err(),
            "an account is remembered"
        );
        for _ in 0..6 {
            throttle.book(&trying(Err("one@b"), 7), at(3)).unwrap();
        }
        assert!(throttle.book(&trying(Err("one@b"), 8), at(4)).is_err(), "so is who comes now");
    }
}
