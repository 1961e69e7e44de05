//! Traces that fit a filter, a page at a time.
//!
//! The values that a trace is filtered by lie in two places: its own figures, which indices hold
//! (`traces_searched`, and one that leads to each figure), and terms (`trace_terms`), a row for each value
//! that a trace or one of its steps has. A page reads the traces of the rarest term or figure, or those of a
//! frequent figure or all in order, and asks for the other conditions one trace at a time.

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

/// The least of a figure that fewer traces have is the way to them where only other figures are asked for beside
/// it: its index holds those, too, and is read faster than terms are looked up. (The order of all traces with
/// another figure has an index, and this one has none.)
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

/// The way to the traces of a page.
#[derive(Clone, Copy, Debug)]
enum Lead<'f> {
    /// All traces, in order.
    All,
    /// Those of a term.
    Term(&'f Term),
    /// Those with a value in a column.
    Property(&'static str, Property),
    /// Those with at least so much in a column, and those that have nothing in it yet.
    Least(&'static str, i64),
}

/// A value that a trace has.
#[derive(Clone, Copy, Debug)]
enum Property {
    Int(i64),
    Text(&'static str),
}

impl From<Property> for Value {
    fn from(property: Property) -> Self {
        match property {
            Property::Int(number) => Self::Int(number),
            Property::Text(text) => Self::Text(text.to_owned()),
        }
    }
}

/// How the terms of traces are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookup {
    /// As the database chooses: by a join of many traces with all that have the term.
    Joined,
    /// One trace at a time: they are few, which PostgreSQL does not know, and would read all that have the term.
    Each,
}

impl Lookup {
    /// The end of a question for the term of a trace. No database joins a question with an offset.
    fn end(self) -> &'static str {
        match self {
            Self::Joined => ")",
            Self::Each => " LIMIT 1 OFFSET 0)",
        }
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

/// The columns that a trace itself is filtered by, in the index of each figure.
const FIGURES: [&str; 6] = ["id", "total_cost", "latency", "grade", "status", "key_id"];

/// A value of a question.
#[derive(Clone, Debug)]
enum Value {
    Int(i64),
    Text(String),
    Id(Uuid),
}

/// Between which ids the traces are looked for: comparisons, each with an id. They are asked of every table,
/// since PostgreSQL carries none from one side of a join to the other, and would read the other one from its
/// beginning.
struct Span(Vec<(&'static str, TraceId)>);

impl Span {
    /// That of a filter's time: ids begin with the time.
    fn of(filter: &TraceFilter) -> Self {
        let bounds = [(filter.from, ">="), (filter.to, "<")];
        let first = |(at, bound): (Option<Timestamp>, _)| Some((bound, TraceId::first_at(at?)));
        Self(bounds.into_iter().filter_map(first).collect())
    }
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

    /// Adds the bounds of an id.
    fn within(&mut self, id: &str, span: &Span) {
        for (bound, trace) in &span.0 {
            self.with(&format!(" AND {id} {bound} ?"), Value::Id(trace.0));
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
        for (number, (column, value)) in filter.properties().enumerate() {
            // The index of the first one is taken. SQLite knows no numbers of rows, and would take that of a key
            // which opened every trace for a page of those of a grade.
            let none = if matches!(value, Property::Int(_)) { "0" } else { "''" };
            let condition = match number {
                0 => format!(" AND t.{column} = ?"),
                _ => format!(" AND COALESCE(t.{column}, {none}) = ?"),
            };
            self.with(&condition, value.into());
        }
        if let Some(cost) = filter.min_cost {
            self.with(COST, Value::Int(cost.0));
        }
        if let Some(latency) = filter.min_latency {
            self.with(LATENCY, Value::Int(latency));
        }
    }

    /// Adds the conditions on the terms of a trace.
    fn terms<'t>(
        &mut self,
        (id, span, lookup): (&str, &Span, Lookup),
        has: &str,
        terms: impl Iterator<Item = &'t Term>,
    ) {
        for term in terms {
            let condition = format!(
                " AND {has} (SELECT 1 FROM trace_terms y
                    WHERE y.project_id = $1 AND y.term = ? AND y.trace_id = {id}"
            );
            self.with(&condition, Value::Text(term.as_str().to_owned()));
            self.within("y.trace_id", span);
            self.text(lookup.end());
        }
    }
}

/// Asks for the ids of the traces that fit, and names the column that holds them.
fn ids(
    project: ProjectId,
    filter: &TraceFilter,
    (lead, lookup): (Lead<'_>, Lookup),
    span: &Span,
) -> (Question, &'static str) {
    let (mut asked, id) = led(project, filter, lead, span);
    if !matches!(lead, Lead::Term(_)) {
        asked.figures(filter);
    } else if filter.has_figures() {
        // The index that holds the figures begins with the project.
        let trace = "SELECT 1 FROM traces t WHERE t.project_id = $1 AND t.id =";
        asked.text(&format!(" AND EXISTS ({trace} {id}"));
        asked.within("t.id", span);
        asked.figures(filter);
        asked.text(")");
    }
    let others = filter.terms.iter().filter(|term| !matches!(lead, Lead::Term(by) if by == *term));
    asked.terms((id, span, lookup), "EXISTS", others);
    asked.terms((id, span, lookup), "NOT EXISTS", filter.without.iter());
    (asked, id)
}

/// Asks for the ids of the traces of a span to which a condition leads, and names the column that holds them.
fn led(
    project: ProjectId,
    filter: &TraceFilter,
    lead: Lead<'_>,
    span: &Span,
) -> (Question, &'static str) {
    let columns = |of: &str| FIGURES.map(|name| format!("{of}.{name}")).join(", ");
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
        // The order and the limit keep PostgreSQL to the index of the column: it does not know how few they
        // are, and would read all traces.
        Lead::Property(column, value) => {
            asked.text(&format!("SELECT t.id AS id FROM (SELECT {}", columns("h")));
            let those = format!(" FROM traces h WHERE h.project_id = $1 AND h.{column} = ?");
            asked.with(&those, value.into());
            asked.within("h.id", span);
            let most = RARE + MOST_SINCE;
            asked.text(&format!(" ORDER BY h.id DESC LIMIT {most}) t WHERE 1 = 1"));
            "t.id"
        }
        Lead::Least(column, least) => {
            let (of_highest, of_unknown) = (columns("h"), columns("n"));
            asked.text(&format!("SELECT t.id AS id FROM (SELECT * FROM (SELECT {of_highest}"));
            let highest = format!(" FROM traces h WHERE h.project_id = $1 AND h.{column} >= ?");
            asked.with(&highest, Value::Int(least));
            asked.within("h.id", span);
            let most = filter.most_by_least() + MOST_SINCE;
            asked.text(&format!(
                " ORDER BY h.{column} DESC LIMIT {most}) highest
                UNION ALL
                SELECT {of_unknown} FROM traces n WHERE n.project_id = $1 AND n.{column} IS NULL
                ) t WHERE 1 = 1"
            ));
            "t.id"
        }
    };
    asked.within(id, span);
    (asked, id)
}

/// How the traces of a lead are looked up elsewhere, of which so many are known to be.
fn lookup(count: Option<i64>) -> Lookup {
    count.map_or(Lookup::Joined, |_| Lookup::Each)
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
        // The columns of `traces_searched`, and those of the index of each figure.
        let searched = ["project_id", "id", "status", "key_id", "grade", "total_cost", "latency"];
        let grade = Lead::Property("grade", Property::Text("A"));
        for (lead, of, indexed) in [
            (Lead::All, "t.", &searched[..]),
            (Lead::Least("total_cost", 1), "t.", &FIGURES[..]),
            (Lead::Least("total_cost", 1), "h.", &searched[..]),
            (grade, "t.", &FIGURES[..]),
            (grade, "h.", &searched[..]),
        ] {
            let (asked, _) = ids(ProjectId(1), &filter, (lead, Lookup::Each), &Span::of(&filter));
            let named = asked.sql.split(|c| !is_name(c)).filter_map(|word| word.strip_prefix(of));
            let named: Vec<&str> = named.collect();
            assert!(named.len() >= indexed.len(), "{named:?}");
            assert!(named.iter().all(|name| indexed.contains(name)), "{named:?}");
        }
    }
}
