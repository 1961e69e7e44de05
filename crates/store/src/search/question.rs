//! The questions by which traces are looked for, in SQL.

use domain::ids::{ProjectId, TraceId};
use domain::time::Timestamp;
use uuid::Uuid;

use crate::search::{RARE, Term, TraceFilter};

/// The most traces that may come between the count of those of a figure and the page.
const MOST_SINCE: i64 = 5_000;

/// The way to the traces of a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lead<'f> {
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
pub(super) enum Property {
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
pub(super) enum Lookup {
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

/// The columns that a trace itself is filtered by, in the index of each figure.
const FIGURES: [&str; 6] = ["id", "total_cost", "latency", "grade", "status", "key_id"];

/// A value of a question.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Int(i64),
    Text(String),
    Id(Uuid),
}

/// Between which ids the traces are looked for: comparisons, each with an id. They are asked of every table,
/// since PostgreSQL carries none from one side of a join to the other, and would read the other one from its
/// beginning.
pub(super) struct Span(pub(super) Vec<(&'static str, TraceId)>);

impl Span {
    /// That of a filter's time: ids begin with the time.
    pub(super) fn of(filter: &TraceFilter) -> Self {
        let bounds = [(filter.from, ">="), (filter.to, "<")];
        let first = |(at, bound): (Option<Timestamp>, _)| Some((bound, TraceId::first_at(at?)));
        Self(bounds.into_iter().filter_map(first).collect())
    }
}

/// A question that is put together, and its values.
#[derive(Default)]
pub(super) struct Question {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

impl Question {
    fn text(&mut self, text: &str) {
        self.sql += text;
    }

    /// Adds a text in which `?` stands for a value.
    pub(super) fn with(&mut self, text: &str, value: Value) {
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
pub(super) fn ids(
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
pub(super) fn led(
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
pub(super) fn lookup(count: Option<i64>) -> Lookup {
    count.map_or(Lookup::Joined, |_| Lookup::Each)
}

#[cfg(test)]
mod tests {
    use domain::grade::Grade;
    use domain::ids::KeyId;
    use domain::money::Usd;
    use domain::trace::TraceStatus;

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
