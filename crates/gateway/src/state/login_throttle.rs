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
}

/// The times of the failures of at most [`WATCHED`] keys. Under attack those whose last failure is
/// the oldest make room.
#[derive(Debug)]
struct Recent<K> {
    /// The half that is being filled.
    newer: HashMap<K, VecDeque<Timestamp>>,
    older: HashMap<K, VecDeque<Timestamp>>,
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
    at: Timestamp,
    stays: bool,
}

impl Booked<'_> {
    /// The attempt has failed.
    pub(crate) fn stays(&mut self) {
        self.stays = true;
    }

    /// Does what the attempt asks for. Whoever hangs up meanwhile has had their try: it costs as much.
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
            Attempt::Link(network) => return all.links.take_back(network, self.at),
            Attempt::SignOn(network) => return all.sign_ons.take_back(network, self.at),
        };
        match trying.account() {
            Ok(account) => accounts.take_back(&account, self.at),
            Err(name) => all.strangers.take_back(name, self.at),
        }
        all.networks.take_back(&trying.network, self.at);
    }
}

impl LoginThrottle {
    /// Books a password, or a code of a second factor. Refuses it when an account or an address has failed too
    /// often.
    pub(crate) fn book<'a>(&'a self, trying: Trying<'a>, now: Timestamp) -> Result<Booked<'a>> {
        let all = &mut *lock(&self.0);
        book(&mut all.accounts, &mut all.strangers, &mut all.networks, &trying, now)?;
        Ok(self.booked(Attempt::Password(trying), now))
    }

    /// Books the answer of a passkey likewise.
    pub(crate) fn book_passkey<'a>(
        &'a self,
        trying: Trying<'a>,
        now: Timestamp,
    ) -> Result<Booked<'a>> {
        let all = &mut *lock(&self.0);
        book(&mut all.passkeys, &mut all.strangers, &mut all.networks, &trying, now)?;
        Ok(self.booked(Attempt::Passkey(trying), now))
    }

    /// Books a one-time link. Refuses it after too many of an address that were not good.
    pub(crate) fn book_link(&self, network: IpAddr, now: Timestamp) -> Result<Booked<'_>> {
        let mut all = lock(&self.0);
        all.links.check(&network, now)?;
        all.links.add(network, now);
        Ok(self.booked(Attempt::Link(network), now))
    }

    /// Books a sign-on, before its issuer is asked. Refuses it after too many of an address that have failed.
    pub(crate) fn book_sign_on(&self, network: IpAddr, now: Timestamp) -> Result<Booked<'_>> {
        let mut all = lock(&self.0);
        all.sign_ons.check(&network, now)?;
        all.sign_ons.add(network, now);
        Ok(self.booked(Attempt::SignOn(network), now))
    }

    fn booked<'a>(&'a self, attempt: Attempt<'a>, at: Timestamp) -> Booked<'a> {
        Booked { throttle: self, attempt, at, stays: false }
    }

    /// Books a letter that somebody asks for without a session. Refuses it after too many to a reader, or
    /// from a network; whether the reader has an account does not matter.
    pub(crate) fn book_letter(&self, network: IpAddr, reader: &str, now: Timestamp) -> Result<()> {
        let all = &mut *lock(&self.0);
        all.askers.check(&network, now).and(all.readers.check(reader, now))?;
        all.askers.add(network, now);
        all.readers.add(reader.to_owned(), now);
        Ok(())
    }

    /// Books a letter to a signed-in reader's own address.
    pub(crate) fn book_own_letter(&self, reader: UserId, now: Timestamp) -> Result<()> {
        let all = &mut *lock(&self.0);
        all.own.check(&reader, now)?;
        all.own.add(reader, now);
        Ok(())
    }
}

fn book(
    accounts: &mut Recent<(UserId, Option<IpAddr>)>,
    strangers: &mut Recent<String>,
    networks: &mut Recent<IpAddr>,
    trying: &Trying<'_>,
    now: Timestamp,
) -> Result<()> {
    let by_account = match trying.account() {
        Ok(account) => accounts.check(&account, now),
        Err(name) => strangers.check(name, now),
    };
    let by_network = networks.check(&trying.network, now);
    by_account.and(by_network)?;
    match trying.account() {
        Ok(account) => accounts.add(account, now),
        Err(name) => strangers.add(name.to_owned(), now),
    }
    networks.add(trying.network, now);
    Ok(())
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

    /// Removes one failure of a time.
    fn take_back<Q: Eq + Hash + ?Sized>(&mut self, key: &Q, booked: Timestamp)
    where
        K: Borrow<Q>,
    {
        if let Some(failures) = self.find(key)
            && let Some(own) = failures.iter().rposition(|at| *at == booked)
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

    impl LoginThrottle {
        /// A wrong password.
        fn fail(&self, trying: Trying<'_>, now: Timestamp) -> Result<()> {
            self.book(trying, now).map(|mut booked| booked.stays())
        }

        /// A wrong answer of a passkey.
        fn fail_passkey(&self, trying: Trying<'_>, now: Timestamp) -> Result<()> {
            self.book_passkey(trying, now).map(|mut booked| booked.stays())
        }
    }

    #[test]
    fn the_seventh_try_has_to_wait() {
        for who in [Ok(1), Err("a@b")] {
            let throttle = LoginThrottle::default();
            for minute in 0..6 {
                throttle.fail(trying(who, 1), at(60 * minute)).unwrap();
            }
            let wait = throttle.fail(trying(who, 2), at(60 * 6)).unwrap_err();
            assert!(matches!(wait, Error::LoginThrottled { retry_after: 540 }), "{wait:?}");
            assert!(throttle.fail(trying(Ok(2), 1), at(60 * 6)).is_err());
            throttle.fail(trying(Ok(2), 2), at(60 * 6)).unwrap();
            throttle.fail(trying(who, 1), at(60 * 15)).unwrap();
        }
    }

    #[test]
    fn a_success_is_no_failure() {
        let throttle = LoginThrottle::default();
        for second in 0..20 {
            throttle.book(trying(Ok(1), 1), at(second)).unwrap().forgive();
            throttle.book(known(1, 2), at(second)).unwrap().forgive();
        }
    }

    #[test]
    fn an_attempt_that_is_not_judged_is_no_failure() {
        let throttle = LoginThrottle::default();
        let link = IpAddr::V4(9.into());
        for second in 0..20 {
            for who in [Ok(1), Err("a@b")] {
                drop(throttle.book(trying(who, 1), at(second)).unwrap());
                drop(throttle.book_passkey(trying(who, 2), at(second)).unwrap());
            }
            drop(throttle.book_link(link, at(second)).unwrap());
            drop(throttle.book_sign_on(link, at(second)).unwrap());
        }
        for _ in 0..6 {
            throttle.book_link(link, at(20)).unwrap().stays();
            throttle.book_sign_on(link, at(20)).unwrap().stays();
        }
        assert!(throttle.book_link(link, at(20)).is_err());
        assert!(throttle.book_sign_on(link, at(20)).is_err());
    }

    #[test]
    fn attempts_at_the_same_time_have_no_more_room() {
        let throttle = LoginThrottle::default();
        let booked: Vec<_> =
            (0..6).map(|_| throttle.book(trying(Ok(1), 1), at(0)).unwrap()).collect();
        assert!(throttle.book(trying(Ok(1), 2), at(0)).is_err());
        drop(booked);
        throttle.fail(trying(Ok(1), 2), at(0)).unwrap();
    }

    #[tokio::test]
    async fn whoever_hangs_up_has_had_their_try() {
        let throttle = LoginThrottle::default();
        for _ in 0..6 {
            let mut booked = throttle.book(trying(Ok(1), 1), at(0)).unwrap();
            let hashing = booked.during(std::future::pending::<()>());
            assert!(futures_util::FutureExt::now_or_never(hashing).is_none());
        }
        assert!(throttle.book(trying(Ok(1), 1), at(1)).is_err());
        let mut booked = throttle.book(trying(Ok(2), 2), at(1)).unwrap();
        booked.during(std::future::ready(())).await;
        drop(booked);
        for _ in 0..6 {
            throttle.fail(trying(Ok(2), 2), at(1)).unwrap();
        }
    }

    #[test]
    fn one_right_step_makes_no_room_for_more_wrong_ones() {
        let throttle = LoginThrottle::default();
        for second in 0..6 {
            throttle.fail(known(1, 1), at(2 * second)).unwrap();
            if second < 5 {
                drop(throttle.book(known(1, 1), at(2 * second + 1)).unwrap());
            }
        }
        assert!(throttle.fail(known(1, 1), at(20)).is_err());
    }

    #[test]
    fn strangers_lock_out_strangers_only() {
        let throttle = LoginThrottle::default();
        for address in 100..106 {
            throttle.fail(trying(Ok(1), address), at(0)).unwrap();
        }
        assert!(throttle.fail(trying(Ok(1), 106), at(1)).is_err(), "strangers share a count");
        for second in 0..6 {
            throttle.fail(known(1, 1), at(second)).unwrap();
        }
        assert!(throttle.fail(known(1, 1), at(7)).is_err(), "a known address has six as well");
        // From another known address the owner gets in, and no other address gains access.
        throttle.book(known(1, 2), at(8)).unwrap().forgive();
        assert!(throttle.fail(trying(Ok(1), 107), at(9)).is_err());
        assert!(throttle.fail(known(1, 1), at(9)).is_err());
    }

    #[test]
    fn wrong_passwords_of_strangers_hold_up_no_passkey() {
        let throttle = LoginThrottle::default();
        for stranger in 100..106 {
            throttle.fail(trying(Ok(1), stranger), at(0)).unwrap();
        }
        assert!(throttle.fail(trying(Ok(1), 1), at(1)).is_err());
        throttle.book_passkey(trying(Ok(1), 1), at(1)).unwrap().forgive();
        assert!(throttle.fail(trying(Ok(1), 1), at(2)).is_err(), "a passkey forgives no password");
        assert!(throttle.fail_passkey(trying(Ok(1), 100), at(2)).is_ok());
        for address in 200..205 {
            throttle.fail_passkey(trying(Ok(1), address), at(3)).unwrap();
        }
        assert!(throttle.fail_passkey(trying(Ok(1), 206), at(4)).is_err());
    }

    #[test]
    fn a_clock_that_went_back_locks_nobody_out_for_long() {
        let throttle = LoginThrottle::default();
        let year = 365 * 24 * 3600;
        for _ in 0..6 {
            throttle.fail(trying(Ok(1), 1), at(year)).unwrap();
        }
        assert!(throttle.fail(trying(Ok(1), 1), at(0)).is_err());
        throttle.fail(trying(Ok(1), 1), at(15 * 60)).unwrap();
    }

    #[test]
    fn a_flood_hides_nobody() {
        let throttle = LoginThrottle::default();
        for _ in 0..6 {
            throttle.fail(trying(Ok(1), 1), at(0)).unwrap();
        }
        let most = u32::try_from(WATCHED).unwrap();
        for n in 2..3 * most {
            throttle.fail(trying(Err(&format!("{n}@b")), n), at(1)).unwrap();
        }
        let all = lock(&throttle.0);
        assert!(all.strangers.newer.len() + all.strangers.older.len() <= WATCHED);
        assert!(all.networks.newer.len() + all.networks.older.len() <= WATCHED);
        drop(all);
        assert!(throttle.fail(trying(Ok(1), most * 4), at(2)).is_err(), "an account is remembered");
        for _ in 0..6 {
            throttle.fail(trying(Err("one@b"), 7), at(3)).unwrap();
        }
        assert!(throttle.fail(trying(Err("one@b"), 8), at(4)).is_err(), "so is who comes now");
    }

    #[test]
    fn a_reader_is_sent_a_few_letters_from_wherever_they_are_asked_for() {
        let throttle = LoginThrottle::default();
        let now = Timestamp(0);
        let ask =
            |last: u8, reader: &str| throttle.book_letter([203, 0, 113, last].into(), reader, now);
        for last in 0..6 {
            ask(last, "reader@example.org").unwrap();
        }
        assert!(ask(7, "reader@example.org").is_err());
        ask(7, "other@example.org").unwrap();
        // The letters that strangers ask for do not count for the reader's own.
        throttle.book_own_letter(UserId(1), now).unwrap();
    }
}
