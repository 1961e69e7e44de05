//! Traces that the calls of a session share.

use async_recursion::async_recursion as boxed;
use domain::ids::{ProjectId, TraceId};
use domain::time::Timestamp;
use uuid::Uuid;

use crate::Store;
use crate::db::{on, within};
use crate::error::Result;

/// The most traces that one transaction changes.
const BATCH_TRACES: usize = 50;

/// The identity of a session: a keyed hash.
pub type SessionHash = [u8; 16];

/// A session as its column holds it.
pub(crate) fn session_text(session: SessionHash) -> String {
    Uuid::from_bytes(session).simple().to_string()
}

/// A pending trace of a session of which no recent activity is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleSession {
    /// The trace.
    pub trace: TraceId,
    /// The end of its last step; `None` without steps.
    pub last: Option<Timestamp>,
}

impl Store {
    /// The trace that takes the calls of a session.
    #[boxed]
    pub async fn session_trace(
        &self,
        project: ProjectId,
        session: SessionHash,
    ) -> Result<Option<TraceId>> {
        const FIND: &str = "SELECT id FROM traces WHERE project_id = $1 AND session = $2";
        let id: Option<Uuid> = on!(&self.reader, db => {
            sqlx::query_scalar(FIND)
                .bind(project.0)
                .bind(session_text(session))
                .fetch_optional(db)
                .await?
        });
        Ok(id.map(TraceId))
    }

    /// Has a trace take no more calls of its session, which may get another trace. It is completed
    /// like any trace of a session.
    #[boxed]
    pub async fn release_session_trace(&self, trace: TraceId) -> Result<()> {
        const RELEASE: &str = "UPDATE traces SET session = NULL WHERE id = $1";
        let mut tx = self.begin().await?;
        within!(tx, db => { sqlx::query(RELEASE).bind(trace.0).execute(&mut *db).await?; });
        tx.commit().await
    }

    /// The pending traces of sessions without a known activity since a time, the longest idle first:
    /// at most `most`.
    #[boxed]
    pub async fn idle_session_traces(
        &self,
        project: ProjectId,
        since: Timestamp,
        most: i64,
    ) -> Result<Vec<IdleSession>> {
        const IDLE: &str = "
            SELECT t.id, (SELECT max(s.finished_at) FROM steps s WHERE s.trace_id = t.id)
            FROM traces t
            WHERE t.project_id = $1 AND t.active_at < $2 AND t.status = 'pending'
            ORDER BY t.active_at LIMIT $3";
        let rows: Vec<(Uuid, Option<i64>)> = on!(&self.reader, db => {
            sqlx::query_as(IDLE).bind(project.0).bind(since.0).bind(most).fetch_all(db).await?
        });
        let idle = |(id, last): (Uuid, Option<i64>)| IdleSession {
            trace: TraceId(id),
            last: last.map(Timestamp),
        };
        Ok(rows.into_iter().map(idle).collect())
    }

    /// Notes activity in traces of sessions, unless a later one is known.
    #[boxed]
    pub async fn note_session_activity(&self, active: &[(TraceId, Timestamp)]) -> Result<()> {
        const NOTE: &str = "UPDATE traces SET active_at = $2 WHERE id = $1 AND active_at < $2";
        for some in active.chunks(BATCH_TRACES) {
            let mut tx = self.begin().await?;
            for (trace, at) in some {
                within!(tx, db => {
                    sqlx::query(NOTE).bind(trace.0).bind(at.0).execute(&mut *db).await?;
                });
            }
            tx.commit().await?;
        }
        Ok(())
    }
}
