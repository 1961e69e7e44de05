//! The jobs of a project, as its members see them.

use domain::ids::{JobId, ProjectId};
use domain::job::Job;
use domain::time::Timestamp;

use crate::bounded_read::bounded;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::job_queue::runner::RESULT_RETENTION;
use crate::state::member::Member;

impl Gateway {
    /// The first `most` jobs of a project that is a member's to see, newest first, without their results, behind the
    /// one that was made at a time and has an id. Those that are over are found for a while.
    pub async fn list_jobs(
        &self,
        member: &Member,
        project: ProjectId,
        after: Option<(Timestamp, JobId)>,
        most: i64,
    ) -> Result<Vec<Job>> {
        let project = self.visible_project(member, project)?;
        bounded(self.store.jobs_of(project.id(), self.clock.now(), after, most)).await
    }

    /// A job of a project that is a member's to see, of any kind, and the time until which it is found, at the
    /// latest.
    pub async fn job_for_member(
        &self,
        member: &Member,
        project: ProjectId,
        id: &str,
    ) -> Result<(Job, Option<Timestamp>)> {
        let project = self.visible_project(member, project)?;
        let id: JobId = id.parse().map_err(|_| Error::NotFound)?;
        let job = self.job_of(project.id(), id).await?;
        let until = job.finished_at.map(|end| end.plus(RESULT_RETENTION));
        Ok((job, until))
    }

    /// A job that somebody has asked for.
    pub(crate) async fn job_of(&self, project: ProjectId, id: JobId) -> Result<Job> {
        let job = bounded(self.store.job(project, id, self.clock.now())).await?;
        job.filter(|job| job.kind.is_asked_for()).ok_or(Error::NotFound)
    }

    /// The newest jobs of a project.
    pub(crate) async fn newest_jobs(&self, project: ProjectId, most: i64) -> Result<Vec<Job>> {
        bounded(self.store.jobs_of(project, self.clock.now(), None, most)).await
    }
}
