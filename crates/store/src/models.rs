//! The model registry.

use async_recursion::async_recursion as boxed;
use domain::ids::{ModelId, ProjectId};
use domain::model::Provider;
use domain::money::Usd;
use domain::time::Timestamp;

use crate::db::{Tx, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;
use crate::{PerProject, Store};

/// A model definition as it is stored; its credential is sealed with the project's data key.
#[derive(Clone, Debug)]
pub struct ModelRow {
    /// Its number.
    pub id: ModelId,
    /// The project that owns it.
    pub project: ProjectId,
    /// The display name.
    pub name: String,
    /// The name that callers pass as `model`.
    pub identifier: String,
    /// Its wire format.
    pub provider: Provider,
    /// The address of the model.
    pub base_url: Option<String>,
    /// The sealed credential.
    pub api_key: Option<Vec<u8>>,
    /// The sealed credentials of the endpoints in `config`.
    pub endpoint_keys: Option<Vec<u8>>,
    /// Whether it is public.
    pub is_public: bool,
    /// USD per 1,000 prompt tokens, if the owner gave it.
    pub input_price: Option<Usd>,
    /// USD per 1,000 completion tokens, if the owner gave it.
    pub output_price: Option<Usd>,
    /// Days before its trace data is purged.
    pub data_retention_days: i64,
    /// A region tag.
    pub region: String,
    /// A reporting label.
    pub currency: String,
    /// `additional_config` as JSON.
    pub config: String,
    /// When it was registered.
    pub created_at: Timestamp,
}

from_row! {
    struct Row {
        id: i64,
        project_id: i64,
        name: String,
        identifier: String,
        provider: String,
        base_url: Option<String>,
        api_key: Option<Vec<u8>>,
        endpoint_keys: Option<Vec<u8>>,
        is_public: bool,
        input_price: Option<i64>,
        output_price: Option<i64>,
        data_retention_days: i64,
        region: String,
        currency: String,
        config: String,
        created_at: i64,
    }
}

impl Row {
    fn read(self) -> Result<ModelRow> {
        let provider = Provider::parse(&self.provider).ok_or_else(|| {
            Error::Corrupt(format!("model {}: provider {}", self.id, self.provider))
        })?;
        Ok(ModelRow {
            id: ModelId(self.id),
            project: ProjectId(self.project_id),
            name: self.name,
            identifier: self.identifier,
            provider,
            base_url: self.base_url,
            api_key: self.api_key,
            endpoint_keys: self.endpoint_keys,
            is_public: self.is_public,
            input_price: self.input_price.map(Usd),
            output_price: self.output_price.map(Usd),
            data_retention_days: self.data_retention_days,
            region: self.region,
            currency: self.currency,
            config: self.config,
            created_at: Timestamp(self.created_at),
        })
    }
}

impl Store {
    /// Every model of every project that is not deleted.
    #[boxed]
    pub async fn models(&self) -> Result<PerProject<ModelRow>> {
        const ALL: &str = "
            SELECT id, project_id, name, identifier, provider, base_url, api_key, endpoint_keys, is_public,
                   input_price, output_price, data_retention_days, region, currency, config, created_at
            FROM models
            WHERE deleted_at IS NULL
            ORDER BY id";
        let rows: Vec<Row> = on!(&self.reader, db => sqlx::query_as(ALL).fetch_all(db).await?);
        Ok(rows.into_iter().map(|row| (ProjectId(row.project_id), row.read())).collect())
    }
}

impl Tx {
    /// Adds a model; the id in the row is ignored. [`Error::Taken`] when the identifier is.
    #[boxed]
    pub async fn add_model(&mut self, model: &ModelRow) -> Result<ModelId> {
        const ADD: &str = "
            INSERT INTO models
                (project_id, name, identifier, provider, base_url, api_key, is_public, input_price,
                 output_price, data_retention_days, region, currency, config, created_at, endpoint_keys)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
            RETURNING id";
        let id: i64 = within!(self, db => {
            sqlx::query_scalar(ADD)
                .bind(model.project.0)
                .bind(&model.name)
                .bind(&model.identifier)
                .bind(model.provider.as_str())
                .bind(model.base_url.as_deref())
                .bind(model.api_key.as_deref())
                .bind(model.is_public)
                .bind(model.input_price.map(|price| price.0))
                .bind(model.output_price.map(|price| price.0))
                .bind(model.data_retention_days)
                .bind(&model.region)
                .bind(&model.currency)
                .bind(&model.config)
                .bind(model.created_at.0)
                .bind(model.endpoint_keys.as_deref())
                .fetch_one(&mut *db)
                .await?
        });
        Ok(ModelId(id))
    }

    /// A project's model as it is now, held against other writers until the transaction ends.
    #[boxed]
    pub async fn model(&mut self, project: ProjectId, id: ModelId) -> Result<Option<ModelRow>> {
        // Touching the row takes its lock on PostgreSQL; SQLite has one writer anyway.
        const LOCK: &str = "
            UPDATE models SET name = name WHERE id = $1 AND project_id = $2 AND deleted_at IS NULL
            RETURNING id, project_id, name, identifier, provider, base_url, api_key, endpoint_keys, is_public,
                      input_price, output_price, data_retention_days, region, currency, config, created_at";
        let row: Option<Row> = within!(self, db => {
            sqlx::query_as(LOCK).bind(id.0).bind(project.0).fetch_optional(&mut *db).await?
        });
        row.map(Row::read).transpose()
    }

    /// Writes every field of a model that may change. [`Error::Taken`] when its identifier is. One
    /// that gets another identifier leaves its retention rule behind for the steps under the old one,
    /// as a deleted model does.
    #[boxed]
    pub async fn save_model(&mut self, model: &ModelRow, now: Timestamp) -> Result<()> {
        const LEAVE_RULE: &str = "
            INSERT INTO models
                (project_id, name, identifier, provider, is_public, data_retention_days, region,
                 currency, config, created_at, deleted_at)
            SELECT project_id, name, identifier, provider, is_public, data_retention_days, region,
                   currency, '{}', created_at, CAST($3 AS BIGINT)
            FROM models
            WHERE id = $1 AND identifier <> $2 AND deleted_at IS NULL";
        const FORGET_OLDER: &str = "
            DELETE FROM models
            WHERE deleted_at IS NOT NULL AND project_id = $1
              AND identifier = (SELECT identifier FROM models WHERE id = $2) AND identifier <> $3";
        const SAVE: &str = "
            UPDATE models
            SET name = $2, identifier = $3, provider = $4, base_url = $5, api_key = $6, is_public = $7,
                input_price = $8, output_price = $9, data_retention_days = $10, region = $11,
                currency = $12, config = $13, endpoint_keys = $14
            WHERE id = $1 AND deleted_at IS NULL";
        within!(self, db => {
            sqlx::query(FORGET_OLDER)
                .bind(model.project.0)
                .bind(model.id.0)
                .bind(&model.identifier)
                .execute(&mut *db)
                .await?;
            sqlx::query(LEAVE_RULE)
                .bind(model.id.0)
                .bind(&model.identifier)
                .bind(now.0)
                .execute(&mut *db)
                .await?;
            sqlx::query(SAVE)
                .bind(model.id.0)
                .bind(&model.name)
                .bind(&model.identifier)
                .bind(model.provider.as_str())
                .bind(model.base_url.as_deref())
                .bind(model.api_key.as_deref())
                .bind(model.is_public)
                .bind(model.input_price.map(|price| price.0))
                .bind(model.output_price.map(|price| price.0))
                .bind(model.data_retention_days)
                .bind(&model.region)
                .bind(&model.currency)
                .bind(&model.config)
                .bind(model.endpoint_keys.as_deref())
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Removes a model. The row stays, without its credentials, for its retention rule.
    #[boxed]
    pub async fn delete_model(&mut self, id: ModelId, now: Timestamp) -> Result<()> {
        const HIDE: &str = "
            UPDATE models SET deleted_at = $2, api_key = NULL, endpoint_keys = NULL WHERE id = $1";
        within!(self, db => {
            sqlx::query(HIDE).bind(id.0).bind(now.0).execute(&mut *db).await?;
        });
        Ok(())
    }
}
