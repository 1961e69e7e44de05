//! Audit: one function that writes an event, and the queries over events.

use domain::ids::OrgId;
use serde_json::{Map, Value, json};
use store::{Actor, Audit, NewAudit, Tx};

use crate::error::Result;
use crate::gateway::Gateway;
use crate::state::caller::Origin;
use crate::state::member::Member;

/// Rows that the list returns.
const LAST: i64 = 50;

/// All kinds of audit events.
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
    InsightDismissed,
    BacktestCreated,
    ExportCreated,
    ExportDownloaded,
    UserCreated,
    PasswordReset,
    EmailVerified,
    MemberInvited,
    InvitationWithdrawn,
    MemberJoined,
    MemberRoleChanged,
    MemberProjectsChanged,
    MemberRemoved,
    PasswordLinkMade,
    PasswordChanged,
    MfaVerified,
    MfaFailed,
    MfaEnabled,
    MfaDisabled,
    SessionRevoked,
    OrganizationUpdated,
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
            Self::InsightDismissed => "insight_dismissed",
            Self::BacktestCreated => "backtest_created",
            Self::ExportCreated => "export_created",
            Self::ExportDownloaded => "export_downloaded",
            Self::UserCreated => "user_created",
            Self::PasswordReset => "password_reset",
            Self::EmailVerified => "email_verified",
            Self::MemberInvited => "member_invited",
            Self::InvitationWithdrawn => "invitation_withdrawn",
            Self::MemberJoined => "member_joined",
            Self::MemberRoleChanged => "member_role_changed",
            Self::MemberProjectsChanged => "member_projects_changed",
            Self::MemberRemoved => "member_removed",
            Self::PasswordLinkMade => "password_link_made",
            Self::PasswordChanged => "password_changed",
            Self::MfaVerified => "mfa_verified",
            Self::MfaFailed => "mfa_failed",
            Self::MfaEnabled => "mfa_enabled",
            Self::MfaDisabled => "mfa_disabled",
            Self::SessionRevoked => "session_revoked",
            Self::OrganizationUpdated => "organization_updated",
            Self::MasterKeyRotated => "master_key_rotated",
        }
    }
}

/// The subject of an event.
pub(crate) struct Noted<'a> {
    pub(crate) org: OrgId,
    pub(crate) event: Event,
    pub(crate) actor: Option<Actor<'a>>,
    pub(crate) target: Option<(&'static str, String)>,
    pub(crate) metadata: Map<String, Value>,
}

impl Gateway {
    /// Writes an audit event within a transaction. Returns its id.
    pub(crate) async fn note(&self, tx: &mut Tx, origin: &Origin, noted: Noted<'_>) -> Result<i64> {
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
        self.note(tx, &member.origin, noted).await.map(drop)
    }

    /// The last 50 events of the organization, newest first.
    pub async fn audit_events(&self, member: &Member, event: Option<&str>) -> Result<Vec<Audit>> {
        member.check_admin()?;
        if event.is_some_and(|event| event.contains('\0')) {
            // There is none, and PostgreSQL takes no such text.
            return Ok(Vec::new());
        }
        self.flush_perimeter_audit().await;
        crate::bounded_read::bounded(self.store.audit_events(member.org, event, LAST)).await
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
