//! The few steps of a partition that a longer rule keeps when all others are due. They are moved to a small partition that
//! takes its place, together with those that were moved before it: so a long rule for few steps neither keeps all others
//! nor makes many partitions.

use sqlx::{AssertSqlSafe, PgConnection};

use super::detach::Closed;
use super::layout::Layout;
use super::obstacles::dependants;
use super::{DAY_IDS, DuePartition, Part, TABLES, calm, change, other_owner};

/// The most steps that are moved together.
pub(super) const MOST_KEPT: usize = 10_000;
/// The most bytes of their contents.
const MOST_BYTES: i64 = 64 * 1024 * 1024;

/// Whether the contents of steps of a partition are too large to be moved.
pub(super) async fn are_too_large(
    connection: &mut PgConnection,
    part: Part,
    ids: &[i64],
) -> sqlx::Result<bool> {
    let bytes = format!(
        "SELECT CAST(COALESCE(sum(pg_column_size(sealed)), 0) AS BIGINT) FROM {} WHERE step_id = ANY($1)",
        part.of("step_contents")
    );
    let bytes = sqlx::query_scalar::<_, i64>(AssertSqlSafe(bytes)).bind(ids);
    Ok(bytes.fetch_one(connection).await? > MOST_BYTES)
}

/// Copies the steps that stay of a partition to tables of their own, and deletes them there. Returns the statements that
/// put these tables in the place of the partition, once that is detached. Nobody else writes to it meanwhile.
pub(super) async fn copy(
    connection: &mut PgConnection,
    due: &DuePartition,
    closed: Closed,
) -> sqlx::Result<Vec<String>> {
    let (ids, kept) = (due.steps.kept.as_slice(), Part::Kept(due.ids.end / DAY_IDS));
    let layout = Layout::read(&mut *connection).await?;
    let mut earlier = layout
        .parts
        .into_iter()
        .find(|(part, before)| matches!(part, Part::Kept(_)) && before.end == due.ids.start);
    closed.bound(connection).await?;
    if let Some((part, _)) = &earlier
        && !are_few(connection, *part, ids.len()).await?
    {
        earlier = None;
    }
    for (table, key) in TABLES {
        let (own, kept) = (due.part.of(table), kept.of(table));
        let make = format!(
            "CREATE TABLE {kept} (
                LIKE {table} INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMPRESSION INCLUDING INDEXES)"
        );
        change(connection, make).await?;
        if let Some(owner) = other_owner(connection, table).await? {
            change(connection, format!("ALTER TABLE {kept} OWNER TO {owner}")).await?;
        }
        for statement in [
            format!("INSERT INTO {kept} SELECT * FROM {own} WHERE {key} = ANY($1)"),
            format!("DELETE FROM {own} WHERE {key} = ANY($1)"),
        ] {
            closed.bound(connection).await?;
            let query = sqlx::query(AssertSqlSafe(statement)).persistent(false).bind(ids);
            query.execute(&mut *connection).await?;
        }
        if let Some((part, _)) = &earlier {
            let earlier = part.of(table);
            closed.bound(connection).await?;
            change(connection, format!("INSERT INTO {kept} SELECT * FROM {earlier}")).await?;
        }
    }
    let start = earlier.as_ref().map_or(due.ids.start, |(_, before)| before.start);
    let from = if start == i64::MIN { "MINVALUE".to_owned() } else { start.to_string() };
    let drop = earlier.map(|(part, _)| {
        let [steps, contents] = TABLES.map(|(table, _)| part.of(table));
        format!("DROP TABLE {steps}, {contents}")
    });
    let attach = TABLES.map(|(table, _)| {
        let (kept, to) = (kept.of(table), due.ids.end);
        format!("ALTER TABLE {table} ATTACH PARTITION {kept} FOR VALUES FROM ({from}) TO ({to})")
    });
    Ok(drop.into_iter().chain(attach).collect())
}

/// Whether steps that were moved earlier may be moved again, with so many others. Nobody writes to them from then on.
async fn are_few(connection: &mut PgConnection, part: Part, others: usize) -> sqlx::Result<bool> {
    let [steps, contents] = TABLES.map(|(table, _)| part.of(table));
    calm(connection, &format!("{steps}, {contents}")).await?;
    change(connection, format!("LOCK TABLE {steps}, {contents} IN SHARE MODE")).await?;
    if !dependants(connection, [&steps, &contents]).await?.is_empty() {
        return Ok(false);
    }
    let few = format!(
        "SELECT (SELECT count(*) FROM (SELECT 1 FROM {steps} LIMIT $1) AS steps) < $1
            AND pg_table_size(to_regclass($2)) <= $3"
    );
    sqlx::query_scalar(AssertSqlSafe(few))
        .bind((MOST_KEPT + 1 - others) as i64)
        .bind(contents)
        .bind(MOST_BYTES)
        .fetch_one(connection)
        .await
}
