//! Service tokens: credentials of programs on the control plane.

use async_recursion::async_recursion as boxed;
use domain::ids::{OrgId, ProjectId, ServiceTokenId, UserId};
use domain::project::Role;
use domain::time::Timestamp;

use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;
use crate::people::role;

/// A service token that is not revoked.
#[derive(Clone, Debug)]
pub struct ServiceToken {
    /// Its public part.
    pub id: ServiceTokenId,
    /// The organization.
    pub org: OrgId,
    /// Its name, for people.
    pub name: String,
    /// The keyed hash of its secret.
    pub secret_hash: [u8; 32],
    /// Its first and last characters.
    pub masked: String,
    /// Its role.
    pub role: Role,
    /// The projects that it sees, unless its role sees all.
    pub projects: Vec<ProjectId>,
    /// The user who made it; `None` if the command line did.
    pub created_by: Option<UserId>,
    /// The address of that user.
    pub maker: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// The time from which on it is no longer good; `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
    /// Its last request, to the minute.
    pub last_used_at: Option<Timestamp>,
}

from_row! {
    struct Row {
        id: i64,
        org_id: i64,
        name: String,
        secret_hash: Vec<u8>,
        masked: String,
        role: String,
        projects: String,
        created_by: Option<i64>,
        maker: Option<String>,
        created_at: i64,
        expires_at: Option<i64>,
        last_used_at: Option<i64>,
    }
}

impl Row {
    fn read(self) -> Result<ServiceToken> {
        let id = ServiceTokenId::from_i64(self.id);
        let corrupt = |what: &str| Error::Corrupt(format!("service token {id}: {what}"));
        Ok(ServiceToken {
            id,
            org: OrgId(self.org_id),
            name: self.name,
            secret_hash: self.secret_hash.try_into().map_err(|_| corrupt("its hash"))?,
            masked: self.masked,
            role: role(&self.role)?,
            projects: serde_json::from_str(&self.projects).map_err(|_| corrupt("its projects"))?,
            created_by: self.created_by.map(UserId),
            maker: self.maker,
            created_at: Timestamp(self.created_at),
            expires_at: self.expires_at.map(Timestamp),
            last_used_at: self.last_used_at.map(Timestamp),
        })
    }
}

const FIND: &str = "
    SELECT t.id, t.org_id, t.name, t.secret_hash, t.masked, t.role, t.projects, t.created_by,
           u.email AS maker, t.created_at, t.expires_at, t.last_used_at
    FROM service_tokens t LEFT JOIN users u ON u.id = t.created_by
    WHERE t.id = $1 AND t.revoked_at IS NULL";

impl Store {
    /// A token that is not revoked.
    #[boxed]
    pub async fn service_token(&self, id: ServiceTokenId) -> Result<Option<ServiceToken>> {
        let row: Option<Row> = on!(&self.reader, db => {
            sqlx::query_as(FIND).bind(id.to_i64()).fetch_optional(db).await?
        });
        row.map(Row::read).transpose()
    }

    /// The first `most` tokens of an organization that are not revoked, newest first. `after` has the time and the id
    /// of a token: those behind it are listed.
    #[boxed]
    pub async fn service_tokens(
        &self,
        org: OrgId,
        after: Option<(Timestamp, ServiceTokenId)>,
        most: i64,
    ) -> Result<Vec<ServiceToken>> {
        const LIST: &str = "
            SELECT t.id, t.org_id, t.name, t.secret_hash, t.masked, t.role, t.projects, t.created_by,
                   u.email AS maker, t.created_at, t.expires_at, t.last_used_at
            FROM service_tokens t LEFT JOIN users u ON u.id = t.created_by
            WHERE t.org_id = $1 AND t.revoked_at IS NULL
              AND (t.created_at < $2 OR (t.created_at = $2 AND t.id > $3))
            ORDER BY t.created_at DESC, t.id
            LIMIT $4";
        let (made, id) = after.map_or((i64::MAX, 0), |(made, id)| (made.0, id.to_i64()));
        let rows: Vec<Row> = on!(&self.reader, db => {
            sqlx::query_as(LIST).bind(org.0).bind(made).bind(id).bind(most).fetch_all(db).await?
        });
        rows.into_iter().map(Row::read).collect()
    }

    /// Records that a token was used, unless a use since `noted` is recorded.
    #[boxed]
    pub async fn touch_service_token(
        &self,
        id: ServiceTokenId,
        now: Timestamp,
        noted: Timestamp,
    ) -> Result<()> {
        const TOUCH: &str = "
            UPDATE service_tokens SET last_used_at = $2
            WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $3)";
        let mut tx = self.begin().await?;
        within!(tx, db => {
            sqlx::query(TOUCH).bind(id.to_i64()).bind(now.0).bind(noted.0).execute(&mut *db).await?;
        });
        tx.commit().await
    }
}

impl Tx {
    /// A token that is not revoked, as it is now.
    #[boxed]
    pub async fn service_token(&mut self, id: ServiceTokenId) -> Result<Option<ServiceToken>> {
        let row: Option<Row> = within!(self, db => {
            sqlx::query_as(FIND).bind(id.to_i64()).fetch_optional(&mut *db).await?
        });
        row.map(Row::read).transpose()
    }

    /// Adds a token.
    #[boxed]
    pub async fn add_service_token(&mut self, new: &ServiceToken) -> Result<()> {
        const ADD: &str = "
            INSERT INTO service_tokens
                (id, org_id, name, secret_hash, masked, role, projects, created_by, created_at, expires_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let projects = serde_json::to_string(&new.projects)
            .map_err(|error| Error::Corrupt(error.to_string()))?;
        within!(self, db => {
            sqlx::query(ADD)
                .bind(new.id.to_i64())
                .bind(new.org.0)
                .bind(&new.name)
                .bind(&new.secret_hash[..])
                .bind(&new.masked)
                .bind(new.role.as_str())
                .bind(projects)
                .bind(new.created_by.map(|user| user.0))
                .bind(new.created_at.0)
                .bind(new.expires_at.map(|at| at.0))
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// How many tokens of an organization are not revoked.
    #[boxed]
    pub async fn count_service_tokens(&mut self, org: OrgId) -> Result<i64> {
        const COUNT: &str =
            "SELECT count(*) FROM service_tokens WHERE org_id = $1 AND revoked_at IS NULL";
        Ok(within!(self, db => {
            sqlx::query_scalar(COUNT).bind(org.0).fetch_one(&mut *db).await?
        }))
    }

    /// Revokes a token. Returns its name; `None` if there is none, or not any more.
    #[boxed]
    pub async fn revoke_service_token(
        &mut self,
        org: OrgId,
        id: ServiceTokenId,
        now: Timestamp,
    ) -> Result<Option<String>> {
        const REVOKE: &str = "
            UPDATE service_tokens SET revoked_at = $3
            WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL RETURNING name";
        Ok(within!(self, db => {
            sqlx::query_scalar(REVOKE)
                .bind(org.0)
                .bind(id.to_i64())
                .bind(now.0)
                .fetch_optional(&mut *db)
                .await?
        }))
    }

    /// Revokes the tokens that a user has made. Returns their ids.
    #[boxed]
    pub async fn revoke_service_tokens_of(
        &mut self,
        user: UserId,
        now: Timestamp,
    ) -> Result<Vec<ServiceTokenId>> {
        const REVOKE: &str = "
            UPDATE service_tokens SET revoked_at = $2
            WHERE created_by = $1 AND revoked_at IS NULL RETURNING id";
        let ids: Vec<i64> = within!(self, db => {
            sqlx::query_scalar(REVOKE).bind(user.0).bind(now.0).fetch_all(&mut *db).await?
        });
        let mut ids: Vec<_> = ids.into_iter().map(ServiceTokenId::from_i64).collect();
        ids.sort_unstable();
        Ok(ids)
    }
}
