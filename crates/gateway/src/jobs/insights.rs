//! The insights of all projects, computed anew each hour.

use std::collections::HashMap;
use std::time::Duration;

use domain::ids::ProjectId;
use domain::job::{JobKind, Progress};
use domain::project::ProjectStatus;
use tokio::sync::SemaphorePermit;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::job_queue::job_handler::{JobHandler, JobOutcome};
use crate::job_queue::running::RunningJob;
use crate::jobs::job::{Job, log_failure};
use crate::jobs::once_a_period;

/// The time between two computations.
const PERIOD: Duration = Duration::from_hours(1);

/// Queues a job for every project that takes requests, once in each hour of the project.
#[derive(Default)]
pub(super) struct Insights {
    /// The number of the hour whose job is queued, by project.
    queued: HashMap<ProjectId, i64>,
}

impl Job for Insights {
    const NAME: &'static str = "insights";

    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_mins(1)
    }

    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        // Those of projects that are gone are not kept.
        let before = std::mem::take(&mut self.queued);
        for project in gateway.registry.projects() {
            let id = project.id();
            if project.project.status != ProjectStatus::Active {
                continue;
            }
            let hour = once_a_period::number_of_project(gateway, PERIOD, id);
            if before.get(&id) != Some(&hour) {
                let queued = once_a_period::queue(gateway, JobKind::Insights, id, hour).await;
                if queued.is_err() {
                    // A project that fails does not keep the others from theirs.
                    log_failure(Self::NAME, queued);
                    continue;
                }
            }
            self.queued.insert(id, hour);
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
    let Some(turn) = turn(&job.gateway).await else { return Ok(None) };
    let project = job.gateway.registry.project(job.job.project)?;
    // It may have been archived or deleted meanwhile.
    if let Some(project) = project.filter(|project| project.project.status == ProjectStatus::Active)
    {
        job.gateway.compute_insights(&project).await?;
    }
    drop(turn);
    job.checkpoint(Progress { done: 1, total: 1 }).await?;
    Ok(Some(()))
}

/// Waits behind the members who refresh insights, for as long as it takes: the next job comes in an hour. `None` if
/// the gateway stops.
async fn turn(gateway: &Gateway) -> Option<SemaphorePermit<'_>> {
    gateway.winding_down.run_until_cancelled(gateway.insight_runs.acquire()).await?.ok()
}

#[cfg(test)]
mod tests {
    use domain::time::{HOUR, MINUTE, Timestamp};
    use futures_util::FutureExt as _;
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
        let fresh = Fresh::idle_at(noon, json!({})).await;
        let gateway = &fresh.gateway;
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
    async fn projects_take_their_turns_within_an_hour() {
        let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        let fresh = Fresh::idle_at(noon, json!({})).await;
        let gateway = &fresh.gateway;
        let hour = |minutes: i64, project: i64| {
            gateway.clock.set(Timestamp(noon.0 + minutes * MINUTE));
            once_a_period::number_of_project(gateway, PERIOD, ProjectId(project))
        };
        // The minute in which a project's next hour begins.
        let begin = |project: i64| {
            let now = hour(0, project);
            (1..=60).find(|minutes| hour(*minutes, project) == now + 1).unwrap()
        };
        let begins: Vec<i64> = (1..=6_000).map(begin).collect();
        for minute in 1..=60 {
            let together = begins.iter().filter(|begin| **begin == minute).count();
            assert!((80..=120).contains(&together), "{together} of 6,000 in minute {minute}");
        }
        assert_eq!(hour(60, 7), hour(0, 7) + 1);
    }

    #[tokio::test]
    async fn a_job_waits_behind_members() {
        let fresh = Fresh::idle(json!({})).await;
        let gateway = &fresh.gateway;
        let member = gateway.insight_runs.acquire().await.unwrap();
        let mut waiting = std::pin::pin!(turn(gateway));
        assert!(waiting.as_mut().now_or_never().is_none());
        tokio::time::pause();
        tokio::time::advance(Duration::from_mins(5)).await;
        tokio::time::resume();
        assert!(waiting.as_mut().now_or_never().is_none(), "it is not refused");
        drop(member);
        assert!(waiting.await.is_some());
        let _member = gateway.insight_runs.acquire().await.unwrap();
        gateway.wind_down();
        assert!(turn(gateway).await.is_none());
    }

    #[tokio::test]
    async fn the_insights_of_a_project_are_a_job() {
        let fresh = Fresh::idle(json!({})).await;
        let gateway = &fresh.gateway;
        let now = gateway.clock.now();
        let project = fresh.caller.project.id();
        once_a_period::queue(gateway, JobKind::Insights, project, 0).await.unwrap();
        let job = gateway.store.claim_job(JobKind::Insights, &[], now).await.unwrap().unwrap();
        let job = RunningJob::new(gateway.clone(), job);
        // A gateway that winds down begins nothing.
        gateway.wind_down();
        assert!(matches!(ComputedInsights::run(&job).await, JobOutcome::Interrupted));
    }
}
