//! The keys that seal: the master key over everything, a data key per project under it.

use async_recursion::async_recursion as boxed;
use domain::ids::ProjectId;
use domain::time::Timestamp;

use crate::db::{Pool, Tx, on, within};
use crate::error::{Error, Result};
use crate::seal::{self, SealingKey};
use crate::{PerProject, Store};

const PEPPER: &str = "pepper";

impl Store {
    /// The pepper under which API key secrets are hashed: made at the first start, sealed with the
    /// master key ever after. Doubles as the proof that the master key is the right one.
    #[boxed]
    pub async fn pepper(&self) -> Result<[u8; 32]> {
        const KEEP: &str =
            "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        if sealed_pepper(&self.reader).await?.is_none() {
            let sealed = self.master.seal(PEPPER, &seal::random::<32>()?)?;
            let mut tx = self.begin().await?;
            within!(tx, db => {
                sqlx::query(KEEP).bind(PEPPER).bind(sealed).execute(&mut *db).await?;
            });
            tx.commit().await?;
        }
        let sealed = sealed_pepper(&self.reader).await?.ok_or(Error::WrongMasterKey)?;
        let plain = self.master.open(PEPPER, &sealed).map_err(|_| Error::WrongMasterKey)?;
        plain.try_into().map_err(|_| Error::WrongMasterKey)
    }

    /// Every project's data keys, oldest first.
    #[boxed]
    pub async fn data_keys(&self) -> Result<PerProject<SealingKey>> {
        const ALL: &str = "SELECT project_id, id, wrapped FROM data_keys ORDER BY id";
        let rows: Vec<(i64, i64, Vec<u8>)> =
            on!(&self.reader, db => sqlx::query_as(ALL).fetch_all(db).await?);
        let open = |(project, id, wrapped): (i64, i64, Vec<u8>)| {
            let bytes = self.master.open(&place(project), &wrapped);
            (ProjectId(project), bytes.and_then(|bytes| SealingKey::new(id, &bytes)))
        };
        Ok(rows.into_iter().map(open).collect())
    }

    /// Seals every data key, the secrets of authenticators and of providers of single sign-on, and the pepper
    /// under another master key. Returns how many values were sealed anew.
    #[boxed]
    pub async fn rotate_master_key(&self, tx: &mut Tx, new: &SealingKey) -> Result<usize> {
        const KEYS: &str = "SELECT id, project_id, wrapped FROM data_keys";
        const REWRAP: &str = "UPDATE data_keys SET wrapped = $2 WHERE id = $1";
        const KEEP: &str = "UPDATE meta SET value = $2 WHERE name = $1";
        let pepper = self.pepper().await?;
        let rows: Vec<(i64, i64, Vec<u8>)> =
            within!(tx, db => sqlx::query_as(KEYS).fetch_all(&mut *db).await?);
        let count = rows.len() + 1;
        for (id, project, wrapped) in rows {
            let bytes = self.master.open(&place(project), &wrapped)?;
            let again = new.seal(&place(project), &bytes)?;
            within!(tx, db => {
                sqlx::query(REWRAP).bind(id).bind(again).execute(&mut *db).await?;
            });
        }
        let count = count + tx.reseal_authenticators(&self.master, new).await?;
        let count = count + tx.reseal_sign_on_secrets(&self.master, new).await?;
        let sealed = new.seal(PEPPER, &pepper)?;
        within!(tx, db => {
            sqlx::query(KEEP).bind(PEPPER).bind(sealed).execute(&mut *db).await?;
        });
        Ok(count)
    }

    /// Makes a data key for a new project.
    #[boxed]
    pub async fn add_data_key(
        &self,
        tx: &mut Tx,
        project: ProjectId,
        now: Timestamp,
    ) -> Result<SealingKey> {
        const ADD: &str = "INSERT INTO data_keys (project_id, wrapped, created_at) VALUES ($1, $2, $3) RETURNING id";
        let bytes = seal::random::<32>()?;
        let wrapped = self.master.seal(&place(project.0), &bytes)?;
        let id: i64 = within!(tx, db => {
            sqlx::query_scalar(ADD).bind(project.0).bind(wrapped).bind(now.0).fetch_one(&mut *db).await?
        });
        SealingKey::new(id, &bytes)
    }
}

/// The pepper as it is stored; `None` if there is none, or no schema.
pub(crate) async fn sealed_pepper(pool: &Pool) -> Result<Option<Vec<u8>>> {
    const FIND: &str = "SELECT value FROM meta WHERE name = $1";
    let found: sqlx::Result<Option<Vec<u8>>> = on!(pool, db => {
        sqlx::query_scalar(FIND).bind(PEPPER).fetch_optional(db).await
    });
    match found {
        Err(sqlx::Error::Database(error))
            if error.code().as_deref() == Some("42P01")
                || error.message().contains("no such table") =>
        {
            Ok(None)
        }
        found => Ok(found?),
    }
}

/// Whether a master key opens the pepper.
pub(crate) fn opens(master: &SealingKey, sealed: &[u8]) -> bool {
    master.open(PEPPER, sealed).is_ok()
}

fn place(project: i64) -> String {
    format!("project:{project}")
}
