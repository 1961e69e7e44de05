//! Failures of accounts and addresses, counted for all nodes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::failure::{FailureCount, FailureRule};
use domain::time::Timestamp;
use redis::Cmd;
use tokio::task::JoinHandle;

use crate::counters::Counters;
use crate::decide::{LATE, told, unknown};
use crate::link::{Link, call};
use crate::reply::{at, list, number};
use crate::topology::slot_of;
use crate::{DECISION_TIMEOUT, Failure};

/// The tag of the keys: all counts are in one slot, since an attempt is booked in several.
const TAG: &str = "failures";
/// The most attempts that wait for Redis to be told that they are taken back. Beyond it the oldest stay failures.
const MOST_UNTOLD: usize = 10_000;
/// The most of these that are sent with one beat.
const TOLD_AT_ONCE: usize = 500;
/// The time after which a beat sends no more of them: other work waits for the next one.
const TELLING: Duration = Duration::from_millis(50);

/// The failures of a count that this node has booked.
#[derive(Clone, Debug)]
pub struct OwnFailures {
    /// The count.
    pub count: FailureCount,
    /// The numbers of their bookings, and how long ago they were, in microseconds.
    pub booked: Vec<(u64, i64)>,
}

/// The decision about an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Booking {
    /// It is booked as a failure.
    Booked,
    /// One of its counts is full.
    Full {
        /// Microseconds until that has room, at least 1.
        wait: i64,
    },
}

/// The answer to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookingAnswer {
    /// The decision.
    pub booking: Booking,
    /// For each count, how many microseconds ago its failures were forgiven, if they were within the window. What this
    /// node has booked before that counts no more.
    pub forgiven: Vec<Option<i64>>,
}

/// An attempt that is taken back.
#[derive(Debug)]
struct TakeBack {
    rule: FailureRule,
    counts: Vec<FailureCount>,
    booking: u64,
    forgives: bool,
    /// When it was.
    at: Timestamp,
}

/// Attempts that are taken back, and of which Redis could not be told.
#[derive(Debug, Default)]
pub(crate) struct Untold(Mutex<VecDeque<TakeBack>>);

impl Untold {
    fn held(&self) -> MutexGuard<'_, VecDeque<TakeBack>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, attempt: TakeBack) {
        let mut held = self.held();
        held.push_back(attempt);
        if held.len() > MOST_UNTOLD {
            held.pop_front();
        }
    }

    /// Takes the oldest out. Those whose window is over count no more anyway.
    fn next(&self, now: Timestamp) -> Option<TakeBack> {
        let mut held = self.held();
        while let Some(oldest) = held.pop_front() {
            if now.since(oldest.at) < oldest.rule.window {
                return Some(oldest);
            }
        }
        None
    }

    /// Puts one back that was taken out, unless there are too many by now.
    fn put_back(&self, attempt: TakeBack) {
        let mut held = self.held();
        if held.len() < MOST_UNTOLD {
            held.push_front(attempt);
        }
    }
}

impl Counters {
    /// Whether the server of these counts is reached.
    pub fn reaches_failures(&self) -> bool {
        self.0.link_of(slot_of(TAG)).is_ok_and(|link| link.is_well())
    }

    /// Books an attempt as a failure in each of these counts, before it is made, unless one of them is full. Failures
    /// that this node has booked count also if Redis has lost them.
    pub async fn book_failure(
        &self,
        rule: &FailureRule,
        counts: &[OwnFailures],
        booking: u64,
    ) -> Result<BookingAnswer, Failure> {
        let began = Instant::now();
        let booked = self.ask_to_book(rule, counts, booking).await;
        told("book_failure", began, booked.as_ref().err());
        booked
    }

    async fn ask_to_book(
        &self,
        rule: &FailureRule,
        counts: &[OwnFailures],
        booking: u64,
    ) -> Result<BookingAnswer, Failure> {
        let shared = &self.0;
        let link = shared.link_of(slot_of(TAG))?;
        let live = link.ready()?;
        let mut command = self.failure_call("book_failure");
        command.arg(rule.window).arg(rule.most).arg(rule.watched);
        command.arg(shared.id(booking)).arg(shared.not_after(&link, DECISION_TIMEOUT));
        for OwnFailures { count, booked } in counts {
            count_arg(&mut command, count);
            command.arg(booked.len());
            for (own, age) in booked {
                command.arg(shared.id(*own)).arg(*age);
            }
        }
        let parts = list(shared.send(&link, &live, &command, shared.patience()).await?)?;
        let booking = match number(at(&parts, 0)?)? {
            0 => Booking::Booked,
            1 => Booking::Full { wait: number(at(&parts, 1)?)?.max(1) },
            LATE => return Err(Failure::Away(format!("{} was asked too late", link.name()))),
            other => return Err(unknown(other)),
        };
        let age =
            |place: usize| number(at(&parts, place + 2)?).map(|age| (age >= 0).then_some(age));
        let forgiven: Vec<_> = (0..counts.len()).map(age).collect::<Result<_, _>>()?;
        Ok(BookingAnswer { booking, forgiven })
    }

    /// Takes an attempt back: this one failure, in each of these counts, and if it `forgives`, all that the first count
    /// has by now. A task of the counters' does it, whatever becomes of the caller; while Redis cannot be told, every
    /// beat tries again until the window of the attempt ends.
    pub fn take_back_failure(
        &self,
        rule: &FailureRule,
        counts: &[FailureCount],
        booking: u64,
        forgives: bool,
    ) -> JoinHandle<()> {
        let at = self.0.settings.clock.now();
        let attempt = TakeBack { rule: *rule, counts: counts.to_vec(), booking, forgives, at };
        let counters = self.clone();
        self.0.tasks.spawn(async move {
            let within = counters.0.patience();
            if let Err(error) = counters.tell_taken_back(&attempt, within).await {
                tracing::debug!(%error, "an attempt to sign in counts as a failure for now");
                counters.0.untold.add(attempt);
            }
        })
    }

    /// Tells a server of attempts that are taken back and that it could not be told of before.
    pub(crate) async fn take_back_again(&self, link: &Link, within: Duration) {
        let shared = &self.0;
        let is_here =
            shared.link_of(slot_of(TAG)).is_ok_and(|of| std::ptr::eq(&raw const *of, link));
        if !is_here {
            return;
        }
        let began = Instant::now();
        for _ in 0..TOLD_AT_ONCE {
            if began.elapsed() >= TELLING {
                return;
            }
            let Some(attempt) = shared.untold.next(shared.settings.clock.now()) else { return };
            if let Err(error) = self.tell_taken_back(&attempt, within).await {
                tracing::debug!(%error, "an attempt to sign in counts as a failure for now");
                shared.untold.put_back(attempt);
                return;
            }
        }
    }

    async fn tell_taken_back(&self, attempt: &TakeBack, within: Duration) -> Result<(), Failure> {
        let shared = &self.0;
        let began = Instant::now();
        let mut command = self.failure_call("take_back_failure");
        command.arg(attempt.rule.window).arg(attempt.rule.watched);
        command.arg(shared.id(attempt.booking));
        if attempt.forgives {
            command.arg(shared.settings.clock.now().since(attempt.at));
        } else {
            command.arg("");
        }
        attempt.counts.iter().for_each(|count| count_arg(&mut command, count));
        let taken = async {
            let link = shared.link_of(slot_of(TAG))?;
            let live = link.ready()?;
            shared.send(&link, &live, &command, within).await.map(drop)
        };
        let taken = taken.await;
        told("take_back_failure", began, taken.as_ref().err());
        taken
    }

    fn failure_call(&self, function: &str) -> Cmd {
        let base = format!("sluice:{}:{{{TAG}}}", self.0.settings.installation);
        let mut command = call(function, &base);
        command.arg(self.0.now());
        command
    }
}

fn count_arg(command: &mut Cmd, FailureCount { kind, name }: &FailureCount) {
    command.arg(*kind).arg(format!("{:032x}", u128::from_be_bytes(*name)));
}

#[cfg(test)]
mod tests {
    use domain::time::{MINUTE, SECOND};

    use super::*;

    const RULE: FailureRule = FailureRule { most: 6, window: 15 * MINUTE, watched: 100 };

    fn attempt(booking: u64, seconds: i64) -> TakeBack {
        let at = Timestamp(seconds * SECOND);
        TakeBack { rule: RULE, counts: Vec::new(), booking, forgives: false, at }
    }

    #[test]
    fn attempts_wait_in_order_within_a_bound_and_until_their_window_ends() {
        let untold = Untold::default();
        for booking in 0..MOST_UNTOLD as u64 + 2 {
            untold.add(attempt(booking, if booking < 5 { 0 } else { 60 }));
        }
        let next = |seconds: i64| untold.next(Timestamp(seconds * SECOND));
        let first = next(60).unwrap();
        assert_eq!(first.booking, 2, "the oldest two made room");
        untold.put_back(first);
        assert_eq!(next(60).unwrap().booking, 2);
        assert_eq!(next(15 * 60).unwrap().booking, 5, "the window of the others is over");
        assert!(next(16 * 60).is_none());
        assert!(untold.held().is_empty());
    }
}
