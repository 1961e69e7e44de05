//! The conversion of the tables of a database that has no partitions yet, beside processes that use them.
//!
//! ```text
//! plain -- CHECK (id < bound) NOT VALID --> bounded -- VALIDATE --> checked -- swap --> partitioned
//! ```
//!
//! The bound is the first id of tomorrow, and the counter of ids is moved to days only after the conversion: until then
//! ids are smaller by a factor of millions, so the check refuses no row however long the conversion takes. With it
//! PostgreSQL attaches the old table without a look at its rows. The swap changes names and the catalog, and no data.

use async_recursion::async_recursion as boxed;
use domain::time::{HOUR, Timestamp};
use sqlx::{Connection as _, PgConnection};

use super::layout::number;
use super::obstacles::obstacles;
use super::{
    DAY_IDS, Maintenance, Part, PartitionWatch, TABLES, calm, change, change_all, day, other_owner,
    rests, while_in_use,
};
use crate::error::{Result, is_slow};
use crate::from_row::from_row;

/// The name of the check on both tables.
pub(super) const CHECK: &str = "below_partitions";
/// How long a statement of the swap takes at most: all who use steps wait. Each changes the catalog alone, unless something
/// is not as it is expected.
const MOST_HELD: &str = "SET LOCAL statement_timeout = '1s'";
/// The time before another attempt at a swap that took too long.
const SLOW_REST: i64 = HOUR;

/// The outcome of a conversion.
pub(super) enum Converted {
    /// The tables have partitions.
    Done,
    /// Others had a table each time that it was needed: it is to be tried again.
    InUse,
    /// Something is in its way.
    Refused,
}

/// The outcome of an attempt at the swap. Nothing is changed by any but the first.
enum Swapped {
    Now,
    /// Something was added to the tables that would be lost.
    Refused,
    /// It took too long.
    Slow,
}

from_row! {
    /// A check that an earlier attempt has left.
    struct Bound {
        oid: i64,
        text: String,
    }
}

impl Maintenance {
    /// Converts the tables, or goes on with it where it was stopped.
    #[boxed]
    pub(super) async fn convert(
        &mut self,
        now: Timestamp,
        watch: &mut PartitionWatch,
    ) -> Result<Converted> {
        if self.has_partitions().await? {
            return Ok(Converted::Done);
        }
        if rests(watch.unconverted, now, SLOW_REST) || !self.may_convert(now, watch).await? {
            return Ok(Converted::Refused);
        }
        let Some(bound) = self.bound(now).await? else { return Ok(Converted::InUse) };
        for (table, _) in TABLES {
            let validated =
                while_in_use!(self.connection, validate(&mut self.connection, table).await)?;
            if validated.is_none() {
                return Ok(Converted::InUse);
            }
        }
        match while_in_use!(self.connection, swap(&mut self.connection, bound).await)? {
            Some(Swapped::Now) => {
                tracing::info!("steps lie in partitions from now on");
                Ok(Converted::Done)
            }
            Some(Swapped::Refused) => Ok(Converted::Refused),
            Some(Swapped::Slow) => {
                watch.unconverted = Some(now.minus_micros(-SLOW_REST));
                tracing::warn!(
                    "steps get no partitions yet, because the change of their tables takes too long while all who use \
                     them wait: it is tried again in an hour"
                );
                Ok(Converted::Refused)
            }
            None => Ok(Converted::InUse),
        }
    }

    /// Sees to the check of both tables, and returns the id that all of theirs are below; `None` if others had a table.
    async fn bound(&mut self, now: Timestamp) -> Result<Option<i64>> {
        const FOUND: &str = "
            SELECT CAST(conrelid AS BIGINT) AS oid, pg_get_constraintdef(oid) AS text
            FROM pg_constraint
            WHERE conname = $1 AND conrelid IN (to_regclass('steps'), to_regclass('step_contents'))";
        let found: Vec<Bound> =
            sqlx::query_as(FOUND).bind(CHECK).fetch_all(&mut self.connection).await?;
        let next = self.next_id().await?;
        let mut bounds = found.iter().map(|bound| number(&bound.text));
        let left =
            bounds.next().flatten().filter(|first| bounds.all(|other| other == Some(*first)));
        // A check that refuses a row would be worse than none.
        let left = left.filter(|bound| bound - DAY_IDS >= next);
        let bound = left.unwrap_or_else(|| {
            // The counter is at a day where the tables have been partitioned before.
            DAY_IDS * (day(now) + 1).max(next.div_euclid(DAY_IDS) + 2)
        });
        for (table, key) in TABLES {
            const OID: &str = "SELECT CAST(CAST(to_regclass($1) AS OID) AS BIGINT)";
            let oid: i64 =
                sqlx::query_scalar(OID).bind(table).fetch_one(&mut self.connection).await?;
            let has_one = found.iter().any(|bound| bound.oid == oid);
            if has_one && left.is_some() {
                continue;
            }
            let mut changes = Vec::from_iter(has_one.then(|| format!("DROP CONSTRAINT {CHECK}")));
            changes.push(format!("ADD CONSTRAINT {CHECK} CHECK ({key} < {bound}) NOT VALID"));
            let statement = format!("ALTER TABLE {table} {}", changes.join(", "));
            let altered = while_in_use!(
                self.connection,
                alter(&mut self.connection, table, &statement).await
            )?;
            if altered.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(bound))
    }
}

/// Has PostgreSQL read a table, beside all who use it. Does nothing if it has.
async fn validate(connection: &mut PgConnection, table: &str) -> sqlx::Result<()> {
    let mut tx = connection.begin().await?;
    change(&mut tx, "SET LOCAL statement_timeout = 0".to_owned()).await?;
    calm(&mut tx, table).await?;
    change(&mut tx, format!("ALTER TABLE {table} VALIDATE CONSTRAINT {CHECK}")).await?;
    tx.commit().await
}

async fn alter(connection: &mut PgConnection, table: &str, statement: &str) -> sqlx::Result<()> {
    let mut tx = connection.begin().await?;
    calm(&mut tx, table).await?;
    change(&mut tx, statement.to_owned()).await?;
    tx.commit().await
}

/// Puts partitioned tables in the place of the plain ones, which become their first partitions.
async fn swap(connection: &mut PgConnection, bound: i64) -> sqlx::Result<Swapped> {
    let mut tx = connection.begin().await?;
    // No index is made meanwhile either.
    calm(&mut tx, "steps, step_contents").await?;
    if !obstacles(&mut tx).await?.is_empty() {
        return Ok(Swapped::Refused);
    }
    let mut all = vec!["LOCK TABLE steps, step_contents IN ACCESS EXCLUSIVE MODE".to_owned()];
    for (table, key) in TABLES {
        let before = Part::Before.of(table);
        let indices = indices(&mut tx, table, key).await?;
        let grants = grants(&mut tx, table).await?;
        let owner = other_owner(&mut tx, table).await?;
        let give = |table: &str| {
            owner.as_ref().map(|owner| format!("ALTER TABLE {table} OWNER TO {owner}"))
        };
        all.push(format!("ALTER TABLE {table} RENAME TO {before}"));
        for Index { name, .. } in &indices {
            let rest = name.strip_prefix(table).unwrap_or(name).trim_start_matches('_');
            let (old, new) = (quoted(name), quoted(&format!("{before}_{rest}")));
            all.push(format!("ALTER INDEX {old} RENAME TO {new}"));
        }
        let key_name = indices.iter().find(|index| index.is_primary);
        let key_name = key_name.map_or_else(|| format!("{table}_pkey"), |index| index.name.clone());
        all.push(format!(
            "CREATE TABLE {table} (
                LIKE {before} INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMPRESSION,
                CONSTRAINT {} PRIMARY KEY ({key})) PARTITION BY RANGE ({key})",
            quoted(&key_name)
        ));
        // Before it gets rights: its owner is the one who gives them.
        all.extend(give(table));
        for index in indices.into_iter().filter(|index| !index.is_primary) {
            if index.is_of_one_table {
                tracing::warn!(
                    index = index.name,
                    "an index of steps of yours is UNIQUE without the id of the step, which PostgreSQL cannot be with \
                     partitions: only the steps from before the conversion keep it"
                );
                continue;
            }
            // The table of that name is the new one by then.
            all.push(index.text);
        }
        let grant = |(right, role): (String, String)| format!("GRANT {right} ON {table} TO {role}");
        all.extend(grants.into_iter().map(grant));
        all.push(format!(
            "ALTER TABLE {table} ATTACH PARTITION {before} FOR VALUES FROM (MINVALUE) TO ({bound})"
        ));
        all.push(format!("ALTER TABLE {before} DROP CONSTRAINT {CHECK}"));
        all.push(format!("CREATE TABLE {table}_rest PARTITION OF {table} DEFAULT"));
        all.extend(give(&format!("{table}_rest")));
    }
    change(&mut tx, MOST_HELD.to_owned()).await?;
    match change_all(&mut tx, all).await {
        Err(error) if is_slow(&error) => return Ok(Swapped::Slow),
        changed => changed?,
    }
    tx.commit().await?;
    Ok(Swapped::Now)
}

from_row! {
    /// An index of a table, and the statement that makes it.
    struct Index {
        name: String,
        text: String,
        is_primary: bool,
        /// Whether there can be none over several partitions.
        is_of_one_table: bool,
    }
}

async fn indices(
    connection: &mut PgConnection,
    table: &str,
    key: &str,
) -> sqlx::Result<Vec<Index>> {
    const ALL: &str = "
        SELECT CAST(c.relname AS TEXT) AS name, pg_get_indexdef(c.oid) AS text, i.indisprimary AS is_primary,
               i.indisexclusion OR i.indisunique AND NOT EXISTS (
                   SELECT 1 FROM pg_attribute a
                   WHERE a.attrelid = i.indrelid AND a.attname = $2
                     AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
               ) AS is_of_one_table
        FROM pg_index i
        JOIN pg_class c ON c.oid = i.indexrelid
        WHERE i.indrelid = to_regclass($1) AND i.indisvalid
        ORDER BY c.relname";
    sqlx::query_as(ALL).bind(table).bind(key).fetch_all(connection).await
}

/// The rights that others than the owner of a table have: those of a reader of the operator, for example.
async fn grants(connection: &mut PgConnection, table: &str) -> sqlx::Result<Vec<(String, String)>> {
    const ALL: &str = "
        SELECT a.privilege_type,
               CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = to_regclass($1) AND a.grantee <> c.relowner";
    sqlx::query_as(ALL).bind(table).fetch_all(connection).await
}

/// A name from the catalog as SQL takes it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
