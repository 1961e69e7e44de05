//! Clocks that are wrong. A clock that is ahead would drop steps that are not due, and move the ids of all processes
//! ahead for good.

use std::sync::{Mutex, PoisonError};

use async_recursion::async_recursion as boxed;
use domain::time::{DAY, HOUR, Timestamp};
use sqlx::PgExecutor;

use super::{DAY_IDS, Maintenance, day, rests};
use crate::error::Result;

/// The difference of the clocks of a process and of the server from which on nothing is done by either.
const CLOCKS_APART: i64 = HOUR;
/// The days that the counter of ids may be behind. Each run of any process moves it to its day.
const MOST_BEHIND: i64 = 2;
/// How long nothing is dropped after the counter was further behind.
const HELD: i64 = DAY;
/// How long after that no step is deleted one at a time.
const BEFORE_SINGLE: i64 = HOUR;

/// The time before which the log does not repeat that no step is deleted.
#[derive(Debug, Default)]
pub(crate) struct HeldPurge(Mutex<Option<Timestamp>>);

impl HeldPurge {
    pub(super) fn warn(&self, now: Timestamp) {
        let mut quiet_until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rests(*quiet_until, now, HOUR) {
            return;
        }
        *quiet_until = Some(now.minus_micros(-HOUR));
        tracing::warn!(
            "no step is deleted, however long it is past its retention: the clock may be ahead, or partitions of steps \
             were not looked after for days"
        );
    }
}

impl Maintenance {
    /// The time of the server.
    #[boxed]
    pub async fn server_time(&mut self) -> Result<Timestamp> {
        const NOW: &str = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)";
        let time = sqlx::query_scalar(NOW).fetch_one(&mut self.connection);
        Ok(Timestamp(time.await?))
    }

    /// Whether this process and the server have about the same time.
    pub(super) async fn clocks_agree(&mut self, now: Timestamp) -> Result<bool> {
        let server = self.server_time().await?;
        let is_same = now.0.abs_diff(server.0) <= CLOCKS_APART.unsigned_abs();
        if !is_same {
            tracing::warn!(
                seconds = (now.0 - server.0) / 1_000_000,
                "the clock of this machine and that of PostgreSQL are more than an hour apart: partitions of steps stay \
                 as they are until the wrong one is set"
            );
        }
        Ok(is_same)
    }

    /// Whether partitions may be dropped by this time. If it is in doubt, nothing is dropped for a day, so that somebody
    /// sees it. To be asked before the counter is moved to today.
    #[boxed]
    pub async fn may_detach(&mut self, now: Timestamp) -> Result<bool> {
        match Witness::read(&mut self.connection).await?.verdict(now) {
            Verdict::Right => Ok(true),
            Verdict::Held => Ok(false),
            Verdict::SetBack => {
                self.hold(now).await?;
                Ok(false)
            }
            Verdict::Ahead(days) => {
                tracing::warn!(
                    days,
                    "no step was recorded for days, or the clock is ahead by as much: steps that are due stay for \
                     another day, and go then unless the clock is set back"
                );
                self.hold(now).await?;
                Ok(false)
            }
        }
    }

    async fn hold(&mut self, now: Timestamp) -> Result<()> {
        const HOLD: &str = "
            INSERT INTO counters (name, value) VALUES ('partitions_held', $1)
            ON CONFLICT (name) DO UPDATE SET value = $1";
        sqlx::query(HOLD).bind(now.0 + HELD).execute(&mut self.connection).await?;
        Ok(())
    }
}

/// A look at the time by what the database knows of it. The counter of ids is a witness where the server has the same
/// clock: if it is days behind, either nobody was there, or the clock is ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Witness {
    /// The day of the counter; 0 before there are partitions.
    counted: i64,
    /// The time until which nothing is dropped.
    held: Option<i64>,
}

/// The right of a time to decide on steps.
#[derive(Clone, Copy, Debug)]
enum Verdict {
    Right,
    /// It is ahead of the counter by so many days, and nobody has noted it yet.
    Ahead(i64),
    /// It was in doubt less than a day ago.
    Held,
    /// It is long before that at which it was in doubt.
    SetBack,
}

impl Witness {
    pub(super) async fn read(db: impl PgExecutor<'_>) -> sqlx::Result<Self> {
        const FIND: &str = "
            SELECT (SELECT value FROM counters WHERE name = 'step'),
                   (SELECT value FROM counters WHERE name = 'partitions_held')";
        let (next, held): (Option<i64>, Option<i64>) = sqlx::query_as(FIND).fetch_one(db).await?;
        Ok(Self { counted: next.unwrap_or(0).div_euclid(DAY_IDS), held })
    }

    /// Whether steps may be deleted one at a time by this time. Those whose partitions were kept go with them first.
    pub(super) fn may_delete(self, now: Timestamp) -> bool {
        matches!(self.verdict(now), Verdict::Right)
            && self.held.is_none_or(|until| now.0 >= until + BEFORE_SINGLE)
    }

    fn verdict(self, now: Timestamp) -> Verdict {
        let behind = |time| day(time) - self.counted;
        // A counter that stays behind holds nothing twice.
        let is_seen = self.held.is_some_and(|until| behind(Timestamp(until - HELD)) > MOST_BEHIND);
        // Before there are partitions the counter is at no day.
        if self.counted > 0 && behind(now) > MOST_BEHIND && !is_seen {
            return Verdict::Ahead(behind(now));
        }
        match self.held {
            // The clock that has set it was ahead, and is set back.
            Some(until) if until - now.0 > HELD => Verdict::SetBack,
            Some(until) if now.0 < until => Verdict::Held,
            _ => Verdict::Right,
        }
    }
}
