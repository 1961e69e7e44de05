//! An overview that is looked at again and again: figures each second in which a call came, what they are compared
//! with once a minute, and groups as often as their time allows. Groups are read beside the looks: figures wait for
//! none.

use std::sync::Arc;
use std::time::Duration;

use domain::ids::ProjectId;
use domain::time::Timestamp;
use store::{Dimension, LedgerRow};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::bounded_read::bounded;
use crate::error::{Error, Result};
use crate::evidence::figures::{ComparedFigures, Figures};
use crate::evidence::series::UsageSeries;
use crate::evidence::stats::Period;
use crate::evidence::usage::Usage;
use crate::gateway::Gateway;
use crate::live::view::{LiveOverview, Span};

/// The longest rest without a load: a page that is looked at shows what has come.
const LONGEST_REST: Duration = Duration::from_secs(15);

/// How long something rests that is computed again and again.
#[derive(Clone, Copy)]
struct Rest {
    /// After a computation, so many times as long as it took passes before the next.
    times: u32,
    /// The longest rest under a load.
    longest_under_load: Duration,
}

/// Figures of a large project take a while.
const FIGURES_REST: Rest = Rest { times: 9, longest_under_load: LONGEST_REST };
/// Groups read each step that has come since the last time: under a load they are what a page costs its calls.
const GROUPS_REST: Rest = Rest { times: 49, longest_under_load: Duration::from_mins(1) };
/// So many calls in a minute and the one before it are a load.
const LOAD: i64 = 20_000;

/// The minute and its ledger: a call changes it.
type Ledger = (i64, Vec<LedgerRow>);

/// The turns of those who compute: one view of the node at a time computes figures, and one reads groups.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    figures: Arc<Semaphore>,
    groups: Arc<Semaphore>,
}

impl Turns {
    /// Nobody has a turn yet.
    pub(super) fn new() -> Self {
        let turn = || Arc::new(Semaphore::new(1));
        Self { figures: turn(), groups: turn() }
    }
}

/// Groups that are being read.
struct GroupsRead {
    began: Instant,
    at: Timestamp,
    /// The ledger that they are of.
    ledger: Ledger,
    task: AbortOnDropHandle<Result<Vec<Usage>>>,
}

/// The turn of something that was computed, and may be again once it is due.
struct Turn {
    ledger: Option<Ledger>,
    due: Instant,
    rest: Rest,
}

impl Turn {
    fn new(rest: Rest) -> Self {
        Self { ledger: None, due: Instant::now(), rest }
    }

    /// Whether there is something to compute, and it may be.
    fn has_come(&self, ledger: &Ledger) -> bool {
        self.ledger.as_ref() != Some(ledger) && Instant::now() >= self.due
    }

    /// Notes that a computation has begun at a time and is over now. One that has failed is tried again.
    fn is_over(&mut self, began: Instant, ledger: Option<&Ledger>) {
        let Rest { times, longest_under_load } = self.rest;
        let is_load = ledger
            .is_some_and(|(_, rows)| rows.iter().map(|row| row.requests).sum::<i64>() >= LOAD);
        let longest = if is_load { longest_under_load } else { LONGEST_REST };
        self.due = Instant::now() + longest.min(began.elapsed().saturating_mul(times));
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
    turns: Turns,
    for_figures: Turn,
    for_groups: Turn,
    figures: Option<(ComparedFigures, UsageSeries)>,
    groups: Option<Arc<[Usage]>>,
    /// The time at which figures and groups were read.
    read_at: [Timestamp; 2],
    reading: Option<GroupsRead>,
    /// Whether something was read that no look has shown.
    has_news: bool,
    /// The minute in which the period before and all buckets were read.
    minute: i64,
}

impl OverviewLook {
    pub(super) fn new(
        gateway: Gateway,
        project: ProjectId,
        span: Span,
        by: Arc<[Dimension]>,
        turns: Turns,
    ) -> Self {
        Self {
            gateway,
            project,
            span,
            by,
            turns,
            for_figures: Turn::new(FIGURES_REST),
            for_groups: Turn::new(GROUPS_REST),
            figures: None,
            groups: None,
            read_at: [Timestamp(0); 2],
            reading: None,
            has_news: false,
            minute: 0,
        }
    }

    /// The overview as it is now; `None` if it has not changed, or may be computed only later. At first it has no
    /// groups.
    pub(super) async fn look(&mut self) -> Result<Option<Arc<LiveOverview>>> {
        self.take_groups().await;
        if Instant::now() >= self.for_figures.due.min(self.for_groups.due) {
            let minute = self.gateway.clock.now().minute();
            // A call of the last second of a minute is on disk in the next.
            let rows = self.gateway.store.usage(self.project, minute - 1, minute + 1);
            let ledger = (minute, bounded(rows).await?);
            self.update_figures(&ledger).await?;
            self.begin_groups(ledger)?;
        }
        let Some((figures, series)) = self.figures.as_ref().filter(|_| self.has_news) else {
            return Ok(None);
        };
        let (figures, series, usages) = (figures.clone(), series.clone(), self.groups.clone());
        self.has_news = false;
        let read_at = self.read_at[0].min(self.read_at[1]);
        Ok(Some(Arc::new(LiveOverview { figures, series, usages, read_at })))
    }

    /// Reads figures if it is time, and nobody else does.
    async fn update_figures(&mut self, ledger: &Ledger) -> Result<()> {
        let turns = self.turns.figures.clone();
        let Ok(_turn) = turns.try_acquire() else { return Ok(()) };
        if !self.for_figures.has_come(ledger) {
            return Ok(());
        }
        let minute = ledger.0;
        let now = self.gateway.clock.now();
        let period = self.span.at(now);
        let began = Instant::now();
        let read = self.read_figures(&period, minute).await;
        self.for_figures.is_over(began, read.is_ok().then_some(ledger));
        self.figures = Some(read?);
        self.read_at[0] = now;
        self.minute = minute;
        self.has_news = true;
        Ok(())
    }

    /// Begins to read groups if it is time, the figures beside them are there, and nobody else reads any.
    fn begin_groups(&mut self, ledger: Ledger) -> Result<()> {
        let has_figures = self.for_figures.ledger.as_ref() == Some(&ledger);
        if self.reading.is_some() || !has_figures || !self.for_groups.has_come(&ledger) {
            return Ok(());
        }
        let Ok(turn) = self.turns.groups.clone().try_acquire_owned() else { return Ok(()) };
        let state = self.gateway.registry.project(self.project)?.ok_or(Error::NotFound)?;
        let now = self.gateway.clock.now();
        let period = self.span.at(now);
        let (gateway, by) = (self.gateway.clone(), self.by.to_vec());
        let read = async move {
            let _turn = turn;
            gateway.usages(&state, period, by).await
        };
        let task = AbortOnDropHandle::new(self.gateway.tasks.spawn(read));
        self.reading = Some(GroupsRead { began: Instant::now(), at: now, ledger, task });
        Ok(())
    }

    /// Takes groups that were read since the last look. Older ones, or none, beside new figures are better than no
    /// figures.
    async fn take_groups(&mut self) {
        let Some(reading) = self.reading.take_if(|reading| reading.task.is_finished()) else {
            return;
        };
        let GroupsRead { began, at, ledger, task } = reading;
        let read = task.await;
        self.for_groups.is_over(began, matches!(read, Ok(Ok(_))).then_some(&ledger));
        match read {
            Ok(Ok(groups)) => {
                self.groups = Some(groups.into());
                self.read_at[1] = at;
                self.has_news = true;
            }
            Ok(Err(error)) => {
                tracing::debug!(project = %self.project, error = error.cause(), "groups were not read");
            }
            Err(error) => {
                tracing::debug!(project = %self.project, %error, "groups were not read");
            }
        }
    }

    /// The figures of a period and its buckets. The parts that the minute has not changed are kept: the period
    /// before, and all buckets but the latest.
    async fn read_figures(
        &self,
        period: &Period,
        minute: i64,
    ) -> Result<(ComparedFigures, UsageSeries)> {
        let (gateway, project) = (&self.gateway, self.project);
        let known = self.figures.as_ref().filter(|_| self.minute == minute);
        let before = async {
            match known {
                Some((figures, _)) => Ok::<Figures, Error>(figures.before.clone()),
                None => gateway.figures(project, &period.before()).await,
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
}

#[cfg(test)]
mod tests {
    use tokio::task::yield_now;
    use tokio::time::timeout;

    use super::*;
    use crate::testing::Fresh;

    #[tokio::test]
    async fn figures_wait_for_no_groups() {
        let fresh = Fresh::with(serde_json::json!({})).await;
        let turns = Turns::new();
        let view = |hours| {
            let (gateway, project) = (fresh.gateway.clone(), fresh.caller.project.id());
            let by = [Dimension::Key].into();
            OverviewLook::new(gateway, project, Span::Hours(hours), by, turns.clone())
        };
        let places = fresh.gateway.trace_searches.clone();
        let number = places.available_permits() as u32;
        let taken = places.acquire_many_owned(number).await.unwrap();
        let [mut first, mut other] = [view(24), view(168)];
        for view in [&mut first, &mut other] {
            let seen = view.look().await.unwrap().expect("figures were read");
            assert!(seen.usages.is_none(), "all searches are taken");
        }
        drop(taken);
        let groups = async {
            loop {
                if first.look().await.unwrap().is_some_and(|seen| seen.usages.is_some()) {
                    return;
                }
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(30), groups).await.expect("groups come later");
    }
}
