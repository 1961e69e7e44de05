//! Which audit events are asked for: a filter as SQL.

use std::fmt::Write as _;

use domain::ids::OrgId;
use domain::time::Timestamp;

/// The most events that are read at once in order.
const RECORDS_AT_ONCE: i64 = 500;

/// Which events are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// The time from which on it happened.
    pub from: Option<Timestamp>,
    /// The time before which it happened.
    pub to: Option<Timestamp>,
    /// The e-mail address of the actor, or `cli`.
    pub actor: Option<String>,
    /// The kind of the event.
    pub event: Option<String>,
    /// The kind of the object that was acted on.
    pub target_type: Option<String>,
    /// The id of the object that was acted on.
    pub target_id: Option<String>,
}

/// A value that is bound in a question.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound<'a> {
    Number(i64),
    Text(&'a str),
}

/// The conditions of a question, and what is bound in them.
#[derive(Clone, Debug)]
pub(super) struct Conditions<'a> {
    sql: String,
    pub(super) bound: Vec<Bound<'a>>,
}

impl<'a> Conditions<'a> {
    /// All events, of all organizations.
    pub(super) fn none() -> Self {
        Self { sql: "WHERE 1 = 1".to_owned(), bound: Vec::new() }
    }

    /// The events of an organization that fit a filter. A condition that is not given is left out: an index
    /// serves no condition that may or may not hold.
    pub(super) fn of(org: OrgId, filter: &'a AuditFilter) -> Self {
        let mut asked = Self::none();
        asked.add("e.org_id =", Bound::Number(org.0));
        let times = [("e.occurred_at >=", filter.from), ("e.occurred_at <", filter.to)];
        for (condition, at) in times {
            if let Some(at) = at {
                asked.add(condition, Bound::Number(at.0));
            }
        }
        let texts = [
            ("e.actor =", &filter.actor),
            ("e.event =", &filter.event),
            ("e.target_type =", &filter.target_type),
            ("e.target_id =", &filter.target_id),
        ];
        for (condition, text) in texts {
            if let Some(text) = text {
                asked.add(condition, Bound::Text(text));
            }
        }
        asked
    }

    pub(super) fn add(&mut self, condition: &str, value: Bound<'a>) {
        self.bound.push(value);
        // Writing to a String cannot fail.
        let _ = write!(self.sql, " AND {condition} ${}", self.bound.len());
    }

    /// Adds the bounds of ids, the first of which is left out.
    pub(super) fn between(mut self, after: i64, last: i64) -> Self {
        self.add("e.id >", Bound::Number(after));
        self.add("e.id <=", Bound::Number(last));
        self
    }

    /// The question for the ids and sizes of the next events.
    pub(super) fn sizes(&self) -> String {
        let conditions = &self.sql;
        format!(
            "SELECT e.id, CAST(length(e.metadata) AS BIGINT) AS size
            FROM audit_events e
            {conditions}
            ORDER BY e.id
            LIMIT {RECORDS_AT_ONCE}"
        )
    }

    /// The question for the ids and sizes of the latest events.
    pub(super) fn latest_sizes(&self, most: i64) -> String {
        let conditions = &self.sql;
        format!(
            "SELECT e.id, CAST(length(e.metadata) AS BIGINT) AS size
            FROM audit_events e
            {conditions}
            ORDER BY e.id DESC
            LIMIT {most}"
        )
    }

    /// The question for events as they are listed.
    pub(super) fn latest(&self) -> String {
        let conditions = &self.sql;
        format!(
            "SELECT e.id, e.event, e.actor, e.target_type, e.target_id, e.ip, e.user_agent, e.metadata,
                e.occurred_at
            FROM audit_events e
            {conditions}
            ORDER BY e.id DESC"
        )
    }

    /// The question for the events themselves, with their places.
    pub(super) fn records(&self) -> String {
        let conditions = &self.sql;
        format!(
            "SELECT e.id, e.org_id, e.event, e.actor_id, e.actor, e.target_type, e.target_id, e.ip,
                e.user_agent, e.metadata, e.occurred_at, e.node, e.link, e.hash,
                CASE WHEN e.link = 1 THEN h.start_hash ELSE p.hash END AS previous
            FROM audit_events e
            LEFT JOIN audit_events p ON p.node = e.node AND p.link = e.link - 1
            LEFT JOIN audit_heads h ON h.node = e.node AND e.link = 1
            {conditions}
            ORDER BY e.id"
        )
    }
}

/// Runs a question with what is bound in it.
macro_rules! asked {
    ($query:expr, $bound:expr) => {
        $bound.iter().fold($query, |query, value| match *value {
            Bound::Number(number) => query.bind(number),
            Bound::Text(text) => query.bind(text),
        })
    };
}
pub(super) use asked;
