//! The looks of one task at the database.

use std::sync::Arc;

use store::{LedgerRow, Order, Page, TraceFilter};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::bounded_read::bounded;
use crate::error::{Error, Result};
use crate::evidence::listed_trace::ListedTrace;
use crate::evidence::stats::Period;
use crate::gateway::Gateway;
use crate::live::view::{LiveView, Seen, Subject};

/// The newest traces that are followed: a page of the list.
const NEWEST: i64 = 50;
/// After figures were computed, so many times as long passes before they are computed again: those of a large
/// project take a while.
const REST: u32 = 9;

/// A view that is looked at again and again.
pub(super) struct Look {
    gateway: Gateway,
    subject: Subject,
    /// Figures are computed for one view at a time.
    computing: Arc<Semaphore>,
    /// The minute and its ledger when the figures were computed last: a call changes it.
    ledger: Option<(i64, Vec<LedgerRow>)>,
    /// The time from which figures may be computed again.
    due: Instant,
}

impl Look {
    pub(super) fn new(gateway: Gateway, subject: Subject, computing: Arc<Semaphore>) -> Self {
        Self { gateway, subject, computing, ledger: None, due: Instant::now() }
    }

    /// The view as it is now; `None` if it has not changed, or may be computed only later.
    pub(super) async fn look(&mut self) -> Result<Option<Seen>> {
        match self.subject.1 {
            LiveView::Traces => self.traces().await.map(Some),
            LiveView::Jobs => {
                Ok(Some(Seen::Jobs(self.gateway.jobs_of(self.subject.0).await?.into())))
            }
            LiveView::Job(id) => {
                let job = self.gateway.job_of(self.subject.0, id).await?;
                Ok(Some(Seen::Job(job.into())))
            }
            LiveView::Figures { hours } => self.figures(hours).await,
        }
    }

    async fn traces(&self) -> Result<Seen> {
        let page = Page { order: Order::Newest, beyond: None, offset: 0, limit: NEWEST };
        let filter = TraceFilter::default();
        let traces = bounded(self.gateway.store.traces(self.subject.0, &filter, page)).await?;
        Ok(Seen::Traces(traces.iter().map(ListedTrace::from).collect()))
    }

    async fn figures(&mut self, hours: i64) -> Result<Option<Seen>> {
        if Instant::now() < self.due {
            return Ok(None);
        }
        let (project, minute) = (self.subject.0, self.gateway.clock.now().minute());
        // A call of the last second of a minute is on disk in the next.
        let rows = bounded(self.gateway.store.usage(project, minute - 1, minute + 1)).await?;
        let ledger = Some((minute, rows));
        if self.ledger == ledger {
            return Ok(None);
        }
        let computing = self.computing.clone();
        let Ok(_turn) = computing.try_acquire() else { return Ok(None) };
        let state = self.gateway.registry.project(project)?.ok_or(Error::NotFound)?;
        let period = Period::last(hours, self.gateway.clock.now());
        let began = Instant::now();
        let figures = self.gateway.compared_figures(&state, &period).await;
        self.due = Instant::now() + began.elapsed() * REST;
        let figures = figures?;
        self.ledger = ledger;
        Ok(Some(Seen::Figures(Arc::new(figures))))
    }
}
