//! The reasons why tables stay as they are: what an operator has added to them and would lose, and a server that is too
//! old for partitions, or has too few locks for them.

use std::collections::BTreeSet;

use domain::time::{DAY, Timestamp};
use sqlx::PgConnection;

use super::convert::CHECK;
use super::layout::{expected, longest_rule};
use super::{FIRST_VERSION, Maintenance, PartitionWatch, rests, version};
use crate::db::MOST_CONNECTIONS;
use crate::error::Result;
use crate::lock::running;

/// The locks that a statement takes for each day: the partitions of both tables, with their indices.
const LOCKS_OF_A_DAY: i64 = 9;
/// The sessions for which PostgreSQL has room at each lock that its settings come to: its table of holders is twice as
/// long as that of locks (`InitLocks`). All sessions hold the same locks here, so it is the holders that are many.
const HOLDERS_OF_A_LOCK: i64 = 2;

impl Maintenance {
    /// Whether the tables may get partitions. Says once a day why not.
    pub(super) async fn may_convert(
        &mut self,
        now: Timestamp,
        watch: &mut PartitionWatch,
    ) -> Result<bool> {
        let is_said = rests(watch.refused, now, DAY);
        let is_old = version(&self.connection) < FIRST_VERSION;
        let obstacles = obstacles(&mut self.connection).await?;
        let parts = expected(longest_rule(&mut self.connection).await?);
        let Locks { gateways, needed, room } = self.locks(parts).await?;
        if obstacles.is_empty() && needed <= room && !is_old {
            return Ok(true);
        }
        if is_said {
            return Ok(false);
        }
        watch.refused = Some(now.minus_micros(-DAY));
        for obstacle in obstacles {
            tracing::warn!(
                obstacle,
                "steps get no partitions, because something of yours is on their table and would not be carried over: \
                 drop it, and make it anew once there are partitions"
            );
        }
        if is_old {
            tracing::warn!(
                "steps get no partitions, because PostgreSQL is older than version 14: steps are deleted one at a time"
            );
        }
        if needed > room {
            tracing::warn!(
                needed,
                room,
                gateways,
                "steps get no partitions, because PostgreSQL has too few locks for them: set max_locks_per_transaction \
                 times max_connections to the number that is needed, or more, and restart it"
            );
        }
        Ok(false)
    }

    /// Says if the gateways that run may use up the locks of the server.
    pub(super) async fn look_at_locks(&mut self) -> Result<()> {
        let parts = self.layout().await?.parts.len() as i64 + 1;
        let Locks { gateways, needed, room } = self.locks(parts).await?;
        if needed > room {
            tracing::warn!(
                needed,
                room,
                gateways,
                "PostgreSQL may run out of locks with so many partitions of steps, and refuse requests then: set \
                 max_locks_per_transaction times max_connections to the number that is needed, or more, and restart it"
            );
        }
        Ok(())
    }

    /// The locks that so many partitions need at the gateways that run, and those that the server has.
    async fn locks(&mut self, parts: i64) -> Result<Locks> {
        let gateways = running(&mut self.connection).await?;
        let needed = needed(parts, gateways.max(1));
        Ok(Locks { gateways, needed, room: room(&mut self.connection).await? })
    }
}

/// The locks that are needed, and those that there are.
struct Locks {
    /// The gateways that run.
    gateways: i64,
    needed: i64,
    room: i64,
}

/// The locks that the settings have to come to for statements that look into all partitions on all connections of some
/// gateways.
fn needed(parts: i64, gateways: i64) -> i64 {
    let held = parts * LOCKS_OF_A_DAY * gateways * i64::from(MOST_CONNECTIONS);
    (held + HOLDERS_OF_A_LOCK - 1) / HOLDERS_OF_A_LOCK
}

/// The locks that the settings come to.
async fn room(connection: &mut PgConnection) -> sqlx::Result<i64> {
    const ROOM: &str = "
        SELECT CAST(current_setting('max_locks_per_transaction') AS BIGINT)
            * CAST(current_setting('max_connections') AS BIGINT)";
    sqlx::query_scalar(ROOM).fetch_one(connection).await
}

/// The additions of others to the tables, by the words of PostgreSQL: they would stay on the old tables alone, and row level
/// security would then hide nothing. The check that a conversion makes is none.
pub(super) async fn obstacles(connection: &mut PgConnection) -> sqlx::Result<Vec<String>> {
    const ALL: &str = "
        WITH own AS (
            SELECT c.oid, CAST(c.relname AS TEXT) AS name, n.nspname, c.relrowsecurity
            FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.oid IN (to_regclass('steps'), to_regclass('step_contents')))
        SELECT 'row level security of table ' || name AS obstacle FROM own WHERE relrowsecurity
        UNION
        SELECT pg_describe_object(CAST('pg_trigger' AS REGCLASS), t.oid, 0)
        FROM pg_trigger t
        WHERE t.tgrelid IN (SELECT oid FROM own) AND NOT t.tgisinternal
        UNION
        SELECT pg_describe_object(CAST('pg_constraint' AS REGCLASS), k.oid, 0)
        FROM pg_constraint k
        WHERE k.contype = 'f'
          AND (k.conrelid IN (SELECT oid FROM own) OR k.confrelid IN (SELECT oid FROM own))
          OR k.contype = 'c' AND k.conname <> $1 AND k.conrelid IN (SELECT oid FROM own)
        UNION
        SELECT pg_describe_object(CAST('pg_rewrite' AS REGCLASS), r.oid, 0)
        FROM pg_rewrite r
        WHERE r.ev_class IN (SELECT oid FROM own)
        UNION
        SELECT 'publication ' || CAST(p.pubname AS TEXT)
        FROM pg_publication_tables p
        JOIN own ON own.nspname = p.schemaname AND own.name = CAST(p.tablename AS TEXT)";
    let found: Vec<String> =
        sqlx::query_scalar(ALL).bind(CHECK).fetch_all(&mut *connection).await?;
    let mut all: BTreeSet<String> = found.into_iter().collect();
    all.extend(dependants(connection, ["steps", "step_contents"]).await?);
    Ok(all.into_iter().collect())
}

/// The objects that depend on one of two tables and do not go with it, by the words of PostgreSQL: views, foreign keys,
/// functions.
pub(super) async fn dependants(
    connection: &mut PgConnection,
    tables: [&str; 2],
) -> sqlx::Result<Vec<String>> {
    const FIND: &str = "
        SELECT pg_describe_object(d.classid, d.objid, d.objsubid)
        FROM pg_depend d
        WHERE d.refclassid = CAST('pg_class' AS REGCLASS) AND d.deptype = 'n'
          AND d.refobjid IN (to_regclass($1), to_regclass($2))
          AND NOT EXISTS (
              SELECT 1 FROM pg_depend o
              WHERE o.classid = d.classid AND o.objid = d.objid AND o.refclassid = d.refclassid
                AND o.refobjid = d.refobjid AND o.deptype <> 'n')
        ORDER BY d.classid, d.objid";
    let found = sqlx::query_scalar(FIND).bind(tables[0]).bind(tables[1]);
    found.fetch_all(connection).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_as_it_is_installed_has_locks_for_two_gateways_and_a_rule_of_a_year() {
        let room = 64 * 100;
        assert!(needed(expected(30), 1) <= room);
        assert!(needed(expected(365), 1) <= room);
        assert!(needed(expected(365), 2) <= room);
        assert!(needed(expected(30), 3) <= room);
        assert!(needed(expected(30), 4) > room, "four are warned of");
        assert!(needed(expected(3_650), 1) <= room);
        assert!(needed(expected(3_650), 2) > room);
        // Each of ten sessions holds nine locks for a partition, and each lock has room for two of them.
        assert_eq!(needed(7, 3), 7 * 9 * 3 * 10 / 2);
    }
}
