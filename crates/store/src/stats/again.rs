//! The traces of a quarter that counted in an earlier one too.

use std::collections::BTreeMap;

use async_recursion::async_recursion as boxed;
use domain::ids::{ProjectId, TraceId};
use domain::time::{HOUR, MINUTE, Timestamp};
use uuid::Uuid;

use super::found::FindingCounts;
use super::spans::{QUARTER, quarter_of};
use crate::Store;
use crate::db::on;
use crate::error::Result;
use crate::from_row::from_row;
use crate::partitions::ungathered;

/// The longest time for which steps of a trace are taken to overlap, in microseconds.
const LONG_STEP: i64 = HOUR;

/// Traces of a quarter that counted in an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Again {
    /// Those that had a step or were opened in it.
    pub(super) traces: i64,
    /// Those that had the same finding in it.
    pub(super) findings: FindingCounts,
}

from_row! {
    /// A trace of a quarter that is older than it: its findings in the quarter, the last moments before it at which it
    /// had a step and each finding, and the end of the last step of a partition that is not gathered yet.
    struct Older {
        trace_id: Uuid,
        has_pii: i64,
        has_injection: i64,
        has_secret: i64,
        step: Option<i64>,
        found: Option<i64>,
        pii: Option<i64>,
        injection: Option<i64>,
        secret: Option<i64>,
        purged_pii: Option<bool>,
        purged_injection: Option<bool>,
        purged_secret: Option<bool>,
        ungathered: Option<i64>,
    }
}

impl Older {
    /// Counts it in the quarters in which it counted last. A finding of a deleted step has no time: the trace was
    /// opened before it.
    fn count(&self, quarters: &mut BTreeMap<i64, Again>) {
        let opened = TraceId(self.trace_id).opened_at().0;
        let purged =
            |has: i64, purged: Option<bool>| (has > 0 && purged == Some(true)).then_some(opened);
        let pii = purged(self.has_pii, self.purged_pii);
        let injection = purged(self.has_injection, self.purged_injection);
        let secret = purged(self.has_secret, self.purged_secret);
        let mut count = |at: Option<i64>, counter: fn(&mut Again) -> &mut i64| {
            if let Some(at) = at {
                let quarter = quarter_of(Timestamp(at).minute());
                *counter(quarters.entry(quarter).or_default()) += 1;
            }
        };
        count(self.step.max(Some(opened)), |again| &mut again.traces);
        count(self.found.or(pii).or(injection).or(secret), |again| &mut again.findings.found);
        count(self.pii.or(pii), |again| &mut again.findings.pii);
        count(self.injection.or(injection), |again| &mut again.findings.injection);
        count(self.secret.or(secret), |again| &mut again.findings.secret);
    }

    /// Whether it may have had a finding of the quarter in a step that has gone with its partition, and does not know yet.
    fn may_know_more(&self) -> bool {
        let opened = TraceId(self.trace_id).opened_at().0;
        let is_new = |has: i64, before: Option<i64>, purged: Option<bool>| {
            has > 0 && before.is_none() && purged != Some(true)
        };
        self.ungathered.is_some_and(|newest| newest >= opened)
            && (is_new(self.has_pii, self.pii, self.purged_pii)
                || is_new(self.has_injection, self.injection, self.purged_injection)
                || is_new(self.has_secret, self.secret, self.purged_secret))
    }
}

/// The last moment before $2 at which such a step of the trace ended, where the trace meets a condition. The index
/// leads to steps by their start: the last one that started has ended last, but for those of the hour before, from
/// $5 on, which may overlap.
macro_rules! last_before {
    ($of_trace:literal, $of_step:literal) => {
        concat!(
            "CASE WHEN ",
            $of_trace,
            " THEN COALESCE((
                SELECT max(steps.finished_at) FROM steps
                WHERE steps.trace_id = ended.trace_id AND steps.started_at >= $5 AND steps.started_at < $2
                    AND steps.finished_at < $2 AND ",
            $of_step,
            "), (
                SELECT steps.finished_at FROM steps
                WHERE steps.trace_id = ended.trace_id AND steps.started_at < $5 AND steps.finished_at < $2
                    AND ",
            $of_step,
            "
                ORDER BY steps.started_at DESC LIMIT 1)) END"
        )
    };
}

impl Store {
    /// The traces of a quarter that counted in an earlier one, by the last one in which they did; and whether one may show
    /// only later that it did.
    #[boxed]
    pub(super) async fn traces_again(
        &self,
        project: ProjectId,
        quarter: i64,
    ) -> Result<(BTreeMap<i64, Again>, bool)> {
        // A trace that was opened in the quarter did not count before. No partition is detached between the looks for
        // steps, for what traces keep and for what is not gathered, because they are one statement.
        const OLDER: &str = concat!(
            "SELECT trace_id, has_pii, has_injection, has_secret, ",
            last_before!("TRUE", "TRUE"),
            " AS step, ",
            last_before!(
                "has_pii + has_injection + has_secret > 0",
                "(steps.pii OR steps.injection OR steps.secret)"
            ),
            " AS found, ",
            last_before!("has_pii = 1", "steps.pii"),
            " AS pii, ",
            last_before!("has_injection = 1", "steps.injection"),
            " AS injection, ",
            last_before!("has_secret = 1", "steps.secret"),
            " AS secret,
                   (SELECT purged_pii FROM traces WHERE traces.id = ended.trace_id) AS purged_pii,
                   (SELECT purged_injection FROM traces WHERE traces.id = ended.trace_id) AS purged_injection,
                   (SELECT purged_secret FROM traces WHERE traces.id = ended.trace_id) AS purged_secret,
                   (SELECT max(newest) FROM ",
            ungathered!(),
            ") AS ungathered
             FROM (
                SELECT trace_id,
                       CAST(max(CASE WHEN pii THEN 1 ELSE 0 END) AS BIGINT) AS has_pii,
                       CAST(max(CASE WHEN injection THEN 1 ELSE 0 END) AS BIGINT) AS has_injection,
                       CAST(max(CASE WHEN secret THEN 1 ELSE 0 END) AS BIGINT) AS has_secret
                FROM steps
                WHERE project_id = $1 AND finished_at >= $2 AND finished_at < $3 AND trace_id < $4
                GROUP BY trace_id) AS ended"
        );
        let [from, to] = [quarter, quarter + QUARTER].map(|minute| Timestamp(minute * MINUTE));
        let rows: Vec<Older> = on!(&self.reader, db => {
            sqlx::query_as(OLDER)
                .bind(project.0)
                .bind(from.0)
                .bind(to.0)
                .bind(TraceId::first_at(from).0)
                .bind(from.minus_micros(LONG_STEP).0)
                .fetch_all(db).await?
        });
        let mut quarters = BTreeMap::new();
        for row in &rows {
            row.count(&mut quarters);
        }
        Ok((quarters, rows.iter().any(Older::may_know_more)))
    }
}
