//! An overview that is looked at again and again: figures each second in which a call came, what they are compared
//! with once a minute, and groups as often as their time allows.

use std::sync::Arc;

use domain::ids::ProjectId;
use store::{Dimension, LedgerRow};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::bounded_read::bounded;
use crate::error::{Error, Result};
use crate::evidence::figures::{ComparedFigures, FiguresBefore};
use crate::evidence::series::UsageSeries;
use crate::evidence::stats::Period;
use crate::evidence::usage::Usage;
use crate::gateway::Gateway;
use crate::live::view::{LiveOverview, Span};
use crate::state::registry::ProjectState;

/// After something was computed, so many times as long passes before it is computed again: figures of a large
/// project take a while.
const REST: u32 = 9;

/// The minute and its ledger: a call changes it.
type Ledger = (i64, Vec<LedgerRow>);

/// When something was computed, and when it may be again.
struct Turn {
    ledger: Option<Ledger>,
    due: Instant,
}

impl Turn {
    fn new() -> Self {
        Self { ledger: None, due: Instant::now() }
    }

    /// Whether there is something to compute, and it may be.
    fn has_come(&self, ledger: &Ledger) -> bool {
        self.ledger.as_ref() != Some(ledger) && Instant::now() >= self.due
    }

    /// Notes that a computation has begun at a time and is over now. One that has failed is tried again.
    fn is_over(&mut self, began: Instant, ledger: Option<&Ledger>) {
        self.due = Instant::now() + began.elapsed() * REST;
        if let Some(ledger) = ledger {
            self.ledger = Some(ledger.clone());
        }
    }
}

/// The look of one task at an overview.
pub(super) struct OverviewLook {
    gateway: Gateway,
    project: ProjectId,
    span: Span,
    by: Arc<[Dimension]>,
    computing: Arc<Semaphore>,
    for_figures: Turn,
    for_groups: Turn,
    figures: Option<(ComparedFigures, UsageSeries)>,
    groups: Option<Arc<[Usage]>>,
    /// The minute in which the period before and all buckets were read.
    minute: i64,
}

impl OverviewLook {
    pub(super) fn new(
        gateway: Gateway,
        project: ProjectId,
        span: Span,
        by: Arc<[Dimension]>,
        computing: Arc<Semaphore>,
    ) -> Self {
        let (for_figures, for_groups) = (Turn::new(), Turn::new());
        let (figures, groups, minute) = (None, None, 0);
        Self {
            gateway,
            project,
            span,
            by,
            computing,
            for_figures,
            for_groups,
            figures,
            groups,
            minute,
        }
    }

    /// The overview as it is now; `None` if it has not changed, or may be computed only later.
    pub(super) async fn look(&mut self) -> Result<Option<Arc<LiveOverview>>> {
        if Instant::now() < self.for_figures.due.min(self.for_groups.due) {
            return Ok(None);
        }
        let minute = self.gateway.clock.now().minute();
        // A call of the last second of a minute is on disk in the next.
        let rows = self.gateway.store.usage(self.project, minute - 1, minute + 1);
        let ledger = (minute, bounded(rows).await?);
        let (reads_figures, reads_groups) =
            (self.for_figures.has_come(&ledger), self.for_groups.has_come(&ledger));
        if !reads_figures && !reads_groups {
            return Ok(None);
        }
        let computing = self.computing.clone();
        let Ok(_turn) = computing.try_acquire() else { return Ok(None) };
        let state = self.gateway.registry.project(self.project)?.ok_or(Error::NotFound)?;
        let period = self.span.at(self.gateway.clock.now());
        if reads_figures {
            let began = Instant::now();
            let read = self.read_figures(&period, minute).await;
            self.for_figures.is_over(began, read.is_ok().then_some(&ledger));
            self.figures = Some(read?);
            self.minute = minute;
        }
        if reads_groups {
            let began = Instant::now();
            let read = self.read_groups(&state, period).await;
            self.for_groups.is_over(began, read.is_ok().then_some(&ledger));
            match read {
                Ok(groups) => self.groups = Some(groups),
                // Older groups beside new figures are better than none.
                Err(error) if self.groups.is_none() => return Err(error),
                Err(error) => {
                    tracing::debug!(project = %self.project, error = error.cause(), "groups were not read");
                }
            }
        }
        let (Some((figures, series)), Some(groups)) = (&self.figures, &self.groups) else {
            return Ok(None);
        };
        let (figures, series, usages) = (figures.clone(), series.clone(), groups.clone());
        Ok(Some(Arc::new(LiveOverview { figures, series, usages })))
    }

    /// The figures of a period and its buckets. What the minute has not changed is kept: the period before, and all
    /// buckets but the latest.
    async fn read_figures(
        &self,
        period: &Period,
        minute: i64,
    ) -> Result<(ComparedFigures, UsageSeries)> {
        let (gateway, project) = (&self.gateway, self.project);
        let known = self.figures.as_ref().filter(|_| self.minute == minute);
        let before = async {
            match known {
                Some((figures, _)) => Ok::<FiguresBefore, Error>(figures.before.clone()),
                None => gateway.figures_before(project, period).await,
            }
        };
        let series = async {
            match known {
                Some((_, series)) => {
                    let mut series = series.clone();
                    gateway.read_series_from(project, &mut series, minute - 1).await?;
                    Ok(series)
                }
                None => gateway.series(project, period).await,
            }
        };
        let now = gateway.figures(project, period);
        let (now, before, series) = tokio::try_join!(now, before, series)?;
        Ok((ComparedFigures { now, before }, series))
    }

    async fn read_groups(&self, state: &ProjectState, period: Period) -> Result<Arc<[Usage]>> {
        let usages = self.gateway.usages(state, period, self.by.to_vec()).await?;
        Ok(usages.into())
    }
}
