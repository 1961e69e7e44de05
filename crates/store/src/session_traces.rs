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

    /// Whether calls of a session share a trace that is not completed yet.
    #[boxed]
    pub async fn is_session_trace(&self, trace: TraceId) -> Result<bool> {
        const FIND: &str = "SELECT count(*) FROM traces WHERE id = $1 AND active_at IS NOT NULL";
        let found: i64 = on!(&self.reader, db => {
            sqlx::query_scalar(FIND).bind(trace.0).fetch_one(db).await?
        });
        Ok(found > 0)
    }

    /// Claims traces that are still pending and without a known activity since a time: their sessions get
    /// another trace with the next call, and no other node completes them meanwhile. Returns those that
    /// were claimed. A claim that leads to nothing is over when as much time has passed again.
    #[boxed]
    pub async fn claim_session_traces(
        &self,
        traces: &[TraceId],
        since: Timestamp,
    ) -> Result<Vec<TraceId>> {
        const CLAIM: &str = "
            UPDATE traces SET session = NULL, active_at = $2
            WHERE id = $1 AND status = 'pending' AND active_at < $2";
        let mut claimed = Vec::with_capacity(traces.len());
        for some in traces.chunks(BATCH_TRACES) {
            let mut tx = self.begin().await?;
            for trace in some {
                let changed = within!(tx, db => {
                    sqlx::query(CLAIM)
                        .bind(trace.0)
                        .bind(since.0)
                        .execute(&mut *db)
                        .await?
                        .rows_affected()
                });
                if changed > 0 {
                    claimed.push(*trace);
                }
            }
            tx.commit().await?;
        }
        Ok(claimed)
    }

    /// Notes that a call begins in the trace of a session. False if the trace takes no more calls:
    /// another node has ended it.
    #[boxed]
    pub async fn note_session_call(&self, trace: TraceId, at: Timestamp) -> Result<bool> {
        const NOTE: &str = "
            UPDATE traces SET active_at = CASE WHEN active_at > $2 THEN active_at ELSE $2 END
            WHERE id = $1 AND status = 'pending' AND session IS NOT NULL";
        let mut tx = self.begin().await?;
        let changed = within!(tx, db => {
            sqlx::query(NOTE).bind(trace.0).bind(at.0).execute(&mut *db).await?.rows_affected()
        });
        tx.commit().await?;
        Ok(changed > 0)
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
