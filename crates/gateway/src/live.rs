//! Live views: pages that are open keep up with the database.
//!
//! A view of a project that somebody watches has one task on this node. It reads the database, so that it sees
//! what other nodes write, and calls know nothing of it:
//!
//! ```text
//! first stream opens -> task reads once a second -> last stream is gone, or the gateway stops
//! ```

mod places;
mod stream;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::ids::ProjectId;
use domain::trace::Trace;
use store::{LedgerRow, Order, Page, TraceFilter};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, MissedTickBehavior};

use crate::bounded_read::bounded;
use crate::error::{Error, Result};
use crate::evidence::figures::ComparedFigures;
use crate::evidence::stats::Period;
use crate::gateway::Gateway;
use crate::live::places::Places;
use crate::state::member::Member;

pub use stream::{LiveEvent, LiveStream};

/// The time between two looks at the database.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The newest traces that are followed.
const NEWEST: i64 = 50;
/// After figures were computed, so many times as long passes before they are computed again: those of a large
/// project take a while.
const REST: u32 = 9;

/// A view of a project that can be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiveView {
    /// The newest traces.
    Traces,
    /// The figures of so many hours up to now.
    Figures {
        /// The hours.
        hours: i64,
    },
}

/// The views that are watched on this node, behind one cheap handle.
#[derive(Clone, Debug)]
pub struct LiveViews(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    gateway: Gateway,
    places: Mutex<Places>,
    /// Figures are computed for one view at a time.
    computing: Semaphore,
}

/// The state of a view.
#[derive(Clone, Debug, Default)]
enum Seen {
    /// Not read yet.
    #[default]
    Nothing,
    Traces(Arc<[Trace]>),
    Figures(Arc<ComparedFigures>),
}

/// A view of one project.
type Subject = (ProjectId, LiveView);

impl LiveViews {
    /// No views yet.
    pub fn new(gateway: Gateway) -> Self {
        let (places, computing) = (Mutex::default(), Semaphore::new(1));
        Self(Arc::new(Inner { gateway, places, computing }))
    }

    /// Watches a view of a project that is a member's to see, for as long as their session lasts.
    pub fn open(
        &self,
        member: &Member,
        token: &str,
        project: ProjectId,
        view: LiveView,
    ) -> Result<LiveStream> {
        self.0.gateway.visible_project(member, project)?;
        let (place, seen) = self.take_place(member.user, (project, view))?;
        Ok(LiveStream::new(place, seen, member.clone(), token))
    }

    /// Follows a view until nobody watches it, or the gateway stops.
    fn start(&self, subject: Subject, sender: watch::Sender<Seen>) {
        let (views, gateway) = (self.clone(), self.0.gateway.clone());
        gateway.tasks.clone().spawn(async move {
            let follow = views.follow(subject, &sender);
            gateway.winding_down.run_until_cancelled(follow).await;
        });
    }

    async fn follow(&self, subject: Subject, sender: &watch::Sender<Seen>) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut look = Look { views: self, subject, ledger: None, due: Instant::now() };
        loop {
            ticks.tick().await;
            if self.is_left(subject) {
                return;
            }
            match look.look().await {
                Ok(Some(seen)) => {
                    sender.send_replace(seen);
                }
                // Streams count the time by this as well.
                Ok(None) => sender.send_modify(|_| ()),
                Err(error) => {
                    tracing::debug!(?subject, error = error.cause(), "a live view was not read");
                    sender.send_modify(|_| ());
                }
            }
        }
    }
}

/// The looks of one task at the database.
struct Look<'v> {
    views: &'v LiveViews,
    subject: Subject,
    /// The minute and its ledger when the figures were computed last: a call changes it.
    ledger: Option<(i64, Vec<LedgerRow>)>,
    /// The time from which figures may be computed again.
    due: Instant,
}

impl Look<'_> {
    /// The view as it is now; `None` if it cannot have changed.
    async fn look(&mut self) -> Result<Option<Seen>> {
        match self.subject.1 {
            LiveView::Traces => self.traces().await.map(Some),
            LiveView::Figures { hours } => self.figures(hours).await,
        }
    }

    async fn traces(&self) -> Result<Seen> {
        let page = Page { order: Order::Newest, beyond: None, offset: 0, limit: NEWEST };
        let (store, filter) = (&self.views.0.gateway.store, TraceFilter::default());
        let traces = bounded(store.traces(self.subject.0, &filter, page)).await?;
        Ok(Seen::Traces(traces.into()))
    }

    async fn figures(&mut self, hours: i64) -> Result<Option<Seen>> {
        let Inner { gateway, computing, .. } = &*self.views.0;
        if Instant::now() < self.due {
            return Ok(None);
        }
        let (project, minute) = (self.subject.0, gateway.clock.now().minute());
        // A call of the last second of a minute is on disk in the next.
        let rows = bounded(gateway.store.usage(project, minute - 1, minute + 1)).await?;
        let ledger = Some((minute, rows));
        if self.ledger == ledger {
            return Ok(None);
        }
        // It is never closed.
        let _turn = computing.acquire().await;
        let state = gateway.registry.project(project)?.ok_or(Error::NotFound)?;
        let began = Instant::now();
        let figures = gateway.compared_figures(&state, Period::last(hours, gateway.clock.now()));
        let figures = figures.await;
        self.due = Instant::now() + began.elapsed() * REST;
        let figures = figures?;
        self.ledger = ledger;
        Ok(Some(Seen::Figures(Arc::new(figures))))
    }
}
