//! Failures of accounts and addresses, counted for all nodes.

use std::time::Instant;

use domain::failure::{FailureCount, FailureRule};
use redis::Cmd;
use tokio::task::JoinHandle;

use crate::Failure;
use crate::counters::Counters;
use crate::decide::{LATE, told, unknown};
use crate::link::call;
use crate::reply::{at, list, number};
use crate::topology::slot_of;

/// The tag of the keys: all counts are in one slot, since an attempt is booked in several.
const TAG: &str = "failures";

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

impl Counters {
    /// Books an attempt as a failure in each of these counts, before it is made, unless one of them is full. Failures
    /// that this node has booked count also if Redis has lost them.
    pub async fn book_failure(
        &self,
        rule: &FailureRule,
        counts: &[OwnFailures],
        booking: u64,
    ) -> Result<Booking, Failure> {
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
    ) -> Result<Booking, Failure> {
        let shared = &self.0;
        let link = shared.link_of(slot_of(TAG))?;
        let live = link.ready()?;
        let mut command = self.failure_call("book_failure");
        command.arg(rule.window).arg(rule.most).arg(rule.watched);
        command.arg(shared.id(booking)).arg(shared.not_after(&link));
        for OwnFailures { count, booked } in counts {
            count_arg(&mut command, count);
            command.arg(booked.len());
            for (own, age) in booked {
                command.arg(shared.id(*own)).arg(*age);
            }
        }
        let parts = list(shared.send(&link, &live, &command, shared.patience()).await?)?;
        match number(at(&parts, 0)?)? {
            0 => Ok(Booking::Booked),
            1 => Ok(Booking::Full { wait: number(at(&parts, 1)?)?.max(1) }),
            LATE => Err(Failure::Away(format!("{} was asked too late", link.name()))),
            other => Err(unknown(other)),
        }
    }

    /// Takes an attempt back: this one failure, in each of these counts, and if it `forgives`, all of the first count.
    /// A task of the counters' does it, whatever becomes of the caller. An attempt that Redis cannot be told of stays
    /// there until its window ends.
    pub fn take_back_failure(
        &self,
        rule: &FailureRule,
        counts: &[FailureCount],
        booking: u64,
        forgives: bool,
    ) -> JoinHandle<()> {
        let mut command = self.failure_call("take_back_failure");
        command.arg(rule.window).arg(rule.watched);
        command.arg(self.0.id(booking)).arg(u8::from(forgives));
        counts.iter().for_each(|count| count_arg(&mut command, count));
        let counters = self.clone();
        self.0.tasks.spawn(async move {
            let began = Instant::now();
            let taken = counters.send_failure_call(&command).await;
            told("take_back_failure", began, taken.as_ref().err());
            if let Err(error) = taken {
                tracing::debug!(%error, "an attempt to sign in counts as a failure");
            }
        })
    }

    async fn send_failure_call(&self, command: &Cmd) -> Result<(), Failure> {
        let shared = &self.0;
        let link = shared.link_of(slot_of(TAG))?;
        let live = link.ready()?;
        shared.send(&link, &live, command, shared.patience()).await.map(drop)
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
