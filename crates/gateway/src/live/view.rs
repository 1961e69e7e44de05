//! The views that can be watched, and their states.

use std::sync::Arc;
use std::time::Duration;

use domain::ids::{JobId, ProjectId};
use domain::job::Job;
use domain::time::Timestamp;
use store::Dimension;

use crate::evidence::figures::ComparedFigures;
use crate::evidence::listed_trace::ListedTrace;
use crate::evidence::series::UsageSeries;
use crate::evidence::stats::Period;
use crate::evidence::usage::Usage;

/// A view of a project that can be watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LiveView {
    /// The newest traces.
    Traces,
    /// The jobs.
    Jobs,
    /// One job.
    Job(JobId),
    /// The figures of a period, and its usage by some dimensions.
    Overview(Span, Arc<[Dimension]>),
}

impl LiveView {
    /// The time from which on it changes no more, if that is known.
    pub(super) fn ends(&self) -> Option<Timestamp> {
        match self {
            Self::Overview(Span::Days(_, end), _) => Some(end.plus(LATE)),
            _ => None,
        }
    }
}

/// A call of the last second of a day is on disk within this time.
const LATE: Duration = Duration::from_mins(2);

/// The period of an overview.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Span {
    /// So many hours up to now.
    Hours(i64),
    /// From the beginning of a day up to a moment.
    Days(Timestamp, Timestamp),
}

impl Span {
    /// That of a period.
    pub fn of(period: &Period) -> Self {
        if period.slides {
            Self::Hours(period.hours())
        } else {
            Self::Days(period.start, period.end)
        }
    }

    /// Its period at a time.
    pub(super) fn at(self, now: Timestamp) -> Period {
        match self {
            Self::Hours(hours) => Period::last(hours, now),
            Self::Days(start, end) => Period::days(start, end),
        }
    }
}

/// An overview as it is now.
#[derive(Debug)]
pub struct LiveOverview {
    /// The figures of its period, and of the one before.
    pub figures: ComparedFigures,
    /// The usage over time.
    pub series: UsageSeries,
    /// The usage by each dimension, once it was read: it may take longer than figures.
    pub usages: Option<Arc<[Usage]>>,
    /// All of it was read at this time or later.
    pub read_at: Timestamp,
}

impl LiveOverview {
    /// Whether it shows the same as another.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        let has_same_usages = match (&self.usages, &other.usages) {
            // Usage that was read again may have changed.
            (Some(own), Some(others)) => Arc::ptr_eq(own, others),
            (own, others) => own.is_none() && others.is_none(),
        };
        has_same_usages && self.figures == other.figures && self.series == other.series
    }
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
    /// The overview.
    Overview(Arc<LiveOverview>),
}
