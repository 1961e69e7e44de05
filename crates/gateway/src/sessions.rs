//! Sessions: signing in, staying signed in, signing out.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex};

use aws_lc_rs::digest;
use domain::secret::Secret;
use domain::time::{DAY, HOUR, MINUTE, Timestamp};
use serde_json::Map;
use store::{Account, Actor};
use tokio::sync::Semaphore;

use crate::Gateway;
use crate::accounts::{Member, verify_password};
use crate::admit::Origin;
use crate::audit::{Event, Noted};
use crate::error::{Error, Result};
use crate::registry::lock;

/// A session that was not used for so long has ended, in microseconds.
pub const SESSION_IDLE: i64 = 12 * HOUR;
/// No session lasts longer, in microseconds.
pub const SESSION_ABSOLUTE: i64 = 30 * DAY;
/// Failures within [`FAILURE_WINDOW`] after which an account or an address has to wait.
const FAILURES: usize = 6;
const FAILURE_WINDOW: i64 = 15 * MINUTE;
/// Accounts and addresses that are watched at once.
const WATCHED: usize = 10_000;
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
        let watched = [format!("email:{email}"), format!("ip:{}", origin.address)];
        self.logins.book(&watched, now)?;
        let account = self.store.account(&email).await?;
        let hash = account.as_ref().map(|account| account.password_hash.clone());
        let password = Secret::new(password.to_owned());
        let permit = HASHING.acquire().await;
        let compared = tokio::task::spawn_blocking(move || {
            verify_password(password.expose(), hash.as_deref().unwrap_or(&NOBODY))
        });
        let fits = compared.await.map_err(|error| Error::Internal(error.to_string()))?;
        drop(permit);
        let Some(account) = account.filter(|_| fits) else {
            self.note_login(Event::LoginFailed, None, &email, origin).await?;
            return Err(Error::Unauthorized);
        };
        self.logins.forgive(&watched, now);
        let token = hex(&store::random::<32>()?);
        let mut tx = self.store.begin().await?;
        tx.add_session(&hash_token(&token), account.user, now).await?;
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

/// Failures to sign in, by account and by address.
#[derive(Debug, Default)]
pub(crate) struct LoginThrottle(Mutex<HashMap<String, VecDeque<Timestamp>>>);

impl LoginThrottle {
    /// Books an attempt as a failure before it is made, so that many at once do not all find room.
    /// Refuses it when an account or an address has failed too often.
    fn book(&self, watched: &[String], now: Timestamp) -> Result<()> {
        let mut all = lock(&self.0);
        for name in watched {
            let Some(failures) = all.get_mut(name) else { continue };
            failures.retain(|at| now.since(*at) < FAILURE_WINDOW);
            if failures.len() >= FAILURES {
                let first = failures.front().copied().unwrap_or(now);
                let wait = FAILURE_WINDOW - now.since(first);
                let retry_after = wait.unsigned_abs().div_ceil(1_000_000).max(1);
                return Err(Error::LoginThrottled { retry_after });
            }
        }
        if all.len() >= WATCHED {
            all.retain(|_, failures| {
                failures.back().is_some_and(|at| now.since(*at) < FAILURE_WINDOW)
            });
        }
        for name in watched {
            // A full table under attack watches whom it has: new names are not added.
            if all.len() < WATCHED || all.contains_key(name) {
                all.entry(name.clone()).or_default().push_back(now);
            }
        }
        Ok(())
    }

    /// Takes back what a success has booked: for the account everything, for the address this.
    fn forgive(&self, watched: &[String; 2], booked: Timestamp) {
        let mut all = lock(&self.0);
        all.remove(&watched[0]);
        if let Some(failures) = all.get_mut(&watched[1])
            && let Some(own) = failures.iter().rposition(|at| *at == booked)
        {
            failures.remove(own);
        }
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

    #[test]
    fn the_seventh_try_has_to_wait() {
        let throttle = LoginThrottle::default();
        let at = |minutes: i64| Timestamp(1_000 * MINUTE + minutes * MINUTE);
        let names = ["email:a@b".to_owned(), "ip:10.0.0.1".to_owned()];
        for minute in 0..6 {
            throttle.book(&names, at(minute)).unwrap();
        }
        let wait = throttle.book(&names, at(6)).unwrap_err();
        assert!(matches!(wait, Error::LoginThrottled { retry_after: 540 }), "{wait:?}");
        assert!(throttle.book(&names[1..], at(6)).is_err());
        throttle.book(&names, at(15)).unwrap();
    }

    #[test]
    fn a_success_is_no_failure() {
        let throttle = LoginThrottle::default();
        let names = ["email:a@b".to_owned(), "ip:10.0.0.1".to_owned()];
        for second in 0..20 {
            let now = Timestamp(1_000 * MINUTE + second);
            throttle.book(&names, now).unwrap();
            throttle.forgive(&names, now);
        }
    }
}
