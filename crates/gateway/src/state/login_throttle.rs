//! Failures to sign in: after too many, an account or an address has to wait.
//!
//! Redis decides where all gateways count as one, in one round trip. This gateway notes beside it what it has booked
//! itself: it decides by that while Redis does not answer, and tells Redis of it with each question, which may have
//! been away or may have lost it.

use std::net::IpAddr;
use std::sync::Mutex;

use aws_lc_rs::hmac;
use counters::{Booking, Counters, OwnFailures};
use domain::failure::{FailureCount, FailureRule};
use domain::ids::UserId;
use domain::time::{MINUTE, Timestamp};
use limits::{Failures, TooManyFailures};
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::lock::lock;

/// An account or an address has to wait after 6 failures within 15 minutes. At most 10,000 counts of each kind are
/// watched at once; made-up names cannot drive accounts out, which are another kind.
const RULE: FailureRule = FailureRule { most: 6, window: 15 * MINUTE, watched: 10_000 };

/// Failures to sign in.
#[derive(Debug)]
pub(crate) struct LoginThrottle {
    here: Mutex<Here>,
    /// The counters of all gateways, if this one is not alone.
    shared: Option<Counters>,
    /// Hashes the names of counts.
    key: hmac::Key,
}

/// The failures that this gateway has booked.
#[derive(Debug)]
struct Here {
    failures: Failures,
    /// The number of the latest booking.
    latest: u64,
}

/// The kinds of counts.
mod kind {
    /// Passwords and codes of accounts. Every network that an account knows has a count of its own there; all others
    /// share one, so that strangers can use up their own tries only.
    pub(super) const ACCOUNT: &str = "account";
    /// Answers of passkeys likewise: nobody guesses one, so the wrong passwords of strangers keep no owner of a passkey
    /// from signing in.
    pub(super) const PASSKEY: &str = "passkey";
    /// Names without an account: they are refused like those of accounts.
    pub(super) const STRANGER: &str = "stranger";
    /// Addresses; IPv6 by /64.
    pub(super) const NETWORK: &str = "network";
    /// One-time links that were not good, by the same addresses. Letters that are followed too late keep nobody from
    /// signing in.
    pub(super) const LINK: &str = "link";
    /// Sign-ons that an issuer was asked about and that failed, by the same addresses.
    pub(super) const SIGN_ON: &str = "sign_on";
    /// Letters that were asked for without a session: by address of the reader, and by that of the request.
    pub(super) const READER: &str = "reader";
    pub(super) const ASKER: &str = "asker";
    /// Letters that users asked for to their own address: no stranger takes part in this count.
    pub(super) const OWN: &str = "own";
}

/// An attempt to sign in: the name and the network.
pub(crate) struct Trying<'a> {
    /// The account and whether it knows the network, or a name without an account.
    pub(crate) who: std::result::Result<(UserId, bool), &'a str>,
    /// The network of the attempt: an IPv4 address, or an IPv6 /64.
    pub(crate) network: IpAddr,
}

/// An attempt, booked as a failure before it is made, so that many at once do not all find room. It is taken back
/// unless it has failed: a database that is away is nobody's wrong password.
#[must_use]
pub(crate) struct Booked<'a> {
    throttle: &'a LoginThrottle,
    counts: Vec<FailureCount>,
    /// Whether the first of its counts is that of an account.
    is_of_account: bool,
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
    pub(crate) async fn forgive(mut self) {
        let forgives = self.is_of_account;
        joined(self.end(forgives)).await;
    }

    /// The attempt was none, or only a first step. Other gateways know of it once this returns.
    pub(crate) async fn take_back(mut self) {
        joined(self.end(false)).await;
    }

    /// Takes back this one failure, and no other unless it forgives: a right password must not make room for more
    /// tries at the second factor.
    fn end(&mut self, forgives: bool) -> Option<JoinHandle<()>> {
        self.stays = true;
        let Self { throttle, counts, booking, .. } = self;
        {
            let failures = &mut lock(&throttle.here).failures;
            failures.take_back(counts, *booking);
            if let Some(account) = counts.first().filter(|_| forgives) {
                failures.forget(account);
            }
        }
        let shared = throttle.shared.as_ref()?;
        Some(shared.take_back_failure(&RULE, counts, *booking, forgives))
    }
}

/// Waits for a decision, which is bounded.
async fn joined(task: Option<JoinHandle<()>>) {
    if let Some(task) = task {
        // A task that has panicked has said so.
        let _ = task.await;
    }
}

impl Drop for Booked<'_> {
    fn drop(&mut self) {
        if !self.stays {
            drop(self.end(false));
        }
    }
}

impl LoginThrottle {
    /// Counts without failures. `pepper` hashes their names.
    pub(crate) fn new(pepper: &[u8; 32], shared: Option<Counters>) -> Self {
        Self {
            here: Mutex::new(Here { failures: Failures::new(RULE), latest: 0 }),
            shared,
            key: hmac::Key::new(hmac::HMAC_SHA256, pepper),
        }
    }

    /// Books a password, or a code of a second factor. Refuses it when an account or an address has failed too
    /// often.
    pub(crate) async fn book(&self, trying: Trying<'_>, now: Timestamp) -> Result<Booked<'_>> {
        self.book_trying(kind::ACCOUNT, &trying, now).await
    }

    /// Books the answer of a passkey likewise.
    pub(crate) async fn book_passkey(
        &self,
        trying: Trying<'_>,
        now: Timestamp,
    ) -> Result<Booked<'_>> {
        self.book_trying(kind::PASSKEY, &trying, now).await
    }

    /// Books a one-time link. Refuses it after too many of an address that were not good.
    pub(crate) async fn book_link(&self, network: IpAddr, now: Timestamp) -> Result<Booked<'_>> {
        self.book_counts(vec![self.of_network(kind::LINK, network)], false, now).await
    }

    /// Books a sign-on, before its issuer is asked. Refuses it after too many of an address that have failed.
    pub(crate) async fn book_sign_on(&self, network: IpAddr, now: Timestamp) -> Result<Booked<'_>> {
        self.book_counts(vec![self.of_network(kind::SIGN_ON, network)], false, now).await
    }

    /// Books a letter that somebody asks for without a session. Refuses it after too many to a reader, or
    /// from a network; whether the reader has an account does not matter.
    pub(crate) async fn book_letter(
        &self,
        network: IpAddr,
        reader: &str,
        now: Timestamp,
    ) -> Result<()> {
        let asker = self.of_network(kind::ASKER, network);
        let reader = self.count(kind::READER, &[reader.as_bytes()]);
        self.book_counts(vec![asker, reader], false, now).await.map(|mut letter| letter.stays())
    }

    /// Books a letter to a signed-in reader's own address.
    pub(crate) async fn book_own_letter(&self, reader: UserId, now: Timestamp) -> Result<()> {
        let own = self.count(kind::OWN, &[&reader.0.to_le_bytes()]);
        self.book_counts(vec![own], false, now).await.map(|mut letter| letter.stays())
    }

    async fn book_trying(
        &self,
        kind: &'static str,
        trying: &Trying<'_>,
        now: Timestamp,
    ) -> Result<Booked<'_>> {
        let first = match trying.who {
            Ok((user, is_known)) => {
                let network = if is_known { trying.network.to_string() } else { String::new() };
                self.count(kind, &[&user.0.to_le_bytes(), network.as_bytes()])
            }
            Err(name) => self.count(kind::STRANGER, &[name.as_bytes()]),
        };
        let counts = vec![first, self.of_network(kind::NETWORK, trying.network)];
        self.book_counts(counts, trying.who.is_ok(), now).await
    }

    /// Books an attempt in its counts, unless one of them is full.
    async fn book_counts(
        &self,
        counts: Vec<FailureCount>,
        is_of_account: bool,
        now: Timestamp,
    ) -> Result<Booked<'_>> {
        let (booking, own) = {
            let here = &mut *lock(&self.here);
            here.latest += 1;
            (here.latest, own_failures(&mut here.failures, &counts, now))
        };
        // From here on it is taken back whatever happens: Redis may book it and not be heard.
        let mut booked = Booked { throttle: self, counts, is_of_account, booking, stays: false };
        let shared = self.shared.as_ref().filter(|shared| shared.reaches_failures());
        let answer = match shared {
            Some(shared) => Some(shared.book_failure(&RULE, &own, booking).await),
            None => None,
        };
        // Then there is nothing to take back.
        let is_nowhere = !matches!(answer, Some(Err(_)));
        let noted = {
            let failures = &mut lock(&self.here).failures;
            match answer {
                Some(Ok(answer)) => {
                    forget_forgiven(failures, &booked.counts, &answer.forgiven, now);
                    match answer.booking {
                        Booking::Booked => {
                            failures.note(&booked.counts, booking, now);
                            Ok(())
                        }
                        Booking::Full { wait } => Err(TooManyFailures { wait }),
                    }
                }
                Some(Err(_)) | None => failures.book(&booked.counts, booking, now),
            }
        };
        match noted {
            Ok(()) => Ok(booked),
            Err(TooManyFailures { wait }) => {
                booked.stays = is_nowhere;
                Err(Error::LoginThrottled {
                    retry_after: wait.unsigned_abs().div_ceil(1_000_000).max(1),
                })
            }
        }
    }

    fn of_network(&self, kind: &'static str, network: IpAddr) -> FailureCount {
        self.count(kind, &[network.to_string().as_bytes()])
    }

    /// The count of a kind that these parts name.
    fn count(&self, kind: &'static str, parts: &[&[u8]]) -> FailureCount {
        let mut context = hmac::Context::with_key(&self.key);
        let of_kind: [&[u8]; 2] = [b"failures", kind.as_bytes()];
        for part in of_kind.iter().chain(parts) {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut name = [0; 16];
        name.copy_from_slice(&context.sign().as_ref()[..16]);
        FailureCount { kind, name }
    }
}

/// Forgets failures of this gateway that another one has forgiven: it would tell Redis of them should that lose what it
/// knows, and count them while that is away.
fn forget_forgiven(
    failures: &mut Failures,
    counts: &[FailureCount],
    forgiven: &[Option<i64>],
    now: Timestamp,
) {
    for (count, age) in counts.iter().zip(forgiven) {
        if let Some(age) = age {
            failures.forget_until(count, now.minus_micros(*age));
        }
    }
}

/// The failures that this gateway has booked in some counts.
fn own_failures(
    failures: &mut Failures,
    counts: &[FailureCount],
    now: Timestamp,
) -> Vec<OwnFailures> {
    let own = |count: &FailureCount| {
        let booked = failures.of(count, now).into_iter();
        OwnFailures {
            count: *count,
            booked: booked.map(|(own, at)| (own, now.since(at))).collect(),
        }
    };
    counts.iter().map(own).collect()
}

#[cfg(test)]
#[path = "login_throttle_tests.rs"]
mod tests;
