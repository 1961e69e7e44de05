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
/// Links, sign-ons and strangers of each kind that are recorded in a minute.
const RECORDED: usize = 60;
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
    /// The times at which such links and sign-ons were recorded in the last minute, whatever address they came from.
    recorded: Recorded,
    /// The same of wrong passwords for made-up names.
    recorded_names: Recorded,
    /// The same of passkeys that nobody has.
    recorded_passkeys: Recorded,
    /// The same of people whom an issuer has named, or who have shown a passkey, and are refused. Strangers whom it
    /// has not take no part in this count.
    recorded_named: Recorded,
    /// The same of offers to link an account, which might be attempts to take one over: no refusal takes part.
    recorded_offers: Recorded,
    /// Letters that were asked for without a session: by address of the reader, and by that of the request.
    readers: Recent<String>,
    /// Letters that users asked for to their own address: no stranger takes part in this count.
    own: Recent<UserId>,
    askers: Recent<IpAddr>,
}

/// The events that were recorded in the last minute.
#[derive(Debug, Default)]
struct Recorded {
    /// Their times.
    at: VecDeque<Timestamp>,
    /// Those that found no room since the last one that did.
    others: u64,
}

impl Recorded {
    /// Whether one more may be recorded now. It is counted.
    fn has_room(&mut self, now: Timestamp) -> bool {
        self.admit(now).is_some()
    }

    /// Admits one more, and returns how many found no room before it; `None` if it finds none itself.
    fn admit(&mut self, now: Timestamp) -> Option<u64> {
        // A clock that went back must not make them count for longer.
        for at in &mut self.at {
            *at = (*at).min(now);
        }
        self.at.retain(|at| now.since(*at) < MINUTE);
        if self.at.len() >= RECORDED {
            self.others += 1;
            return None;
        }
        self.at.push_back(now);
        Some(std::mem::take(&mut self.others))
    }
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

impl LoginThrottle {
    /// Books an attempt as a failure before it is made, so that many at once do not all find room.
    /// Refuses it when an account or an address has failed too often.
    pub(crate) fn book(&self, trying: &Trying<'_>, now: Timestamp) -> Result<()> {
        let all = &mut *lock(&self.0);
        book(&mut all.accounts, &mut all.strangers, &mut all.networks, trying, now)
    }

    /// Books the answer of a passkey likewise.
    pub(crate) fn book_passkey(&self, trying: &Trying<'_>, now: Timestamp) -> Result<()> {
        let all = &mut *lock(&self.0);
        book(&mut all.passkeys, &mut all.strangers, &mut all.networks, trying, now)
    }

    /// Takes back what the right answer of a passkey has booked, as [`Self::forgive`] does.
    pub(crate) fn forgive_passkey(&self, trying: &Trying<'_>, booked: Timestamp) {
        let mut all = lock(&self.0);
        if let Ok(account) = trying.account() {
            all.passkeys.forget(&account);
        }
        all.networks.take_back(&trying.network, booked);
    }

    /// Takes back this one failure of a passkey, and no other.
    pub(crate) fn take_back_passkey(&self, trying: &Trying<'_>, booked: Timestamp) {
        let mut all = lock(&self.0);
        if let Ok(account) = trying.account() {
            all.passkeys.take_back(&account, booked);
        }
        all.networks.take_back(&trying.network, booked);
    }

    /// Books a one-time link as one that is not good. Refuses it after too many of an address.
    pub(crate) fn book_link(&self, network: IpAddr, now: Timestamp) -> Result<()> {
        let mut all = lock(&self.0);
        all.links.check(&network, now)?;
        all.links.add(network, now);
        Ok(())
    }

    /// Books a sign-on as one that fails, before its issuer is asked. Refuses it after too many of an address.
    pub(crate) fn book_sign_on(&self, network: IpAddr, now: Timestamp) -> Result<()> {
        let mut all = lock(&self.0);
        all.sign_ons.check(&network, now)?;
        all.sign_ons.add(network, now);
        Ok(())
    }

    /// Takes back a sign-on that has not failed.
    pub(crate) fn take_back_sign_on(&self, network: IpAddr, booked: Timestamp) {
        lock(&self.0).sign_ons.take_back(&network, booked);
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

    /// Whether a link or a sign-on that was not good may be recorded: so many a minute are, or strangers would fill the
    /// disk.
    pub(crate) fn may_record_link(&self, now: Timestamp) -> bool {
        lock(&self.0).recorded.has_room(now)
    }

    /// The same of a wrong password for a name without an account. Returns how many were not recorded before it.
    pub(crate) fn record_name(&self, now: Timestamp) -> Option<u64> {
        lock(&self.0).recorded_names.admit(now)
    }

    /// The same of a passkey that nobody has.
    pub(crate) fn record_passkey(&self, now: Timestamp) -> Option<u64> {
        lock(&self.0).recorded_passkeys.admit(now)
    }

    /// The same of an offer to link an account to an identity.
    pub(crate) fn may_record_offer(&self, now: Timestamp) -> bool {
        lock(&self.0).recorded_offers.has_room(now)
    }

    /// The same of somebody whom an issuer has named, and who is refused.
    pub(crate) fn may_record_named(&self, now: Timestamp) -> bool {
        lock(&self.0).recorded_named.has_room(now)
    }

    /// Takes back a link that was good.
    pub(crate) fn take_back_link(&self, network: IpAddr, booked: Timestamp) {
        lock(&self.0).links.take_back(&network, booked);
    }

    /// Takes back what a success has booked: the whole count of the account that it was booked in,
    /// and this one failure of the address.
    pub(crate) fn forgive(&self, trying: &Trying<'_>, booked: Timestamp) {
        let mut all = lock(&self.0);
        if let Ok(account) = trying.account() {
            all.accounts.forget(&account);
        }
        all.networks.take_back(&trying.network, booked);
    }

    /// Takes back this one failure, and no other: a right password must not make room for more tries at
    /// the second factor.
    pub(crate) fn take_back(&self, trying: &Trying<'_>, booked: Timestamp) {
        let mut all = lock(&self.0);
        if let Ok(account) = trying.account() {
            all.accounts.take_back(&account, booked);
        }
        all.networks.take_back(&trying.network, booked);
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
    fn take_back(&mut self, key: &K, booked: Timestamp) {
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
    fn one_right_step_makes_no_room_for_more_wrong_ones() {
        let throttle = LoginThrottle::default();
        for second in 0..6 {
            throttle.book(&known(1, 1), at(2 * second)).unwrap();
            if second < 5 {
                throttle.book(&known(1, 1), at(2 * second + 1)).unwrap();
                throttle.take_back(&known(1, 1), at(2 * second + 1));
            }
        }
        assert!(throttle.book(&known(1, 1), at(20)).is_err());
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
        // From another known address the owner gets in, and no other address gains access.
        throttle.book(&known(1, 2), at(8)).unwrap();
        throttle.forgive(&known(1, 2), at(8));
        assert!(throttle.book(&trying(Ok(1), 107), at(9)).is_err());
        assert!(throttle.book(&known(1, 1), at(9)).is_err());
    }

    #[test]
    fn wrong_passwords_of_strangers_hold_up_no_passkey() {
        let throttle = LoginThrottle::default();
        for stranger in 100..106 {
            throttle.book(&trying(Ok(1), stranger), at(0)).unwrap();
        }
        assert!(throttle.book(&trying(Ok(1), 1), at(1)).is_err());
        throttle.book_passkey(&trying(Ok(1), 1), at(1)).unwrap();
        throttle.forgive_passkey(&trying(Ok(1), 1), at(1));
        assert!(throttle.book(&trying(Ok(1), 1), at(2)).is_err(), "a passkey forgives no password");
        assert!(throttle.book_passkey(&trying(Ok(1), 100), at(2)).is_ok());
        for address in 200..205 {
            throttle.book_passkey(&trying(Ok(1), address), at(3)).unwrap();
        }
        assert!(throttle.book_passkey(&trying(Ok(1), 206), at(4)).is_err());
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

    #[test]
    fn sixty_links_a_minute_are_recorded_whatever_the_clock_does() {
        let throttle = LoginThrottle::default();
        let recorded =
            |at: i64| (0..100).filter(|_| throttle.may_record_link(Timestamp(at))).count();
        assert_eq!(recorded(MINUTE), 60);
        assert_eq!(recorded(MINUTE - 1), 0, "a request that began earlier");
        assert_eq!(recorded(2 * MINUTE - 2), 0);
        assert_eq!(recorded(2 * MINUTE), 60);
        assert!(
            throttle.may_record_named(Timestamp(2 * MINUTE)),
            "strangers leave room for who is named"
        );
        while throttle.may_record_named(Timestamp(2 * MINUTE)) {}
        assert!(throttle.may_record_offer(Timestamp(2 * MINUTE)), "and refusals for offers");
    }

    #[test]
    fn names_and_passkeys_that_nobody_has_are_counted_apart() {
        let throttle = LoginThrottle::default();
        let now = Timestamp(MINUTE);
        assert_eq!((0..100).filter_map(|_| throttle.record_name(now)).sum::<u64>(), 0);
        assert_eq!(throttle.record_name(now), None);
        assert_eq!(throttle.record_passkey(now), Some(0), "one hides no other");
        let later = Timestamp(2 * MINUTE);
        assert_eq!(throttle.record_name(later), Some(41));
        assert_eq!(throttle.record_name(later), Some(0));
    }
}
