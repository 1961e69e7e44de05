//! Audit events: the actions on the control plane, with their actors.

use async_recursion::async_recursion as boxed;
use domain::ids::{OrgId, UserId};
use domain::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::Result;
use crate::from_row::from_row;

/// The actor of an event.
#[derive(Clone, Copy, Debug)]
pub enum Actor<'a> {
    /// A signed-in user, by number and address.
    User(UserId, &'a str),
    /// A person who may run commands on the machine.
    CommandLine,
}

impl<'a> Actor<'a> {
    fn user(self) -> Option<i64> {
        match self {
            Self::User(id, _) => Some(id.0),
            Self::CommandLine => None,
        }
    }

    fn name(self) -> &'a str {
        match self {
            Self::User(_, email) => email,
            // This is no address, so no user can have it.
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

/// An audit event as it is stored.
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

impl Tx {
    /// Writes an audit event. Returns its id.
    #[boxed]
    pub async fn audit(&mut self, event: &NewAudit<'_>) -> Result<i64> {
        const ADD: &str = "
            INSERT INTO audit_events
                (org_id, event, actor_id, actor, target_type, target_id, ip, user_agent, metadata, occurred_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
            RETURNING id";
        let metadata = Value::Object(event.metadata.clone()).to_string();
        let id = within!(self, db => {
            sqlx::query_scalar(ADD)
                .bind(event.org.0)
                .bind(event.event)
                .bind(event.actor.and_then(Actor::user))
                .bind(event.actor.map(Actor::name))
                .bind(event.target.as_ref().map(|(kind, _)| *kind))
                .bind(event.target.as_ref().map(|(_, id)| id.as_str()))
                .bind(clean(event.ip))
                .bind(clean(event.user_agent))
                .bind(metadata)
                .bind(event.at.0)
                .fetch_one(&mut *db)
                .await?
        });
        Ok(id)
    }

    /// Replaces the metadata of a written event, to update how often it came.
    #[boxed]
    pub async fn retell_audit(&mut self, id: i64, metadata: Map<String, Value>) -> Result<()> {
        const RETELL: &str = "UPDATE audit_events SET metadata = $2 WHERE id = $1";
        let metadata = Value::Object(metadata).to_string();
        within!(self, db => {
            sqlx::query(RETELL).bind(id).bind(metadata).execute(&mut *db).await?;
        });
        Ok(())
    }
}

impl Store {
    /// The last events of an organization, newest first, of one kind or of all.
    #[boxed]
    pub async fn audit_events(
        &self,
        org: OrgId,
        event: Option<&str>,
        most: i64,
    ) -> Result<Vec<Audit>> {
        const LAST: &str = "
            SELECT id, event, actor, target_type, target_id, ip, user_agent, metadata, occurred_at
            FROM audit_events
            WHERE org_id = $1 AND (CAST($2 AS TEXT) IS NULL OR event = $2)
            ORDER BY id DESC
            LIMIT $3";
        let rows: Vec<Row> = on!(&self.reader, db => {
            sqlx::query_as(LAST).bind(org.0).bind(event).bind(most).fetch_all(db).await?
        });
        Ok(rows.into_iter().map(Row::read).collect())
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

/// A text from the client, in a form that a database can hold.
pub(crate) fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(256).collect()
}
