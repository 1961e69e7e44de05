//! How long each step is kept, as one text of SQL: for steps that are deleted one at a time, and for those that go with
//! their partition.

use crate::partitions::ungathered;

/// Days that steps are kept if no rule sets a retention.
pub(crate) const DEFAULT_DAYS: i64 = 30;

/// The steps that are looked at, as SQL.
pub(crate) struct Source<'a> {
    /// Tables that the statement begins with, for the ones below; with a comma after each.
    pub(crate) with: &'a str,
    /// The table of their parents.
    pub(crate) parents: &'a str,
    /// The table of all steps of their traces.
    pub(crate) others: &'a str,
    /// Their own table.
    pub(crate) of: &'a str,
    /// A condition on `models`.
    pub(crate) models: &'a str,
    /// A condition on the steps, which are `s`; the rules of identifiers are `rules`.
    pub(crate) only: &'a str,
    /// Whether their traces have what they keep of all steps that are gone.
    pub(crate) is_settled: &'a str,
}

/// Whether nothing is left to gather of partitions that are dropped: meanwhile the longest rule of a trace may be that of
/// a step which is neither there nor in what the trace keeps.
const NOTHING_TO_GATHER: &str = concat!("NOT EXISTS (SELECT 1 FROM ", ungathered!(), ")");

impl<'a> Source<'a> {
    /// Those of a table whose parents and traces are in `steps`.
    pub(crate) fn of(table: &'a str, models: &'a str, only: &'a str) -> Self {
        let is_settled = NOTHING_TO_GATHER;
        Self { with: "", parents: "steps", others: "steps", of: table, models, only, is_settled }
    }
}

/// The beginning of a statement in which `aged` has the steps of a source, each with the `days` that it is kept: those
/// of its model, else of its parent's model, else the longest of its trace, else 30. A step without a model whose
/// parent is gone is kept for no day. Nothing is known of one that its trace decides on, and the days are `NULL`, until its
/// trace has what it keeps.
///
/// An identifier has the rule of its current model, else of the last model with that identifier.
pub(crate) fn aged(source: &Source<'_>) -> String {
    let Source { with, parents, others, of, models, only, is_settled } = source;
    format!(
        "
        WITH {with} named AS (
            SELECT project_id, identifier, data_retention_days AS days,
                   row_number() OVER (
                       PARTITION BY project_id, identifier
                       ORDER BY CASE WHEN deleted_at IS NULL THEN 0 ELSE 1 END, deleted_at DESC, id DESC
                   ) AS place
            FROM models
            WHERE {models}),
        rules AS (SELECT project_id, identifier, days FROM named WHERE place = 1),
        aged AS (
            SELECT s.id, s.trace_id, s.finished_at, s.cost, s.pii, s.injection, s.secret,
                   COALESCE(
                       r.days,
                       CASE
                           WHEN s.model IS NULL AND s.parent_step_id IS NOT NULL AND p.id IS NULL
                           THEN 0
                       END,
                       CASE WHEN {is_settled} THEN COALESCE(
                           (SELECT max(known.days)
                            FROM (
                                SELECT x.days
                                FROM {others} o
                                JOIN rules x ON x.project_id = s.project_id AND x.identifier = o.model
                                WHERE o.trace_id = s.trace_id
                                UNION ALL
                                SELECT t.purged_days
                                FROM traces t
                                WHERE t.id = s.trace_id AND t.purged_days > 0) AS known),
                           {DEFAULT_DAYS})
                       END) AS days
            FROM {of} s
            LEFT JOIN {parents} p ON p.id = CASE WHEN s.model IS NULL THEN s.parent_step_id END
            LEFT JOIN rules r ON r.project_id = s.project_id AND r.identifier = COALESCE(s.model, p.model)
            WHERE {only})"
    )
}
