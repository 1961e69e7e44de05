//! Traces that fit a filter, a page at a time.
//!
//! The values that a trace is filtered by lie in two places: its own figures, which indices hold
//! (`traces_searched`, and one that leads to each figure), and terms (`trace_terms`), a row for each value
//! that a trace or one of its steps has. A page reads the traces of the rarest term or figure, or those of a
//! frequent figure or all in order, and asks for the other conditions one trace at a time.

mod question;
mod terms;

use async_recursion::async_recursion as boxed;
use domain::grade::Grade;
use domain::ids::{KeyId, ProjectId, TraceId};
use domain::money::Usd;
use domain::time::Timestamp;
use domain::trace::{Trace, TraceStatus};
use sqlx::AssertSqlSafe;

use crate::Store;
use crate::db::on;
use crate::error::Result;
use crate::search::question::{Lead, Property, Question, Span, Value, ids, led, lookup};
use crate::traces::{COLUMNS, COUNT_LIMIT, Row};

pub use terms::Term;
pub(crate) use terms::{TermRow, WrittenTerms};

/// A term or figure of fewer traces is the way to them, whatever else is asked for.
const RARE: i64 = 5_000;

/// The least of a figure that fewer traces have is the way to them where only other figures are asked for beside
/// it: its index holds those, too, and is read faster than terms are looked up. (The order of all traces with
/// another figure has an index, and this one has none.)
const RARE_BESIDE_FIGURES: i64 = 40_000;

/// The most traces that are looked at one by one for the number of those that fit.
const MOST_LOOKED_AT: i64 = 20_000;

/// The conditions under which a trace is listed.
#[derive(Clone, Debug, Default)]
pub struct TraceFilter {
    /// Its status.
    pub status: Option<TraceStatus>,
    /// The time from which on it was opened.
    pub from: Option<Timestamp>,
    /// The time before which it was opened.
    pub to: Option<Timestamp>,
    /// Its overall grade.
    pub grade: Option<Grade>,
    /// The key that opened it.
    pub key: Option<KeyId>,
    /// Its least cost.
    pub min_cost: Option<Usd>,
    /// The least time from its opening to its last step, in microseconds.
    pub min_latency: Option<i64>,
    /// Terms that it has.
    pub terms: Vec<Term>,
    /// Terms that it does not have.
    pub without: Vec<Term>,
}

impl TraceFilter {
    /// Whether traces have to be looked through one by one, also those that do not fit. An index leads to
    /// those of one property, or of one term.
    pub fn is_search(&self) -> bool {
        self.least().next().is_some()
            || self.properties().count() + self.terms.len() > 1
            || !self.without.is_empty()
    }

    /// Whether it asks for more than terms and times.
    fn has_figures(&self) -> bool {
        self.figures().next().is_some()
    }

    /// The most traces to which the least of a figure leads rather than an order.
    fn most_by_least(&self) -> i64 {
        let has_terms = !self.terms.is_empty() || !self.without.is_empty();
        if self.figures().count() > 1 && !has_terms { RARE_BESIDE_FIGURES } else { RARE }
    }

    /// The figures that are asked for by their value. Statuses come last: most traces have the same one.
    fn properties(&self) -> impl Iterator<Item = (&'static str, Property)> {
        let grade = self.grade.map(|grade| ("grade", Property::Text(grade.as_str())));
        let key = self.key.map(|key| ("key_id", Property::Int(key.to_i64())));
        let status = self.status.map(|status| ("status", Property::Text(status.as_str())));
        grade.into_iter().chain(key).chain(status)
    }

    /// The figures of which at least so much is asked for.
    fn least(&self) -> impl Iterator<Item = Lead<'_>> {
        let cost = self.min_cost.map(|cost| Lead::Least("total_cost", cost.0));
        let latency = self.min_latency.map(|latency| Lead::Least("latency", latency));
        cost.into_iter().chain(latency)
    }

    fn figures(&self) -> impl Iterator<Item = Lead<'_>> {
        let properties = self.properties();
        properties.map(|(column, value)| Lead::Property(column, value)).chain(self.least())
    }

    /// The conditions that an index leads to.
    fn leads(&self) -> impl Iterator<Item = Lead<'_>> {
        self.terms.iter().map(Lead::Term).chain(self.figures())
    }
}

/// The order of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Newest first.
    #[default]
    Newest,
    /// Oldest first.
    Oldest,
}

/// A page of a project's traces.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// The order of the traces.
    pub order: Order,
    /// Only traces that come after this one in the order.
    pub beyond: Option<TraceId>,
    /// The number of traces to skip.
    pub offset: i64,
    /// The number of traces to return.
    pub limit: i64,
}

/// A query with the values of a question, in their order. It is a macro, since queries of rows and of single values
/// have no common trait.
macro_rules! bound {
    ($query:expr, $values:expr) => {{
        let mut query = $query;
        for value in $values {
            query = match value {
                Value::Int(number) => query.bind(number),
                Value::Text(text) => query.bind(text),
                Value::Id(id) => query.bind(id),
            };
        }
        query
    }};
}

impl Store {
    /// A page of a project's traces.
    ///
    /// The page is found in indices that hold all it needs, so that a deep page costs the scan of an
    /// index and no more.
    #[boxed]
    pub async fn traces(
        &self,
        project: ProjectId,
        filter: &TraceFilter,
        page: Page,
    ) -> Result<Vec<Trace>> {
        let (lead, count) = self.lead(project, filter).await?;
        let (beyond, direction) = match page.order {
            Order::Newest => ("<", "DESC"),
            Order::Oldest => (">", "ASC"),
        };
        let mut span = Span::of(filter);
        span.0.extend(page.beyond.map(|trace| (beyond, trace)));
        let (mut asked, id) = ids(project, filter, (lead, lookup(count)), &span);
        asked.with(&format!(" ORDER BY {id} {direction} LIMIT ?"), Value::Int(page.limit));
        asked.with(" OFFSET ?", Value::Int(page.offset));
        let sql = format!(
            "SELECT {COLUMNS} FROM traces WHERE id IN ({}) ORDER BY id {direction}",
            asked.sql
        );
        let rows: Vec<Row> = on!(&self.reader, db => {
            bound!(sqlx::query_as(AssertSqlSafe(sql)), asked.values).fetch_all(db).await?
        });
        rows.into_iter().map(Row::read).collect()
    }

    /// How many traces of a project fit a filter; `None` above [`COUNT_LIMIT`], or if more than
    /// [`MOST_LOOKED_AT`] would have to be looked at for it: a page is found long before.
    #[boxed]
    pub async fn count_traces(
        &self,
        project: ProjectId,
        filter: &TraceFilter,
    ) -> Result<Option<i64>> {
        let (lead, count) = self.lead(project, filter).await?;
        let span = Span::of(filter);
        if count.is_some_and(|count| count > MOST_LOOKED_AT) {
            return Ok(None);
        }
        if filter.is_search() && count.is_none() {
            let looked_at = self.count(led(project, filter, lead, &span).0, MOST_LOOKED_AT).await?;
            if looked_at > MOST_LOOKED_AT {
                return Ok(None);
            }
        }
        let count =
            self.count(ids(project, filter, (lead, lookup(count)), &span).0, COUNT_LIMIT).await?;
        Ok((count <= COUNT_LIMIT).then_some(count))
    }

    /// How many rows a question has; counting ends above `most`.
    async fn count(&self, mut asked: Question, most: i64) -> Result<i64> {
        asked.with(" LIMIT ?", Value::Int(most + 1));
        let sql = format!("SELECT count(*) FROM ({}) AS counted", asked.sql);
        let count: i64 = on!(&self.reader, db => {
            bound!(sqlx::query_scalar(AssertSqlSafe(sql)), asked.values).fetch_one(db).await?
        });
        Ok(count)
    }

    /// The condition that leads to the traces, and how many they are if that is known: the rarest, if one is
    /// rare. Of frequent terms the first leads, unless the indices of all traces answer the rest.
    async fn lead<'f>(
        &self,
        project: ProjectId,
        filter: &'f TraceFilter,
    ) -> Result<(Lead<'f>, Option<i64>)> {
        // One condition has nothing that is rarer.
        match (&filter.terms[..], filter.figures().count()) {
            ([term], 0) => return Ok((Lead::Term(term), None)),
            ([], 0) => return Ok((Lead::All, None)),
            ([], 1) if filter.least().next().is_none() => return Ok((Lead::All, None)),
            _ => {}
        }
        let span = Span::of(filter);
        let mut rarest = None;
        for lead in filter.leads() {
            let most = match lead {
                Lead::Least(..) => filter.most_by_least(),
                Lead::All | Lead::Term(_) | Lead::Property(..) => RARE,
            };
            // A filter that is more frequent than another is not counted to its end.
            let most = rarest.map_or(most, |(count, _)| most.min(count));
            let count = self.count(led(project, filter, lead, &span).0, most).await?;
            if count <= most {
                rarest = Some((count, lead));
            }
        }
        Ok(match (rarest, filter.terms.first()) {
            (Some((count, lead)), _) => (lead, Some(count)),
            (None, Some(term)) if !filter.has_figures() => (Lead::Term(term), None),
            (None, _) => (Lead::All, None),
        })
    }
}
