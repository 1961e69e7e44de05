//! Requests for a backtest, and for its state.

use std::sync::Arc;

use domain::ids::{JobId, ProjectId};
use domain::job::{Job, JobKind, JobState, Progress};
use domain::model::Model;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use store::{AddedJob, NewJob};

use crate::audit::Event;
use crate::backtest::draft::Draft;
use crate::backtest::report::BacktestReport;
use crate::backtest::window::Window;
use crate::control::safety_preview::check_new_patterns;
use crate::error::{Error, Faults, Result};
use crate::evidence::traces::time_ordered_id;
use crate::gateway::Gateway;
use crate::job_queue::queued;
use crate::state::member::Member;

/// The most backtests of a project that wait or run.
const MOST_OPEN: i64 = 1;

/// The payload of a job of this kind.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Payload {
    pub(super) window: Window,
    pub(super) draft: Draft,
}

/// The part of a payload that answers show: the settings of a draft may be long.
#[derive(Debug, Deserialize)]
struct ShownPayload {
    window: Window,
}

impl Payload {
    /// The window and the sections of the draft: its rules find texts that no other request shows.
    fn audited(&self, project: ProjectId) -> Map<String, Value> {
        let Window { from, to } = self.window;
        Map::from_iter([
            ("project_id".to_owned(), json!(project)),
            ("from".to_owned(), json!(from)),
            ("to".to_owned(), json!(to)),
            ("sections".to_owned(), json!(self.draft.sections())),
        ])
    }
}

/// A request for a backtest.
#[derive(Debug)]
pub struct BacktestRequest {
    /// The draft: a patch of the project's settings.
    pub settings: Map<String, Value>,
    /// The begin of the window, as an ISO 8601 time.
    pub from: String,
    /// Its end, likewise; now if none is given.
    pub to: Option<String>,
}

/// A backtest that was requested.
#[derive(Debug)]
pub struct BacktestJob {
    /// Its id.
    pub id: JobId,
    /// Its stage.
    pub state: JobState,
    /// How far it is, in steps of the window.
    pub progress: Progress,
    /// The window.
    pub window: Window,
    /// The report, once it is completed.
    pub report: Option<BacktestReport>,
    /// The reason why it failed.
    pub error: Option<String>,
}

impl BacktestJob {
    fn read(job: Job) -> Result<Self> {
        let ShownPayload { window } = queued::payload(&job)?;
        Ok(Self {
            id: job.id,
            state: job.state,
            progress: job.progress,
            window,
            report: queued::result(&job)?,
            error: job.error,
        })
    }
}

impl Gateway {
    /// Asks for a backtest of draft settings. The draft is validated as a change of the project's settings
    /// is, and is not saved.
    pub async fn backtest(
        &self,
        member: &Member,
        id: ProjectId,
        request: BacktestRequest,
    ) -> Result<BacktestJob> {
        let project = self.visible_project(member, id)?;
        member.check_admin()?;
        project.check_active()?;
        let now = self.clock.now();
        let mut faults = Faults::default();
        let window = faults.note(Window::read(&request.from, request.to.as_deref(), now));
        let draft = Draft::of(request.settings.clone());
        faults.note(draft.check(&project));
        // As a change of the project is validated, on a copy that nobody saves.
        if faults.sentences().is_empty() {
            faults.note(check_new_patterns(&project.project.settings, &request.settings).await);
        }
        let models: Vec<&Arc<Model>> = project.models.values().collect();
        let (mut changed, patch) = (project.project.clone(), request.settings);
        faults.note(self.merge_settings(&mut changed, patch, &models, &project.sealing));
        faults.none()?;
        let window = window.ok_or_else(|| Error::Internal("a window is missing".to_owned()))?;
        self.add_backtest(member, id, &Payload { window, draft }).await
    }

    async fn add_backtest(
        &self,
        member: &Member,
        project: ProjectId,
        payload: &Payload,
    ) -> Result<BacktestJob> {
        let now = self.clock.now();
        let id = JobId(time_ordered_id(now)?);
        let job = NewJob {
            id,
            kind: JobKind::Backtest,
            project,
            key: None,
            // The settings that a draft is merged over change: no two requests are the same.
            request: store::random::<32>()?,
            payload: queued::to_json(payload)?,
            created_at: now,
        };
        let mut tx = self.store.begin().await?;
        let AddedJob::Job(job) = tx.add_job(&job, MOST_OPEN).await? else {
            return Err(Error::Busy {
                why: "A backtest of this project waits or runs already",
                retry_after: 10,
            });
        };
        let target = ("backtest", id.to_string());
        self.note_act(&mut tx, member, Event::BacktestCreated, target, payload.audited(project))
            .await?;
        tx.commit().await?;
        self.job_wakes.wake(JobKind::Backtest);
        BacktestJob::read(job)
    }

    /// A backtest of a project that a member may see.
    pub async fn backtest_job(
        &self,
        member: &Member,
        project: ProjectId,
        id: &str,
    ) -> Result<BacktestJob> {
        self.visible_project(member, project)?;
        BacktestJob::read(self.queued_job(JobKind::Backtest, project, id).await?)
    }
}
