//! Audit events as they are read: pages of them, exports, and the whole chain.

use std::fmt::Write as _;

use async_recursion::async_recursion as boxed;
use domain::ids::OrgId;
use domain::time::Timestamp;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use crate::Store;
use crate::audit::chain::{ChainHead, Covered, LinkHash};
use crate::db::{Tx, bounded, within};
use crate::error::Result;
use crate::from_row::from_row;

/// The most events that are read at once in order.
const RECORDS_AT_ONCE: i64 = 500;
/// The most characters of metadata that they have together; a single one may have more.
const METADATA_AT_ONCE: i64 = 1024 * 1024;

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

/// An audit event as it is listed.
#[derive(Clone, Debug)]
pub struct Audit {
    /// Its number.
    pub id: i64,
    /// Its kind.
    pub event: String,
    /// The e-mail address of the actor, or `cli`.
    pub actor: Option<String>,
    /// The kind of the object that was acted on.
    pub target_type: Option<String>,
    /// The id of the object that was acted on.
    pub target_id: Option<String>,
    /// The address it came from.
    pub ip: String,
    /// The client it came from.
    pub user_agent: String,
    /// Further details.
    pub metadata: Value,
    /// The time of the event.
    pub at: Timestamp,
}

/// An audit event with all that its hash covers.
#[derive(Clone, Debug)]
pub struct AuditRecord {
    /// Its number.
    pub id: i64,
    /// Its organization.
    pub org: i64,
    /// Its kind.
    pub event: String,
    /// The number of the user who acted.
    pub actor_id: Option<i64>,
    /// The e-mail address of the actor, or `cli`.
    pub actor: Option<String>,
    /// The kind of the object that was acted on.
    pub target_type: Option<String>,
    /// The id of the object that was acted on.
    pub target_id: Option<String>,
    /// The address it came from.
    pub ip: String,
    /// The client it came from.
    pub user_agent: String,
    /// The text of a JSON object, byte for byte as it is stored.
    pub metadata: String,
    /// The time of the event.
    pub at: Timestamp,
    /// Its place in a chain; `None` for an event from before there were chains.
    pub place: Option<ChainPlace>,
}

/// The place of an event in a chain. A hash is `None` if there is none of the right length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainPlace {
    /// The node of the chain.
    pub node: i64,
    /// The number of the link, from 1 on.
    pub link: i64,
    /// The hash that it continues: that of the link before it, or of the heads of the other chains.
    pub previous: Option<LinkHash>,
    /// Its hash.
    pub hash: Option<LinkHash>,
}

impl AuditRecord {
    /// The hash that the event has at its place if it continues `previous`; `None` for one without a place.
    pub fn hash_after(&self, previous: LinkHash) -> Option<LinkHash> {
        let ChainPlace { node, link, .. } = self.place?;
        let covered = Covered {
            org: self.org,
            event: &self.event,
            actor_id: self.actor_id,
            actor: self.actor.as_deref(),
            target_type: self.target_type.as_deref(),
            target_id: self.target_id.as_deref(),
            ip: &self.ip,
            user_agent: &self.user_agent,
            metadata: &self.metadata,
            at: self.at,
        };
        Some(covered.hash(node, link, previous))
    }
}

from_row! {
    struct Row {
        id: i64,
        event: String,
        actor: Option<String>,
        target_type: Option<String>,
        target_id: Option<String>,
        ip: String,
        user_agent: String,
        metadata: String,
        occurred_at: i64,
    }
}

impl Row {
    fn read(self) -> Audit {
        Audit {
            id: self.id,
            event: self.event,
            actor: self.actor,
            target_type: self.target_type,
            target_id: self.target_id,
            ip: self.ip,
            user_agent: self.user_agent,
            // One unreadable row hides no other.
            metadata: serde_json::from_str(&self.metadata)
                .unwrap_or_else(|_| json!({"unreadable": self.metadata})),
            at: Timestamp(self.occurred_at),
        }
    }
}

from_row! {
    struct RecordRow {
        id: i64,
        org_id: i64,
        event: String,
        actor_id: Option<i64>,
        actor: Option<String>,
        target_type: Option<String>,
        target_id: Option<String>,
        ip: String,
        user_agent: String,
        metadata: String,
        occurred_at: i64,
        node: Option<i64>,
        link: Option<i64>,
        hash: Option<Vec<u8>>,
        previous: Option<Vec<u8>>,
    }
}

impl RecordRow {
    fn read(self) -> AuditRecord {
        let hash = |bytes: Option<Vec<u8>>| LinkHash::stored(&bytes?);
        let place = self.node.map(|node| ChainPlace {
            node,
            // Links count from 1 on.
            link: self.link.unwrap_or_default(),
            previous: hash(self.previous),
            hash: hash(self.hash),
        });
        AuditRecord {
            id: self.id,
            org: self.org_id,
            event: self.event,
            actor_id: self.actor_id,
            actor: self.actor,
            target_type: self.target_type,
            target_id: self.target_id,
            ip: self.ip,
            user_agent: self.user_agent,
            metadata: self.metadata,
            at: Timestamp(self.occurred_at),
            place,
        }
    }
}

/// A value that is bound in a question.
#[derive(Clone, Copy, Debug)]
enum Bound<'a> {
    Number(i64),
    Text(&'a str),
}

/// The conditions of a question, and what is bound in them.
#[derive(Clone, Debug)]
struct Conditions<'a> {
    sql: String,
    bound: Vec<Bound<'a>>,
}

impl<'a> Conditions<'a> {
    /// All events, of all organizations.
    fn none() -> Self {
        Self { sql: "WHERE 1 = 1".to_owned(), bound: Vec::new() }
    }

    /// The events of an organization that fit a filter. A condition that is not given is left out: an index
    /// serves no condition that may or may not hold.
    fn of(org: OrgId, filter: &'a AuditFilter) -> Self {
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

    fn add(&mut self, condition: &str, value: Bound<'a>) {
        self.bound.push(value);
        // Writing to a String cannot fail.
        let _ = write!(self.sql, " AND {condition} ${}", self.bound.len());
    }

    /// Adds the bounds of ids, the first of which is left out.
    fn between(mut self, after: i64, last: i64) -> Self {
        self.add("e.id >", Bound::Number(after));
        self.add("e.id <=", Bound::Number(last));
        self
    }

    /// The question for the ids and sizes of the next events.
    fn sizes(&self) -> String {
        let conditions = &self.sql;
        format!(
            "SELECT e.id, CAST(length(e.metadata) AS BIGINT) AS size
            FROM audit_events e
            {conditions}
            ORDER BY e.id
            LIMIT {RECORDS_AT_ONCE}"
        )
    }

    /// The question for the events themselves.
    fn records(&self) -> String {
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

impl Store {
    /// The last events of an organization that fit a filter, newest first, older than `before`.
    #[boxed]
    pub async fn audit_events(
        &self,
        org: OrgId,
        filter: &AuditFilter,
        before: Option<i64>,
        most: i64,
    ) -> Result<Vec<Audit>> {
        let mut conditions = Conditions::of(org, filter);
        if let Some(before) = before {
            conditions.add("e.id <", Bound::Number(before));
        }
        conditions.bound.push(Bound::Number(most));
        let (sql, bound) = (&conditions.sql, &conditions.bound);
        let sql = format!(
            "SELECT e.id, e.event, e.actor, e.target_type, e.target_id, e.ip, e.user_agent, e.metadata,
                e.occurred_at
            FROM audit_events e
            {sql}
            ORDER BY e.id DESC
            LIMIT ${}",
            bound.len()
        );
        let rows: Vec<Row> = bounded!(&self.reader, db => {
            asked!(sqlx::query_as(AssertSqlSafe(sql)), bound).fetch_all(db).await?
        });
        Ok(rows.into_iter().map(Row::read).collect())
    }

    /// The next events of an organization that fit a filter, oldest first: later than `after`, up to `last`.
    /// At most 500, and about 1 MiB; none at the end.
    #[boxed]
    pub async fn audit_records(
        &self,
        org: OrgId,
        filter: &AuditFilter,
        after: i64,
        last: i64,
    ) -> Result<Vec<AuditRecord>> {
        let conditions = Conditions::of(org, filter);
        let next = conditions.clone().between(after, last);
        let sizes: Vec<(i64, i64)> = bounded!(&self.reader, db => {
            asked!(sqlx::query_as(AssertSqlSafe(next.sizes())), next.bound).fetch_all(db).await?
        });
        let Some(last) = last_of_batch(&sizes) else { return Ok(Vec::new()) };
        let next = conditions.between(after, last);
        let rows: Vec<RecordRow> = bounded!(&self.reader, db => {
            asked!(sqlx::query_as(AssertSqlSafe(next.records())), next.bound).fetch_all(db).await?
        });
        Ok(rows.into_iter().map(RecordRow::read).collect())
    }

    /// Begins to read the events of all organizations and the heads of their chains, as they are now.
    #[boxed]
    pub(crate) async fn read_audit_chain(&self) -> Result<ChainReader> {
        Ok(ChainReader { tx: self.reader.snapshot().await?, after: 0 })
    }
}

/// Reads every event, and the heads of the chains, in one state of the database.
#[derive(Debug)]
pub(crate) struct ChainReader {
    tx: Tx,
    after: i64,
}

impl ChainReader {
    /// The heads of the chains, by their nodes.
    #[boxed]
    pub(crate) async fn heads(&mut self) -> Result<Vec<ChainHead>> {
        const HEADS: &str = "SELECT node, link, hash FROM audit_heads WHERE node > 0 ORDER BY node";
        let rows: Vec<(i64, i64, Vec<u8>)> = within!(self.tx, db => {
            sqlx::query_as(HEADS).fetch_all(&mut *db).await?
        });
        Ok(rows.into_iter().map(head).collect())
    }

    /// The next events, oldest first; none at the end.
    #[boxed]
    pub(crate) async fn next(&mut self) -> Result<Vec<AuditRecord>> {
        let next = Conditions::none().between(self.after, i64::MAX);
        let sizes: Vec<(i64, i64)> = within!(self.tx, db => {
            asked!(sqlx::query_as(AssertSqlSafe(next.sizes())), next.bound).fetch_all(&mut *db).await?
        });
        let Some(last) = last_of_batch(&sizes) else { return Ok(Vec::new()) };
        let next = Conditions::none().between(self.after, last);
        self.after = last;
        let rows: Vec<RecordRow> = within!(self.tx, db => {
            asked!(sqlx::query_as(AssertSqlSafe(next.records())), next.bound).fetch_all(&mut *db).await?
        });
        Ok(rows.into_iter().map(RecordRow::read).collect())
    }
}

/// A row of `audit_heads`.
pub(super) fn head((node, link, hash): (i64, i64, Vec<u8>)) -> ChainHead {
    ChainHead { node, link, hash: LinkHash::stored(&hash) }
}

/// The last event that is read together with those before it.
fn last_of_batch(sizes: &[(i64, i64)]) -> Option<i64> {
    let mut held = 0_i64;
    let fits = sizes.iter().take_while(|(_, size)| {
        held = held.saturating_add(*size);
        held <= METADATA_AT_ONCE
    });
    fits.last().or(sizes.first()).map(|(id, _)| *id)
}
