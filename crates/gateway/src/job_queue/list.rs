//! The jobs of a project, as its members see them.

use domain::ids::ProjectId;
use domain::job::Job;

use crate::bounded_read::bounded;
use crate::error::Result;
use crate::gateway::Gateway;
use crate::state::member::Member;

/// The most jobs of a list, the newest.
const MOST: i64 = 200;

impl Gateway {
    /// The jobs of a project that is a member's to see, newest first, without their results. Those that are
    /// over are found for a while.
    pub async fn list_jobs(&self, member: &Member, project: ProjectId) -> Result<Vec<Job>> {
        let project = self.visible_project(member, project)?;
        self.jobs_of(project.id()).await
    }

    pub(crate) async fn jobs_of(&self, project: ProjectId) -> Result<Vec<Job>> {
        bounded(self.store.jobs_of(project, self.clock.now(), MOST)).await
    }
}
