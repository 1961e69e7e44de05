//! The memory of large contents, which a job takes from that of requests, and its waits for it.

use std::time::Duration;

use tokio::time::Instant;

use crate::capacity::body_memory::BodyCharge;
use crate::error::{Error, Result};
use crate::job_queue::running::RunningJob;

/// The most time that one run waits for memory in all: nothing else of its kind runs on its node meanwhile.
const MOST_WAITING: Duration = Duration::from_mins(10);
const NO_MEMORY: &str = "The gateway had no memory for the large contents of the window: ask again when \
                         fewer large requests are open, or for a shorter window";

/// The waits of one run for memory.
#[derive(Debug, Default)]
pub(crate) struct ContentMemory {
    waited: Duration,
}

/// Memory that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// The charge holds it.
    Taken,
    /// There was none for a minute, or never will be: one content is no reason to end the job.
    Missing,
    /// The gateway stops.
    Stop,
}

impl ContentMemory {
    /// Waits up to a minute until a charge holds so many bytes. Fails once the run has waited for too long
    /// in all.
    pub(crate) async fn raise(
        &mut self,
        job: &RunningJob,
        charge: &mut BodyCharge,
        bytes: usize,
    ) -> Result<Memory> {
        if !job.gateway.body_memory.can_hold(bytes) {
            return Ok(Memory::Missing);
        }
        let (began, may_wait) = (Instant::now(), self.waited < MOST_WAITING);
        let raised = if may_wait {
            job.raise(charge, bytes).await
        } else {
            charge.raise(bytes).await.map(|()| true)
        };
        self.waited = self.waited.saturating_add(began.elapsed());
        match raised {
            Ok(true) => Ok(Memory::Taken),
            Ok(false) => Ok(Memory::Stop),
            Err(Error::Busy { .. }) if may_wait => Ok(Memory::Missing),
            Err(Error::Busy { retry_after, .. }) => {
                Err(Error::Busy { why: NO_MEMORY, retry_after })
            }
            Err(error) => Err(error),
        }
    }

    /// Raises a charge that holds memory already as a request does, by one wait of up to a second. Returns
    /// whether it holds so many bytes now.
    pub(crate) async fn raise_at_once(
        &mut self,
        charge: &mut BodyCharge,
        bytes: usize,
    ) -> Result<bool> {
        let began = Instant::now();
        let raised = charge.raise(bytes).await;
        self.waited = self.waited.saturating_add(began.elapsed());
        match raised {
            Ok(()) => Ok(true),
            Err(Error::Busy { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::{JobId, ProjectId};
    use domain::job::{Job, JobKind, JobState, Progress};
    use domain::time::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::capacity::body_memory::BodyOwner;
    use crate::testing::Fresh;

    #[tokio::test]
    async fn a_run_that_has_waited_for_ten_minutes_ends() {
        let fresh = Fresh::with(json!({})).await;
        let gateway = fresh.gateway.clone();
        let project = fresh.caller.project.id();
        let job = RunningJob::new(gateway.clone(), job(project));
        let memory = &gateway.body_memory;
        let mut charge = memory.charge(BodyOwner::Project(project), 0).await.unwrap();
        let mut waits = ContentMemory::default();
        let never = waits.raise(&job, &mut charge, usize::MAX).await.unwrap();
        assert_eq!(
            (never, waits.waited),
            (Memory::Missing, Duration::ZERO),
            "it is not waited for"
        );

        let limit = (0..usize::BITS).map(|bit| 1 << bit).find(|bytes| !memory.can_hold(*bytes));
        let most = limit.unwrap() / 2;
        let others = memory.charge(BodyOwner::Project(ProjectId(99)), most).await.unwrap();
        assert!(!waits.raise_at_once(&mut charge, most).await.unwrap());
        assert!(waits.waited >= Duration::from_secs(1), "{:?}", waits.waited);
        waits.waited += MOST_WAITING;
        let ended = waits.raise(&job, &mut charge, most).await.unwrap_err();
        assert!(ended.to_string().starts_with("The gateway had no memory"), "{ended}");
        drop(others);
        let taken = waits.raise(&job, &mut charge, most).await.unwrap();
        assert_eq!(taken, Memory::Taken, "memory that is there is taken");
    }

    fn job(project: ProjectId) -> Job {
        Job {
            id: "01a21d56-979b-7ba5-ac1c-36674ff08a57".parse::<JobId>().unwrap(),
            kind: JobKind::Backtest,
            project,
            key: None,
            state: JobState::Running,
            progress: Progress::default(),
            payload: String::new(),
            result: None,
            error: None,
            runs: 1,
            losses: 0,
            created_at: Timestamp(0),
            started_at: None,
            finished_at: None,
        }
    }
}
