//! The views that can be watched, and their states.

use std::sync::Arc;

use domain::ids::{JobId, ProjectId};
use domain::job::Job;

use crate::evidence::figures::ComparedFigures;
use crate::evidence::listed_trace::ListedTrace;

/// A view of a project that can be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiveView {
    /// The newest traces.
    Traces,
    /// The jobs.
    Jobs,
    /// One job.
    Job(JobId),
    /// The figures of so many hours up to now.
    Figures {
        /// The hours.
        hours: i64,
    },
}

/// A view of one project.
pub(super) type Subject = (ProjectId, LiveView);

/// The state of a view.
#[derive(Clone, Debug, Default)]
pub(super) enum Seen {
    /// Not read yet.
    #[default]
    Nothing,
    /// The newest traces, newest first.
    Traces(Arc<[ListedTrace]>),
    /// The jobs, newest first.
    Jobs(Arc<[Job]>),
    /// The job.
    Job(Arc<Job>),
    /// The figures.
    Figures(Arc<ComparedFigures>),
}
