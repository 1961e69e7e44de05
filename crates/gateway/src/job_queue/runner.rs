//! The runner of a kind of job on this node.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use domain::ids::{JobId, ProjectId};
use futures_util::FutureExt as _;
use store::JobEnd;
use tokio::time::{Interval, MissedTickBehavior};

use crate::error::Result;
use crate::gateway::Gateway;
use crate::job_queue::job_handler::{JobHandler, JobOutcome};
use crate::job_queue::running::RunningJob;

/// How often a runner looks for jobs that other nodes add: those of its own node wake it.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How often a runner looks for jobs of nodes that are gone. That one is takes two seconds to see.
const LOST_INTERVAL: Duration = Duration::from_secs(5);
/// The most jobs of one project that a node runs at a time.
const AT_ONCE_OF_A_PROJECT: usize = 2;
/// A job of which more runs than this ended with their node is taken to crash nodes (a poison job).
const MOST_LOSSES: u64 = 20;
/// The pause before the end of a job is written again after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The time for which a finished job and its result are found; the interface promises an hour.
pub(super) const RESULT_RETENTION: Duration = Duration::from_hours(1);

const TOO_MANY_LOSSES: &str = "The gateway has stopped too often while it ran this job";
const FAULT: &str = "Internal error";

/// Runs jobs of a kind until the gateway stops.
pub(crate) fn start<W: JobHandler>(gateway: &Gateway) {
    let gateway = gateway.clone();
    gateway.clone().tasks.spawn(async move {
        let (mut polls, mut lost) = (ticks(POLL_INTERVAL), ticks(LOST_INTERVAL));
        loop {
            let done = tokio::select! {
                // A start finds the jobs of the node before it first.
                biased;
                () = gateway.winding_down.cancelled() => return,
                _ = lost.tick() => release_lost::<W>(&gateway).await,
                _ = polls.tick() => claim_and_spawn::<W>(&gateway).await,
                () = gateway.job_wakes.woken(W::KIND) => claim_and_spawn::<W>(&gateway).await,
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

/// Requeues the jobs of nodes that are gone, and those of this node that no task of it runs.
async fn release_lost<W: JobHandler>(gateway: &Gateway) -> Result<()> {
    let released = gateway.store.release_lost_jobs(W::KIND, gateway.clock.now()).await?;
    if released > 0 {
        tracing::warn!(jobs = released, "jobs of a node that is gone wait again");
    }
    // Jobs are claimed by this task alone, so none of them begins to run meanwhile.
    let running: Vec<_> = gateway.running_jobs.of(W::KIND).into_iter().map(|(id, _)| id).collect();
    let released = gateway.store.release_stray_jobs(W::KIND, &running).await?;
    if released > 0 {
        tracing::warn!(jobs = released, "jobs that were claimed and did not run wait again");
    }
    Ok(())
}

/// Claims waiting jobs while there is room for them, and runs each in a task of its own.
async fn claim_and_spawn<W: JobHandler>(gateway: &Gateway) -> Result<()> {
    loop {
        let running = gateway.running_jobs.of(W::KIND);
        // A node that is about to stop leaves what waits to the others, and goes on with what it runs.
        let is_leaving = gateway.draining.is_cancelled() || gateway.winding_down.is_cancelled();
        if is_leaving || running.len() >= W::AT_ONCE {
            break;
        }
        let now = gateway.clock.now();
        let claimed = gateway.store.claim_job(W::KIND, &projects_at_limit(&running), now).await?;
        let Some(job) = claimed else { break };
        let job = RunningJob::new(gateway.clone(), job);
        let gateway = gateway.clone();
        gateway.clone().tasks.spawn(async move {
            run::<W>(&job).await;
            drop(job);
            gateway.job_wakes.wake(W::KIND);
        });
    }
    let waiting = gateway.store.count_waiting_jobs(W::KIND).await?;
    metrics::gauge!("sluice_jobs_waiting", "kind" => W::KIND.as_str()).set(waiting as f64);
    Ok(())
}

/// The projects that have as many jobs here as they may have.
fn projects_at_limit(running: &[(JobId, ProjectId)]) -> Vec<ProjectId> {
    let projects = running.iter().map(|(_, project)| *project);
    let count = |project| projects.clone().filter(|other| *other == project).count();
    projects.clone().filter(|project| count(*project) >= AT_ONCE_OF_A_PROJECT).collect()
}

/// Runs a job, and writes its outcome.
async fn run<W: JobHandler>(job: &RunningJob) {
    let (gateway, id) = (&job.gateway, job.job.id);
    let outcome = if job.job.losses > MOST_LOSSES {
        JobOutcome::Failed { error: TOO_MANY_LOSSES.to_owned(), result: None }
    } else {
        let outcome = AssertUnwindSafe(W::run(job)).catch_unwind().await;
        outcome.unwrap_or_else(|_| JobOutcome::Failed { error: FAULT.to_owned(), result: None })
    };
    let (error, result, label) = match outcome {
        JobOutcome::Completed(result) => (None, Some(result), "completed"),
        JobOutcome::Failed { error, result } => {
            let kind = W::KIND.as_str();
            if W::KIND.is_asked_for() {
                tracing::info!(job = %id, kind, %error, "a job has failed");
            } else {
                // Nobody looks at it.
                tracing::warn!(job = %id, kind, %error, "background work failed");
            }
            (Some(error), result, "failed")
        }
        JobOutcome::Interrupted => {
            if let Err(error) = gateway.store.release_job(&job.job).await {
                tracing::warn!(%error, job = %id, "a job was not given back");
            }
            return;
        }
    };
    if !write_end(job, error, result).await {
        return;
    }
    if AssertUnwindSafe(W::export_spans(job)).catch_unwind().await.is_err() {
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

    use domain::job::{Job, JobKind, JobState};
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
        let fresh = Fresh::idle(json!({})).await;
        let job = claimed(&fresh).await;
        run::<Faulty>(&job).await;
        assert_eq!(stored(&job).await.state, JobState::Completed);
    }

    #[tokio::test]
    async fn a_node_that_is_about_to_stop_claims_no_job() {
        let fresh = Fresh::idle(json!({})).await;
        queue(&fresh, 1).await;
        fresh.gateway.drain();
        claim_and_spawn::<Done>(&fresh.gateway).await.unwrap();
        assert_eq!(fresh.gateway.running_jobs.of(JobKind::Replay), []);
        assert!(claim(&fresh).await.is_some(), "it waits for another node");
    }

    /// A job that is claimed for a test; the gateway's own runner has to be stopped.
    async fn claimed(fresh: &Fresh) -> RunningJob {
        let gateway = &fresh.gateway;
        queue(fresh, 1).await;
        RunningJob::new(gateway.clone(), claim(fresh).await.unwrap())
    }

    async fn claim(fresh: &Fresh) -> Option<Job> {
        let gateway = &fresh.gateway;
        gateway.store.claim_job(JobKind::Replay, &[], gateway.clock.now()).await.unwrap()
    }

    async fn queue(fresh: &Fresh, number: u8) {
        let gateway = &fresh.gateway;
        let job = NewJob {
            id: JobId(uuid::Uuid::from_u128(number.into())),
            kind: JobKind::Replay,
            project: fresh.caller.project.id(),
            key: None,
            request: [number; 32],
            payload: "{}".to_owned(),
            created_at: gateway.clock.now(),
        };
        gateway.store.add_job(job, 1).await.unwrap();
    }

    async fn stored(job: &RunningJob) -> Job {
        let (gateway, Job { id, project, .. }) = (&job.gateway, &job.job);
        gateway.store.job(*project, *id, gateway.clock.now()).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_job_that_is_claimed_and_does_not_run_waits_again() {
        let fresh = Fresh::idle(json!({})).await;
        let gateway = &fresh.gateway;
        let job = claimed(&fresh).await;
        release_lost::<Done>(gateway).await.unwrap();
        assert_eq!(stored(&job).await.state, JobState::Running, "it runs");
        // As when the answer to the claim was lost.
        gateway.running_jobs.remove(&job.job);
        release_lost::<Done>(gateway).await.unwrap();
        assert_eq!(stored(&job).await.state, JobState::Queued);
        let again = claim(&fresh).await.unwrap();
        assert_eq!((again.id, again.runs, again.losses), (job.job.id, 2, 0));
    }

    #[tokio::test]
    async fn clean_stops_do_not_count_against_a_job_and_lost_runs_do() {
        let fresh = Fresh::idle(json!({})).await;
        let store = &fresh.gateway.store;
        let mut job = claimed(&fresh).await;
        for _ in 0..2 * MOST_LOSSES {
            store.release_job(&job.job).await.unwrap();
            job.job = claim(&fresh).await.unwrap();
        }
        assert_eq!((job.job.runs, job.job.losses), (2 * MOST_LOSSES + 1, 0));
        job.job.losses = MOST_LOSSES + 1;
        run::<Faulty>(&job).await;
        let found = stored(&job).await;
        let error = found.error.as_deref();
        assert_eq!((found.state, error), (JobState::Failed, Some(TOO_MANY_LOSSES)));

        queue(&fresh, 2).await;
        job.job = claim(&fresh).await.unwrap();
        job.job.losses = MOST_LOSSES;
        run::<Faulty>(&job).await;
        assert_eq!(stored(&job).await.state, JobState::Completed);
    }

    #[tokio::test]
    async fn spans_are_exported_by_the_node_that_ends_a_job_and_once_it_is_stored() {
        let fresh = Fresh::idle(json!({})).await;
        let job = claimed(&fresh).await;
        run::<Done>(&job).await;
        assert_eq!(EXPORTS.load(Ordering::SeqCst), 1);
        // By now it is not this node's.
        run::<Done>(&job).await;
        assert_eq!(EXPORTS.load(Ordering::SeqCst), 1);
    }
}
