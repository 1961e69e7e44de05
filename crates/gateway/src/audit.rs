//! Audit: one function that writes an event, and what may be asked of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use domain::ids::OrgId;
use domain::time::{MINUTE, Timestamp};
use serde_json::{Map, Value, json};
use store::{Actor, Audit, NewAudit, Tx};

use crate::Gateway;
use crate::accounts::Member;
use crate::admit::Origin;
use crate::error::{Error, Result};
use crate::registry::lock;

/// Rows that the list returns.
const LAST: i64 = 50;
/// Perimeter rows that may be written in a minute, in all.
const BLOCKS_A_MINUTE: usize = 60;

/// Everything that an audit row may tell.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    LoginSuccess,
    LoginFailed,
    Logout,
    PerimeterBlock,
    ProjectCreated,
    ProjectUpdated,
    ProjectDeleted,
    ModelCreated,
    ModelUpdated,
    ModelDeleted,
    KeyCreated,
    KeyUpdated,
    KeyReset,
    KeyRevoked,
    UserCreated,
    PasswordReset,
    MasterKeyRotated,
}

impl Event {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::LoginSuccess => "login_success",
            Self::LoginFailed => "login_failed",
            Self::Logout => "logout",
            Self::PerimeterBlock => "perimeter_block",
            Self::ProjectCreated => "project_created",
            Self::ProjectUpdated => "project_updated",
            Self::ProjectDeleted => "project_deleted",
            Self::ModelCreated => "model_created",
            Self::ModelUpdated => "model_updated",
            Self::ModelDeleted => "model_deleted",
            Self::KeyCreated => "key_created",
            Self::KeyUpdated => "key_updated",
            Self::KeyReset => "key_reset",
            Self::KeyRevoked => "key_revoked",
            Self::UserCreated => "user_created",
            Self::PasswordReset => "password_reset",
            Self::MasterKeyRotated => "master_key_rotated",
        }
    }
}

/// What an event is about.
pub(crate) struct Noted<'a> {
    pub(crate) org: OrgId,
    pub(crate) event: Event,
    pub(crate) actor: Option<Actor<'a>>,
    pub(crate) target: Option<(&'static str, String)>,
    pub(crate) metadata: Map<String, Value>,
}

impl Gateway {
    /// Writes an audit event within a transaction.
    pub(crate) async fn note(&self, tx: &mut Tx, origin: &Origin, noted: Noted<'_>) -> Result<()> {
        let event = NewAudit {
            org: noted.org,
            event: noted.event.as_str(),
            actor: noted.actor,
            target: noted.target,
            ip: &origin.address.to_string(),
            user_agent: &origin.user_agent,
            metadata: noted.metadata,
            at: self.clock.now(),
        };
        Ok(tx.audit(&event).await?)
    }

    /// Writes what a member did to something.
    pub(crate) async fn note_act(
        &self,
        tx: &mut Tx,
        member: &Member,
        event: Event,
        target: (&'static str, String),
        metadata: Map<String, Value>,
    ) -> Result<()> {
        let noted = Noted {
            org: member.org,
            event,
            actor: Some(Actor::User(member.user, &member.email)),
            target: Some(target),
            metadata,
        };
        self.note(tx, &member.origin, noted).await
    }

    /// The last 50 events of the organization, newest first.
    pub async fn audit_events(&self, member: &Member, event: Option<&str>) -> Result<Vec<Audit>> {
        member.check_admin()?;
        if event.is_some_and(|event| event.contains('\0')) {
            // There is none, and PostgreSQL takes no such text.
            return Ok(Vec::new());
        }
        crate::bounded(self.store.audit_events(member.org, event, LAST)).await
    }

    /// Notes a request that was refused at the perimeter. Nothing that an attacker can repeat
    /// fills the disk: one row per address and minute, 60 a minute in all, later ones counted in
    /// the next row.
    pub(crate) async fn note_perimeter_block(&self, origin: &Origin, why: &'static str) {
        metrics::counter!("sluice_perimeter_blocks_total").increment(1);
        let Some(count) = self.blocks.due(origin.address, self.clock.now()) else { return };
        let written = async {
            let Some(org) = self.store.first_org().await? else { return Ok(()) };
            let mut metadata = Map::new();
            metadata.insert("why".to_owned(), why.into());
            metadata.insert("count".to_owned(), count.into());
            let noted =
                Noted { org, event: Event::PerimeterBlock, actor: None, target: None, metadata };
            let mut tx = self.store.begin().await?;
            self.note(&mut tx, origin, noted).await?;
            Ok::<_, Error>(tx.commit().await?)
        };
        if let Err(error) = written.await {
            tracing::warn!(error = error.cause(), "a perimeter block was not recorded");
        }
    }
}

/// Which addresses have had their row this minute.
#[derive(Debug, Default)]
pub(crate) struct BlockNotes(Mutex<Minute>);

#[derive(Debug, Default)]
struct Minute {
    started: Timestamp,
    rows: usize,
    /// Blocks since the last row, by address; IPv6 by /64.
    addresses: HashMap<IpAddr, u64>,
    unwritten: u64,
}

impl BlockNotes {
    /// Counts a block. `Some(count)` when a row is due, with how many blocks it stands for.
    fn due(&self, address: IpAddr, now: Timestamp) -> Option<u64> {
        let mut minute = lock(&self.0);
        if now.since(minute.started) >= MINUTE {
            *minute = Minute { started: now, unwritten: minute.unwritten, ..Minute::default() };
        }
        let address = network(address);
        if minute.rows >= BLOCKS_A_MINUTE || minute.addresses.contains_key(&address) {
            minute.unwritten += 1;
            return None;
        }
        minute.rows += 1;
        minute.addresses.insert(address, 1);
        Some(1 + std::mem::take(&mut minute.unwritten))
    }
}

/// What one customer of a provider has: an IPv4 address, or an IPv6 /64.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
    }
}

/// The fields that differ, each with its old and new value.
pub(crate) fn changes(old: &Value, new: &Value) -> Map<String, Value> {
    let mut changed = Map::new();
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return changed };
    for (key, value) in new {
        let before = old.get(key).unwrap_or(&Value::Null);
        if before != value {
            changed.insert(key.clone(), json!({"old": before, "new": value}));
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_per_address_and_minute() {
        let notes = BlockNotes::default();
        let at = |seconds: i64| Timestamp(1_000_000_000 + seconds * 1_000_000);
        let one: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(notes.due(one, at(0)), Some(1));
        assert_eq!(notes.due(one, at(1)), None);
        assert_eq!(notes.due("2001:db8::1".parse().unwrap(), at(1)), Some(2));
        assert_eq!(notes.due("2001:db8::2".parse().unwrap(), at(1)), None);
        assert_eq!(notes.due(one, at(61)), Some(2));
    }

    #[test]
    fn sixty_rows_a_minute_in_all() {
        let notes = BlockNotes::default();
        let address = |n: u32| IpAddr::V4(n.into());
        let rows = (0..1000).filter(|&n| notes.due(address(n), Timestamp(MINUTE)).is_some());
        assert_eq!(rows.count(), BLOCKS_A_MINUTE);
    }
}
