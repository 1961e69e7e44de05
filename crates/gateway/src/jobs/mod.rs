//! Background work: each job runs now and then until the gateway stops, and running it twice is
//! harmless. Each file but `job.rs` holds one job: its name, its schedule and its run.

mod clock_steps;
pub(crate) mod fleet;
mod gone_nodes;
mod group_usage;
mod insights;
pub(crate) mod job;
pub(crate) mod key_windows;
pub(crate) mod letters;
mod lost_calls;
mod once_a_period;
mod partitions;
mod registry_refresh;
mod retention;
mod session_traces;
mod spend_sync;
mod sweep;
pub(crate) mod telemetry_export;

use tokio::time::MissedTickBehavior;

use crate::backtest::run::Backtests;
use crate::export::run::Exports;
use crate::gateway::Gateway;
use crate::job_queue::runner;
use crate::jobs::clock_steps::ClockSteps;
use crate::jobs::fleet::Debts;
use crate::jobs::gone_nodes::GoneNodes;
use crate::jobs::group_usage::GroupUsage;
use crate::jobs::insights::{ComputedInsights, Insights};
use crate::jobs::job::{Job, log_failure};
use crate::jobs::key_windows::KeyWindows;
use crate::jobs::lost_calls::LostCalls;
use crate::jobs::partitions::Partitions;
use crate::jobs::registry_refresh::RegistryRefresh;
use crate::jobs::retention::Retention;
use crate::jobs::session_traces::{SessionActivity, SessionTraces};
use crate::jobs::spend_sync::SpendSync;
use crate::jobs::sweep::Sweep;
use crate::replay::run::Replays;

/// Starts every job, each of which runs once immediately, and the runners of the job queue.
pub(crate) fn start(gateway: &Gateway) {
    spawn(gateway, RegistryRefresh);
    spawn(gateway, KeyWindows);
    spawn(gateway, SpendSync);
    spawn(gateway, Sweep);
    spawn(gateway, Partitions::default());
    spawn(gateway, LostCalls);
    spawn(gateway, SessionActivity);
    spawn(gateway, SessionTraces);
    spawn(gateway, Insights::default());
    spawn(gateway, GroupUsage::default());
    spawn(gateway, ClockSteps::new(gateway.clock.now()));
    if gateway.fleet.is_some() {
        spawn(gateway, Debts);
        spawn(gateway, GoneNodes);
        fleet::start(gateway);
        gone_nodes::start(gateway);
    }
    runner::start::<Replays>(gateway);
    runner::start::<Backtests>(gateway);
    runner::start::<Exports>(gateway);
    runner::start::<ComputedInsights>(gateway);
    runner::start::<Retention>(gateway);
}

fn spawn<J: Job>(gateway: &Gateway, mut job: J) {
    let mut ticks = tokio::time::interval(job.period(gateway));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (gateway, stopping) = (gateway.clone(), gateway.stopping.clone());
    gateway.clone().tasks.spawn(async move {
        while stopping.run_until_cancelled(ticks.tick()).await.is_some() {
            log_failure(J::NAME, job.run(&gateway).await);
        }
    });
}
