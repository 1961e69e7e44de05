//! Jobs of the queue that the gateway asks for by itself: one node does each, once in its period.

use std::time::Duration;

use domain::ids::{JobId, ProjectId};
use domain::job::JobKind;
use domain::time::{SECOND, micros};
use store::{AddedJob, NewJob};

use crate::error::Result;
use crate::evidence::traces::time_ordered_id;
use crate::gateway::Gateway;

/// The number of the period that it is, counted from 1970 on.
pub(super) fn number(gateway: &Gateway, period: Duration) -> i64 {
    gateway.clock.now().0.div_euclid(micros(period).max(1))
}

/// The number of a project's own period. Those of projects begin at different times, one each 37 seconds: what all
/// projects need once an hour is not done for all of them at the full hour.
pub(super) fn number_of_project(gateway: &Gateway, period: Duration, project: ProjectId) -> i64 {
    let (period, shift) = (micros(period).max(1), 37 * SECOND);
    let shift = project.0.wrapping_mul(shift).rem_euclid(period);
    gateway.clock.now().0.saturating_add(shift).div_euclid(period)
}

/// Queues the job of a kind and project for a period, unless a node has queued it before, or that of an earlier
/// period has not ended.
pub(super) async fn queue(
    gateway: &Gateway,
    kind: JobKind,
    project: ProjectId,
    period: i64,
) -> Result<()> {
    let now = gateway.clock.now();
    // By its number the request of every node is the same.
    let mut request = [0; 32];
    request[..8].copy_from_slice(&period.to_be_bytes());
    let job = NewJob {
        id: JobId(time_ordered_id(now)?),
        kind,
        project,
        key: None,
        request,
        payload: "{}".to_owned(),
        created_at: now,
    };
    match gateway.store.add_job(job, 1).await {
        Ok(AddedJob::Job(_)) => gateway.job_wakes.wake(kind),
        // Another node has queued it at the same moment, or the job of an earlier period goes on.
        Err(store::Error::Taken) | Ok(AddedJob::TooMany) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
