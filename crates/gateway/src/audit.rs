//! Audit: one function that writes an event, and the queries over events.

pub(crate) mod export;
mod line;
pub(crate) mod verify;

use domain::ids::OrgId;
use serde_json::{Map, Value, json};
use store::{Actor, Audit, AuditFilter, NewAudit, Tx};

use crate::bounded_read::bounded;
use crate::error::Result;
use crate::gateway::Gateway;
use crate::state::caller::Origin;
use crate::state::member::Member;

/// The most events of a page.
pub const MOST_AUDIT_EVENTS: i64 = 1000;

/// A page of events, as it is asked for.
#[derive(Clone, Debug)]
pub struct AuditQuery {
    /// The events that are asked for.
    pub filter: AuditFilter,
    /// Only events older than this one.
    pub before: Option<i64>,
    /// The most events, at most [`MOST_AUDIT_EVENTS`]; fewer if they are large.
    pub limit: i64,
}

impl Default for AuditQuery {
    /// The last 50 events, as the interface has it.
    fn default() -> Self {
        Self { filter: AuditFilter::default(), before: None, limit: 50 }
    }
}

/// A page of events.
#[derive(Clone, Debug)]
pub struct AuditPage {
    /// The events, newest first.
    pub events: Vec<Audit>,
    /// The event before which the next page begins, if there is one.
    pub next: Option<i64>,
}

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
    ReviewJudged,
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
    PasskeyAdded,
    PasskeyRemoved,
    SessionRevoked,
    OrganizationUpdated,
    MasterKeyRotated,
    AuditExported,
    SignOnProviderCreated,
    SignOnProviderUpdated,
    SignOnProviderDeleted,
    IdentityLinked,
    IdentityLinkOffered,
    IdentityUnlinked,
    ServiceTokenCreated,
    ServiceTokenRevoked,
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
            Self::ReviewJudged => "review_judged",
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
            Self::PasskeyAdded => "passkey_added",
            Self::PasskeyRemoved => "passkey_removed",
            Self::SessionRevoked => "session_revoked",
            Self::OrganizationUpdated => "organization_updated",
            Self::MasterKeyRotated => "master_key_rotated",
            Self::AuditExported => "audit_exported",
            Self::SignOnProviderCreated => "sign_on_provider_created",
            Self::SignOnProviderUpdated => "sign_on_provider_updated",
            Self::SignOnProviderDeleted => "sign_on_provider_deleted",
            Self::IdentityLinked => "identity_linked",
            Self::IdentityLinkOffered => "identity_link_offered",
            Self::IdentityUnlinked => "identity_unlinked",
            Self::ServiceTokenCreated => "service_token_created",
            Self::ServiceTokenRevoked => "service_token_revoked",
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
        let ip = origin.address.to_string();
        Ok(tx.audit(&self.new_audit(origin, &ip, noted)).await?)
    }

    /// Writes what happened, or nothing, which takes as long.
    pub(crate) async fn note_or_forget(
        &self,
        tx: &mut Tx,
        origin: &Origin,
        noted: Noted<'_>,
        is_kept: bool,
    ) -> Result<()> {
        let ip = origin.address.to_string();
        Ok(tx.audit_or_forget(&self.new_audit(origin, &ip, noted), is_kept).await?)
    }

    fn new_audit<'a>(&self, origin: &'a Origin, ip: &'a str, noted: Noted<'a>) -> NewAudit<'a> {
        NewAudit {
            org: noted.org,
            event: noted.event.as_str(),
            actor: noted.actor,
            target: noted.target,
            ip,
            user_agent: &origin.user_agent,
            metadata: noted.metadata,
            at: self.clock.now(),
        }
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
        let noted = noted_act(member, event, Some(target), metadata);
        self.note(tx, &member.origin, noted).await.map(drop)
    }

    /// Writes what a member did to their own account or session.
    pub(crate) async fn note_own_act(
        &self,
        tx: &mut Tx,
        member: &Member,
        event: Event,
        metadata: Map<String, Value>,
    ) -> Result<()> {
        self.note(tx, &member.origin, noted_act(member, event, None, metadata)).await.map(drop)
    }

    /// A page of the organization's events, newest first (admin or owner).
    pub async fn audit_page(&self, member: &Member, query: &AuditQuery) -> Result<AuditPage> {
        member.check_admin()?;
        if fits_none(&query.filter) {
            return Ok(AuditPage { events: Vec::new(), next: None });
        }
        self.flush_perimeter_audit().await;
        let limit = query.limit.clamp(1, MOST_AUDIT_EVENTS);
        let read = self.store.audit_events(member.org, &query.filter, query.before, limit);
        let (events, has_more) = bounded(read).await?;
        let next = events.last().filter(|_| has_more).map(|last| last.id);
        Ok(AuditPage { events, next })
    }
}

/// An act of a member on something.
fn noted_act<'a>(
    member: &'a Member,
    event: Event,
    target: Option<(&'static str, String)>,
    metadata: Map<String, Value>,
) -> Noted<'a> {
    Noted { org: member.org, event, actor: Some(member.actor()), target, metadata }
}

/// Whether no event can fit: none has such a text, and PostgreSQL takes none.
fn fits_none(filter: &AuditFilter) -> bool {
    let AuditFilter { actor, event, target_type, target_id, .. } = filter;
    [actor, event, target_type, target_id].into_iter().flatten().any(|text| text.contains('\0'))
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
