//! The organization: its name and its settings.

use async_recursion::async_recursion as boxed;
use domain::ids::OrgId;
use domain::settings::OrganizationSettings;
use serde_json::{Map, Value};

use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::{Error, Result};

/// An organization as it is stored.
#[derive(Clone, Debug)]
pub struct Organization {
    /// Its number.
    pub id: OrgId,
    /// For people; never blank.
    pub name: String,
    /// Its settings as they were merged.
    pub settings: Map<String, Value>,
}

type Row = (i64, String, String);

const FIND: &str = "SELECT id, name, settings FROM organizations WHERE id = $1";

impl Store {
    /// An organization.
    #[boxed]
    pub async fn organization(&self, id: OrgId) -> Result<Option<Organization>> {
        let row: Option<Row> = on!(&self.reader, db => {
            sqlx::query_as(FIND).bind(id.0).fetch_optional(db).await?
        });
        row.map(read).transpose()
    }
}

impl Tx {
    /// Whether an organization has disabled passwords. It is not held: others may change it meanwhile.
    #[boxed]
    pub async fn is_password_login_disabled(&mut self, id: OrgId) -> Result<bool> {
        let row: Option<Row> = within!(self, db => {
            sqlx::query_as(FIND).bind(id.0).fetch_optional(&mut *db).await?
        });
        let Some(organization) = row.map(read).transpose()? else { return Ok(false) };
        Ok(organization.read_settings()?.security.disable_password_login)
    }

    /// An organization, which no other transaction changes before this one ends.
    #[boxed]
    pub async fn organization(&mut self, id: OrgId) -> Result<Option<Organization>> {
        // Touching the row takes its lock on PostgreSQL; SQLite has one writer anyway.
        const LOCK: &str = "
            UPDATE organizations SET name = name WHERE id = $1 RETURNING id, name, settings";
        let row: Option<Row> = within!(self, db => {
            sqlx::query_as(LOCK).bind(id.0).fetch_optional(&mut *db).await?
        });
        row.map(read).transpose()
    }

    /// Writes the name and the settings of an organization.
    #[boxed]
    pub async fn save_organization(&mut self, organization: &Organization) -> Result<()> {
        const SAVE: &str = "UPDATE organizations SET name = $2, settings = $3 WHERE id = $1";
        let settings = Value::Object(organization.settings.clone()).to_string();
        within!(self, db => {
            sqlx::query(SAVE)
                .bind(organization.id.0)
                .bind(&organization.name)
                .bind(settings)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }
}

impl Organization {
    /// Its settings, read.
    pub fn read_settings(&self) -> Result<OrganizationSettings> {
        known(&self.settings)
    }
}

fn read((id, name, settings): Row) -> Result<Organization> {
    Ok(Organization { id: OrgId(id), name, settings: parse(&settings)? })
}

/// Whether the settings of an organization, as they are stored, require a second factor of everyone.
pub(crate) fn requires_factor(settings: &str) -> Result<bool> {
    Ok(known(&parse(settings)?)?.security.require_mfa)
}

fn parse(settings: &str) -> Result<Map<String, Value>> {
    serde_json::from_str(settings).map_err(|error| corrupt(&error.to_string()))
}

fn known(settings: &Map<String, Value>) -> Result<OrganizationSettings> {
    OrganizationSettings::parse(settings).map_err(|faults| corrupt(&faults.join("; ")))
}

fn corrupt(why: &str) -> Error {
    Error::Corrupt(format!("settings of an organization: {why}"))
}
