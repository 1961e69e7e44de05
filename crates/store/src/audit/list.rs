//! Audit events as they are read: pages of them, exports, and the whole chain.

use async_recursion::async_recursion as boxed;
use domain::ids::OrgId;
use domain::time::Timestamp;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use crate::Store;
use crate::audit::chain::{ChainHead, Covered, LinkHash};
use crate::audit::question::{AuditFilter, Bound, Conditions, asked};
use crate::db::{Tx, bounded, within};
use crate::error::Result;
use crate::from_row::from_row;

/// The most characters of metadata that they have together; a single one may have more.
const METADATA_AT_ONCE: i64 = 1024 * 1024;

/// The most characters of metadata of a page.
const METADATA_OF_PAGE: i64 = 16 * 1024 * 1024;
/// So many events belong to a page however large they are.
const LEAST_EVENTS: usize = 50;

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

impl Store {
    /// The last events of an organization that fit a filter, newest first, older than `before`: at most
    /// `most`, and beyond 50 about 16 MiB. The second value is whether there are older ones.
    #[boxed]
    pub async fn audit_events(
        &self,
        org: OrgId,
        filter: &AuditFilter,
        before: Option<i64>,
        most: i64,
    ) -> Result<(Vec<Audit>, bool)> {
        let mut conditions = Conditions::of(org, filter);
        if let Some(before) = before {
            conditions.add("e.id <", Bound::Number(before));
        }
        let sizes = conditions.latest_sizes(most.saturating_add(1));
        let sizes: Vec<(i64, i64)> = bounded!(&self.reader, db => {
            asked!(sqlx::query_as(AssertSqlSafe(sizes)), conditions.bound).fetch_all(db).await?
        });
        let mut held = 0_i64;
        let fits = sizes.iter().enumerate().take_while(|(at, (_, size))| {
            held = held.saturating_add(*size);
            (*at as i64) < most && (*at < LEAST_EVENTS || held <= METADATA_OF_PAGE)
        });
        let Some((at, (last, _))) = fits.last() else { return Ok((Vec::new(), !sizes.is_empty())) };
        conditions.add("e.id >=", Bound::Number(*last));
        let rows: Vec<Row> = bounded!(&self.reader, db => {
            let sql = AssertSqlSafe(conditions.latest());
            asked!(sqlx::query_as(sql), conditions.bound).fetch_all(db).await?
        });
        Ok((rows.into_iter().map(Row::read).collect(), at + 1 < sizes.len()))
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
        Ok(ChainReader { tx: self.reader.snapshot().await?, after: i64::MIN })
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
