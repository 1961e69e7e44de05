//! Requests for a replay, and for its state.

use domain::attributes::Attributes;
use domain::ids::{JobId, KeyId, ProjectId, TraceId};
use domain::job::{Job, JobKind, JobState, Progress};
use domain::step::ApiEndpoint;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use store::{AddedJob, NewJob};

use crate::bounded_read::bounded;
use crate::error::{Error, Result};
use crate::evidence::traces::time_ordered_id;
use crate::gateway::Gateway;
use crate::job_queue::queued;
use crate::pipeline::attributes::{self, NamedInBody};
use crate::replay::overrides::Overrides;
use crate::replay::result::ReplayResult;
use crate::state::caller::Caller;
use crate::state::member::Member;

/// The most steps of a trace that is replayed.
pub(super) const MOST_STEPS: i64 = 1_000;
/// The most replays of a project that wait or run.
const MOST_OPEN: i64 = 100;

/// The payload of a job of this kind.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Payload {
    /// The source.
    pub(super) trace_id: TraceId,
    pub(super) overrides: Overrides,
    /// The traces of the replay, one for each model. Another node that continues the job finds them here.
    pub(super) traces: Vec<TraceId>,
    /// The attributes of its calls by its request, as attributes are stored.
    #[serde(flatten)]
    pub(super) attributes: Attributes,
}

/// A replay that was requested.
#[derive(Debug)]
pub struct ReplayJob {
    /// Its id.
    pub id: JobId,
    /// Its stage.
    pub state: JobState,
    /// How far it is.
    pub progress: Progress,
    /// The trace that is replayed.
    pub source: TraceId,
    /// The ways in which the replay differs from its source.
    pub overrides: Overrides,
    /// The traces of the replay, one for each model.
    pub traces: Vec<TraceId>,
    /// The comparison, once the job is over; after a failure, that of the calls made until then.
    pub result: Option<ReplayResult>,
    /// The reason why it failed.
    pub error: Option<String>,
}

impl ReplayJob {
    fn read(job: Job) -> Result<Self> {
        let payload: Payload = queued::payload(&job)?;
        Ok(Self {
            id: job.id,
            state: job.state,
            progress: job.progress,
            source: payload.trace_id,
            overrides: payload.overrides,
            traces: payload.traces,
            result: queued::result(&job)?,
            error: job.error,
        })
    }
}

impl Gateway {
    /// Asks for a replay of a trace. If the same was asked for within the hour before, that is the answer.
    pub fn replay<'a>(
        &'a self,
        caller: &'a Caller,
        trace_id: &'a str,
        overrides: Overrides,
    ) -> BoxFuture<'a, Result<ReplayJob>> {
        Box::pin(async move {
            overrides.check_form()?;
            caller.project.check_active()?;
            caller.check_endpoint(ApiEndpoint::Replay)?;
            let trace = self.find_trace(caller, trace_id).await?.id();
            overrides.check(caller)?;
            let attributes = attributes::gather(caller, None, NamedInBody::default());
            // Its calls are for whoever asks for them, not for whom those of the source were for.
            caller.project.check_attributes(attributes.as_deref())?;
            if bounded(self.store.count_steps(trace, MOST_STEPS)).await? > MOST_STEPS {
                return Err(too_many_steps());
            }
            let now = self.clock.now();
            let targets = overrides.targets();
            let new_trace = |_| time_ordered_id(now).map(TraceId);
            let traces = (0..targets.len()).map(new_trace).collect::<Result<_>>()?;
            let request = overrides.hash(trace);
            let attributes = attributes.as_deref().cloned().unwrap_or_default();
            let payload = Payload { trace_id: trace, overrides, traces, attributes };
            let payload = queued::to_json(&payload)?;
            // The job goes on if this node dies now.
            if let Some(claim) = &caller.claim {
                self.begin_claimed(claim).await?;
            }
            self.add_replay(caller.project.id(), caller.key.key.id, request, payload).await
        })
    }

    async fn add_replay(
        &self,
        project: ProjectId,
        key: KeyId,
        request: [u8; 32],
        payload: String,
    ) -> Result<ReplayJob> {
        let now = self.clock.now();
        let job = NewJob {
            id: JobId(time_ordered_id(now)?),
            kind: JobKind::Replay,
            project,
            key: Some(key),
            request,
            payload,
            created_at: now,
        };
        match self.store.add_job(job, MOST_OPEN).await? {
            AddedJob::Job(job) => {
                self.job_wakes.wake(JobKind::Replay);
                ReplayJob::read(job)
            }
            AddedJob::TooMany => Err(Error::Busy {
                why: "This project has as many replays waiting as it may have",
                retry_after: 60,
            }),
        }
    }

    /// A replay that was asked for by a key of the caller's project.
    pub fn replay_job<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a str,
    ) -> BoxFuture<'a, Result<ReplayJob>> {
        Box::pin(async move {
            caller.check_endpoint(ApiEndpoint::Replay)?;
            let job = self.queued_job(JobKind::Replay, caller.project.id(), id).await?;
            ReplayJob::read(job)
        })
    }

    /// A replay of a project that is a member's to see.
    pub async fn replay_job_for_member(
        &self,
        member: &Member,
        project: ProjectId,
        id: &str,
    ) -> Result<ReplayJob> {
        let project = self.visible_project(member, project)?;
        ReplayJob::read(self.queued_job(JobKind::Replay, project.id(), id).await?)
    }
}

/// The refusal of a trace that is too long.
pub(super) fn too_many_steps() -> Error {
    Error::invalid(format!("trace_id: a trace of more than {MOST_STEPS} steps is not replayed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_an_earlier_version_keeps_its_user() {
        let trace = "01a1fe4e-57c4-731b-a4e9-4b060946c0d9";
        let read = |json: String| serde_json::from_str::<Payload>(&json).unwrap().attributes;
        let start = format!(r#"{{"trace_id":"{trace}","overrides":{{}},"traces":["{trace}"]"#);
        assert_eq!(read(format!("{start}}}")), Attributes::default());
        let user = Attributes { user: Some("jane".to_owned()), ..Attributes::default() };
        assert_eq!(read(format!(r#"{start},"user":"jane"}}"#)), user);
    }
}
