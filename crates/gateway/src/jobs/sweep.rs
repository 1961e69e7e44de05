//! The end of what nobody needs or minds any more.

use std::time::Duration;

use domain::time::{HOUR, Timestamp};
use domain::trace::TraceStatus;

use crate::control::sessions::{
    FACTOR_AWAITED, NETWORK_KNOWN, SESSION_ABSOLUTE, SESSION_IDLE, SESSION_REMEMBERED,
};
use crate::error::Result;
use crate::evidence::reviews::ADVICE_WINDOW;
use crate::gateway::Gateway;
use crate::idempotency::ANSWERS_KEPT;
use crate::jobs::job::{Job, log_failure};

/// The most traces that one statement fails.
const TRACES_AT_ONCE: i64 = 500;

/// Fails idle traces, settles lost claims, purges deleted projects, forgets old sessions, jobs, verdicts and
/// answers, writes the perimeter's counts, and closes unused connections and conversations.
pub(super) struct Sweep;

impl Job for Sweep {
    const NAME: &'static str = "sweep";

    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_mins(1)
    }

    /// Each part fails alone: an error in one does not keep the others from their work.
    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        let now = gateway.clock.now();
        gateway.upstream.close_unused();
        gateway.mcp.sweep();
        gateway.traces.sweep();
        gateway.flush_perimeter_audit().await;
        log_failure("idle traces", fail_idle_traces(gateway, now).await);
        log_failure("claims of requests", sweep_claims(gateway, now).await);
        log_failure("spend of projects", gateway.recount_months().await);
        log_failure("deleted projects", purge_deleted_projects(gateway).await);
        log_failure("sessions", purge_sessions(gateway, now).await);
        log_failure("jobs of requests", purge_jobs(gateway, now).await);
        log_failure("verdicts on findings", purge_reviews(gateway, now).await);
        Ok(())
    }
}

async fn fail_idle_traces(gateway: &Gateway, now: Timestamp) -> Result<()> {
    for project in gateway.registry.projects() {
        let hours = project.settings.idle_hours.unwrap_or(gateway.config.idle_hours);
        let hours = i64::try_from(hours).unwrap_or(i64::MAX / HOUR);
        let idle_since = now.minus_micros(hours.saturating_mul(HOUR));
        loop {
            let failed =
                gateway.store.fail_idle_traces(project.id(), idle_since, TRACES_AT_ONCE).await?;
            for id in &failed {
                gateway.traces.set(*id, TraceStatus::Failed);
            }
            if failed.len() < TRACES_AT_ONCE as usize || gateway.stopping.is_cancelled() {
                break;
            }
        }
    }
    Ok(())
}

async fn sweep_claims(gateway: &Gateway, now: Timestamp) -> Result<()> {
    gateway.settle_stray_claims().await?;
    gateway.store.settle_lost_claims().await?;
    let expired = now.minus_micros(ANSWERS_KEPT);
    while gateway.store.purge_claims_of_requests(expired).await? > 0
        && !gateway.stopping.is_cancelled()
    {}
    Ok(())
}

async fn purge_deleted_projects(gateway: &Gateway) -> Result<()> {
    while gateway.store.purge_deleted_projects().await? > 0 && !gateway.stopping.is_cancelled() {}
    Ok(())
}

async fn purge_jobs(gateway: &Gateway, now: Timestamp) -> Result<()> {
    gateway.store.purge_jobs(now).await?;
    while gateway.store.purge_export_pieces().await? > 0 && !gateway.stopping.is_cancelled() {}
    Ok(())
}

async fn purge_reviews(gateway: &Gateway, now: Timestamp) -> Result<()> {
    Ok(gateway.store.purge_reviews(now.minus_micros(ADVICE_WINDOW)).await?)
}

async fn purge_sessions(gateway: &Gateway, now: Timestamp) -> Result<()> {
    // A client that returns with an old one gets the answer that it has expired.
    let ended = now.minus_micros(SESSION_REMEMBERED);
    let (created, seen) = (ended.minus_micros(SESSION_ABSOLUTE), ended.minus_micros(SESSION_IDLE));
    let awaited = now.minus_micros(FACTOR_AWAITED);
    gateway.store.purge_sessions(created, seen, awaited).await?;
    gateway.store.purge_links(now).await?;
    Ok(gateway.store.purge_networks(now.minus_micros(NETWORK_KNOWN)).await?)
}
