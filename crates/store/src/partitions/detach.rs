//! The detachment of a partition whose steps are all due.

use async_recursion::async_recursion as boxed;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::due::{RULES, Seen, newest, recent};
use super::{
    DuePartition, Maintenance, SERVER_MICROS, TABLES, calm, change, change_all, while_in_use,
};
use crate::error::{Result, is_in_use_or_slow};

/// How long a statement takes at most while all who use steps wait.
const MOST_HELD: &str = "SET LOCAL statement_timeout = '300ms'";

impl Maintenance {
    /// Detaches a partition: its steps are gone then for everybody. False, and nothing is changed, if a rule has changed
    /// since it was found, if a step was added, if something else depends on it that would keep its tables from being
    /// dropped, if PostgreSQL refuses, or if others had a table each time.
    #[boxed]
    pub async fn detach(&mut self, due: &DuePartition) -> Result<bool> {
        let part = due.part.of("steps");
        let detached: sqlx::Result<Option<bool>> = async {
            let detached = while_in_use!(
                self.connection,
                detach(&mut self.connection, due).await,
                is_in_use_or_slow
            );
            Ok(detached)
        }
        .await;
        match detached {
            Ok(Some(is_detached)) => {
                if is_detached {
                    tracing::info!(
                        partition = part,
                        "a partition of steps was dropped: all were due"
                    );
                }
                Ok(is_detached)
            }
            Ok(None) => {
                tracing::info!(
                    partition = part,
                    "a partition of steps that are all due is in use: it is dropped later"
                );
                Ok(false)
            }
            // It keeps no other waiting.
            Err(error @ sqlx::Error::Database(_)) => {
                tracing::warn!(
                    %error,
                    partition = part,
                    "a partition of steps that are all due cannot be dropped"
                );
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

async fn detach(connection: &mut PgConnection, due: &DuePartition) -> sqlx::Result<bool> {
    let [steps, contents] = TABLES.map(|(table, _)| due.part.of(table));
    let mut tx = connection.begin().await?;
    calm(&mut tx, &format!("{steps}, {contents}, steps_rest, step_contents_rest")).await?;
    // Rules that are being changed are waited for, and none is changed until the end.
    change(&mut tx, "LOCK TABLE models IN SHARE MODE".to_owned()).await?;
    let rules: Vec<u8> = sqlx::query_scalar(RULES).fetch_one(&mut *tx).await?;
    if rules != due.rules {
        return Ok(false);
    }
    if let Some(dependant) = dependant(&mut tx, [&steps, &contents]).await? {
        tracing::warn!(
            partition = steps,
            dependant,
            "a partition of steps that are all due cannot be dropped, because something of yours depends on it: drop \
             that, or make it anew on the whole table"
        );
        return Ok(false);
    }
    change(&mut tx, MOST_HELD.to_owned()).await?;
    let changes = vec![
        format!("ALTER TABLE steps DETACH PARTITION {steps}"),
        format!("ALTER TABLE step_contents DETACH PARTITION {contents}"),
    ];
    change_all(&mut tx, changes).await?;
    // Nobody writes to it any more. A step that was written late has ended after all others of its project, or is one
    // more of those that a rule could keep.
    let note = format!(
        "{}
        INSERT INTO detached_partitions (name, newest, gathered, detached)
        SELECT $1, COALESCE(max(own.newest), $2), $2, {SERVER_MICROS}
        FROM own
        HAVING count(*) = (
            SELECT count(*)
            FROM own o
            LEFT JOIN unnest(
                CAST($3 AS BIGINT[]), CAST($4 AS BIGINT[]), CAST($5 AS BIGINT[]), CAST($6 AS BIGINT[])
            ) AS known (project, newest, start, recent) ON known.project = o.project_id
            LEFT JOIN projects p ON p.id = o.project_id
            WHERE p.deleted_at IS NOT NULL
               OR o.newest <= known.newest AND {} <= known.recent)",
        newest(&steps),
        recent(&steps, "known.project", "known.start"),
    );
    let projects: Vec<i64> = due.projects.keys().copied().collect();
    let of_each =
        |figure: fn(&Seen) -> i64| -> Vec<i64> { due.projects.values().map(figure).collect() };
    let noted = sqlx::query(AssertSqlSafe(note))
        .bind(&steps)
        .bind(i64::MIN)
        .bind(projects)
        .bind(of_each(|seen| seen.newest))
        .bind(of_each(|seen| seen.from))
        .bind(of_each(|seen| seen.recent))
        .execute(&mut *tx)
        .await?;
    if noted.rows_affected() == 0 {
        return Ok(false);
    }
    tx.commit().await?;
    Ok(true)
}

/// Something else that depends on one of two tables and does not go with it, by the words of PostgreSQL: a view, a
/// foreign key, a function.
async fn dependant(
    connection: &mut PgConnection,
    tables: [&str; 2],
) -> sqlx::Result<Option<String>> {
    const FIND: &str = "
        SELECT pg_describe_object(d.classid, d.objid, d.objsubid)
        FROM pg_depend d
        WHERE d.refclassid = CAST('pg_class' AS REGCLASS) AND d.deptype = 'n'
          AND d.refobjid IN (to_regclass($1), to_regclass($2))
          AND NOT EXISTS (
              SELECT 1 FROM pg_depend o
              WHERE o.classid = d.classid AND o.objid = d.objid AND o.refclassid = d.refclassid
                AND o.refobjid = d.refobjid AND o.deptype <> 'n')
        ORDER BY d.classid, d.objid
        LIMIT 1";
    let found = sqlx::query_scalar(FIND).bind(tables[0]).bind(tables[1]);
    found.fetch_optional(connection).await
}
