//! The row of a job as its kind reads it, and the job that a request asks about.

use domain::ids::{JobId, ProjectId};
use domain::job::{Job, JobKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bounded_read::bounded;
use crate::error::{Error, Result};
use crate::gateway::Gateway;

/// Reads the payload of a job.
pub(crate) fn payload<T: DeserializeOwned>(job: &Job) -> Result<T> {
    serde_json::from_str(&job.payload).map_err(unreadable)
}

/// Reads the result of a job, if it has one.
pub(crate) fn result<T: DeserializeOwned>(job: &Job) -> Result<Option<T>> {
    job.result.as_deref().map(serde_json::from_str).transpose().map_err(unreadable)
}

/// Writes a payload or a result as the JSON that is stored.
pub(crate) fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::Internal(format!("a job: {error}"))
}

impl Gateway {
    /// The job of a kind and project with an id as it stands in a path.
    pub(crate) async fn queued_job(
        &self,
        kind: JobKind,
        project: ProjectId,
        id: &str,
    ) -> Result<Job> {
        let id: JobId = id.parse().map_err(|_| Error::NotFound)?;
        let found = bounded(self.store.job(project, id, self.clock.now())).await?;
        found.filter(|job| job.kind == kind).ok_or(Error::NotFound)
    }
}
