//! The jobs that this node runs, and how far they are.

use std::sync::Mutex;

use domain::ids::{JobId, ProjectId};
use domain::job::{Job, JobKind, Progress};

use crate::lock::lock;

/// The jobs that this node runs.
#[derive(Debug, Default)]
pub(crate) struct RunningJobs(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    id: JobId,
    kind: JobKind,
    project: ProjectId,
    progress: Progress,
}

impl RunningJobs {
    /// Adds a job, which begins to run.
    pub(crate) fn add(&self, job: &Job) {
        let Job { id, kind, project, progress, .. } = *job;
        let mut entries = lock(&self.0);
        entries.push(Entry { id, kind, project, progress });
        gauge(kind, &entries);
    }

    /// Notes how far a job is.
    pub(crate) fn note(&self, job: &Job, progress: Progress) {
        let mut entries = lock(&self.0);
        if let Some(entry) = entries.iter_mut().find(|entry| entry.id == job.id) {
            entry.progress = progress;
        }
        gauge(job.kind, &entries);
    }

    /// Removes a job, which runs no more.
    pub(crate) fn remove(&self, job: &Job) {
        let mut entries = lock(&self.0);
        if let Some(at) = entries.iter().position(|entry| entry.id == job.id) {
            entries.swap_remove(at);
        }
        gauge(job.kind, &entries);
    }

    /// The jobs of a kind, with their projects.
    pub(crate) fn of(&self, kind: JobKind) -> Vec<(JobId, ProjectId)> {
        let entries = lock(&self.0);
        let of_kind = entries.iter().filter(|entry| entry.kind == kind);
        of_kind.map(|entry| (entry.id, entry.project)).collect()
    }
}

fn gauge(kind: JobKind, entries: &[Entry]) {
    let (mut jobs, mut done, mut parts) = (0_u64, 0_u64, 0_u64);
    for entry in entries.iter().filter(|entry| entry.kind == kind) {
        jobs += 1;
        done = done.saturating_add(entry.progress.done);
        parts = parts.saturating_add(entry.progress.total);
    }
    let kind = kind.as_str();
    metrics::gauge!("sluice_jobs_running", "kind" => kind).set(jobs as f64);
    metrics::gauge!("sluice_jobs_parts_done", "kind" => kind).set(done as f64);
    metrics::gauge!("sluice_jobs_parts", "kind" => kind).set(parts as f64);
}
