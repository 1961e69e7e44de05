//! Failures to sign in: after too many, an account or an address has to wait.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Mutex;

use domain::ids::UserId;
use domain::time::{MINUTE, Timestamp};

use crate::error::{Error, Result};
use crate::lock::lock;

/// Failures within [`FAILURE_WINDOW`] after which an account or an address has to wait.
const FAILURES: usize = 6;
const FAILURE_WINDOW: i64 = 15 * MINUTE;
/// The most accounts, other names and addresses, each, that are watched at once.
const WATCHED: usize = 10_000;

/// Failures to sign in.
#[derive(Debug, Default)]
pub(crate) struct LoginThrottle(Mutex<Failures>);

#[derive(Debug, Default)]
struct Failures {
    /// Failures of accounts. Made-up names cannot drive them out. Every network that an account
    /// knows has a count of its own there; all others share one, so that strangers can use up their
    /// own tries only.
    accounts: Recent<(UserId, Option<IpAddr>)>,
    /// The same of answers of passkeys: nobody guesses one, so the wrong passwords of strangers keep no owner of
    /// a passkey from signing in.
    passkeys: Recent<(UserId, Option<IpAddr>)>,
    /// Failures of names without an account: they are refused like those of accounts.
    strangers: Recent<String>,
    /// Failures of addresses; IPv6 by /64.
    networks: Recent<IpAddr>,
    /// One-time links that were not good, by the same addresses. Letters that are followed too late keep
    /// nobody from signing in.
    links: Recent<IpAddr>,
    /// Sign-ons that an issuer was asked about and that failed, by the same addresses.
    sign_ons: Recent<IpAddr>,
    /// Letters that were asked for without a session: by address of the reader, and by that of the request.
    readers: Recent<String>,
    /// Letters that users asked for to their own address: no stranger takes part in this count.
    own: Recent<UserId>,
    askers: Recent<IpAddr>,
    /// The number of the latest booking.
    latest: u64,
}

impl Failures {
    /// A failure that is booked.
    fn next(&mut self, at: Timestamp) -> Failure {
        self.latest += 1;
        Failure { booking: self.latest, at }
    }
}

/// A failure.
#[derive(Clone, Copy, Debug)]
struct Failure {
    /// The number of its booking. Requests overtake each other, and then the time is no longer that of the booking.
    booking: u64,
    at: Timestamp,
}

/// The failures of at most [`WATCHED`] keys. Under attack those whose last failure is
/// the oldest make room.
#[derive(Debug)]
struct Recent<K> {
    /// The half that is being filled.
    newer: HashMap<K, VecDeque<Failure>>,
    older: HashMap<K, VecDeque<Failure>>,
}

/// An attempt to sign in: the name and the network.
pub(crate) struct Trying<'a> {
    /// The account and whether it knows the network, or a name without an account.
    pub(crate) who: std::result::Result<(UserId, bool), &'a str>,
    /// The network of the attempt: an IPv4 address, or an IPv6 /64.
    pub(crate) network: IpAddr,
}

impl Trying<'_> {
    /// The key that counts failures of the account.
    fn account(&self) -> std::result::Result<(UserId, Option<IpAddr>), &str> {
        self.who.map(|(user, is_known)| (user, is_known.then_some(self.network)))
    }
}

/// What was attempted.
enum Attempt<'a> {
    /// A password, or a code of a second factor.
    Password(Trying<'a>),
    Passkey(Trying<'a>),
    Link(IpAddr),
    SignOn(IpAddr),
}

/// An attempt, booked as a failure before it is made, so that many at once do not all find room. It is taken back
/// unless it has failed: a database that is away is nobody's wrong password.
#[must_use]
pub(crate) struct Booked<'a> {
    throttle: &'a LoginThrottle,
    attempt: Attempt<'a>,
    booking: u64,
    stays: bool,
}

impl Booked<'_> {
    /// The attempt has failed.
    pub(crate) fn stays(&mut self) {
        self.stays = true;
    }

    /// Does what the attempt asks for. Somebody who hangs up meanwhile has had their try: it costs as much.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let stays = std::mem::replace(&mut self.stays, true);
        let done = work.await;
        self.stays = stays;
        done
    }

    /// The attempt was a success: the whole count of the account that it was booked in is forgotten, and this one
    /// failure of the address.
    pub(crate) fn forgive(mut self) {
        self.stays = false;
        let mut all = lock(&self.throttle.0);
        match &self.attempt {
            Attempt::Password(trying) => {
                if let Ok(account) = trying.account() {
                    all.accounts.forget(&account);
                }
            }
            Attempt::Passkey(trying) => {
                if let Ok(account) = trying.account() {
                    all.passkeys.forget(&account);
                }
            }
            Attempt::Link(_) | Attempt::SignOn(_) => {}
        }
    }
}

impl Drop for Booked<'_> {
    /// Takes back this one failure, and no other: a right password must not make room for more tries at the second
    /// factor.
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let all = &mut *lock(&self.throttle.0);
        let (accounts, trying) = match &self.attempt {
            Attempt::Password(trying) => (&mut all.accounts, trying),
            Attempt::Passkey(trying) => (&mut all.passkeys, trying),
            Attempt::Link(network) => return all.links.take_back(network, self.booking),
            Attempt::SignOn(network) => return all.sign_ons.take_back(network, self.booking),
        };
        match trying.account() {
            Ok(account) => accounts.take_back(&account, self.booking),
            Err(name) => all.strangers.take_back(name, self.booking),
        }
        all.networks.take_back(&trying.network, self.booking);
    }
}

impl LoginThrottle {
    /// Books a password, or a code of a second factor. Refuses it when an account or an address has failed too
    /// often.
    pub(crate) fn book<'a>(&'a self, trying: Trying<'a>, now: Timestamp) -> Result<Booked<'a>> {
        let all = &mut *lock(&self.0);
        let failure = all.next(now);
        book(&mut all.accounts, &mut all.strangers, &mut all.networks, &trying, failure)?;
        Ok(self.booked(Attempt::Password(trying), failure))
    }

    /// Books the answer of a passkey likewise.
    pub(crate) fn book_passkey<'a>(
        &'a self,
        trying: Trying<'a>,
        now: Timestamp,
    ) -> Result<Booked<'a>> {
        let all = &mut *lock(&self.0);
        let failure = all.next(now);
        book(&mut all.passkeys, &mut all.strangers, &mut all.networks, &trying, failure)?;
        Ok(self.booked(Attempt::Passkey(trying), failure))
    }

    /// Books a one-time link. Refuses it after too many of an address that were not good.
    pub(crate) fn book_link(&self, network: IpAddr, now: Timestamp) -> Result<Booked<'_>> {
        let mut all = lock(&self.0);
        all.links.check(&network, now)?;
        let failure = all.next(now);
        all.links.add(network, failure);
        Ok(self.booked(Attempt::Link(network), failure))
    }

    /// Books a sign-on, before its issuer is asked. Refuses it after too many of an address that have failed.
    pub(crate) fn book_sign_on(&self, network: IpAddr, now: Timestamp) -> Result<Booked<'_>> {
        let mut all = lock(&self.0);
        all.sign_ons.check(&network, now)?;
        let failure = all.next(now);
        all.sign_ons.add(network, failure);
        Ok(self.booked(Attempt::SignOn(network), failure))
    }

    fn booked<'a>(&'a self, attempt: Attempt<'a>, failure: Failure) -> Booked<'a> {
        Booked { throttle: self, attempt, booking: failure.booking, stays: false }
    }

    /// Books a letter that somebody asks for without a session. Refuses it after too many to a reader, or
    /// from a network; whether the reader has an account does not matter.
    pub(crate) fn book_letter(&self, network: IpAddr, reader: &str, now: Timestamp) -> Result<()> {
        let all = &mut *lock(&self.0);
        all.askers.check(&network, now).and(all.readers.check(reader, now))?;
        let letter = all.next(now);
        all.askers.add(network, letter);
        all.readers.add(reader.to_owned(), letter);
        Ok(())
    }

    /// Books a letter to a signed-in reader's own address.
    pub(crate) fn book_own_letter(&self, reader: UserId, now: Timestamp) -> Result<()> {
        let all = &mut *lock(&self.0);
        all.own.check(&reader, now)?;
        let letter = all.next(now);
        all.own.add(reader, letter);
        Ok(())
    }
}

fn book(
    accounts: &mut Recent<(UserId, Option<IpAddr>)>,
    strangers: &mut Recent<String>,
    networks: &mut Recent<IpAddr>,
    trying: &Trying<'_>,
    failure: Failure,
) -> Result<()> {
    let now = failure.at;
    let by_account = match trying.account() {
        Ok(account) => accounts.check(&account, now),
        Err(name) => strangers.check(name, now),
    };
    let by_network = networks.check(&trying.network, now);
    by_account.and(by_network)?;
    match trying.account() {
        Ok(account) => accounts.add(account, failure),
        Err(name) => strangers.add(name.to_owned(), failure),
    }
    networks.add(trying.network, failure);
    Ok(())
}

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self { newer: HashMap::new(), older: HashMap::new() }
    }
}

impl<K: Eq + Hash> Recent<K> {
    fn find<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut VecDeque<Failure>>
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
        for failure in failures.iter_mut() {
            failure.at = failure.at.min(now);
        }
        failures.retain(|failure| now.since(failure.at) < FAILURE_WINDOW);
        if failures.len() < FAILURES {
            return Ok(());
        }
        let first = failures.front().map_or(now, |failure| failure.at);
        let wait = FAILURE_WINDOW - now.since(first);
        Err(Error::LoginThrottled { retry_after: wait.unsigned_abs().div_ceil(1_000_000).max(1) })
    }

    fn add(&mut self, key: K, failure: Failure) {
        let known = self.older.remove(&key).unwrap_or_default();
        if self.newer.len() >= WATCHED / 2 && !self.newer.contains_key(&key) {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.entry(key).or_insert(known).push_back(failure);
    }

    /// Removes the failure of a booking.
    fn take_back<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, booking: u64)
    where
        K: Borrow<Q>,
    {
        if let Some(failures) = self.find(key)
            && let Some(own) = failures.iter().rposition(|failure| failure.booking == booking)
        {
            failures.remove(own);
        }
    }

    fn forget(&mut self, key: &K) {
        self.newer.remove(key);
        self.older.remove(key);
    }
}

#[cfg(test)]
#[path = "login_throttle_tests.rs"]
mod tests;
