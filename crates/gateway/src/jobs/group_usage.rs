//! The usage of hours that are over, summed by what it can be grouped by, then the answers to questions about it
//! that are expected. Then the job of the minute is queued that ends the retention of steps: one that is in no sum
//! stays.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::ids::ProjectId;
use domain::job::JobKind;
use domain::project::ProjectStatus;
use store::Dimension;

use crate::bounded_read::bounded;
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
/// The questions about a month that are expected before anybody asks them: those with most groups, since the sums of
/// many take long. As many find room beside what people ask.
const MOST_EXPECTED: usize = 12;
/// The hours of such a month.
const MONTH_HOURS: i64 = 720;
/// The minutes of an hour.
const HOUR_MINUTES: i64 = 60;
/// Groups of a day are counted up to here. Projects that have more are told apart by their requests.
const MOST_COUNTED: i64 = 50_000;

/// Sums the hours of every project, those of archived ones too: their statistics are read as well.
#[derive(Default)]
pub(super) struct GroupUsage {
    sizes: BTreeMap<ProjectId, Sizes>,
}

/// How many groups a project has.
struct Sizes {
    /// The hour up to which its steps were summed when they were counted.
    until: i64,
    /// The requests of the month.
    requests: i64,
    /// By user, by session, and by what people have lately asked for.
    groups: Vec<(Dimension, i64)>,
}

impl Job for GroupUsage {
    const NAME: &'static str = "group_usage";

    fn period(&self, _: &Gateway) -> Duration {
        PERIOD
    }

    /// A project that fails does not keep the others from theirs.
    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        let projects = gateway.registry.projects();
        for project in &projects {
            log_failure(Self::NAME, group(gateway, project.id()).await);
        }
        let active = projects.iter().filter(|it| it.project.status == ProjectStatus::Active);
        let active: BTreeSet<ProjectId> = active.map(|project| project.id()).collect();
        self.sizes.retain(|id, _| active.contains(id));
        for id in &active {
            if gateway.stopping.is_cancelled() {
                break;
            }
            log_failure(Self::NAME, self.count(gateway, *id).await);
        }
        let now = gateway.clock.now();
        for (project, dimension) in largest(&self.sizes) {
            gateway.usage_asks.expect(project, dimension, Since::HoursAgo(MONTH_HOURS), now);
        }
        for id in active {
            log_failure("usage asked for", keep_answers(gateway, id).await);
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

impl GroupUsage {
    /// Counts the groups of a project in the latest day that is summed, once for each hour that is. A day is enough
    /// to tell large projects from small ones, and little to read.
    async fn count(&mut self, gateway: &Gateway, project: ProjectId) -> Result<()> {
        let Some(until) = gateway.store.grouped_until(project).await? else { return Ok(()) };
        let now = gateway.clock.now();
        let mut dimensions: Vec<Dimension> =
            ["user", "session"].into_iter().filter_map(Dimension::parse).collect();
        for asked in gateway.usage_asks.attributes(project, now) {
            if !dimensions.contains(&asked) {
                dimensions.push(asked);
            }
        }
        let has_all = |sizes: &Sizes| {
            let known = || sizes.groups.iter().map(|(dimension, _)| dimension);
            sizes.until == until && dimensions.iter().all(|one| known().any(|other| other == one))
        };
        if self.sizes.get(&project).is_some_and(has_all) {
            return Ok(());
        }
        let from = now.hour() - MONTH_HOURS;
        let month = (from * HOUR_MINUTES, until * HOUR_MINUTES);
        let total = bounded(gateway.store.usage_total(project, month.0, month.1)).await?;
        let mut groups = Vec::new();
        for dimension in dimensions {
            let count = gateway.store.count_groups(project, &dimension, from, MOST_COUNTED);
            let count = bounded(count).await?;
            groups.push((dimension, count));
        }
        self.sizes.insert(project, Sizes { until, requests: total.requests, groups });
        Ok(())
    }
}

/// What is expected to be asked, that with most groups first, and of as many that of the project with most requests.
fn largest(sizes: &BTreeMap<ProjectId, Sizes>) -> Vec<(ProjectId, &Dimension)> {
    let mut all = Vec::new();
    for (project, sizes) in sizes {
        for (dimension, groups) in &sizes.groups {
            all.push((Reverse((*groups, sizes.requests)), *project, dimension));
        }
    }
    all.sort_by_key(|(size, project, _)| (*size, *project));
    all.truncate(MOST_EXPECTED);
    all.into_iter().map(|(_, project, dimension)| (project, dimension)).collect()
}

/// Makes the sums that questions about a project are going to need, once for each hour.
async fn keep_answers(gateway: &Gateway, project: ProjectId) -> Result<()> {
    let Some(until) = gateway.store.grouped_until(project).await? else { return Ok(()) };
    let now = gateway.clock.now();
    for (dimension, from) in gateway.usage_asks.due(project, until, now) {
        if gateway.stopping.is_cancelled() {
            break;
        }
        gateway.store.keep_usage(project, &dimension, from, now, MOST_GROUPS).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use domain::time::{DAY, HOUR, MINUTE, Timestamp};
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
            // The job of the minute before may run still, or one of this minute have been queued by the first run of
            // the gateway's own, which has summed nothing of it.
            gateway.clock.set(gateway.now().minus_micros(-MINUTE));
            GroupUsage::default().run(gateway).await.unwrap();
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
        let fresh = Fresh::idle_at(noon, json!({})).await;
        let (gateway, project) = (&fresh.gateway, fresh.caller.project.id());
        let mut job = GroupUsage::default();
        let due = |now: Timestamp| gateway.usage_asks.due(project, now.hour(), now);
        job.run(gateway).await.unwrap();
        assert_eq!(due(noon).len(), 0, "there are no calls");
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        let later = noon.minus_micros(-HOUR - HOUR / 2);
        gateway.clock.set(later);
        job.run(gateway).await.unwrap();
        assert_eq!(due(later).len(), 0, "they are made");
        let next = later.minus_micros(-HOUR);
        let dimensions: Vec<_> = due(next).into_iter().map(|(by, _)| by).collect();
        for name in ["user", "session"] {
            let of_name = |by: &&Dimension| **by == Dimension::parse(name).unwrap();
            assert_eq!(dimensions.iter().filter(of_name).count(), 2, "{name}");
        }
        // A tag that somebody has asked for today is expected for a month.
        gateway.clock.set(next);
        let team = Dimension::parse("tag:team").unwrap();
        gateway.usage_asks.note(project, &team, Since::HoursAgo(1), next);
        job.run(gateway).await.unwrap();
        assert_eq!(due(next).len(), 0, "they are made");
        let later = next.minus_micros(-HOUR);
        let teams = due(later).into_iter().filter(|(by, _)| *by == team);
        let mut hours: Vec<i64> = teams.map(|(_, from)| later.hour() - from).collect();
        hours.sort_unstable();
        assert_eq!(hours, [0, 1, 719, 720]);
    }

    #[test]
    fn the_largest_are_expected_whichever_projects_have_them() {
        let by = |name| Dimension::parse(name).unwrap();
        let sizes = |project: i64| {
            let groups = vec![(by("user"), project % 7), (by("session"), 100 * project)];
            (ProjectId(project), Sizes { until: 0, requests: 1, groups })
        };
        let all: BTreeMap<ProjectId, Sizes> = (1..=20).map(sizes).collect();
        let session = by("session");
        let expected: Vec<_> = (9..=20).rev().map(|id| (ProjectId(id), &session)).collect();
        assert_eq!(largest(&all), expected);
        let few = largest(&all.into_iter().take(2).collect()).len();
        assert_eq!(few, 4, "small ones too, where there is room");
        // No more groups than that are counted.
        let sizes = |project: i64| {
            let groups = vec![(by("session"), MOST_COUNTED)];
            (ProjectId(project), Sizes { until: 0, requests: 1_000 * project, groups })
        };
        let all: BTreeMap<ProjectId, Sizes> = (1..=20).map(sizes).collect();
        assert_eq!(largest(&all), expected, "those with most requests");
    }
}
