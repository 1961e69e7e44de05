//! Sums the ledger, the findings and the revenue of a quarter of an hour when it is over, and those of a day when
//! its quarters are.

use std::collections::{BTreeMap, BTreeSet};

use async_recursion::async_recursion as boxed;
use domain::ids::{ProjectId, TraceId};
use domain::sketch::Sketch;
use domain::time::{MINUTE, Timestamp};
use sqlx::FromRow as _;
use uuid::Uuid;

use super::again::Again;
use super::found::FindingCounts;
use super::spans::{DAY, QUARTER, merged, quarter_of};
use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::Result;
use crate::from_row::from_row;

/// A quarter is summed so many minutes after its end: by then all its usage is on disk.
pub(super) const GRACE: i64 = 5;
/// The minutes before the present that are summed again with those of the future, after the clock was ahead: they
/// had no usage when they were passed.
const PASSED: i64 = 60;
/// The minutes from the beginning of a quarter on for which its sum waits at most, and those of later ones with it, for
/// what traces keep of a partition that is dropped. That takes minutes, and what fails is tried again every hour.
const MOST_WAITED: i64 = 180;

from_row! {
    /// A row of the ledger, or the usage of a span.
    #[derive(Clone, Debug, Default)]
    struct Row {
        requests: i64,
        blocked: i64,
        failures: i64,
        prompt_tokens: i64,
        completion_tokens: i64,
        cost: i64,
        latency_sum: i64,
        latency_sketch: Vec<u8>,
    }
}

from_row! {
    /// The traces of a span, and their revenue.
    #[derive(Clone, Copy, Debug, Default)]
    struct Beside {
        /// Traces that were opened in it or have steps in it.
        traces: i64,
        /// Those with any finding, with personal data, an injection, a secret.
        found: i64,
        pii: i64,
        injection: i64,
        secret: i64,
        /// The revenue of the traces that were opened in it, in nano-dollars.
        revenue: i64,
    }
}

impl Beside {
    fn plus(self, more: Self) -> Self {
        Self {
            traces: self.traces.saturating_add(more.traces),
            found: self.found.saturating_add(more.found),
            pii: self.pii.saturating_add(more.pii),
            injection: self.injection.saturating_add(more.injection),
            secret: self.secret.saturating_add(more.secret),
            revenue: self.revenue.saturating_add(more.revenue),
        }
    }
}

/// The sums of a quarter.
struct Quarter {
    start: i64,
    usage: Row,
    beside: Beside,
    /// The traces that counted in an earlier one, by the last one in which they did.
    again: BTreeMap<i64, Again>,
}

impl Store {
    /// Sums the next quarter of an hour of a project that is over and has usage, steps or traces. False if there
    /// is none: then all that is over has sums, unless the next one waits, for three hours at most, for what traces keep of
    /// a partition that is dropped.
    #[boxed]
    pub async fn sum_next_quarter(&self, project: ProjectId, now: Timestamp) -> Result<bool> {
        let known = self.spanned_until(project).await?;
        let over = quarter_of(now.minute() - GRACE);
        // The clock was ahead when they were made, and usage of theirs was still to come; or it is behind, and they
        // are made again when it is right: then findings of deleted steps count when their trace was opened.
        if known.is_some_and(|until| until > over) {
            self.take_back_spans(project, over - PASSED).await?;
            return Ok(true);
        }
        let since = known.unwrap_or(0);
        let next = self.next_used_minute(project, since).await?.map(quarter_of);
        let Some(start) = next.filter(|&quarter| quarter < over) else {
            // The day of the last quarter may be over all the same.
            let reach = over.min(since + (-since).rem_euclid(DAY));
            if known.is_some_and(|until| until < reach) {
                self.finish_spans(project, known, reach, None).await?;
            }
            return Ok(false);
        };
        // First: a quarter that waits is looked at every minute, by every node.
        let (again, is_unsure) = self.traces_again(project, start).await?;
        // A sum that is written stays. A partition that cannot be gathered keeps no sums waiting for longer.
        if is_unsure && now.minute() - start < MOST_WAITED {
            return Ok(false);
        }
        let quarter = self.quarter(project, start, again).await?;
        self.finish_spans(project, known, start + QUARTER, Some(quarter)).await?;
        Ok(true)
    }

    /// The first minute with usage, with a step or with a trace, from one on.
    async fn next_used_minute(&self, project: ProjectId, since: i64) -> Result<Option<i64>> {
        const USED: &str =
            "SELECT min(minute) FROM usage_ledger WHERE project_id = $1 AND minute >= $2";
        const DONE: &str =
            "SELECT min(finished_at) FROM steps WHERE project_id = $1 AND finished_at >= $2";
        const OPENED: &str =
            "SELECT id FROM traces WHERE project_id = $1 AND id >= $2 ORDER BY id LIMIT 1";
        let from = Timestamp(since * MINUTE);
        let (used, done): (Option<i64>, Option<i64>) = on!(&self.reader, db => (
            sqlx::query_scalar(USED).bind(project.0).bind(since).fetch_one(db).await?,
            sqlx::query_scalar(DONE).bind(project.0).bind(from.0).fetch_one(db).await?,
        ));
        let opened: Option<Uuid> = on!(&self.reader, db => {
            sqlx::query_scalar(OPENED)
                .bind(project.0)
                .bind(TraceId::first_at(from).0)
                .fetch_optional(db).await?
        });
        let done = done.map(|at| Timestamp(at).minute());
        let opened = opened.map(|id| TraceId(id).opened_at().minute());
        Ok([used, done, opened].into_iter().flatten().min())
    }

    /// Sums a quarter whose traces that counted in an earlier one are known.
    async fn quarter(
        &self,
        project: ProjectId,
        start: i64,
        again: BTreeMap<i64, Again>,
    ) -> Result<Quarter> {
        let [from, to] = [start, start + QUARTER].map(|minute| Timestamp(minute * MINUTE));
        let usage = self.ledger_sum(project, start, start + QUARTER).await?;
        let traces = self.traces_of_steps(project, from, to).await?;
        let FindingCounts { found, pii, injection, secret } =
            self.findings_of_steps(project, from, to).await?;
        let revenue = self.revenue(project, from, to).await?.0;
        let beside = Beside { traces, found, pii, injection, secret, revenue };
        Ok(Quarter { start, usage, beside, again })
    }

    async fn ledger_sum(&self, project: ProjectId, from: i64, to: i64) -> Result<Row> {
        const ROWS: &str = "
            SELECT requests, blocked, failures, prompt_tokens, completion_tokens, cost, latency_sum, latency_sketch
            FROM usage_ledger
            WHERE project_id = $1 AND minute >= $2 AND minute < $3";
        let rows: Vec<Row> = on!(&self.reader, db => {
            sqlx::query_as(ROWS).bind(project.0).bind(from).bind(to).fetch_all(db).await?
        });
        sum(&rows)
    }

    /// Writes the sum of a quarter, those of the days that are over with it, and that the ledger has sums up to
    /// here. Nothing if it no longer has sums up to `known`: another node was quicker, or has taken some back.
    async fn finish_spans(
        &self,
        project: ProjectId,
        known: Option<i64>,
        until: i64,
        quarter: Option<Quarter>,
    ) -> Result<()> {
        const QUARTERS: &str = "
            SELECT requests, blocked, failures, prompt_tokens, completion_tokens, cost, latency_sum, latency_sketch,
                   traces, found, pii, injection, secret, revenue
            FROM usage_spans
            WHERE project_id = $1 AND span = 15 AND start >= $2 AND start < $3";
        const BEGIN: &str = "
            INSERT INTO usage_spanned (project_id, until) VALUES ($1, $2)
            ON CONFLICT (project_id) DO NOTHING";
        const REACH: &str =
            "UPDATE usage_spanned SET until = $2 WHERE project_id = $1 AND until = $3";
        let mut tx = self.begin().await?;
        let reached = within!(tx, db => match known {
            None => sqlx::query(BEGIN).bind(project.0).bind(until).execute(&mut *db).await?.rows_affected(),
            Some(known) => {
                let query = sqlx::query(REACH).bind(project.0).bind(until).bind(known);
                query.execute(&mut *db).await?.rows_affected()
            }
        });
        if reached == 0 {
            return Ok(());
        }
        if let Some(Quarter { start, usage, beside, again }) = quarter {
            add_span(&mut tx, project, (QUARTER, start), usage, beside).await?;
            add_again(&mut tx, project, start, again).await?;
        }
        // Only the days of the first and of the last quarter can have usage: no quarter between them has.
        let day_of = |minute: i64| minute - minute.rem_euclid(DAY);
        for day in BTreeSet::from([day_of(known.unwrap_or(0)), day_of(until - 1)]) {
            if day + DAY <= until {
                let quarters: Vec<(Row, Beside)> = within!(tx, db => {
                    let rows = sqlx::query(QUARTERS)
                        .bind(project.0)
                        .bind(day)
                        .bind(day + DAY)
                        .fetch_all(&mut *db)
                        .await?;
                    let read = |row| Ok((Row::from_row(row)?, Beside::from_row(row)?));
                    rows.iter().map(read).collect::<sqlx::Result<_>>()?
                });
                let (usage, beside): (Vec<_>, Vec<_>) = quarters.into_iter().unzip();
                if !usage.is_empty() {
                    let beside = beside.into_iter().fold(Beside::default(), Beside::plus);
                    add_span(&mut tx, project, (DAY, day), sum(&usage)?, beside).await?;
                }
            }
        }
        tx.commit().await
    }

    /// Takes back the sums from a minute on.
    async fn take_back_spans(&self, project: ProjectId, from: i64) -> Result<()> {
        const FORGET: &str = "DELETE FROM usage_spans WHERE project_id = $1 AND start + span > $2";
        const FORGET_AGAIN: &str = "DELETE FROM traces_again WHERE project_id = $1 AND start >= $2";
        const UNTIL: &str = "UPDATE usage_spanned SET until = $2 WHERE project_id = $1";
        let mut tx = self.begin().await?;
        within!(tx, db => {
            for sql in [FORGET, FORGET_AGAIN, UNTIL] {
                sqlx::query(sql).bind(project.0).bind(from).execute(&mut *db).await?;
            }
        });
        tx.commit().await
    }
}

async fn add_span(
    tx: &mut Tx,
    project: ProjectId,
    (span, start): (i64, i64),
    row: Row,
    beside: Beside,
) -> Result<()> {
    const ADD: &str = "
        INSERT INTO usage_spans (project_id, span, start, requests, blocked, failures, prompt_tokens,
            completion_tokens, cost, latency_sum, latency_sketch, traces, found, pii, injection,
            secret, revenue)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
        ON CONFLICT (project_id, span, start) DO NOTHING";
    within!(tx, db => {
        sqlx::query(ADD)
            .bind(project.0)
            .bind(span)
            .bind(start)
            .bind(row.requests)
            .bind(row.blocked)
            .bind(row.failures)
            .bind(row.prompt_tokens)
            .bind(row.completion_tokens)
            .bind(row.cost)
            .bind(row.latency_sum)
            .bind(row.latency_sketch)
            .bind(beside.traces)
            .bind(beside.found)
            .bind(beside.pii)
            .bind(beside.injection)
            .bind(beside.secret)
            .bind(beside.revenue)
            .execute(&mut *db)
            .await?;
    });
    Ok(())
}

/// Adds the traces of a quarter that counted in an earlier one.
async fn add_again(
    tx: &mut Tx,
    project: ProjectId,
    start: i64,
    again: BTreeMap<i64, Again>,
) -> Result<()> {
    const ADD: &str = "
        INSERT INTO traces_again (project_id, start, before, traces, found, pii, injection, secret)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (project_id, start, before) DO NOTHING";
    for (before, Again { traces, findings }) in again {
        within!(tx, db => {
            sqlx::query(ADD)
                .bind(project.0)
                .bind(start)
                .bind(before)
                .bind(traces)
                .bind(findings.found)
                .bind(findings.pii)
                .bind(findings.injection)
                .bind(findings.secret)
                .execute(&mut *db)
                .await?;
        });
    }
    Ok(())
}

/// The sum of rows.
fn sum(rows: &[Row]) -> Result<Row> {
    let mut sum = Row::default();
    for row in rows {
        for (sum, more) in [
            (&mut sum.requests, row.requests),
            (&mut sum.blocked, row.blocked),
            (&mut sum.failures, row.failures),
            (&mut sum.prompt_tokens, row.prompt_tokens),
            (&mut sum.completion_tokens, row.completion_tokens),
            (&mut sum.cost, row.cost),
            (&mut sum.latency_sum, row.latency_sum),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
    let readable = rows.iter().map(|row| &*row.latency_sketch).filter(|sketch| {
        let is_readable = Sketch::from_bytes(sketch).is_some();
        if !is_readable {
            tracing::warn!("a latency sketch of the ledger is unreadable: its latencies are left out of the sums");
        }
        is_readable
    });
    sum.latency_sketch = merged(readable)?.to_bytes();
    Ok(sum)
}
