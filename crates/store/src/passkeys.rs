//! Passkeys, and the challenges that they have answered.

use async_recursion::async_recursion as boxed;
use domain::ids::{OrgId, UserId};
use domain::time::Timestamp;

use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::Result;
use crate::from_row::from_row;

/// A passkey of a user.
#[derive(Clone, Debug)]
pub struct StoredPasskey {
    /// The id of its credential.
    pub credential_id: Vec<u8>,
    /// The name that its user has given it.
    pub name: String,
    /// Its public key and its counter.
    pub credential: String,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last signed in; `None` if never.
    pub last_used_at: Option<Timestamp>,
}

from_row! {
    pub(crate) struct PasskeyRow {
        credential_id: Vec<u8>,
        name: String,
        credential: String,
        created_at: i64,
        last_used_at: Option<i64>,
    }
}

impl From<PasskeyRow> for StoredPasskey {
    fn from(row: PasskeyRow) -> Self {
        Self {
            credential_id: row.credential_id,
            name: row.name,
            credential: row.credential,
            created_at: Timestamp(row.created_at),
            last_used_at: row.last_used_at.map(Timestamp),
        }
    }
}

/// Removes the passkeys of a user, and reads them.
pub(crate) const REMOVE_PASSKEYS: &str = "
    DELETE FROM passkeys WHERE user_id = $1
    RETURNING credential_id, name, credential, created_at, last_used_at";

const OF_USER: &str = "
    SELECT credential_id, name, credential, created_at, last_used_at
    FROM passkeys
    WHERE user_id = $1
    ORDER BY created_at, credential_id";

impl Store {
    /// The passkeys of a user, oldest first.
    #[boxed]
    pub async fn passkeys(&self, user: UserId) -> Result<Vec<StoredPasskey>> {
        let rows: Vec<PasskeyRow> = on!(&self.reader, db => {
            sqlx::query_as(OF_USER).bind(user.0).fetch_all(db).await?
        });
        Ok(rows.into_iter().map(Into::into).collect())
    }

    /// A passkey by the id of its credential: what is stored of it, and the address of its user.
    #[boxed]
    pub async fn passkey(&self, credential_id: &[u8]) -> Result<Option<(String, String)>> {
        const FIND: &str = "
            SELECT p.credential, u.email
            FROM passkeys p
            JOIN users u ON u.id = p.user_id
            WHERE p.credential_id = $1";
        Ok(on!(&self.reader, db => {
            sqlx::query_as(FIND).bind(credential_id).fetch_optional(db).await?
        }))
    }
}

impl Tx {
    /// The passkeys of a user, oldest first.
    #[boxed]
    pub async fn passkeys(&mut self, user: UserId) -> Result<Vec<StoredPasskey>> {
        let rows: Vec<PasskeyRow> = within!(self, db => {
            sqlx::query_as(OF_USER).bind(user.0).fetch_all(&mut *db).await?
        });
        Ok(rows.into_iter().map(Into::into).collect())
    }

    /// Adds a passkey. `false` if its credential is known, whoever has it.
    #[boxed]
    pub async fn add_passkey(&mut self, user: UserId, new: &StoredPasskey) -> Result<bool> {
        const ADD: &str = "
            INSERT INTO passkeys (credential_id, user_id, name, credential, created_at)
            VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (credential_id) DO NOTHING";
        let added = within!(self, db => {
            sqlx::query(ADD)
                .bind(&new.credential_id)
                .bind(user.0)
                .bind(&new.name)
                .bind(&new.credential)
                .bind(new.created_at.0)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        Ok(added > 0)
    }

    /// Notes that a passkey has signed in, and what is stored of it from now on. `false` if it was used or
    /// removed since `old` was read.
    #[boxed]
    pub async fn use_passkey(
        &mut self,
        user: UserId,
        credential_id: &[u8],
        old: &str,
        new: &str,
        now: Timestamp,
    ) -> Result<bool> {
        const USE: &str = "
            UPDATE passkeys SET credential = $4, last_used_at = $5
            WHERE credential_id = $1 AND user_id = $2 AND credential = $3";
        let used = within!(self, db => {
            sqlx::query(USE)
                .bind(credential_id)
                .bind(user.0)
                .bind(old)
                .bind(new)
                .bind(now.0)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        Ok(used > 0)
    }

    /// Removes a passkey of a user.
    #[boxed]
    pub async fn remove_passkey(&mut self, user: UserId, credential_id: &[u8]) -> Result<()> {
        const REMOVE: &str = "DELETE FROM passkeys WHERE credential_id = $1 AND user_id = $2";
        within!(self, db => {
            sqlx::query(REMOVE).bind(credential_id).bind(user.0).execute(&mut *db).await?;
        });
        Ok(())
    }

    /// Has the account ask for a second factor at sign-in.
    #[boxed]
    pub async fn require_own_factor(&mut self, user: UserId) -> Result<()> {
        within!(self, db => {
            sqlx::query("UPDATE users SET mfa_enabled = TRUE WHERE id = $1")
                .bind(user.0)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Whether a user has an active authenticator.
    #[boxed]
    pub async fn has_authenticator(&mut self, user: UserId) -> Result<bool> {
        const FIND: &str = "SELECT id FROM users WHERE id = $1 AND totp_step > 0";
        let found: Option<i64> = within!(self, db => {
            sqlx::query_scalar(FIND).bind(user.0).fetch_optional(&mut *db).await?
        });
        Ok(found.is_some())
    }

    /// Uses up a challenge, by its hash. `false` if it was used before. It is kept among one-time links, as one
    /// that leads nowhere, for as long as it would have been good.
    #[boxed]
    pub async fn spend_challenge(
        &mut self,
        org: OrgId,
        hash: &[u8; 32],
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<bool> {
        const SPEND: &str = "
            INSERT INTO one_time_links (token_hash, org_id, purpose, email, created_at, expires_at)
            VALUES ($1, $2, 'challenge', '', $3, $4)
            ON CONFLICT (token_hash) DO NOTHING";
        let spent = within!(self, db => {
            sqlx::query(SPEND)
                .bind(&hash[..])
                .bind(org.0)
                .bind(now.0)
                .bind(expires_at.0)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        Ok(spent > 0)
    }
}
