//! The partitions that may be dropped: their day is over, and every step in them is due by the rules of `purge.rs`, but
//! for a few.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use async_recursion::async_recursion as boxed;
use domain::time::{DAY, HOUR, MINUTE, Timestamp};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::keep::{self, MOST_KEPT};
use super::{DAY_IDS, Maintenance, Part, PartitionWatch, change, day, rests};
use crate::error::Result;
use crate::from_row::from_row;
use crate::retention::{DEFAULT_DAYS, Source, aged};

/// The longest time before a partition is looked at again: rules may be shortened.
pub(super) const LONGEST_REST: i64 = HOUR;

/// Begins a look that reads one state of the database.
const SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";

/// A hash of all rules, by which a change of one shows.
pub(super) const RULES: &str = "
    SELECT sha256(convert_to(COALESCE(string_agg(
        concat_ws(',', id, project_id, identifier, data_retention_days, deleted_at), ';' ORDER BY id), ''), 'UTF8'))
    FROM models";

/// A partition whose steps were all due by the rules as they were, but for a few.
#[derive(Debug)]
pub struct DuePartition {
    pub(super) part: Part,
    pub(super) ids: Range<i64>,
    pub(super) rules: Vec<u8>,
    pub(super) steps: Steps,
}

/// The steps of a partition, as a look has found them.
#[derive(Debug)]
pub(super) struct Steps {
    /// The end of the last one.
    pub(super) newest: i64,
    pub(super) projects: BTreeMap<i64, Seen>,
    /// Those that are not due: they are to be moved before the others go.
    pub(super) kept: Vec<i64>,
}

/// The steps of a project that a rule of it could keep.
#[derive(Debug)]
pub(super) struct Seen {
    /// They end at this time or later.
    pub(super) from: i64,
    pub(super) steps: i64,
    /// A sum of their ends: it differs if one was added for one that was deleted.
    pub(super) sum: i64,
}

from_row! {
    /// A project that has steps in a partition.
    struct OfProject {
        project_id: i64,
        newest: i64,
        is_deleted: bool,
        /// The days of its shortest and of its longest rule.
        least: Option<i64>,
        longest: Option<i64>,
        /// The hour and the minute up to which its steps are in the sums.
        grouped: i64,
        spanned: i64,
    }
}

impl OfProject {
    /// No rule is longer than this but what a trace keeps of a rule that is gone.
    fn longest_rule(&self) -> i64 {
        self.longest.unwrap_or(DEFAULT_DAYS).max(DEFAULT_DAYS)
    }
}

/// The id of a step that is not due, and the time at which it is; `None` if nothing is known yet.
type Staying = (i64, Option<i64>);

/// The result of a look at a partition.
enum Found {
    Due(Steps),
    /// Too many steps are not due before this.
    NotBefore(Timestamp),
}

impl Maintenance {
    /// A partition that may be dropped, the oldest first.
    #[boxed]
    pub async fn due_partition(
        &mut self,
        now: Timestamp,
        watch: &mut PartitionWatch,
    ) -> Result<Option<DuePartition>> {
        let (layout, next) = (self.layout().await?, self.next_id().await?);
        watch.looks.retain(|part, _| layout.parts.contains_key(part));
        for (part, ids) in layout.parts {
            // Processes use ids that they took before the end of their day.
            let end = ids.end;
            let is_over = end <= next && end.div_euclid(DAY_IDS) < day(now);
            if !is_over || rests(watch.looks.get(&part).copied(), now, LONGEST_REST) {
                continue;
            }
            let latest = now.minus_micros(-LONGEST_REST);
            // A look that fails is not taken again at once.
            watch.looks.insert(part, latest);
            // Before the steps are looked at: a rule that changes meanwhile shows later.
            let rules = sqlx::query_scalar(RULES).fetch_one(&mut self.connection).await?;
            match self.look(part, now).await? {
                Found::Due(steps) => {
                    watch.looks.remove(&part);
                    return Ok(Some(DuePartition { part, ids, rules, steps }));
                }
                Found::NotBefore(time) => {
                    watch.looks.insert(part, time.min(latest));
                }
            }
        }
        Ok(None)
    }

    async fn look(&mut self, part: Part, now: Timestamp) -> Result<Found> {
        let projects = of_projects(&mut self.connection, &part.of("steps")).await?;
        let projects: Vec<_> = projects.into_iter().filter(|found| !found.is_deleted).collect();
        // The indices answer for most partitions.
        for found in &projects {
            let least = found.least.unwrap_or(DEFAULT_DAYS).min(DEFAULT_DAYS);
            let due = Timestamp(found.newest).minus_micros(-least * DAY - 1);
            if now < due {
                return Ok(Found::NotBefore(due));
            }
            // Steps that are not in the sums of usage and findings yet would never be.
            if found.newest >= (found.grouped * HOUR).min(found.spanned * MINUTE) {
                return Ok(Found::NotBefore(now.minus_micros(-MINUTE)));
            }
        }
        let newest = projects.iter().map(|found| found.newest).max().unwrap_or(i64::MIN);
        // Few are moved, and those that were moved once stay together.
        let most = if matches!(part, Part::Kept(_)) { 0 } else { MOST_KEPT };
        let mut steps = Steps { newest, projects: BTreeMap::new(), kept: Vec::new() };
        let mut earliest = i64::MAX;
        for found in &projects {
            let limit = most + 1 - steps.kept.len();
            let (staying, seen) = self.look_at(part, now, found, limit).await?;
            for (id, due) in staying {
                // Its trace decides, and does not know yet.
                let Some(due) = due else {
                    return Ok(Found::NotBefore(now.minus_micros(-MINUTE)));
                };
                earliest = earliest.min(due);
                steps.kept.push(id);
            }
            let Some(seen) = seen else {
                return Ok(Found::NotBefore(Timestamp(earliest)));
            };
            steps.projects.insert(found.project_id, seen);
        }
        if keep::are_too_large(&mut self.connection, part, &steps.kept).await? {
            return Ok(Found::NotBefore(Timestamp(earliest)));
        }
        Ok(Found::Due(steps))
    }

    /// Up to so many steps of a project in a partition that are not due now; and all that are there, unless so many stay,
    /// or nothing is known yet of one.
    async fn look_at(
        &mut self,
        part: Part,
        now: Timestamp,
        of: &OfProject,
        limit: usize,
    ) -> Result<(Vec<Staying>, Option<Seen>)> {
        let (table, longest) = (part.of("steps"), of.longest_rule());
        let from = now.minus_micros(longest * DAY).0;
        // All of it at one moment: a step that comes meanwhile shows later.
        let mut tx = self.connection.begin_with(SNAPSHOT).await?;
        // Nobody waits for it, and the index leaves most partitions unread.
        change(&mut tx, "SET LOCAL statement_timeout = '10min'".to_owned()).await?;
        let mut staying: Vec<Staying> = Vec::new();
        for only in [RECENT, OF_LONGER_TRACES] {
            let more: Vec<Staying> = sqlx::query_as(AssertSqlSafe(later(&table, only)))
                .bind(now.0)
                .bind(DAY)
                .bind(of.project_id)
                .bind(from)
                .bind(longest)
                .bind((limit - staying.len()) as i64)
                .fetch_all(&mut *tx)
                .await?;
            staying.extend(more);
            if staying.len() >= limit || staying.iter().any(|(_, due)| due.is_none()) {
                tx.commit().await?;
                return Ok((staying, None));
            }
        }
        // Last: it reads all that the longest rule could keep, which is everything for months where that rule is long.
        let count =
            format!("SELECT {SEEN} FROM {table} r WHERE r.project_id = $1 AND r.finished_at >= $2");
        let (steps, sum): (i64, i64) = sqlx::query_as(AssertSqlSafe(count))
            .bind(of.project_id)
            .bind(from)
            .fetch_one(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok((staying, Some(Seen { from, steps, sum })))
    }
}

/// The number of steps `r` and a sum of their ends, as SQL. An index has what it takes.
pub(super) const SEEN: &str =
    "count(*) AS steps, CAST(COALESCE(sum(r.finished_at % 1000000007), 0) AS BIGINT) AS sum";

/// The steps that the longest rule of their project could keep.
const RECENT: &str = "s.project_id = $3 AND s.finished_at >= $4 AND $5 > 0";
/// The others: those without a rule of their own, whose trace has lost a step by a longer rule.
const OF_LONGER_TRACES: &str = "
    s.project_id = $3 AND s.finished_at < $4
    AND NOT EXISTS (SELECT 1 FROM rules x WHERE x.project_id = s.project_id AND x.identifier = s.model)
    AND s.trace_id IN (
        SELECT t.id FROM traces t
        WHERE t.project_id = $3 AND t.purged_cost IS NOT NULL AND t.purged_days > $5)";

/// Finds steps of a partition that are not due, or of which nothing is known yet.
fn later(table: &str, only: &str) -> String {
    let aged = aged(&Source::of(table, "project_id = $3", only));
    format!(
        "{aged}
        SELECT id, finished_at + $2 * days + 1 FROM aged
        WHERE days IS NULL OR finished_at >= $1 - $2 * days
        LIMIT $6"
    )
}

/// The projects that have steps in a partition. An index leads to each of them and to its last step.
async fn of_projects(connection: &mut PgConnection, table: &str) -> sqlx::Result<Vec<OfProject>> {
    static REST: LazyLock<String> = LazyLock::new(|| {
        let rule = |which| {
            format!(
                "(SELECT {which}(m.data_retention_days) FROM models m WHERE m.project_id = o.project_id)"
            )
        };
        let until = |table| {
            format!(
                "COALESCE((SELECT u.until FROM {table} u WHERE u.project_id = o.project_id), 0)"
            )
        };
        format!(
            "SELECT o.project_id, o.newest, p.deleted_at IS NOT NULL AS is_deleted, {} AS least, {} AS longest,
                    {} AS grouped, {} AS spanned
            FROM own o
            LEFT JOIN projects p ON p.id = o.project_id",
            rule("min"),
            rule("max"),
            until("usage_grouped"),
            until("usage_spanned"),
        )
    });
    let query = format!("{} {}", newest(table), *REST);
    sqlx::query_as(AssertSqlSafe(query)).fetch_all(connection).await
}

/// The beginning of a statement in which `own` has the projects of a table, each with the end of its last step.
pub(super) fn newest(table: &str) -> String {
    format!(
        "
        WITH RECURSIVE found AS (
            (SELECT project_id FROM {table} ORDER BY project_id LIMIT 1)
            UNION ALL
            SELECT (
                SELECT s.project_id FROM {table} s
                WHERE s.project_id > found.project_id
                ORDER BY s.project_id LIMIT 1)
            FROM found
            WHERE found.project_id IS NOT NULL),
        own AS (
            SELECT f.project_id, n.newest
            FROM found f
            CROSS JOIN LATERAL (
                SELECT max(s.finished_at) AS newest FROM {table} s WHERE s.project_id = f.project_id) n
            WHERE n.newest IS NOT NULL)"
    )
}
