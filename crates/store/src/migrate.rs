//! The schema and its history.

use std::borrow::Cow;

use sqlx::SqlSafeStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};

use crate::db::{Pool, on};
use crate::error::{Error, Result};
use crate::lock::Claim;

/// Version, name, text for SQLite, text for PostgreSQL. Old entries never change.
const HISTORY: &[(i64, &str, &str, &str)] = &[
    (
        1,
        "first",
        include_str!("../migrations/sqlite/0001_first.sql"),
        include_str!("../migrations/postgres/0001_first.sql"),
    ),
    (
        2,
        "tools",
        include_str!("../migrations/sqlite/0002_tools.sql"),
        include_str!("../migrations/postgres/0002_tools.sql"),
    ),
    (
        3,
        "endpoints",
        include_str!("../migrations/sqlite/0003_endpoints.sql"),
        include_str!("../migrations/postgres/0003_endpoints.sql"),
    ),
    (
        4,
        "mcp",
        include_str!("../migrations/sqlite/0004_mcp.sql"),
        include_str!("../migrations/postgres/0004_mcp.sql"),
    ),
    (
        5,
        "turns",
        include_str!("../migrations/sqlite/0005_turns.sql"),
        include_str!("../migrations/postgres/0005_turns.sql"),
    ),
    (
        6,
        "retention",
        include_str!("../migrations/sqlite/0006_retention.sql"),
        include_str!("../migrations/postgres/0006_retention.sql"),
    ),
    (
        7,
        "tool_prints",
        include_str!("../migrations/sqlite/0007_tool_prints.sql"),
        include_str!("../migrations/postgres/0007_tool_prints.sql"),
    ),
    (
        8,
        "cache_write_1h",
        include_str!("../migrations/sqlite/0008_cache_write_1h.sql"),
        include_str!("../migrations/postgres/0008_cache_write_1h.sql"),
    ),
    (
        9,
        "known_networks",
        include_str!("../migrations/sqlite/0009_known_networks.sql"),
        include_str!("../migrations/postgres/0009_known_networks.sql"),
    ),
];

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
