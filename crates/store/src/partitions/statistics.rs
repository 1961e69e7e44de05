//! Work that is done once a day: PostgreSQL gets statistics of the partitioned tables, which its own background workers
//! analyze only by the partition, and a counter of ids that is ahead shows in the log.

use domain::time::{DAY, HOUR, Timestamp};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::{
    DAY_IDS, Maintenance, PartitionWatch, TABLES, change, day, rests, version, while_in_use,
};
use crate::error::{Result, is_slow};

/// The time before tables are analyzed again that it took too long for.
const SLOW_REST: i64 = 7 * DAY;
/// The settings of an analysis: versions of PostgreSQL before 18 read a sample of every partition for it, in one
/// transaction, and the statistics of the partition are made anew of it: the sample is the usual one, unless that takes
/// too long. It gives way to others, and ends.
const GENTLY: [&str; 3] = [
    "SET LOCAL vacuum_cost_delay = 2",
    "SET LOCAL statement_timeout = '2min'",
    // Nobody waits for it, and it waits for vacuum.
    "SET LOCAL lock_timeout = '5s'",
];
/// The setting of a small sample: a tenth of the rows that PostgreSQL takes as it is installed.
const OF_FEW_ROWS: &str = "SET LOCAL default_statistics_target = 10";

/// The rows that an analysis looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sample {
    /// As many as the settings of the server want.
    Usual,
    Small,
}

impl Maintenance {
    pub(super) async fn look_once_a_day(
        &mut self,
        now: Timestamp,
        watch: &mut PartitionWatch,
    ) -> Result<()> {
        if rests(watch.daily, now, DAY) {
            return Ok(());
        }
        watch.daily = Some(now.minus_micros(-DAY));
        let ahead = self.next_id().await?.div_euclid(DAY_IDS) - day(now);
        if ahead > 1 {
            tracing::warn!(
                days = ahead,
                "step ids are those of a day to come, because a clock was ahead once: until that day all steps share \
                 a partition, which is dropped as a whole only when that day is over"
            );
        }
        self.look_at_locks().await?;
        if rests(watch.unanalyzed, now, SLOW_REST) {
            return Ok(());
        }
        for (table, _) in TABLES {
            match self.analyze(table).await {
                Ok(Some(())) => {}
                Ok(None) => watch.daily = Some(now.minus_micros(-HOUR)),
                Err(error @ sqlx::Error::Database(_)) => {
                    tracing::warn!(%error, table, "a partitioned table was not analyzed");
                    if is_slow(&error) {
                        watch.unanalyzed = Some(now.minus_micros(-SLOW_REST));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Analyzes a partitioned table, by a small sample where the usual one takes too long: better than by none. `None` if
    /// others had the table each time.
    async fn analyze(&mut self, table: &str) -> sqlx::Result<Option<()>> {
        match self.analyze_by(table, Sample::Usual).await {
            Err(error) if is_slow(&error) => {
                tracing::info!(
                    table,
                    "the analysis of a partitioned table takes too long: it is made of a small sample"
                );
                self.analyze_by(table, Sample::Small).await
            }
            done => done,
        }
    }

    async fn analyze_by(&mut self, table: &str, sample: Sample) -> sqlx::Result<Option<()>> {
        while_in_use!(self.connection, analyze(&mut self.connection, table, sample).await)
    }
}

/// Analyzes a partitioned table, unless that was done within a day. Versions of PostgreSQL before 18 analyze its
/// partitions as well.
async fn analyze(connection: &mut PgConnection, table: &str, sample: Sample) -> sqlx::Result<()> {
    const IS_DONE: &str = "
        SELECT EXISTS (
            SELECT 1 FROM pg_stat_all_tables
            WHERE relid = to_regclass($1) AND last_analyze > clock_timestamp() - INTERVAL '23 hours')";
    if sqlx::query_scalar(IS_DONE).bind(table).fetch_one(&mut *connection).await? {
        return Ok(());
    }
    let only = if version(connection) >= 180_000 { "ONLY " } else { "" };
    let mut tx = connection.begin().await?;
    for setting in GENTLY {
        change(&mut tx, setting.to_owned()).await?;
    }
    if sample == Sample::Small {
        change(&mut tx, OF_FEW_ROWS.to_owned()).await?;
    }
    sqlx::raw_sql(AssertSqlSafe(format!("ANALYZE {only}{table}"))).execute(&mut *tx).await?;
    tx.commit().await
}
