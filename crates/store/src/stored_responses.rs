//! Responses that vendors store, and their items, for requests that continue them.

use std::borrow::Cow;

use async_recursion::async_recursion as boxed;
use domain::ids::{ProjectId, StepId};
use serde_json::Value;
use uuid::Uuid;

use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;
use crate::session_traces::{SessionHash, session_text};
use crate::writer::table::{Field, Row};

/// The ids that one query looks for.
const AT_ONCE: usize = 16;

/// A response that a vendor stores, or an item of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResource {
    /// The project whose call it answered.
    pub project: ProjectId,
    /// Its id at the vendor.
    pub id: String,
    /// The id of the response.
    pub response: String,
    /// The step of the call: it is known as long as that.
    pub step: StepId,
    /// The identifier of the model.
    pub model: String,
    /// The fingerprint of the vendor's account.
    pub account: i64,
    /// The tokens of the response, its prompt included; of an item those of all items together. `None`
    /// if they are not known.
    pub tokens: Option<u64>,
    /// The session of the call.
    pub session: SessionHash,
    /// The vendor's own tools that a request gets by continuing it, as [`StoredResponse::tools`] has them.
    ///
    /// [`StoredResponse::tools`]: domain::stored_responses::StoredResponse::tools
    pub tools: Vec<Value>,
}

from_row! {
    struct StoredRow {
        id: String,
        response: String,
        step_id: i64,
        model: String,
        account: i64,
        tokens: Option<i64>,
        session: String,
        tools: Option<String>,
    }
}

impl StoredRow {
    fn read(self, project: ProjectId) -> Result<StoredResource> {
        let session = Uuid::parse_str(&self.session);
        let session = session.map_err(|error| Error::Corrupt(error.to_string()))?.into_bytes();
        let tools = self.tools.as_deref().map_or(Ok(Vec::new()), serde_json::from_str);
        let tools = tools.map_err(|error| Error::Corrupt(error.to_string()))?;
        let Self { id, response, model, account, .. } = self;
        let (step, tokens) = (StepId(self.step_id), self.tokens.map(i64::unsigned_abs));
        Ok(StoredResource { project, id, response, step, model, account, tokens, session, tools })
    }
}

impl Row for StoredResource {
    const TABLE: &'static str = "kept_responses";
    const COLUMNS: &'static [&'static str] = &[
        "project_id",
        "id",
        "response",
        "step_id",
        "model",
        "account",
        "tokens",
        "session",
        "tools",
    ];
    /// A vendor that gives an id twice means the same.
    const CONFLICT: &'static str = " ON CONFLICT DO NOTHING";

    fn fields(&self) -> Result<Vec<Field<'_>>> {
        let tools = (!self.tools.is_empty()).then(|| Value::from(self.tools.clone()).to_string());
        Ok(vec![
            self.project.0.into(),
            Cow::Borrowed(self.id.as_str()).into(),
            Cow::Borrowed(self.response.as_str()).into(),
            self.step.0.into(),
            Cow::Borrowed(self.model.as_str()).into(),
            self.account.into(),
            self.tokens.and_then(|tokens| i64::try_from(tokens).ok()).into(),
            Field::Text(Some(session_text(self.session).into())),
            Field::Text(tools.map(Cow::Owned)),
        ])
    }
}

impl Store {
    /// The stored responses and items with these ids, of this project.
    #[boxed]
    pub async fn stored_resources(
        &self,
        project: ProjectId,
        ids: &[&str],
    ) -> Result<Vec<StoredResource>> {
        const FIND: &str = "
            SELECT id, response, step_id, model, account, tokens, session, tools
            FROM kept_responses WHERE project_id = $1
            AND id IN ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";
        let mut all = Vec::new();
        for ids in ids.chunks(AT_ONCE) {
            let rows: Vec<StoredRow> = on!(&self.reader, db => {
                let mut query = sqlx::query_as(FIND).bind(project.0);
                for place in 0..AT_ONCE {
                    // No id is empty.
                    query = query.bind(ids.get(place).copied().unwrap_or_default());
                }
                query.fetch_all(db).await?
            });
            for row in rows {
                all.push(row.read(project)?);
            }
        }
        Ok(all)
    }

    /// Forgets a response that the vendor stores no longer, and its items.
    #[boxed]
    pub async fn forget_stored(&self, project: ProjectId, response: &str) -> Result<()> {
        const FIND: &str = "
            SELECT step_id FROM kept_responses WHERE project_id = $1 AND id = $2";
        const FORGET: &str = "
            DELETE FROM kept_responses WHERE step_id = $1 AND project_id = $2 AND response = $3";
        let mut tx = self.begin().await?;
        within!(tx, db => {
            let step: Option<i64> = sqlx::query_scalar(FIND)
                .bind(project.0)
                .bind(response)
                .fetch_optional(&mut *db)
                .await?;
            sqlx::query(FORGET)
                .bind(step.unwrap_or_default())
                .bind(project.0)
                .bind(response)
                .execute(&mut *db)
                .await?;
        });
        tx.commit().await
    }
}

impl Tx {
    /// Forgets the stored responses and items of a step.
    pub(crate) async fn forget_stored_of(&mut self, step: i64) -> Result<()> {
        within!(self, db => {
            sqlx::query("DELETE FROM kept_responses WHERE step_id = $1")
                .bind(step)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }
}
