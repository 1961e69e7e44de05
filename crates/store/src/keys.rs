//! API keys.

use std::collections::HashMap;
use std::sync::LazyLock;

use async_recursion::async_recursion as boxed;
use domain::ids::{KeyId, ProjectId, UserId};
use domain::key::{EarlierSecret, Key, KeyStatus};
use domain::money::Usd;
use domain::step::ApiEndpoint;
use domain::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::AssertSqlSafe;

use crate::db::{Tx, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;
use crate::steps::{STEPS_AT_ONCE, by_id, slots};
use crate::{PerProject, Store};

from_row! {
    struct Row {
        id: i64,
        project_id: i64,
        name: String,
        secret_hash: Vec<u8>,
        masked: String,
        status: String,
        hourly_limit: Option<i64>,
        expires_at: Option<i64>,
        loop_interventions: i64,
        last_used: Option<i64>,
        reset_at: Option<i64>,
        created_at: i64,
        allowed_models: Option<String>,
        allowed_endpoints: Option<String>,
        owner_id: Option<i64>,
        earlier_hash: Option<Vec<u8>>,
        earlier_until: Option<i64>,
    }
}

impl Row {
    fn read(self) -> Result<Key> {
        let corrupt = |what: &str| Error::Corrupt(format!("API key {}: {what}", self.id));
        let earlier = match (self.earlier_hash, self.earlier_until) {
            (Some(hash), Some(until)) => Some(EarlierSecret {
                hash: hash.try_into().map_err(|_| corrupt("earlier_hash"))?,
                until: Timestamp(until),
            }),
            _ => None,
        };
        let endpoints = self.allowed_endpoints.as_deref();
        Ok(Key {
            id: KeyId::from_i64(self.id),
            project: ProjectId(self.project_id),
            secret_hash: self.secret_hash.try_into().map_err(|_| corrupt("secret_hash"))?,
            status: KeyStatus::parse(&self.status).ok_or_else(|| corrupt("status"))?,
            name: self.name,
            masked: self.masked,
            hourly_limit: self.hourly_limit.map(Usd),
            expires_at: self.expires_at.map(Timestamp),
            loop_interventions: self.loop_interventions,
            last_used: self.last_used.map(Timestamp),
            reset_at: self.reset_at.map(Timestamp),
            created_at: Timestamp(self.created_at),
            allowed_models: list(self.allowed_models.as_deref())
                .map_err(|_| corrupt("allowed_models"))?,
            allowed_endpoints: list(endpoints)
                .map_err(|_| corrupt("allowed_endpoints"))?
                .map(known_endpoints),
            owner: self.owner_id.map(UserId),
            earlier,
        })
    }
}

/// The endpoints of a list. A newer version may have written one that this version does not have: it
/// allows nothing here.
fn known_endpoints(words: Vec<String>) -> Vec<ApiEndpoint> {
    words.iter().filter_map(|word| ApiEndpoint::parse(word)).collect()
}

/// A list of names as JSON; `None` without one.
fn list<T: DeserializeOwned>(json: Option<&str>) -> serde_json::Result<Option<Vec<T>>> {
    json.map(serde_json::from_str).transpose()
}

fn json<T: Serialize>(list: Option<&Vec<T>>) -> Result<Option<String>> {
    let written = list.map(serde_json::to_string).transpose();
    written.map_err(|error| Error::Corrupt(format!("a list of an API key: {error}")))
}

/// A key that somebody has made, also if it is revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeKey {
    /// Its id.
    pub id: KeyId,
    /// Its project.
    pub project: ProjectId,
    /// Its name.
    pub name: String,
}

static NAMES_BY_ID: LazyLock<String> =
    LazyLock::new(|| by_id("SELECT id, project_id, name FROM api_keys WHERE id"));

impl Store {
    /// Every key that is not revoked.
    #[boxed]
    pub async fn keys(&self) -> Result<PerProject<Key>> {
        const ALL: &str = "
            SELECT id, project_id, name, secret_hash, masked, status, hourly_limit, expires_at,
                   loop_interventions, last_used, reset_at, created_at, allowed_models,
                   allowed_endpoints, owner_id, earlier_hash, earlier_until
            FROM api_keys
            WHERE revoked_at IS NULL
            ORDER BY created_at, id";
        let rows: Vec<Row> = on!(&self.reader, db => sqlx::query_as(ALL).fetch_all(db).await?);
        Ok(rows.into_iter().map(|row| (ProjectId(row.project_id), row.read())).collect())
    }

    /// The keys that a user has made in a project or in all, revoked ones too: the latest `most`.
    #[boxed]
    pub async fn keys_made_by(
        &self,
        user: UserId,
        project: Option<ProjectId>,
        most: usize,
    ) -> Result<Vec<MadeKey>> {
        const MADE: &str = "
            SELECT id, project_id, name
            FROM api_keys
            WHERE owner_id = $1 AND project_id = COALESCE($2, project_id)
            ORDER BY created_at DESC, id DESC
            LIMIT $3";
        let project = project.map(|project| project.0);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let made: Vec<(i64, i64, String)> = on!(&self.reader, db => {
            sqlx::query_as(MADE).bind(user.0).bind(project).bind(most).fetch_all(db).await?
        });
        let read = |(id, project, name)| MadeKey {
            id: KeyId::from_i64(id),
            project: ProjectId(project),
            name,
        };
        Ok(made.into_iter().map(read).collect())
    }

    /// The names of keys of a project, revoked ones too.
    #[boxed]
    pub async fn names_of_keys(
        &self,
        project: ProjectId,
        ids: &[KeyId],
    ) -> Result<HashMap<KeyId, String>> {
        let mut names = HashMap::new();
        for some in ids.chunks(STEPS_AT_ONCE) {
            let rows: Vec<(i64, i64, String)> = on!(&self.reader, db => {
                let query = sqlx::query_as(AssertSqlSafe(NAMES_BY_ID.as_str()));
                let ids = slots(some.iter().map(|id| id.to_i64()));
                ids.fold(query, sqlx::query::QueryAs::bind).fetch_all(db).await?
            });
            let own = rows.into_iter().filter(|(_, of, _)| *of == project.0);
            names.extend(own.map(|(id, _, name)| (KeyId::from_i64(id), name)));
        }
        Ok(names)
    }

    /// The request windows that were saved last, by key.
    #[boxed]
    pub async fn saved_windows(&self) -> Result<Vec<(KeyId, Vec<u8>)>> {
        let rows: Vec<(i64, Vec<u8>)> = on!(&self.reader, db => {
            sqlx::query_as("SELECT key_id, windows FROM key_windows").fetch_all(db).await?
        });
        Ok(rows.into_iter().map(|(key, windows)| (KeyId::from_i64(key), windows)).collect())
    }

    /// Saves request windows and times of last use.
    #[boxed]
    pub async fn save_windows(
        &self,
        windows: &[(KeyId, Vec<u8>, Timestamp)],
        now: Timestamp,
    ) -> Result<()> {
        const SAVE: &str = "
            INSERT INTO key_windows (key_id, windows, saved_at) VALUES ($1, $2, $3)
            ON CONFLICT (key_id) DO UPDATE SET windows = excluded.windows, saved_at = excluded.saved_at";
        const USED: &str = "UPDATE api_keys SET last_used = $2 WHERE id = $1";
        let mut tx = self.begin().await?;
        for (key, bytes, last_used) in windows {
            within!(tx, db => {
                sqlx::query(SAVE)
                    .bind(key.to_i64())
                    .bind(&bytes[..])
                    .bind(now.0)
                    .execute(&mut *db)
                    .await?;
                sqlx::query(USED).bind(key.to_i64()).bind(last_used.0).execute(&mut *db).await?;
            });
        }
        tx.commit().await
    }
}

impl Tx {
    /// Adds a key.
    #[boxed]
    pub async fn add_key(&mut self, key: &Key) -> Result<()> {
        const ADD: &str = "
            INSERT INTO api_keys
                (id, project_id, name, secret_hash, masked, status, hourly_limit, expires_at, created_at,
                 allowed_models, allowed_endpoints, owner_id)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        let models = json(key.allowed_models.as_ref())?;
        let endpoints = json(key.allowed_endpoints.as_ref())?;
        within!(self, db => {
            sqlx::query(ADD)
                .bind(key.id.to_i64())
                .bind(key.project.0)
                .bind(&key.name)
                .bind(&key.secret_hash[..])
                .bind(&key.masked)
                .bind(key.status.as_str())
                .bind(key.hourly_limit.map(|limit| limit.0))
                .bind(key.expires_at.map(|at| at.0))
                .bind(key.created_at.0)
                .bind(models)
                .bind(endpoints)
                .bind(key.owner.map(|user| user.0))
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// A key as it is now, held against other writers until the transaction ends.
    #[boxed]
    pub async fn key(&mut self, id: KeyId) -> Result<Option<Key>> {
        // Touching the row takes its lock on PostgreSQL; SQLite has one writer anyway.
        const LOCK: &str = "
            UPDATE api_keys SET name = name WHERE id = $1 AND revoked_at IS NULL
            RETURNING id, project_id, name, secret_hash, masked, status, hourly_limit, expires_at,
                      loop_interventions, last_used, reset_at, created_at, allowed_models,
                      allowed_endpoints, owner_id, earlier_hash, earlier_until";
        let row: Option<Row> = within!(self, db => {
            sqlx::query_as(LOCK).bind(id.to_i64()).fetch_optional(&mut *db).await?
        });
        row.map(Row::read).transpose()
    }

    /// The keys of a project that a user has made and that are not revoked, and those with a cap that
    /// were revoked after a time.
    #[boxed]
    pub async fn count_keys_of(
        &mut self,
        project: ProjectId,
        user: UserId,
        since: Timestamp,
    ) -> Result<u64> {
        const COUNT: &str = "
            SELECT count(*) FROM api_keys
            WHERE project_id = $1 AND owner_id = $2 AND (revoked_at IS NULL OR (revoked_at > $3 AND hourly_limit IS NOT NULL))";
        let count: i64 = within!(self, db => {
            sqlx::query_scalar(COUNT)
                .bind(project.0)
                .bind(user.0)
                .bind(since.0)
                .fetch_one(&mut *db)
                .await?
        });
        Ok(count.unsigned_abs())
    }

    /// Writes every field of a key that may change.
    #[boxed]
    pub async fn save_key(&mut self, key: &Key) -> Result<()> {
        const SAVE: &str = "
            UPDATE api_keys
            SET name = $2, status = $3, hourly_limit = $4, expires_at = $5, loop_interventions = $6,
                reset_at = $7, secret_hash = $8, masked = $9, allowed_models = $10,
                allowed_endpoints = $11, earlier_hash = $12, earlier_until = $13
            WHERE id = $1 AND revoked_at IS NULL";
        let models = json(key.allowed_models.as_ref())?;
        let endpoints = json(key.allowed_endpoints.as_ref())?;
        within!(self, db => {
            sqlx::query(SAVE)
                .bind(key.id.to_i64())
                .bind(&key.name)
                .bind(key.status.as_str())
                .bind(key.hourly_limit.map(|limit| limit.0))
                .bind(key.expires_at.map(|at| at.0))
                .bind(key.loop_interventions)
                .bind(key.reset_at.map(|at| at.0))
                .bind(&key.secret_hash[..])
                .bind(&key.masked)
                .bind(models)
                .bind(endpoints)
                .bind(key.earlier.map(|earlier| earlier.hash.to_vec()))
                .bind(key.earlier.map(|earlier| earlier.until.0))
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Pauses a key if it is active and still as it is known here, counting the intervention when a loop was seen:
    /// what was judged by an old cap, or from before a reset, pauses nothing. Returns whether it was so.
    #[boxed]
    pub async fn pause_key(&mut self, key: &Key, status: KeyStatus) -> Result<bool> {
        const PAUSE: &str = "
            UPDATE api_keys
            SET status = $2, loop_interventions = loop_interventions + $3
            WHERE id = $1 AND status = 'active'
              AND COALESCE(hourly_limit, -1) = COALESCE($4, -1)
              AND COALESCE(reset_at, -1) = COALESCE($5, -1)";
        let loops = i64::from(status == KeyStatus::LoopDetected);
        let changed = within!(self, db => {
            sqlx::query(PAUSE)
                .bind(key.id.to_i64())
                .bind(status.as_str())
                .bind(loops)
                .bind(key.hourly_limit.map(|limit| limit.0))
                .bind(key.reset_at.map(|at| at.0))
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        Ok(changed > 0)
    }

    /// Revokes a key for good. Returns whether it was not revoked before.
    #[boxed]
    pub async fn revoke_key(&mut self, id: KeyId, now: Timestamp) -> Result<bool> {
        const REVOKE: &str =
            "UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";
        let revoked = within!(self, db => {
            sqlx::query(REVOKE).bind(id.to_i64()).bind(now.0).execute(&mut *db).await?.rows_affected()
        });
        Ok(revoked > 0)
    }

    /// Writes a value that is never read, to check whether writing works. It must change: SQLite
    /// does not write a value that is there already.
    pub(crate) async fn touch(&mut self) -> Result<()> {
        const TOUCH: &str = "
            INSERT INTO counters (name, value) VALUES ('touched', 1)
            ON CONFLICT (name) DO UPDATE SET value = counters.value + 1";
        within!(self, db => {
            sqlx::query(TOUCH).execute(&mut *db).await?;
        });
        Ok(())
    }

    /// Notifies every node that projects, models or keys have changed.
    #[boxed]
    pub async fn bump_registry(&mut self) -> Result<()> {
        within!(self, db => {
            sqlx::query("UPDATE counters SET value = value + 1 WHERE name = 'registry'")
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }
}
