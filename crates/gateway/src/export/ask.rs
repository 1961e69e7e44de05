//! Requests for an export, for its state, and for its file.

use std::sync::Arc;

use domain::export::ExportFormat;
use domain::ids::{JobId, ProjectId};
use domain::job::{Job, JobKind, JobState, Progress};
use domain::time::{DAY, Timestamp};
use futures_util::future::BoxFuture;
use futures_util::{Stream, stream};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use store::{AddedJob, NewJob};

use crate::audit::Event;
use crate::bounded_read::{bounded, read_again};
use crate::capacity::offload::hand_over;
use crate::error::{Error, Result};
use crate::evidence::traces::time_ordered_id;
use crate::export::selection::{ExportRequest, Selection};
use crate::gateway::Gateway;
use crate::job_queue::queued;
use crate::state::member::Member;
use crate::state::registry::ProjectState;

/// The most steps of an export that a job writes.
pub(super) const MOST_STEPS: i64 = 1_000_000;
/// The longest time of an export that a job writes.
const LONGEST: i64 = 366 * DAY;
/// The exports of a project that wait or run.
const MOST_OPEN: i64 = 1;
/// The exports of a project that are kept beside a new one.
const KEPT: i64 = 3;

/// The payload of a job of this kind. Times are microseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Payload {
    format: ExportFormat,
    since: i64,
    until: i64,
    content: bool,
    /// The steps that there were when it was asked for.
    pub(super) steps: u64,
}

impl Payload {
    pub(super) fn of(selection: Selection, steps: u64) -> Self {
        let Selection { format, since, until, content } = selection;
        Self { format, since: since.0, until: until.0, content, steps }
    }

    pub(super) fn selection(&self) -> Selection {
        Selection {
            format: self.format,
            since: Timestamp(self.since),
            until: Timestamp(self.until),
            content: self.content,
        }
    }
}

/// The file of an export that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportFile {
    /// Its steps.
    pub steps: u64,
    /// Its size.
    pub bytes: u64,
    /// The pieces that it is kept in.
    pub(super) pieces: u64,
    /// How many of its steps lack their stored content.
    #[serde(default)]
    pub content_errors: u64,
    /// How many of its steps cannot be read.
    #[serde(default)]
    pub step_errors: u64,
}

/// An export that was asked for.
#[derive(Debug)]
pub struct ExportJob {
    /// Its id.
    pub id: JobId,
    /// Its project.
    pub project: ProjectId,
    /// Its stage.
    pub state: JobState,
    /// How far it is, in steps.
    pub progress: Progress,
    /// Its steps.
    pub selection: Selection,
    /// Its file, once it is done.
    pub file: Option<ExportFile>,
    /// The reason why it failed.
    pub error: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// The run that wrote the file.
    run: u64,
}

impl ExportJob {
    fn read(job: Job) -> Result<Self> {
        let payload: Payload = queued::payload(&job)?;
        Ok(Self {
            id: job.id,
            project: job.project,
            state: job.state,
            progress: match job.state {
                JobState::Queued => Progress { done: 0, total: payload.steps },
                _ => job.progress,
            },
            selection: payload.selection(),
            file: queued::result(&job)?,
            error: job.error,
            created_at: job.created_at,
            run: job.runs,
        })
    }

    /// A name for its file.
    pub fn file_name(&self) -> String {
        let day = |at: Timestamp| at.to_string().chars().take(10).collect::<String>();
        let Selection { format, since, until, .. } = self.selection;
        let (since, until) = (day(since), day(until));
        format!("sluice-{}-{since}-{until}.{}", self.project, format.extension())
    }
}

impl Gateway {
    /// Asks for an export (owners and admins). An archived project may be exported.
    pub fn export<'a>(
        &'a self,
        member: &'a Member,
        project: ProjectId,
        request: &'a ExportRequest,
    ) -> BoxFuture<'a, Result<ExportJob>> {
        Box::pin(async move {
            let project = self.visible_project(member, project)?.id();
            member.check_admin()?;
            let now = self.clock.now();
            let selection = request.read(now)?;
            let Selection { since, until, .. } = selection;
            if until.since(since) > LONGEST {
                return Err(Error::invalid("since: an export covers at most 366 days"));
            }
            let steps = self.store.count_ended_steps(project, since, until, MOST_STEPS);
            let steps = bounded(steps).await?;
            if steps > MOST_STEPS {
                return Err(Error::invalid(format!(
                    "since: an export holds at most {MOST_STEPS} steps, and there are more: choose a shorter time, \
                     or use `sluice export`"
                )));
            }
            let payload = Payload::of(selection, steps.unsigned_abs());
            self.add_export(member, project, &payload, now).await
        })
    }

    async fn add_export(
        &self,
        member: &Member,
        project: ProjectId,
        payload: &Payload,
        now: Timestamp,
    ) -> Result<ExportJob> {
        let id = JobId(time_ordered_id(now)?);
        let job = NewJob {
            id,
            kind: JobKind::Export,
            project,
            key: None,
            // No two exports are the same: there may be further steps by now.
            request: store::random::<32>()?,
            payload: queued::to_json(payload)?,
            created_at: now,
        };
        let mut tx = self.store.begin().await?;
        let AddedJob::Job(job) = tx.add_job(&job, MOST_OPEN).await? else {
            return Err(Error::Busy {
                why: "An export of this project waits or runs",
                retry_after: 10,
            });
        };
        tx.expire_old_jobs(JobKind::Export, project, KEPT, now).await?;
        let target = ("export", id.to_string());
        let metadata = payload.selection().audited(project);
        self.note_act(&mut tx, member, Event::ExportCreated, target, metadata).await?;
        tx.commit().await?;
        self.job_wakes.wake(JobKind::Export);
        ExportJob::read(job)
    }

    /// An export of a project (owners and admins).
    pub fn export_job<'a>(
        &'a self,
        member: &'a Member,
        project: ProjectId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<ExportJob>> {
        Box::pin(async move {
            let project = self.visible_project(member, project)?.id();
            member.check_admin()?;
            ExportJob::read(self.queued_job(JobKind::Export, project, id).await?)
        })
    }

    /// The file of an export that is done (owners and admins): its size, and its pieces as they are
    /// read. The stream ends with an error if the file is gone before its end.
    pub fn export_file<'a>(
        &'a self,
        member: &'a Member,
        project: ProjectId,
        id: &'a str,
    ) -> BoxFuture<'a, Result<(ExportJob, ExportFile, ExportPieces)>> {
        Box::pin(async move {
            let job = self.export_job(member, project, id).await?;
            let file = job.file.ok_or_else(|| {
                Error::invalid(format!("The export is {}: it has no file", job.state))
            })?;
            let state = self.visible_project(member, project)?;
            let mut tx = self.store.begin().await?;
            let target = ("export", job.id.to_string());
            let metadata = Map::from_iter([("project_id".to_owned(), project.0.into())]);
            self.note_act(&mut tx, member, Event::ExportDownloaded, target, metadata).await?;
            tx.commit().await?;
            let pieces = ExportPieces {
                gateway: self.clone(),
                project: state,
                job: job.id,
                run: job.run,
                next: 0,
                count: file.pieces,
            };
            Ok((job, file, pieces))
        })
    }
}

/// The pieces of a file, from a position on.
#[derive(Debug)]
pub struct ExportPieces {
    gateway: Gateway,
    project: Arc<ProjectState>,
    job: JobId,
    run: u64,
    next: u64,
    count: u64,
}

impl ExportPieces {
    /// The bytes of the file. A piece is read when the one before it was taken.
    pub fn into_stream(self) -> impl Stream<Item = Result<Vec<u8>>> + Send {
        stream::try_unfold(self, |mut pieces| async move {
            if pieces.next >= pieces.count {
                return Ok(None);
            }
            let piece = pieces.read().await?;
            pieces.next += 1;
            Ok(Some((piece, pieces)))
        })
    }

    async fn read(&self) -> Result<Vec<u8>> {
        let Self { gateway, project, job, run, next, .. } = self;
        // A download that breaks off begins anew.
        let sealed = read_again(|| gateway.store.export_piece(*job, *run, *next)).await?;
        let gone = || Error::Internal(format!("piece {next} of export {job} is gone"));
        let sealed = sealed.ok_or_else(gone)?;
        let place = place(*job, *run, *next);
        Ok(hand_over(sealed.len(), || project.sealing.open_content(&place, sealed))?)
    }
}

/// The location that ties a sealed piece to its file.
pub(super) fn place(job: JobId, run: u64, number: u64) -> String {
    format!("export:{job}:{run}:{number}")
}
