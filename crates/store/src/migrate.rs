//! The schema and its history.

use std::borrow::Cow;

use sqlx::SqlSafeStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};

use crate::db::{Pool, on};
use crate::error::{Error, Result};
use crate::lock::Claim;

/// Version, name, text for SQLite, text for PostgreSQL, as `build.rs` finds them in `migrations/`. Old
/// entries never change.
const HISTORY: &[(i64, &str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/history.rs"));

/// The version of the schema; `None` if there is none yet.
async fn version(pool: &Pool) -> Result<Option<i64>> {
    const LATEST: &str = "SELECT max(version) FROM _sqlx_migrations";
    let latest: sqlx::Result<Option<i64>> =
        on!(pool, db => sqlx::query_scalar(LATEST).fetch_one(db).await);
    match latest {
        Err(sqlx::Error::Database(error))
            if error.code().as_deref() == Some("42P01")
                || error.message().contains("no such table") =>
        {
            Ok(None)
        }
        latest => Ok(latest?),
    }
}

/// Refuses a database whose schema is not that of this binary. Changes nothing.
pub(crate) async fn check(pool: &Pool) -> Result<()> {
    let known = newest();
    match version(pool).await? {
        None => Err(Error::Empty),
        Some(found) if found < known => Err(Error::Older { found, known }),
        Some(found) if found > known => Err(Error::Newer { found, known }),
        Some(_) => Ok(()),
    }
}

/// The newest version of the schema that this binary supports.
fn newest() -> i64 {
    HISTORY.last().map_or(0, |last| last.0)
}

/// Brings the schema up to date, but not under a gateway that may be running: a visitor makes the first
/// one only. Refuses a database that a newer binary has written.
pub(crate) async fn run(writer: &Pool, claim: Claim) -> Result<()> {
    let known = newest();
    if matches!(claim, Claim::Visit)
        && let Some(found) = version(writer).await?.filter(|found| *found < known)
    {
        return Err(Error::Older { found, known });
    }
    let migrations = HISTORY.iter().map(|(version, name, sqlite, postgres)| {
        let text = if matches!(writer, Pool::Sqlite(_)) { *sqlite } else { *postgres };
        let name = Cow::Borrowed(*name);
        Migration::new(*version, name, MigrationType::Simple, text.into_sql_str(), false)
    });
    let migrator = Migrator::with_migrations(migrations.collect());
    let done = match writer {
        Pool::Sqlite(db) => migrator.run(db).await,
        Pool::Postgres(db) => migrator.run(db).await,
    };
    done.map_err(|error| match error {
        MigrateError::VersionMissing(found) | MigrateError::VersionTooNew(found, _) => {
            Error::Newer { found, known }
        }
        MigrateError::VersionMismatch(version) => Error::Corrupt(format!(
            "migration {version} was changed after it ran; restore the original binary"
        )),
        other => Error::Unavailable(format!("the schema cannot be brought up to date: {other}")),
    })
}
