//! The usage of hours that are over, summed by what it can be grouped by, then the answers to questions about it
//! that are expected. Then the job of the minute is queued that ends the retention of steps: one that is in no sum
//! stays.

use std::time::Duration;

use domain::ids::ProjectId;
use domain::job::JobKind;
use domain::project::ProjectStatus;
use domain::time::Timestamp;
use store::Dimension;

use crate::error::Result;
use crate::evidence::usage::MOST_GROUPS;
use crate::gateway::Gateway;
use crate::jobs::job::{Job, log_failure};
use crate::jobs::once_a_period;
use crate::state::usage_asks::Since;

/// The time between two runs, and between two jobs that delete steps.
const PERIOD: Duration = Duration::from_mins(1);
/// The project of jobs that are for all of them.
const ALL_PROJECTS: ProjectId = ProjectId(0);
/// The projects that are expected to be asked for a month by user and by session: the first ones that have calls.
const MOST_EXPECTED: usize = 4;
/// The hours of such a month.
const MONTH_HOURS: i64 = 720;

/// Sums the hours of every project, those of archived ones too: their statistics are read as well.
pub(super) struct GroupUsage;

impl Job for GroupUsage {
    const NAME: &'static str = "group_usage";

    fn period(&self, _: &Gateway) -> Duration {
        PERIOD
    }

    /// A project that fails does not keep the others from theirs.
    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        let mut expected = 0;
        for project in gateway.registry.projects() {
            let id = project.id();
            log_failure(Self::NAME, group(gateway, id).await);
            if project.project.status == ProjectStatus::Active {
                log_failure("usage asked for", keep_answers(gateway, id, &mut expected).await);
            }
        }
        let minute = once_a_period::number(gateway, PERIOD);
        once_a_period::queue(gateway, JobKind::Retention, ALL_PROJECTS, minute).await
    }
}

/// Sums all hours of a project that are over and are not summed yet, and the quarters of its ledger.
async fn group(gateway: &Gateway, project: ProjectId) -> Result<()> {
    while !gateway.stopping.is_cancelled() {
        if !gateway.store.group_next_hour(project, gateway.clock.now()).await? {
            break;
        }
    }
    while !gateway.stopping.is_cancelled() {
        if !gateway.store.sum_next_quarter(project, gateway.clock.now()).await? {
            break;
        }
    }
    Ok(())
}

/// Makes the sums that questions about a project are going to need, once for each hour.
async fn keep_answers(gateway: &Gateway, project: ProjectId, expected: &mut usize) -> Result<()> {
    let Some(until) = gateway.store.grouped_until(project).await? else { return Ok(()) };
    let now = gateway.clock.now();
    if *expected < MOST_EXPECTED {
        *expected += 1;
        expect(gateway, project, now);
    }
    for (dimension, from) in gateway.usage_asks.due(project, until, now) {
        if gateway.stopping.is_cancelled() {
            break;
        }
        gateway.store.keep_usage(project, &dimension, from, now, MOST_GROUPS).await?;
    }
    Ok(())
}

/// Has the questions whose sums take longest in a project noted as if they had been asked.
fn expect(gateway: &Gateway, project: ProjectId, now: Timestamp) {
    for name in ["user", "session"] {
        if let Some(dimension) = Dimension::parse(name) {
            gateway.usage_asks.note(project, &dimension, Since::HoursAgo(MONTH_HOURS), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::time::{DAY, HOUR, Timestamp};
    use serde_json::json;
    use store::Dimension;

    use super::*;
    use crate::testing::{Fresh, until};

    #[tokio::test]
    async fn steps_are_summed_before_they_go() {
        let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        let fresh = Fresh::at(noon, json!({})).await;
        let (gateway, project) = (&fresh.gateway, fresh.caller.project.id());
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        // The gateway was down for longer than steps are kept.
        gateway.clock.set(noon.minus_micros(-40 * DAY));
        until("they are gone", async || {
            // The job of the minute before may run still.
            GroupUsage.run(gateway).await.unwrap();
            let left = gateway.store.steps(trace.parse().unwrap()).await.unwrap();
            left.is_empty().then_some(())
        })
        .await;
        let usage =
            gateway.store.usage_by(project, &Dimension::Model, noon.hour(), gateway.now(), 9);
        let usage = usage.await.unwrap();
        assert_eq!((usage.total.requests, usage.groups.len()), (1, 1));
    }

    #[tokio::test]
    async fn a_month_by_user_and_by_session_is_summed_before_anybody_asks() {
        let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        let fresh = Fresh::at(noon, json!({})).await;
        let (gateway, project) = (&fresh.gateway, fresh.caller.project.id());
        let due = |now: Timestamp| gateway.usage_asks.due(project, now.hour(), now);
        GroupUsage.run(gateway).await.unwrap();
        assert_eq!(due(noon).len(), 0, "there are no calls");
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        let later = noon.minus_micros(-HOUR - HOUR / 2);
        gateway.clock.set(later);
        GroupUsage.run(gateway).await.unwrap();
        assert_eq!(due(later).len(), 0, "they are made");
        let next = later.minus_micros(-HOUR);
        let dimensions: Vec<_> = due(next).into_iter().map(|(by, _)| by).collect();
        for name in ["user", "session"] {
            let of_name = |by: &&Dimension| **by == Dimension::parse(name).unwrap();
            assert_eq!(dimensions.iter().filter(of_name).count(), 2, "{name}");
        }
    }
}
