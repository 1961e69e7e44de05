//! The looks of one task at the database.

use domain::ids::ProjectId;
use store::{Order, Page, TraceFilter};

use crate::bounded_read::bounded;
use crate::error::Result;
use crate::evidence::listed_trace::ListedTrace;
use crate::gateway::Gateway;
use crate::live::overview::{OverviewLook, Turns};
use crate::live::view::{LiveView, Seen, Subject};

/// The newest traces that are followed: a page of their list.
const NEWEST: i64 = 50;
/// The newest jobs: one more than a page of their list tells whether there is another page.
const NEWEST_JOBS: i64 = NEWEST + 1;

/// A view that is looked at again and again.
pub(super) struct Look {
    gateway: Gateway,
    project: ProjectId,
    view: LiveView,
    /// An overview is put together of what was read before.
    overview: Option<OverviewLook>,
}

impl Look {
    /// `turns` are those of the views that compute.
    pub(super) fn new(gateway: Gateway, subject: Subject, turns: Turns) -> Self {
        let (project, view) = subject;
        let overview = match &view {
            LiveView::Overview(span, by) => {
                Some(OverviewLook::new(gateway.clone(), project, *span, by.clone(), turns))
            }
            _ => None,
        };
        Self { gateway, project, view, overview }
    }

    /// The view as it is now; `None` if it has not changed, or may be computed only later.
    pub(super) async fn look(&mut self) -> Result<Option<Seen>> {
        if let Some(overview) = &mut self.overview {
            return Ok(overview.look().await?.map(Seen::Overview));
        }
        match self.view {
            LiveView::Jobs => {
                let jobs = self.gateway.newest_jobs(self.project, NEWEST_JOBS).await?;
                Ok(Some(Seen::Jobs(jobs.into())))
            }
            LiveView::Job(id) => {
                let job = self.gateway.job_of(self.project, id).await?;
                Ok(Some(Seen::Job(job.into())))
            }
            _ => self.traces().await.map(Some),
        }
    }

    async fn traces(&self) -> Result<Seen> {
        let page = Page { order: Order::Newest, beyond: None, offset: 0, limit: NEWEST };
        let filter = TraceFilter::default();
        let traces = bounded(self.gateway.store.traces(self.project, &filter, page)).await?;
        Ok(Seen::Traces(traces.iter().map(ListedTrace::from).collect()))
    }
}
