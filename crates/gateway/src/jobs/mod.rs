//! Background work: each job runs now and then until the gateway stops, and running it twice is
//! harmless. A file is a job: its name, its schedule and its run.

mod clock_steps;
pub(crate) mod key_windows;
mod registry_refresh;
mod spend_sync;
mod sweep;

use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::jobs::clock_steps::ClockSteps;
use crate::jobs::key_windows::KeyWindows;
use crate::jobs::registry_refresh::RegistryRefresh;
use crate::jobs::spend_sync::SpendSync;
use crate::jobs::sweep::Sweep;

/// Work that runs now and then.
trait Job: Send + 'static {
    /// Its name in logs.
    const NAME: &'static str;

    /// The time between two runs.
    fn period(&self, gateway: &Gateway) -> Duration;

    /// Runs once. A failure is logged, and the next run is not affected.
    fn run(&mut self, gateway: &Gateway) -> impl Future<Output = Result<()>> + Send;
}

/// Starts every job. The first runs are at once.
pub(crate) fn start(gateway: &Gateway) {
    spawn(gateway, RegistryRefresh);
    spawn(gateway, KeyWindows);
    spawn(gateway, SpendSync);
    spawn(gateway, Sweep);
    spawn(gateway, ClockSteps::new(gateway.clock.now()));
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

/// Logs the failure of a job, or of a part of one.
pub(crate) fn log_failure(name: &'static str, done: Result<()>) {
    if let Err(error) = done {
        tracing::warn!(what = name, error = error.cause(), "background work failed");
    }
}
