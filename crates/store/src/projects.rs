//! Projects.

use async_recursion::async_recursion as boxed;
use domain::ids::{OrgId, ProjectId};
use domain::project::{Project, ProjectStatus};
use domain::time::Timestamp;
use serde_json::Value;

use crate::db::{Tx, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;
use crate::{PerProject, Store};

from_row! {
    struct Row {
        id: i64,
        org_id: i64,
        name: String,
        description: Option<String>,
        status: String,
        settings: String,
        mcp_credentials: Option<Vec<u8>>,
        created_at: i64,
    }
}

impl Row {
    fn read(self) -> Result<Project> {
        let corrupt = |what: &str| Error::Corrupt(format!("project {}: {what}", self.id));
        Ok(Project {
            id: ProjectId(self.id),
            org: OrgId(self.org_id),
            name: self.name,
            description: self.description,
            status: ProjectStatus::parse(&self.status).ok_or_else(|| corrupt("status"))?,
            settings: serde_json::from_str(&self.settings).map_err(|_| corrupt("settings"))?,
            mcp_credentials: self.mcp_credentials,
            created_at: Timestamp(self.created_at),
        })
    }
}

impl Store {
    /// Every project that is not deleted.
    #[boxed]
    pub async fn projects(&self) -> Result<PerProject<Project>> {
        const ALL: &str = "
            SELECT id, org_id, name, description, status, settings, mcp_credentials, created_at
            FROM projects
            WHERE deleted_at IS NULL
            ORDER BY id";
        let rows: Vec<Row> = on!(&self.reader, db => sqlx::query_as(ALL).fetch_all(db).await?);
        Ok(rows.into_iter().map(|row| (ProjectId(row.id), row.read())).collect())
    }
}

impl Tx {
    /// Adds a project.
    #[boxed]
    pub async fn add_project(
        &mut self,
        org: OrgId,
        name: &str,
        description: Option<&str>,
        now: Timestamp,
    ) -> Result<ProjectId> {
        const ADD: &str = "
            INSERT INTO projects (org_id, name, description, status, settings, created_at)
            VALUES ($1, $2, $3, 'active', '{}', $4) RETURNING id";
        let id: i64 = within!(self, db => {
            sqlx::query_scalar(ADD)
                .bind(org.0)
                .bind(name)
                .bind(description)
                .bind(now.0)
                .fetch_one(&mut *db)
                .await?
        });
        Ok(ProjectId(id))
    }

    /// A project as it is now, held against other writers until the transaction ends.
    #[boxed]
    pub async fn project(&mut self, id: ProjectId) -> Result<Option<Project>> {
        // Touching the row takes its lock on PostgreSQL; SQLite has one writer anyway.
        const LOCK: &str = "UPDATE projects SET name = name WHERE id = $1 AND deleted_at IS NULL
            RETURNING id, org_id, name, description, status, settings, mcp_credentials, created_at";
        let row: Option<Row> = within!(self, db => {
            sqlx::query_as(LOCK).bind(id.0).fetch_optional(&mut *db).await?
        });
        row.map(Row::read).transpose()
    }

    /// Whether an organization has a project. It may be deleted before the transaction ends: whoever is made a
    /// member of it then is a member of nothing.
    #[boxed]
    pub async fn has_project(&mut self, org: OrgId, id: ProjectId) -> Result<bool> {
        const FIND: &str =
            "SELECT id FROM projects WHERE id = $1 AND org_id = $2 AND deleted_at IS NULL";
        let found: Option<i64> = within!(self, db => {
            sqlx::query_scalar(FIND).bind(id.0).bind(org.0).fetch_optional(&mut *db).await?
        });
        Ok(found.is_some())
    }

    /// Writes every field of a project that may change.
    #[boxed]
    pub async fn save_project(&mut self, project: &Project) -> Result<()> {
        const SAVE: &str = "
            UPDATE projects
            SET name = $2, description = $3, status = $4, settings = $5, mcp_credentials = $6
            WHERE id = $1";
        let settings = Value::Object(project.settings.clone()).to_string();
        within!(self, db => {
            sqlx::query(SAVE)
                .bind(project.id.0)
                .bind(&project.name)
                .bind(project.description.as_deref())
                .bind(project.status.as_str())
                .bind(settings)
                .bind(project.mcp_credentials.as_deref())
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Hides a project, revokes its keys and shreds what it sealed by forgetting its data keys.
    /// Its rows are purged later, in batches. Returns whether it was not yet deleted.
    #[boxed]
    pub async fn delete_project(&mut self, id: ProjectId, now: Timestamp) -> Result<bool> {
        const HIDE: &str = "
            UPDATE projects SET deleted_at = $2, mcp_credentials = NULL
            WHERE id = $1 AND deleted_at IS NULL";
        const REVOKE: &str =
            "UPDATE api_keys SET revoked_at = $2 WHERE project_id = $1 AND revoked_at IS NULL";
        const CREDENTIALS: &str = "
            UPDATE models SET api_key = NULL, endpoint_keys = NULL, deleted_at = $2
            WHERE project_id = $1 AND deleted_at IS NULL";
        const SHRED: &str = "DELETE FROM data_keys WHERE project_id = $1";
        let hidden = within!(self, db => {
            let hidden = sqlx::query(HIDE).bind(id.0).bind(now.0).execute(&mut *db).await?;
            sqlx::query(REVOKE).bind(id.0).bind(now.0).execute(&mut *db).await?;
            sqlx::query(CREDENTIALS).bind(id.0).bind(now.0).execute(&mut *db).await?;
            sqlx::query(SHRED).bind(id.0).execute(&mut *db).await?;
            hidden.rows_affected()
        });
        Ok(hidden > 0)
    }
}
