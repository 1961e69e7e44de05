//! The runner of a kind of job on this node.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::ids::ProjectId;
use domain::job::{Job, JobKind};
use futures_util::FutureExt as _;
use store::JobEnd;
use tokio::time::{Interval, MissedTickBehavior};

use crate::error::Result;
use crate::gateway::Gateway;
use crate::job_queue::job_handler::{JobHandler, JobOutcome};
use crate::job_queue::running::RunningJob;
use crate::lock::lock;

/// How often a runner looks for jobs that other nodes add: those of its own node wake it.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How often a runner looks for jobs of nodes that are gone. A liveness check takes up to half a second.
const LOST_INTERVAL: Duration = Duration::from_secs(5);
/// The most jobs of one project that a node runs at a time.
const AT_ONCE_OF_A_PROJECT: usize = 2;
/// Above this many starts, a job is taken to crash the nodes that run it (a poison job).
const MOST_RUNS: u64 = 20;
/// The pause before the end of a job is written again after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The time for which a finished job and its result are found; the interface promises an hour.
pub(super) const RESULT_RETENTION: Duration = Duration::from_hours(1);

const TOO_MANY_RUNS: &str = "The gateway has stopped too often while it ran this job";
const FAULT: &str = "Internal error";

/// The projects whose jobs run here, each as often as it has jobs.
type Projects = Arc<Mutex<Vec<ProjectId>>>;

/// Runs jobs of a kind until the gateway stops.
pub(crate) fn start<W: JobHandler>(gateway: &Gateway) {
    let gateway = gateway.clone();
    gateway.clone().tasks.spawn(async move {
        let running = Projects::default();
        let (mut polls, mut lost) = (ticks(POLL_INTERVAL), ticks(LOST_INTERVAL));
        loop {
            let done = tokio::select! {
                // A start finds the jobs of the node before it first.
                biased;
                () = gateway.winding_down.cancelled() => return,
                _ = lost.tick() => release_lost(&gateway).await,
                _ = polls.tick() => claim_and_spawn::<W>(&gateway, &running).await,
                () = gateway.job_wakes.woken(W::KIND) => claim_and_spawn::<W>(&gateway, &running).await,
            };
            if let Err(error) = done {
                let error = error.cause();
                tracing::warn!(kind = W::KIND.as_str(), error, "jobs were not looked for");
            }
        }
    });
}

fn ticks(period: Duration) -> Interval {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Requeues the jobs of nodes that are gone.
async fn release_lost(gateway: &Gateway) -> Result<()> {
    let released = gateway.store.release_lost_jobs(gateway.clock.now()).await?;
    if released > 0 {
        tracing::warn!(jobs = released, "jobs of a node that is gone wait again");
    }
    Ok(())
}

/// Claims waiting jobs while there is room for them, and runs each in a task of its own.
async fn claim_and_spawn<W: JobHandler>(gateway: &Gateway, running: &Projects) -> Result<()> {
    while !gateway.winding_down.is_cancelled() && lock(running).len() < W::AT_ONCE {
        let now = gateway.clock.now();
        let Some(job) = gateway.store.claim_job(W::KIND, &projects_at_limit(running), now).await?
        else {
            break;
        };
        lock(running).push(job.project);
        gauge(W::KIND, running);
        let (gateway, running) = (gateway.clone(), running.clone());
        gateway.clone().tasks.spawn(async move {
            let project = job.project;
            run::<W>(&gateway, job).await;
            remove_running(&running, project);
            gauge(W::KIND, &running);
            gateway.job_wakes.wake(W::KIND);
        });
    }
    let waiting = gateway.store.count_waiting_jobs(W::KIND).await?;
    metrics::gauge!("sluice_jobs_waiting", "kind" => W::KIND.as_str()).set(waiting as f64);
    Ok(())
}

/// The projects that have as many jobs here as they may have.
fn projects_at_limit(running: &Projects) -> Vec<ProjectId> {
    let running = lock(running);
    let count = |project| running.iter().filter(|other| **other == project).count();
    running.iter().copied().filter(|project| count(*project) >= AT_ONCE_OF_A_PROJECT).collect()
}

fn remove_running(running: &Projects, project: ProjectId) {
    let mut running = lock(running);
    if let Some(at) = running.iter().position(|other| *other == project) {
        running.swap_remove(at);
    }
}

fn gauge(kind: JobKind, running: &Projects) {
    let running = lock(running).len() as f64;
    metrics::gauge!("sluice_jobs_running", "kind" => kind.as_str()).set(running);
}

/// Runs a job, and writes its outcome.
async fn run<W: JobHandler>(gateway: &Gateway, job: Job) {
    let id = job.id;
    let job = RunningJob { gateway: gateway.clone(), job };
    let outcome = if job.job.runs > MOST_RUNS {
        JobOutcome::Failed { error: TOO_MANY_RUNS.to_owned(), result: None }
    } else {
        let outcome = AssertUnwindSafe(W::run(&job)).catch_unwind().await;
        outcome.unwrap_or_else(|_| JobOutcome::Failed { error: FAULT.to_owned(), result: None })
    };
    let (error, result, label) = match outcome {
        JobOutcome::Completed(result) => (None, Some(result), "completed"),
        JobOutcome::Failed { error, result } => {
            tracing::info!(job = %id, kind = W::KIND.as_str(), %error, "a job has failed");
            (Some(error), result, "failed")
        }
        JobOutcome::Interrupted => {
            if let Err(error) = gateway.store.release_job(&job.job).await {
                tracing::warn!(%error, job = %id, "a job was not given back");
            }
            return;
        }
    };
    if !write_end(&job, error, result).await {
        return;
    }
    if AssertUnwindSafe(W::export_spans(&job)).catch_unwind().await.is_err() {
        tracing::error!(job = %id, kind = W::KIND.as_str(), "the spans of a job met a fault");
    }
    metrics::counter!("sluice_jobs_finished_total",
        "kind" => W::KIND.as_str(), "outcome" => label)
    .increment(1);
}

/// Writes the end of a job. Returns whether this run ended it: the node may have lost the job, or stop.
async fn write_end(job: &RunningJob, error: Option<String>, result: Option<String>) -> bool {
    let RunningJob { gateway, job } = job;
    let mut may_be_written = false;
    // While the database is away the job is this node's; after a crash another one does the rest.
    loop {
        let now = gateway.clock.now();
        let end = JobEnd {
            error: error.clone(),
            result: result.clone(),
            at: now,
            expires_at: now.plus(RESULT_RETENTION),
        };
        let mut written = gateway.store.finish_job(job, end).await;
        if may_be_written && matches!(written, Ok(false)) {
            written = gateway.store.has_finished_job(job).await;
        }
        match written {
            Ok(is_ours) => return is_ours,
            Err(error) => {
                may_be_written = true;
                tracing::warn!(%error, job = %job.id, "the end of a job was not written");
                let pause =
                    gateway.stopping.run_until_cancelled(tokio::time::sleep(RETRY_INTERVAL));
                if pause.await.is_none() {
                    return matches!(gateway.store.has_finished_job(job).await, Ok(true));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use domain::ids::JobId;
    use domain::job::JobState;
    use serde_json::json;
    use store::NewJob;

    use super::*;
    use crate::testing::Fresh;

    /// How often the spans of a job were exported.
    static EXPORTS: AtomicUsize = AtomicUsize::new(0);

    struct Done;

    impl JobHandler for Done {
        const KIND: JobKind = JobKind::Replay;
        const AT_ONCE: usize = 1;

        async fn run(_: &RunningJob) -> JobOutcome {
            JobOutcome::Completed("{}".to_owned())
        }

        async fn export_spans(job: &RunningJob) {
            let (gateway, Job { id, project, .. }) = (&job.gateway, &job.job);
            let stored = gateway.store.job(*project, *id, gateway.clock.now()).await.unwrap();
            assert_eq!(stored.map(|job| job.state), Some(JobState::Completed));
            EXPORTS.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A job whose spans cannot be exported.
    struct Faulty;

    impl JobHandler for Faulty {
        const KIND: JobKind = JobKind::Replay;
        const AT_ONCE: usize = 1;

        async fn run(_: &RunningJob) -> JobOutcome {
            JobOutcome::Completed("{}".to_owned())
        }

        async fn export_spans(_: &RunningJob) {
            panic!("the exporter is broken");
        }
    }

    #[tokio::test]
    async fn a_fault_of_an_exporter_leaves_the_job_completed_and_its_runner_alive() {
        let fresh = Fresh::with(json!({})).await;
        let gateway = &fresh.gateway;
        gateway.wind_down();
        let job = queued(&fresh).await;
        run::<Faulty>(gateway, job.clone()).await;
        let stored = gateway.store.job(job.project, job.id, gateway.clock.now()).await.unwrap();
        assert_eq!(stored.map(|job| job.state), Some(JobState::Completed));
    }

    /// A job that is claimed for a test; the gateway's own runner has to be stopped.
    async fn queued(fresh: &Fresh) -> Job {
        let gateway = &fresh.gateway;
        let now = gateway.clock.now();
        let job = NewJob {
            id: JobId(uuid::Uuid::from_u128(1)),
            kind: JobKind::Replay,
            project: fresh.caller.project.id(),
            key: None,
            request: [0; 32],
            payload: "{}".to_owned(),
            created_at: now,
        };
        gateway.store.add_job(job, 1).await.unwrap();
        gateway.store.claim_job(JobKind::Replay, &[], now).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn spans_are_exported_by_the_node_that_ends_a_job_and_once_it_is_stored() {
        let fresh = Fresh::with(json!({})).await;
        let gateway = &fresh.gateway;
        // The gateway's own runner leaves the job alone.
        gateway.wind_down();
        let job = queued(&fresh).await;
        run::<Done>(gateway, job.clone()).await;
        assert_eq!(EXPORTS.load(Ordering::SeqCst), 1);
        // By now it is not this node's.
        run::<Done>(gateway, job).await;
        assert_eq!(EXPORTS.load(Ordering::SeqCst), 1);
    }
}
