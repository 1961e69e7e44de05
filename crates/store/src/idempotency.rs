//! Claims of requests with an `Idempotency-Key`, and the answers that are kept for them.
//!
//! A claim is a row. The node that adds it carries the request out; all others find it. Only its
//! node ends it, until that node is gone.

use async_recursion::async_recursion as boxed;
use domain::ids::{KeyId, NodeId, ProjectId};
use domain::time::Timestamp;

use crate::Store;
use crate::db::{bounded, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;
use crate::jobs::hex;

/// Rows that are deleted at once, so that no purge holds the writer for long: answers may be large.
const BATCH_CLAIMS: i64 = 10;

/// The name of a claim. No two requests share one unless they have the key, the path and the `Idempotency-Key`
/// in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimId {
    /// The project of the key.
    pub project: ProjectId,
    /// The key of the caller.
    pub key: KeyId,
    /// A keyed hash of the path and the `Idempotency-Key`.
    pub name: [u8; 32],
}

impl ClaimId {
    /// The location under which its answer is sealed.
    pub fn place(&self) -> String {
        format!("idempotency:{}:{}", self.key, hex(&self.name))
    }
}

/// A claim as it is found.
#[derive(Debug)]
pub struct FoundClaim {
    /// A keyed hash of the request that it is for.
    pub request: [u8; 32],
    /// The state of that request.
    pub state: ClaimState,
}

/// The state of a request with a claim.
#[derive(Debug, PartialEq, Eq)]
pub enum ClaimState {
    /// It runs on a node, as far as is known.
    Running(NodeId),
    /// It was answered; the answer has so many bytes, sealed.
    Answered(usize),
    /// A model may have been called for it, and the answer is not known.
    Lost,
    /// It was answered, and the answer was not kept.
    Unkept,
}

/// The end of a request that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimEnd<'a> {
    /// Its answer, sealed.
    Answered(&'a [u8]),
    /// A model may have been called for it, and the answer is not known.
    Lost,
    /// The answer is not kept.
    Unkept,
}

impl ClaimEnd<'_> {
    fn word(self) -> &'static str {
        match self {
            Self::Answered(_) => "answered",
            Self::Lost => "lost",
            Self::Unkept => "unkept",
        }
    }
}

from_row! {
    struct ClaimRow {
        request: Vec<u8>,
        state: String,
        node: i64,
        length: Option<i64>,
    }
}

impl ClaimRow {
    fn read(self) -> Result<FoundClaim> {
        let corrupt = || Error::Corrupt("a claim of a request: its state or its hash".to_owned());
        let request = self.request.try_into().map_err(|_| corrupt())?;
        let length = self.length.and_then(|length| usize::try_from(length).ok());
        let state = match (self.state.as_str(), length) {
            ("running", _) => ClaimState::Running(NodeId(self.node)),
            ("answered", Some(length)) => ClaimState::Answered(length),
            ("lost", _) => ClaimState::Lost,
            ("unkept", _) => ClaimState::Unkept,
            _ => return Err(corrupt()),
        };
        Ok(FoundClaim { request, state })
    }
}

impl Store {
    /// Claims a request for this node, whose answer is to be kept. A claim from `expired` or before that has ended counts
    /// no more, and gives way. False if there is another.
    #[boxed]
    pub async fn claim_request(
        &self,
        id: ClaimId,
        request: [u8; 32],
        now: Timestamp,
        expired: Timestamp,
    ) -> Result<bool> {
        const CLAIM: &str = "
            INSERT INTO idempotency_claims
                (project_id, key_id, name, request, state, node, begun, created_at)
            VALUES ($1, $2, $3, $4, 'running', $5, FALSE, $6)
            ON CONFLICT (project_id, key_id, name) DO UPDATE
            SET request = excluded.request, state = 'running', node = excluded.node, begun = FALSE,
                created_at = excluded.created_at, answer = NULL
            WHERE idempotency_claims.created_at <= $7 AND idempotency_claims.state <> 'running'";
        let mut tx = self.begin().await?;
        let claimed = within!(tx, db => {
            sqlx::query(CLAIM)
                .bind(id.project.0)
                .bind(id.key.to_i64())
                .bind(&id.name[..])
                .bind(&request[..])
                .bind(self.node.0)
                .bind(now.0)
                .bind(expired.0)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        tx.commit().await?;
        Ok(claimed > 0)
    }

    /// A claim that was made after `expired`, or has not ended; `None` if there is none.
    #[boxed]
    pub async fn claim_of_request(
        &self,
        id: ClaimId,
        expired: Timestamp,
    ) -> Result<Option<FoundClaim>> {
        const FIND: &str = "
            SELECT request, state, node, CAST(length(answer) AS BIGINT) AS length
            FROM idempotency_claims
            WHERE project_id = $1 AND key_id = $2 AND name = $3
              AND (created_at > $4 OR state = 'running')";
        let row: Option<ClaimRow> = on!(&self.reader, db => {
            sqlx::query_as(FIND)
                .bind(id.project.0)
                .bind(id.key.to_i64())
                .bind(&id.name[..])
                .bind(expired.0)
                .fetch_optional(db)
                .await?
        });
        row.map(ClaimRow::read).transpose()
    }

    /// The answer that is kept for a request, sealed; `None` if it is not kept any more.
    #[boxed]
    pub async fn kept_answer(&self, id: ClaimId, request: [u8; 32]) -> Result<Option<Vec<u8>>> {
        const FIND: &str = "
            SELECT answer
            FROM idempotency_claims
            WHERE project_id = $1 AND key_id = $2 AND name = $3 AND request = $4
              AND state = 'answered'";
        let answer: Option<Vec<u8>> = on!(&self.reader, db => {
            sqlx::query_scalar(FIND)
                .bind(id.project.0)
                .bind(id.key.to_i64())
                .bind(&id.name[..])
                .bind(&request[..])
                .fetch_optional(db)
                .await?
        });
        Ok(answer)
    }

    /// The bytes of answers that are kept for requests of a project, sealed, by key. Keys without any are left out.
    #[boxed]
    pub async fn kept_bytes(&self, project: ProjectId) -> Result<Vec<(KeyId, u64)>> {
        // An index by project and key holds the claims with an answer alone.
        const SUM: &str = "
            SELECT key_id, CAST(sum(length(answer)) AS BIGINT)
            FROM idempotency_claims
            WHERE project_id = $1 AND answer IS NOT NULL
            GROUP BY key_id";
        let sums: Vec<(i64, i64)> = bounded!(&self.reader, db => {
            sqlx::query_as(SUM).bind(project.0).fetch_all(db).await?
        });
        let read = |(key, bytes): (i64, i64)| (KeyId::from_i64(key), bytes.unsigned_abs());
        Ok(sums.into_iter().map(read).collect())
    }

    /// Notes that a model is about to be called under a claim of this node. False if the claim is not this node's any
    /// more: then none may be called.
    #[boxed]
    pub async fn begin_claimed_call(&self, id: ClaimId, claimed_at: Timestamp) -> Result<bool> {
        const BEGIN: &str = "
            UPDATE idempotency_claims SET begun = TRUE
            WHERE project_id = $1 AND key_id = $2 AND name = $3 AND node = $4 AND created_at = $5
              AND state = 'running'";
        self.change_claim(BEGIN, id, claimed_at).await
    }

    /// Takes a claim of this node back: its request may be carried out again. False if it is not this node's any more.
    #[boxed]
    pub async fn release_claim_of_request(
        &self,
        id: ClaimId,
        claimed_at: Timestamp,
    ) -> Result<bool> {
        const RELEASE: &str = "
            DELETE FROM idempotency_claims
            WHERE project_id = $1 AND key_id = $2 AND name = $3 AND node = $4 AND created_at = $5
              AND state = 'running'";
        self.change_claim(RELEASE, id, claimed_at).await
    }

    async fn change_claim(
        &self,
        change: &'static str,
        id: ClaimId,
        claimed_at: Timestamp,
    ) -> Result<bool> {
        let mut tx = self.begin().await?;
        let changed = within!(tx, db => {
            sqlx::query(change)
                .bind(id.project.0)
                .bind(id.key.to_i64())
                .bind(&id.name[..])
                .bind(self.node.0)
                .bind(claimed_at.0)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        tx.commit().await?;
        Ok(changed > 0)
    }

    /// Ends a claim of this node. False if it is not this node's any more.
    #[boxed]
    pub async fn end_claim_of_request<'a>(
        &'a self,
        id: ClaimId,
        claimed_at: Timestamp,
        end: ClaimEnd<'a>,
    ) -> Result<bool> {
        const END: &str = "
            UPDATE idempotency_claims SET state = $6, answer = $7
            WHERE project_id = $1 AND key_id = $2 AND name = $3 AND node = $4 AND created_at = $5
              AND state = 'running'";
        let answer = match end {
            ClaimEnd::Answered(answer) => Some(answer),
            ClaimEnd::Lost | ClaimEnd::Unkept => None,
        };
        let mut tx = self.begin().await?;
        let changed = within!(tx, db => {
            sqlx::query(END)
                .bind(id.project.0)
                .bind(id.key.to_i64())
                .bind(&id.name[..])
                .bind(self.node.0)
                .bind(claimed_at.0)
                .bind(end.word())
                .bind(answer)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        tx.commit().await?;
        Ok(changed > 0)
    }

    /// The claims of this node that have not ended: at most 1,000.
    #[boxed]
    pub async fn own_claims_of_requests(&self) -> Result<Vec<ClaimId>> {
        const OWN: &str = "
            SELECT project_id, key_id, name
            FROM idempotency_claims
            WHERE node = $1 AND state = 'running'
            ORDER BY created_at
            LIMIT 1000";
        let rows: Vec<(i64, i64, Vec<u8>)> = on!(&self.reader, db => {
            sqlx::query_as(OWN).bind(self.node.0).fetch_all(db).await?
        });
        let read = |(project, key, name): (i64, i64, Vec<u8>)| {
            let corrupt = |_| Error::Corrupt("a claim of a request: its name".to_owned());
            let name = name.try_into().map_err(corrupt)?;
            Ok(ClaimId { project: ProjectId(project), key: KeyId::from_i64(key), name })
        };
        rows.into_iter().map(read).collect()
    }

    /// Settles a claim of this node that this node does not work on: its end could not be written.
    #[boxed]
    pub async fn settle_stray_claim(&self, id: ClaimId) -> Result<()> {
        self.settle_claims_of(self.node, Some(id)).await.map(drop)
    }

    /// Settles the claims of nodes that are gone: those for which no model was called are free again, the others are
    /// lost. Returns how many there were.
    #[boxed]
    pub async fn settle_lost_claims(&self) -> Result<u64> {
        const NODES: &str = "
            SELECT DISTINCT node FROM idempotency_claims WHERE state = 'running' AND node <> $1";
        let nodes: Vec<i64> = on!(&self.reader, db => {
            sqlx::query_scalar(NODES).bind(self.node.0).fetch_all(db).await?
        });
        let mut settled = 0;
        for node in nodes.into_iter().map(NodeId) {
            let of_node = self.in_place_of(node, self.settle_claims_of(node, None)).await?;
            settled += of_node.unwrap_or_default();
        }
        Ok(settled)
    }

    /// Settles the claims of a node which nobody works on: one, or all of them.
    async fn settle_claims_of(&self, node: NodeId, one: Option<ClaimId>) -> Result<u64> {
        const LOST: &str = "
            UPDATE idempotency_claims SET state = 'lost'
            WHERE node = $1 AND state = 'running' AND begun
              AND (CAST($2 AS BIGINT) IS NULL OR project_id = $2 AND key_id = $3 AND name = $4)";
        const FREE: &str = "
            DELETE FROM idempotency_claims
            WHERE node = $1 AND state = 'running' AND NOT begun
              AND (CAST($2 AS BIGINT) IS NULL OR project_id = $2 AND key_id = $3 AND name = $4)";
        let mut tx = self.begin().await?;
        let mut settled = 0;
        for statement in [LOST, FREE] {
            settled += within!(tx, db => {
                sqlx::query(statement)
                    .bind(node.0)
                    .bind(one.map(|id| id.project.0))
                    .bind(one.map(|id| id.key.to_i64()))
                    .bind(one.as_ref().map(|id| &id.name[..]))
                    .execute(&mut *db)
                    .await?
                    .rows_affected()
            });
        }
        tx.commit().await?;
        Ok(settled)
    }

    /// Deletes some claims that were made at `expired` or before, and some of keys that were revoked since. Returns how
    /// many there were; call again until it is 0.
    #[boxed]
    pub async fn purge_claims_of_requests(&self, expired: Timestamp) -> Result<u64> {
        const OLD: &str = "
            DELETE FROM idempotency_claims
            WHERE (project_id, key_id, name) IN (
                SELECT project_id, key_id, name
                FROM idempotency_claims
                WHERE created_at <= $1 AND state <> 'running'
                ORDER BY created_at
                LIMIT $2)";
        // Claims of keys that were revoked earlier are too old anyway.
        const OF_REVOKED_KEYS: &str = "
            DELETE FROM idempotency_claims
            WHERE (project_id, key_id, name) IN (
                SELECT c.project_id, c.key_id, c.name
                FROM api_keys k
                JOIN idempotency_claims c ON c.project_id = k.project_id AND c.key_id = k.id
                WHERE k.revoked_at > $1 AND c.state <> 'running'
                LIMIT $2)";
        let mut tx = self.begin().await?;
        let mut gone = 0;
        for statement in [OLD, OF_REVOKED_KEYS] {
            gone += within!(tx, db => {
                sqlx::query(statement)
                    .bind(expired.0)
                    .bind(BATCH_CLAIMS)
                    .execute(&mut *db)
                    .await?
                    .rows_affected()
            });
        }
        tx.commit().await?;
        Ok(gone)
    }
}
