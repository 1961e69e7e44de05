//! The sessions of a user: listed, and ended one by one.

use domain::time::Timestamp;
use serde_json::Map;
use store::ListedSession;

use crate::audit::Event;
use crate::control::links::prefix_of;
use crate::control::session_tokens::{hash_token, hex};
use crate::control::sessions::{SESSION_ABSOLUTE, SESSION_IDLE};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::member::Member;

/// The most sessions that are listed.
const LISTED: i64 = 100;

/// A session in the list of its user's.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// The first 16 hex digits of the hash of its token.
    pub id: String,
    /// When it began.
    pub created_at: Timestamp,
    /// Its last request, to the minute.
    pub last_seen_at: Timestamp,
    /// The address that it began from, if known.
    pub address: Option<String>,
    /// The client that it began with, if known.
    pub user_agent: Option<String>,
    /// Whether it is the one that asks.
    pub is_current: bool,
}

impl Gateway {
    /// The sessions of the member's own account that have not ended, the latest in use first.
    pub async fn own_sessions(&self, token: &str, member: &Member) -> Result<Vec<SessionView>> {
        let now = self.clock.now();
        let (created, seen) = (now.minus_micros(SESSION_ABSOLUTE), now.minus_micros(SESSION_IDLE));
        let current = hash_token(token);
        let view = |session: ListedSession| SessionView {
            id: hex(&session.token_hash[..8]),
            created_at: session.created_at,
            last_seen_at: session.last_seen_at,
            address: session.address,
            user_agent: session.user_agent,
            is_current: session.token_hash == current,
        };
        let sessions = self.store.sessions_of(member.user, created, seen, LISTED).await?;
        Ok(sessions.into_iter().map(view).collect())
    }

    /// Ends a session of the member's own account.
    pub async fn revoke_session(&self, member: &Member, id: &str) -> Result<()> {
        let prefix = prefix_of(id).ok_or(Error::NotFound)?;
        let mut tx = self.store.begin().await?;
        if !tx.end_session_of(member.user, prefix).await? {
            return Err(Error::NotFound);
        }
        let target = ("session", id.to_owned());
        self.note_act(&mut tx, member, Event::SessionRevoked, target, Map::new()).await?;
        Ok(tx.commit().await?)
    }
}
