//! Clocks that are wrong. A clock that is ahead would drop steps that are not due, and move the ids of all processes
//! ahead for good.

use async_recursion::async_recursion as boxed;
use domain::time::{DAY, HOUR, Timestamp};

use super::{DAY_IDS, Maintenance, day};
use crate::error::Result;

/// The difference of the clocks of a process and of the server from which on nothing is done by either.
const CLOCKS_APART: i64 = HOUR;
/// The days that the counter of ids may be behind. Each run of any process moves it to its day.
const MOST_BEHIND: i64 = 2;
/// How long nothing is dropped after the counter was further behind.
const HELD: i64 = DAY;

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

    /// Whether steps may be dropped by this time. The counter of ids is a witness of it where the server has the same
    /// clock: if it is days behind, either nobody was there, or the clock is ahead. Whichever it is, nothing is dropped
    /// for a day, so that somebody sees it. To be asked before the counter is moved to today.
    #[boxed]
    pub async fn may_detach(&mut self, now: Timestamp) -> Result<bool> {
        const FOUND: &str = "SELECT value FROM counters WHERE name = 'partitions_held'";
        let counted = self.next_id().await?.div_euclid(DAY_IDS);
        let until: Option<i64> =
            sqlx::query_scalar(FOUND).fetch_optional(&mut self.connection).await?;
        // A counter that stays behind holds nothing twice.
        let is_seen =
            until.is_some_and(|until| day(Timestamp(until - HELD)) - counted > MOST_BEHIND);
        // Before there are partitions the counter is at no day.
        if counted > 0 && day(now) - counted > MOST_BEHIND && !is_seen {
            tracing::warn!(
                days = day(now) - counted,
                "no step was recorded for days, or the clock is ahead by as much: partitions of steps that are due stay \
                 for another day, and are dropped then unless the clock is set back"
            );
            self.hold(now).await?;
            return Ok(false);
        }
        match until {
            // The clock that has set it was ahead, and is set back.
            Some(until) if until - now.0 > HELD => {
                self.hold(now).await?;
                Ok(false)
            }
            Some(until) => Ok(now.0 >= until),
            None => Ok(true),
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
