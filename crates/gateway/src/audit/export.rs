//! The export of audit events as JSON Lines, streamed.

use domain::ids::OrgId;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, Stream};
use serde_json::{Map, Value};
use store::AuditFilter;

use crate::audit::{Event, fits_none, line, noted_act};
use crate::bounded_read::bounded;
use crate::error::Result;
use crate::gateway::Gateway;
use crate::state::member::Member;

impl Gateway {
    /// Begins an export of the organization's events that fit a filter, oldest first, up to the event that
    /// records the export (admin or owner).
    pub fn export_audit<'a>(
        &'a self,
        member: &'a Member,
        filter: AuditFilter,
    ) -> BoxFuture<'a, Result<AuditLines>> {
        Box::pin(async move {
            member.check_admin()?;
            self.flush_perimeter_audit().await;
            let target = ("organization", member.org.to_string());
            let mut tx = self.store.begin().await?;
            let noted = noted_act(member, Event::AuditExported, Some(target), audited(&filter));
            let last = self.note(&mut tx, &member.origin, noted).await?;
            tx.commit().await?;
            let is_empty = fits_none(&filter);
            let after = if is_empty { last } else { 0 };
            Ok(AuditLines { gateway: self.clone(), org: member.org, filter, after, last })
        })
    }
}

impl Gateway {
    /// Records that the organization's events that fit a filter are exported in another form (admin or owner).
    pub async fn note_audit_export(&self, member: &Member, filter: &AuditFilter) -> Result<()> {
        member.check_admin()?;
        let target = ("organization", member.org.to_string());
        let mut tx = self.store.begin().await?;
        self.note_act(&mut tx, member, Event::AuditExported, target, audited(filter)).await?;
        Ok(tx.commit().await?)
    }
}

/// The conditions of a filter that are given.
fn audited(filter: &AuditFilter) -> Map<String, Value> {
    let AuditFilter { from, to, actor, event, target_type, target_id } = filter;
    let times = [("from", from), ("to", to)];
    let texts = [
        ("actor", actor),
        ("event", event),
        ("target_type", target_type),
        ("target_id", target_id),
    ];
    let times = times.into_iter().filter_map(|(name, at)| Some((name, at.as_ref()?.exact())));
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?)));
    times.chain(texts).map(|(name, text)| (name.to_owned(), Value::String(text))).collect()
}

/// The events of an export that are not read yet.
#[derive(Debug)]
pub struct AuditLines {
    gateway: Gateway,
    org: OrgId,
    filter: AuditFilter,
    /// The last event that was read.
    after: i64,
    /// The event of the export itself.
    last: i64,
}

impl AuditLines {
    /// The lines, some hundred at a time. They are read when those before them were taken.
    pub fn into_stream(self) -> impl Stream<Item = Result<Vec<u8>>> + Send {
        stream::try_unfold(self, |mut lines| async move {
            if lines.after >= lines.last {
                return Ok(None);
            }
            let (store, filter) = (&lines.gateway.store, &lines.filter);
            let records =
                bounded(store.audit_records(lines.org, filter, lines.after, lines.last)).await?;
            let Some(last) = records.last() else { return Ok(None) };
            lines.after = last.id;
            let mut text = Vec::new();
            for record in &records {
                line::write(record, &mut text)?;
            }
            Ok(Some((text, lines)))
        })
    }
}
