//! The insights of all projects, computed anew each hour.

use std::time::Duration;

use domain::job::{JobKind, Progress};
use domain::project::ProjectStatus;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::job_queue::job_handler::{JobHandler, JobOutcome};
use crate::job_queue::running::RunningJob;
use crate::jobs::job::{Job, log_failure};
use crate::jobs::once_a_period;

/// The time between two computations.
const PERIOD: Duration = Duration::from_hours(1);

/// Queues a job for every project that takes requests, once an hour.
#[derive(Default)]
pub(super) struct Insights {
    /// The number of the hour whose jobs are queued.
    queued: Option<i64>,
}

impl Job for Insights {
    const NAME: &'static str = "insights";

    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_mins(1)
    }

    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        let hour = once_a_period::number(gateway, PERIOD);
        if self.queued == Some(hour) {
            return Ok(());
        }
        let mut are_queued = true;
        for project in gateway.registry.projects() {
            if project.project.status == ProjectStatus::Active {
                // A project that fails does not keep the others from theirs.
                let queued =
                    once_a_period::queue(gateway, JobKind::Insights, project.id(), hour).await;
                are_queued &= queued.is_ok();
                log_failure(Self::NAME, queued);
            }
        }
        if are_queued {
            self.queued = Some(hour);
        }
        Ok(())
    }
}

/// Applies the rules of insights to a project.
pub(super) struct ComputedInsights;

impl JobHandler for ComputedInsights {
    const KIND: JobKind = JobKind::Insights;
    const AT_ONCE: usize = 1;

    async fn run(job: &RunningJob) -> JobOutcome {
        JobOutcome::of(Self::KIND, Box::pin(compute(job)).await)
    }
}

async fn compute(job: &RunningJob) -> Result<Option<()>> {
    if !job.checkpoint(Progress { done: 0, total: 1 }).await? {
        return Ok(None);
    }
    let project = job.gateway.registry.project(job.job.project)?;
    // It may have been archived or deleted meanwhile.
    if let Some(project) = project.filter(|project| project.project.status == ProjectStatus::Active)
    {
        job.gateway.compute_insights(&project).await?;
    }
    job.checkpoint(Progress { done: 1, total: 1 }).await?;
    Ok(Some(()))
}

#[cfg(test)]
mod tests {
    use domain::time::{HOUR, Timestamp};
    use serde_json::json;
    use store::JobEnd;

    use super::*;
    use crate::testing::Fresh;

    /// Ends the jobs that wait, as a runner does. Returns how many there were.
    async fn end_all(gateway: &Gateway) -> usize {
        let now = gateway.clock.now();
        let mut ended = 0;
        while let Some(job) = gateway.store.claim_job(JobKind::Insights, &[], now).await.unwrap() {
            let expires_at = now.plus(PERIOD);
            let end = JobEnd { error: None, result: None, at: now, expires_at };
            assert!(gateway.store.finish_job(&job, end).await.unwrap());
            ended += 1;
        }
        ended
    }

    #[tokio::test]
    async fn nodes_and_restarts_share_the_job_of_an_hour() {
        let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        let fresh = Fresh::at(noon, json!({})).await;
        let gateway = &fresh.gateway;
        fresh.end_jobs().await;
        end_all(gateway).await;
        for hour in [1, 2] {
            gateway.clock.set(Timestamp(noon.0 + hour * HOUR));
            let mut first = Insights::default();
            first.run(gateway).await.unwrap();
            first.run(gateway).await.unwrap();
            let listed = gateway.newest_jobs(fresh.caller.project.id(), 50).await.unwrap();
            assert_eq!(listed, [], "nobody has asked for it");
            assert_eq!(end_all(gateway).await, 1);
            Insights::default().run(gateway).await.unwrap();
            assert_eq!(end_all(gateway).await, 0, "it is done");
        }
    }

    #[tokio::test]
    async fn the_insights_of_a_project_are_a_job() {
        let fresh = Fresh::with(json!({})).await;
        let gateway = &fresh.gateway;
        fresh.end_jobs().await;
        let now = gateway.clock.now();
        end_all(gateway).await;
        let project = fresh.caller.project.id();
        once_a_period::queue(gateway, JobKind::Insights, project, 0).await.unwrap();
        let job = gateway.store.claim_job(JobKind::Insights, &[], now).await.unwrap().unwrap();
        let job = RunningJob::new(gateway.clone(), job);
        // A gateway that winds down begins nothing.
        assert!(matches!(ComputedInsights::run(&job).await, JobOutcome::Interrupted));
    }
}
