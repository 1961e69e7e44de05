//! Audit events: the actions on the control plane, with their actors.

pub(crate) mod chain;
pub(crate) mod check;
pub(crate) mod list;
pub(crate) mod question;

use async_recursion::async_recursion as boxed;
use domain::ids::{OrgId, UserId};
use domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::audit::chain::{ChainHead, Covered, LinkHash, RECOUNTED, hash_of_heads};
use crate::db::{AnyTx, Tx, within};
use crate::error::Result;

/// The actor of an event.
#[derive(Clone, Copy, Debug)]
pub enum Actor<'a> {
    /// A signed-in user, by number and address.
    User(UserId, &'a str),
    /// A service token, by its id.
    ServiceToken(&'a str),
    /// A person who may run commands on the machine.
    CommandLine,
}

impl<'a> Actor<'a> {
    fn user(self) -> Option<i64> {
        match self {
            Self::User(id, _) => Some(id.0),
            Self::ServiceToken(_) | Self::CommandLine => None,
        }
    }

    fn name(self) -> &'a str {
        match self {
            Self::User(_, email) => email,
            // These are no addresses, so no user can have them.
            Self::ServiceToken(id) => id,
            Self::CommandLine => "cli",
        }
    }
}

/// An audit event that is about to be written.
#[derive(Clone, Debug)]
pub struct NewAudit<'a> {
    /// The organization of the event.
    pub org: OrgId,
    /// One of the event kinds of the interface.
    pub event: &'static str,
    /// The actor, if known.
    pub actor: Option<Actor<'a>>,
    /// The kind and id of the object that was acted on.
    pub target: Option<(&'static str, String)>,
    /// The address it came from; empty for the machine itself.
    pub ip: &'a str,
    /// The client it came from.
    pub user_agent: &'a str,
    /// Further details; never a secret.
    pub metadata: Map<String, Value>,
    /// The time of the event.
    pub at: Timestamp,
}

impl Tx {
    /// Writes an audit event, as the next link of the chain of this node. Returns its id.
    ///
    /// From here to the end of the transaction no other transaction of this node writes one, so it is the last
    /// write but for the registry's counter: data rows first, then the head of the chain, then that counter.
    /// Transactions that kept to another order could wait for each other.
    #[boxed]
    pub async fn audit(&mut self, event: &NewAudit<'_>) -> Result<i64> {
        const ADD: &str = "
            INSERT INTO audit_events
                (org_id, event, actor_id, actor, target_type, target_id, ip, user_agent, metadata, occurred_at,
                node, link, hash)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
            RETURNING id";
        const HEAD: &str = "UPDATE audit_heads SET hash = $2 WHERE node = $1";
        let metadata = Value::Object(event.metadata.clone()).to_string();
        let (ip, user_agent) = (clean(event.ip), clean(event.user_agent));
        let covered = Covered {
            org: event.org.0,
            event: event.event,
            actor_id: event.actor.and_then(Actor::user),
            actor: event.actor.map(Actor::name),
            target_type: event.target.as_ref().map(|(kind, _)| *kind),
            target_id: event.target.as_ref().map(|(_, id)| id.as_str()),
            ip: &ip,
            user_agent: &user_agent,
            metadata: &metadata,
            at: event.at,
        };
        let node = self.2.0;
        let (link, previous) = self.next_link(node).await?;
        let hash = covered.hash(node, link, previous);
        let id = within!(self, db => {
            let id = sqlx::query_scalar(ADD)
                .bind(covered.org)
                .bind(covered.event)
                .bind(covered.actor_id)
                .bind(covered.actor)
                .bind(covered.target_type)
                .bind(covered.target_id)
                .bind(covered.ip)
                .bind(covered.user_agent)
                .bind(covered.metadata)
                .bind(covered.at.0)
                .bind(node)
                .bind(link)
                .bind(hash.0.as_slice())
                .fetch_one(&mut *db)
                .await?;
            sqlx::query(HEAD).bind(node).bind(hash.0.as_slice()).execute(&mut *db).await?;
            id
        });
        Ok(id)
    }

    /// Writes an audit event, or takes it back at once. Either has the same statements and something to commit, so
    /// that nobody who waits for the answer learns which.
    #[boxed]
    pub async fn audit_or_forget(&mut self, event: &NewAudit<'_>, is_kept: bool) -> Result<()> {
        let end = if is_kept { "RELEASE SAVEPOINT audit" } else { "ROLLBACK TO SAVEPOINT audit" };
        self.touch().await?;
        within!(self, db => {
            sqlx::query("SAVEPOINT audit").execute(&mut *db).await?;
        });
        self.audit(event).await?;
        within!(self, db => {
            sqlx::query(end).execute(&mut *db).await?;
        });
        Ok(())
    }

    /// Takes the next link of a node's chain, and the right to write it. Returns its number, and the hash
    /// that it continues.
    async fn next_link(&mut self, node: i64) -> Result<(i64, LinkHash)> {
        const ORDER_CHAINS: &str = "UPDATE audit_heads SET link = link WHERE node = 0";
        const BEGIN: &str =
            "INSERT INTO audit_heads (node, link, hash, start_hash) VALUES ($1, 1, $2, $2)";
        if let Some(next) = self.continue_chain(node).await? {
            return Ok(next);
        }
        // One chain begins at a time, and another transaction may have begun this one meanwhile.
        within!(self, db => {
            sqlx::query(ORDER_CHAINS).execute(&mut *db).await?;
        });
        if let Some(next) = self.continue_chain(node).await? {
            return Ok(next);
        }
        let start = hash_of_heads(self.locked_heads().await?.into_iter());
        within!(self, db => {
            sqlx::query(BEGIN).bind(node).bind(start.0.as_slice()).execute(&mut *db).await?;
        });
        Ok((1, start))
    }

    /// Takes the next link of a chain that has begun.
    async fn continue_chain(&mut self, node: i64) -> Result<Option<(i64, LinkHash)>> {
        const CONTINUE: &str =
            "UPDATE audit_heads SET link = link + 1 WHERE node = $1 RETURNING link, hash";
        let row: Option<(i64, Vec<u8>)> = within!(self, db => {
            sqlx::query_as(CONTINUE).bind(node).fetch_optional(&mut *db).await?
        });
        let Some((link, hash)) = row else { return Ok(None) };
        // The next link does not fit a damaged head, and so it is found. No act fails because of it.
        Ok(Some((link, LinkHash::stored(&hash).unwrap_or(LinkHash([0; 32])))))
    }

    /// The heads of all chains, none of which goes on until the end of the transaction: the events before this
    /// one, by their ids, are then the ones that the heads cover.
    async fn locked_heads(&mut self) -> Result<Vec<ChainHead>> {
        // SQLite has one writer at a time.
        const SQLITE: &str =
            "SELECT node, link, hash FROM audit_heads WHERE node > 0 ORDER BY node";
        const POSTGRES: &str =
            "SELECT node, link, hash FROM audit_heads WHERE node > 0 ORDER BY node FOR UPDATE";
        let rows: Vec<(i64, i64, Vec<u8>)> = match &mut self.0 {
            AnyTx::Sqlite(tx) => sqlx::query_as(SQLITE).fetch_all(&mut **tx).await?,
            AnyTx::Postgres(tx) => sqlx::query_as(POSTGRES).fetch_all(&mut tx.connection()).await?,
        };
        Ok(rows.into_iter().map(list::head).collect())
    }

    /// Replaces the metadata of a perimeter block, to update how often it came. Its hash covers the rest.
    #[boxed]
    pub async fn retell_audit(&mut self, id: i64, metadata: Map<String, Value>) -> Result<()> {
        const RETELL: &str = "UPDATE audit_events SET metadata = $2 WHERE id = $1 AND event = $3";
        let metadata = Value::Object(metadata).to_string();
        within!(self, db => {
            sqlx::query(RETELL).bind(id).bind(metadata).bind(RECOUNTED).execute(&mut *db).await?;
        });
        Ok(())
    }
}

/// A text from the client, in a form that a database can hold.
pub(crate) fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(256).collect()
}
