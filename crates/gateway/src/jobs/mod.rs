//! Background work: each job runs now and then until the gateway stops, and running it twice is
//! harmless.

pub(crate) mod clock_steps;
mod registry_refresh;
mod spend_sync;
use std::time::Duration;

use domain::ids::KeyId;
use domain::time::{HOUR, Timestamp};
use domain::trace::TraceStatus;
use tokio::time::MissedTickBehavior;

use crate::control::sessions::{NETWORK_KNOWN, SESSION_ABSOLUTE, SESSION_IDLE, SESSION_REMEMBERED};
use crate::error::Result;
use crate::gateway::Gateway;
use crate::jobs::clock_steps::ClockSteps;
use crate::lock::lock;

/// The most traces that one sweep fails per project.
const SLICE: i64 = 500;

const JOBS: [Job; 5] = [Job::Registry, Job::Windows, Job::Spend, Job::Sweep, Job::Clock];

#[derive(Clone, Copy, Debug)]
enum Job {
    /// Notices what other processes have changed.
    Registry,
    /// Saves request windows, so that a restart forgets nothing, and reports the memory of bodies.
    Windows,
    /// Reads the spend of keys that other processes recorded.
    Spend,
    /// Settles lost calls, fails idle traces, purges rows past their retention, forgets old
    /// sessions, counts blocks, closes unused connections and conversations.
    Sweep,
    /// Notices steps of the clock.
    Clock,
}

impl Job {
    /// The time between two runs.
    fn period(self, other_nodes: bool) -> Duration {
        match self {
            Self::Registry => Duration::from_millis(500),
            Self::Windows | Self::Clock => Duration::from_secs(1),
            Self::Spend if other_nodes => Duration::from_secs(5),
            // If no other process spends, all spend is counted: lost calls were settled before the
            // start.
            Self::Spend | Self::Sweep => Duration::from_mins(1),
        }
    }
}

/// Starts every job. The first runs are at once.
pub(crate) fn start(gateway: &Gateway) {
    for job in JOBS {
        let period = job.period(gateway.store.may_have_other_nodes());
        let (gateway, stopping) = (gateway.clone(), gateway.stopping.clone());
        gateway.clone().tasks.spawn(async move {
            let mut ticks = tokio::time::interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut clock = ClockSteps::new(gateway.clock.now());
            loop {
                tokio::select! {
                    () = stopping.cancelled() => return,
                    _ = ticks.tick() => {}
                }
                match job {
                    Job::Registry => tell("registry", refresh(&gateway).await),
                    Job::Spend => tell("spend of keys", gateway.recount_hours().await),
                    Job::Windows => {
                        gateway.bodies.report();
                        save_windows(&gateway).await;
                    }
                    Job::Sweep => sweep(&gateway).await,
                    Job::Clock => tell("clock", clock.look(&gateway).await),
                }
            }
        });
    }
}

async fn refresh(gateway: &Gateway) -> Result<()> {
    if gateway.refresh().await? {
        gateway.recount_whole_hours().await?;
    }
    Ok(())
}

/// Logs a failure, once, here; the next run is not affected.
fn tell(what: &'static str, done: Result<()>) {
    if let Err(error) = done {
        tracing::warn!(what, error = error.cause(), "background work failed");
    }
}

/// Saves the windows that have changed, and when keys were last used.
pub(crate) async fn save_windows(gateway: &Gateway) {
    let changed: Vec<(KeyId, Vec<u8>, Timestamp)> = gateway
        .registry
        .keys()
        .iter()
        .filter_map(|state| {
            let (bytes, last_used) = lock(&state.windows).checkpoint()?;
            Some((state.key.id, bytes, last_used))
        })
        .collect();
    if changed.is_empty() {
        return;
    }
    if let Err(error) = gateway.store.save_windows(&changed, gateway.clock.now()).await {
        tracing::warn!(%error, "request windows were not saved");
    }
}

/// Each part fails alone: an error in one does not keep the others from their work.
async fn sweep(gateway: &Gateway) {
    let now = gateway.clock.now();
    gateway.upstream.close_unused();
    gateway.mcp.sweep();
    gateway.flush_perimeter_audit().await;
    tell("idle traces", fail_idle_traces(gateway, now).await);
    tell("lost calls", settle_lost_calls(gateway).await);
    tell("spend of projects", gateway.recount_months().await);
    tell("retention", purge_steps(gateway, now).await);
    tell("deleted projects", purge_deleted_projects(gateway).await);
    tell("sessions", purge_sessions(gateway, now).await);
}

async fn fail_idle_traces(gateway: &Gateway, now: Timestamp) -> Result<()> {
    for project in gateway.registry.projects() {
        let hours = project.settings.idle_hours.unwrap_or(gateway.config.idle_hours);
        let hours = i64::try_from(hours).unwrap_or(i64::MAX / HOUR);
        let idle_since = now.minus_micros(hours.saturating_mul(HOUR));
        loop {
            let failed = gateway.store.fail_idle_traces(project.id(), idle_since, SLICE).await?;
            for id in &failed {
                gateway.traces.set(*id, TraceStatus::Failed);
            }
            if failed.len() < SLICE as usize || gateway.stopping.is_cancelled() {
                break;
            }
        }
    }
    Ok(())
}

async fn settle_lost_calls(gateway: &Gateway) -> Result<()> {
    let lost = gateway.store.settle_lost_calls(&gateway.clock).await?;
    if lost > 0 {
        tracing::warn!(calls = lost, "calls of a node that is gone were recorded as failed");
    }
    Ok(())
}

async fn purge_steps(gateway: &Gateway, now: Timestamp) -> Result<()> {
    while gateway.store.purge_steps(now).await? > 0 && !gateway.stopping.is_cancelled() {}
    Ok(())
}

async fn purge_deleted_projects(gateway: &Gateway) -> Result<()> {
    while gateway.store.purge_deleted_projects().await? > 0 && !gateway.stopping.is_cancelled() {}
    Ok(())
}

async fn purge_sessions(gateway: &Gateway, now: Timestamp) -> Result<()> {
    // A client that returns with an old one gets the answer that it has expired.
    let ended = now.minus_micros(SESSION_REMEMBERED);
    let (created, seen) = (ended.minus_micros(SESSION_ABSOLUTE), ended.minus_micros(SESSION_IDLE));
    gateway.store.purge_sessions(created, seen).await?;
    Ok(gateway.store.purge_networks(now.minus_micros(NETWORK_KNOWN)).await?)
}
