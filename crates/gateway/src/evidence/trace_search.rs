//! Lists of traces, and what they are filtered by, as a caller asks for it.

use std::time::Duration;

use domain::attributes::AttributeName;
use domain::grade::Grade;
use domain::ids::{KeyId, ProjectId, TraceId};
use domain::money::Usd;
use domain::time::Timestamp;
use domain::trace::{Trace, TraceStatus};
use store::{Order, Page, Term, TraceFilter};
use tokio::sync::{AcquireError, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::bounded_read::bounded_holding;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::caller::Caller;
use crate::state::member::Member;
use crate::state::registry::ProjectState;

/// Lists at a time for which traces are looked through one by one, and statistics for which steps are, of all
/// projects together. A long one holds a connection to the database, of which there are few.
pub(crate) const TRACE_SEARCHES: usize = 3;
/// For how long such a list waits for others.
const SEARCH_PATIENCE: Duration = Duration::from_secs(2);

/// A page of traces that a caller asks for.
#[derive(Clone, Debug, Default)]
pub struct TraceQuery {
    /// Only traces of this status.
    pub status: Option<TraceStatus>,
    /// Only traces that were opened at this time or later.
    pub from: Option<Timestamp>,
    /// Only traces that were opened before this time.
    pub to: Option<Timestamp>,
    /// Only traces of this overall grade.
    pub grade: Option<Grade>,
    /// Only traces in which this model was called.
    pub model: Option<String>,
    /// Only traces that this key has opened.
    pub key: Option<KeyId>,
    /// Only traces that have these attributes, or whose steps have them.
    pub attributes: Vec<(AttributeName, String)>,
    /// Only traces with these members of their metadata. One that no trace can have is passed over.
    pub metadata: Vec<(String, String)>,
    /// Only traces that cost this much.
    pub min_cost: Option<Usd>,
    /// Only traces that took this long, in microseconds.
    pub min_latency: Option<i64>,
    /// Only traces with these findings.
    pub findings: Vec<Term>,
    /// Only traces with a step that failed, or without one.
    pub has_error: Option<bool>,
    /// Their order.
    pub order: Order,
    /// Only traces beyond this one.
    pub beyond: Option<TraceId>,
    /// The number of traces to skip.
    pub offset: i64,
    /// The number of traces to return.
    pub limit: i64,
}

impl TraceQuery {
    /// The filter of a project's traces. Attributes that are stored as hashes are sought by them.
    pub(super) fn filter(&self, project: &ProjectState) -> TraceFilter {
        let attribute = |(name, value): &(AttributeName, String)| {
            Term::attribute(name, &project.stored_value(name, value))
        };
        // The hash is stored of attributes in the metadata, too.
        let member = |(member, value): &(String, String)| match AttributeName::parse(member) {
            Some(name @ (AttributeName::User | AttributeName::Session)) => {
                Term::metadata(member, &project.stored_value(&name, value))
            }
            Some(AttributeName::Tag(_)) | None => Term::metadata(member, value),
        };
        let model = self.model.as_deref().map(Term::model);
        let error = |wanted| self.has_error.filter(|has| *has == wanted).map(|_| Term::error());
        let mut terms: Vec<Term> = self.attributes.iter().map(attribute).chain(model).collect();
        terms.extend(self.metadata.iter().filter_map(member));
        terms.extend(self.findings.iter().cloned().chain(error(true)));
        TraceFilter {
            status: self.status,
            from: self.from,
            to: self.to,
            grade: self.grade,
            key: self.key,
            min_cost: self.min_cost,
            min_latency: self.min_latency,
            terms,
            without: error(false).into_iter().collect(),
        }
    }

    /// The page of the traces that fit.
    pub(super) fn page(&self) -> Page {
        let Self { order, beyond, offset, limit, .. } = *self;
        Page { order, beyond, offset, limit }
    }
}

/// A page of traces and how many there are, up to [`store::COUNT_LIMIT`].
#[derive(Debug)]
pub struct TracePage {
    /// The traces, in the order that was asked for.
    pub traces: Vec<Trace>,
    /// The number of matches of the filter; `None` above the limit, or if it takes too long to find.
    pub total: Option<i64>,
}

impl Gateway {
    /// A page of the caller's traces.
    pub async fn list_traces(&self, caller: &Caller, query: &TraceQuery) -> Result<TracePage> {
        self.traces_of(&caller.project, query).await
    }

    /// A page of the traces of a project that is a member's to see.
    pub async fn list_traces_for_member(
        &self,
        member: &Member,
        project: ProjectId,
        query: &TraceQuery,
    ) -> Result<TracePage> {
        self.traces_of(&*self.visible_project(member, project)?, query).await
    }

    /// Some traces of a project that is a member's to see, without how many fit in all.
    pub async fn traces_for_member(
        &self,
        member: &Member,
        project: ProjectId,
        query: &TraceQuery,
    ) -> Result<Vec<Trace>> {
        let project = self.visible_project(member, project)?;
        Ok(self.read_traces(&project, query, Counts::No).await?.traces)
    }

    async fn traces_of(&self, project: &ProjectState, query: &TraceQuery) -> Result<TracePage> {
        self.read_traces(project, query, Counts::Yes).await
    }

    async fn read_traces(
        &self,
        state: &ProjectState,
        query: &TraceQuery,
        counts: Counts,
    ) -> Result<TracePage> {
        let project = state.id();
        let filter = query.filter(state);
        let place = if filter.is_search() { Some(self.search_place(state).await?) } else { None };
        let (gateway, page) = (self.clone(), query.page());
        let waits = CancellationToken::new();
        let gone = waits.clone();
        let _waits = waits.drop_guard();
        bounded_holding(&self.tasks, place, async move {
            let traces = gateway.store.traces(project, &filter, page).await?;
            let total = match total_of(page, traces.len()) {
                None if counts == Counts::Yes && !gone.is_cancelled() => {
                    gateway.store.count_traces(project, &filter).await?
                }
                known => known,
            };
            Ok(TracePage { traces, total })
        })
        .await
    }

    /// Waits a little for the permits to look through traces or steps of a project: its own, so that others
    /// find one, and one of all.
    pub(super) async fn search_place(
        &self,
        project: &ProjectState,
    ) -> Result<[OwnedSemaphorePermit; 2]> {
        let places = async {
            let own = project.searches.clone().acquire_owned().await?;
            Ok::<_, AcquireError>([own, self.trace_searches.clone().acquire_owned().await?])
        };
        let places = tokio::time::timeout(SEARCH_PATIENCE, places).await;
        places.ok().and_then(std::result::Result::ok).ok_or(Error::Busy {
            why: "Other searches and statistics take all the time that there is for them",
            retry_after: 5,
        })
    }
}

/// Whether all that fit are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Yes,
    No,
}

/// How many traces fit, if the page shows that: it is the last one.
fn total_of(page: Page, traces: usize) -> Option<i64> {
    let traces = i64::try_from(traces).ok()?;
    let is_last = traces < page.limit && (traces > 0 || page.offset == 0);
    (page.beyond.is_none() && is_last)
        .then_some(page.offset + traces)
        .filter(|total| *total <= store::COUNT_LIMIT)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::testing::Fresh;

    #[test]
    fn the_last_page_shows_the_total() {
        let page = |offset| Page { order: store::Order::Newest, beyond: None, offset, limit: 50 };
        assert_eq!(total_of(page(0), 0), Some(0));
        assert_eq!(total_of(page(100), 7), Some(107));
        assert_eq!(total_of(page(0), 50), None, "there may be more");
        assert_eq!(total_of(page(100), 0), None, "there may be fewer");
        let beyond = Some(TraceId(Uuid::nil()));
        assert_eq!(total_of(Page { beyond, ..page(0) }, 7), None);
        assert_eq!(total_of(page(store::COUNT_LIMIT), 7), None, "so far nothing is counted");
    }

    #[tokio::test]
    async fn searches_leave_connections_to_others() {
        let fresh = Fresh::with(serde_json::json!({})).await;
        fresh.trace().await;
        let dear = TraceQuery { min_cost: Some(Usd(1)), limit: 50, ..TraceQuery::default() };
        let all = TraceQuery { limit: 50, ..TraceQuery::default() };
        let of_all = fresh.gateway.trace_searches.clone();
        let of_project = fresh.caller.project.searches.clone();
        for places in [of_all, of_project] {
            let number = places.available_permits();
            let taken = places.acquire_many_owned(number as u32).await.unwrap();
            let busy = fresh.gateway.list_traces(&fresh.caller, &dear).await;
            assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}");
            let listed = fresh.gateway.list_traces(&fresh.caller, &all).await.unwrap();
            assert_eq!((listed.traces.len(), listed.total), (1, Some(1)));
            drop(taken);
        }
        let found = fresh.gateway.list_traces(&fresh.caller, &dear).await.unwrap();
        assert_eq!((found.traces.len(), found.total), (0, Some(0)));
    }
}
