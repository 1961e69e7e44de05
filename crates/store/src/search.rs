//! Traces that fit a filter, a page at a time.
//!
//! The values that a trace is filtered by lie in two places: its own figures, which one index holds
//! (`traces_searched`), and terms (`trace_terms`), a row for each value that a trace or one of its steps
//! has. A page reads the traces of the rarest term or figure, or all in order, and asks for the other
//! conditions one trace at a time.

mod terms;

use async_recursion::async_recursion as boxed;
use domain::grade::Grade;
use domain::ids::{KeyId, ProjectId, TraceId};
use domain::money::Usd;
use domain::time::Timestamp;
use domain::trace::{Trace, TraceStatus};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::Store;
use crate::db::on;
use crate::error::Result;
use crate::traces::{COLUMNS, COUNT_LIMIT, Row};

pub use terms::Term;
pub(crate) use terms::{TermRow, WrittenTerms};

/// A term or figure of fewer traces is the way to them, whatever else is asked for.
const RARE: i64 = 5_000;

/// A figure of fewer traces is the way to them where only other figures are asked for beside it: its index
/// holds those, too, and is read faster than terms are looked up.
const RARE_BESIDE_FIGURES: i64 = 40_000;

/// The most traces that may come between the count of those of a figure and the page.
const MOST_SINCE: i64 = 5_000;

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
    /// those of one status, or of one term.
    pub fn is_search(&self) -> bool {
        let by_status = usize::from(self.status.is_some());
        self.figures_beside_status() > 0
            || by_status + self.terms.len() > 1
            || !self.without.is_empty()
    }

    /// Whether it asks for more than terms and times.
    fn has_figures(&self) -> bool {
        self.status.is_some() || self.figures_beside_status() > 0
    }

    fn figures_beside_status(&self) -> usize {
        let Self { grade, key, min_cost, min_latency, .. } = self;
        [grade.is_some(), key.is_some(), min_cost.is_some(), min_latency.is_some()]
            .into_iter()
            .filter(|is_asked| *is_asked)
            .count()
    }

    /// The most traces to which a figure leads rather than the order of all.
    fn most_by_figure(&self) -> i64 {
        let has_terms = !self.terms.is_empty() || !self.without.is_empty();
        let has_others = self.figures_beside_status() > 1 || self.status.is_some();
        if has_others && !has_terms { RARE_BESIDE_FIGURES } else { RARE }
    }

    /// The conditions that an index leads to.
    fn leads(&self) -> impl Iterator<Item = Lead<'_>> {
        let cost = self.min_cost.map(|cost| Lead::Figure("total_cost", cost.0));
        let latency = self.min_latency.map(|latency| Lead::Figure("latency", latency));
        self.terms.iter().map(Lead::Term).chain(cost).chain(latency)
    }
}

/// The way to the traces of a page.
#[derive(Clone, Copy, Debug)]
enum Lead<'f> {
    /// All traces, in order.
    All,
    /// Those of a term.
    Term(&'f Term),
    /// Those with at least so much in a column, and those that have nothing in it yet.
    Figure(&'static str, i64),
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

/// The columns that a trace itself is filtered by, in the index of each figure.
const FIGURES: [&str; 6] = ["id", "total_cost", "latency", "grade", "status", "key_id"];

/// A value of a question.
#[derive(Clone, Debug)]
enum Value {
    Int(i64),
    Text(String),
    Id(Uuid),
}

/// A question that is put together, and its values.
#[derive(Default)]
struct Question {
    sql: String,
    values: Vec<Value>,
}

impl Question {
    fn text(&mut self, text: &str) {
        self.sql += text;
    }

    /// Adds a text in which `?` stands for a value.
    fn with(&mut self, text: &str, value: Value) {
        self.values.push(value);
        self.sql += &text.replace('?', &format!("${}", self.values.len()));
    }

    /// Adds the bounds of the filter's time to an id: ids begin with the time.
    fn within(&mut self, id: &str, filter: &TraceFilter) {
        for (at, bound) in [(filter.from, ">="), (filter.to, "<")] {
            if let Some(at) = at {
                let first = Value::Id(TraceId::first_at(at).0);
                self.with(&format!(" AND {id} {bound} ?"), first);
            }
        }
    }

    /// Adds the conditions on the trace `t` itself.
    fn figures(&mut self, filter: &TraceFilter) {
        // A trace that is not over has no figures yet: its steps are summed. What the index lacks is read
        // from `z`, for those only: PostgreSQL reads no row of a trace whose `t` is all in the index.
        const COST: &str = " AND (t.total_cost >= ? OR (t.total_cost IS NULL AND (
            SELECT COALESCE(z.purged_cost, 0)
                + (SELECT COALESCE(sum(s.cost), 0) FROM steps s WHERE s.trace_id = z.id)
            FROM traces z WHERE z.id = t.id) >= ?))";
        const LATENCY: &str = " AND (t.latency >= ? OR (t.latency IS NULL AND (
            SELECT COALESCE(
                (SELECT max(s.finished_at) FROM steps s WHERE s.trace_id = z.id) - z.created_at, 0)
            FROM traces z WHERE z.id = t.id) >= ?))";
        let text = |text: &str| Value::Text(text.to_owned());
        if let Some(status) = filter.status {
            self.with(" AND t.status = ?", text(status.as_str()));
        }
        if let Some(grade) = filter.grade {
            self.with(" AND t.grade = ?", text(grade.as_str()));
        }
        if let Some(key) = filter.key {
            self.with(" AND t.key_id = ?", Value::Int(key.to_i64()));
        }
        if let Some(cost) = filter.min_cost {
            self.with(COST, Value::Int(cost.0));
        }
        if let Some(latency) = filter.min_latency {
            self.with(LATENCY, Value::Int(latency));
        }
    }

    /// Adds the conditions on the terms of a trace.
    fn terms<'t>(&mut self, id: &str, has: &str, terms: impl Iterator<Item = &'t Term>) {
        for term in terms {
            let condition = format!(
                " AND {has} (SELECT 1 FROM trace_terms y
                    WHERE y.project_id = $1 AND y.term = ? AND y.trace_id = {id})"
            );
            self.with(&condition, Value::Text(term.as_str().to_owned()));
        }
    }
}

/// Asks for the ids of the traces that fit, and names the column that holds them.
fn ids(project: ProjectId, filter: &TraceFilter, lead: Lead<'_>) -> (Question, &'static str) {
    let (mut asked, id) = led(project, filter, lead);
    if !matches!(lead, Lead::Term(_)) {
        asked.figures(filter);
    } else if filter.has_figures() {
        asked.text(&format!(" AND EXISTS (SELECT 1 FROM traces t WHERE t.id = {id}"));
        asked.figures(filter);
        asked.text(")");
    }
    let others = filter.terms.iter().filter(|term| !matches!(lead, Lead::Term(by) if by == *term));
    asked.terms(id, "EXISTS", others);
    asked.terms(id, "NOT EXISTS", filter.without.iter());
    (asked, id)
}

/// Asks for the ids of the traces of the filter's time to which a condition leads, and names the column that
/// holds them.
fn led(project: ProjectId, filter: &TraceFilter, lead: Lead<'_>) -> (Question, &'static str) {
    let mut asked = Question { values: vec![Value::Int(project.0)], ..Question::default() };
    let id = match lead {
        Lead::All => {
            asked.text("SELECT t.id AS id FROM traces t WHERE t.project_id = $1");
            "t.id"
        }
        Lead::Term(term) => {
            asked.text("SELECT x.trace_id AS id FROM trace_terms x WHERE x.project_id = $1");
            asked.with(" AND x.term = ?", Value::Text(term.as_str().to_owned()));
            "x.trace_id"
        }
        Lead::Figure(column, least) => {
            // The order and the limit keep PostgreSQL to the index of the column: it does not know how
            // few they are, and would read all traces.
            let columns = |of: &str| FIGURES.map(|name| format!("{of}.{name}")).join(", ");
            let (of_highest, of_unknown) = (columns("h"), columns("n"));
            asked.text(&format!("SELECT t.id AS id FROM (SELECT * FROM (SELECT {of_highest}"));
            let highest = format!(" FROM traces h WHERE h.project_id = $1 AND h.{column} >= ?");
            asked.with(&highest, Value::Int(least));
            asked.within("h.id", filter);
            let most = filter.most_by_figure() + MOST_SINCE;
            asked.text(&format!(
                " ORDER BY h.{column} DESC LIMIT {most}) highest
                UNION ALL
                SELECT {of_unknown} FROM traces n WHERE n.project_id = $1 AND n.{column} IS NULL
                ) t WHERE 1 = 1"
            ));
            "t.id"
        }
    };
    asked.within(id, filter);
    (asked, id)
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
        let (lead, _) = self.lead(project, filter).await?;
        let (mut asked, id) = ids(project, filter, lead);
        let (beyond, direction) = match page.order {
            Order::Newest => ("<", "DESC"),
            Order::Oldest => (">", "ASC"),
        };
        if let Some(trace) = page.beyond {
            asked.with(&format!(" AND {id} {beyond} ?"), Value::Id(trace.0));
        }
        asked.with(&format!(" ORDER BY {id} {direction} LIMIT ?"), Value::Int(page.limit));
        asked.with(" OFFSET ?", Value::Int(page.offset));
        let sql = format!(
            "SELECT {COLUMNS} FROM traces WHERE id IN ({}) ORDER BY id {direction}",
            asked.sql
        );
        let rows: Vec<Row> = on!(&self.reader, db => {
            let mut query = sqlx::query_as(AssertSqlSafe(sql));
            for value in asked.values {
                query = match value {
                    Value::Int(number) => query.bind(number),
                    Value::Text(text) => query.bind(text),
                    Value::Id(id) => query.bind(id),
                };
            }
            query.fetch_all(db).await?
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
        if count.is_some_and(|count| count > MOST_LOOKED_AT) {
            return Ok(None);
        }
        if filter.is_search() && count.is_none() {
            let looked_at = self.count(led(project, filter, lead).0, MOST_LOOKED_AT).await?;
            if looked_at > MOST_LOOKED_AT {
                return Ok(None);
            }
        }
        let count = self.count(ids(project, filter, lead).0, COUNT_LIMIT).await?;
        Ok((count <= COUNT_LIMIT).then_some(count))
    }

    /// How many rows a question has; counting ends above `most`.
    async fn count(&self, mut asked: Question, most: i64) -> Result<i64> {
        asked.with(" LIMIT ?", Value::Int(most + 1));
        let sql = format!("SELECT count(*) FROM ({}) AS counted", asked.sql);
        let count: i64 = on!(&self.reader, db => {
            let mut query = sqlx::query_scalar(AssertSqlSafe(sql));
            for value in asked.values {
                query = match value {
                    Value::Int(number) => query.bind(number),
                    Value::Text(text) => query.bind(text),
                    Value::Id(id) => query.bind(id),
                };
            }
            query.fetch_one(db).await?
        });
        Ok(count)
    }

    /// The condition that leads to the traces, and how many they are if that is known: the rarest, if one is
    /// rare. Of frequent terms the first leads, unless the index of all traces answers the rest.
    async fn lead<'f>(
        &self,
        project: ProjectId,
        filter: &'f TraceFilter,
    ) -> Result<(Lead<'f>, Option<i64>)> {
        if let ([term], false) = (&filter.terms[..], filter.has_figures()) {
            return Ok((Lead::Term(term), None));
        }
        let mut rarest = None;
        for lead in filter.leads() {
            let most = match lead {
                Lead::Figure(..) => filter.most_by_figure(),
                _ => RARE,
            };
            // A filter that is more frequent than another is not counted to its end.
            let most = rarest.map_or(most, |(count, _)| most.min(count));
            let count = self.count(led(project, filter, lead).0, most).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_all_in_the_index() {
        let filter = TraceFilter {
            status: Some(TraceStatus::Completed),
            grade: Some(Grade::A),
            key: Some(KeyId(1)),
            min_cost: Some(Usd(1)),
            min_latency: Some(1),
            ..TraceFilter::default()
        };
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        // The columns of `traces_searched`, and those of `traces_costing` and `traces_lasting`.
        let searched = ["project_id", "id", "status", "key_id", "grade", "total_cost", "latency"];
        for (lead, of, indexed) in [
            (Lead::All, "t.", &searched[..]),
            (Lead::Figure("total_cost", 1), "t.", &FIGURES[..]),
            (Lead::Figure("total_cost", 1), "h.", &searched[..]),
        ] {
            let (asked, _) = ids(ProjectId(1), &filter, lead);
            let named = asked.sql.split(|c| !is_name(c)).filter_map(|word| word.strip_prefix(of));
            let named: Vec<&str> = named.collect();
            assert!(named.len() >= indexed.len(), "{named:?}");
            assert!(named.iter().all(|name| indexed.contains(name)), "{named:?}");
        }
    }
}
