//! One gateway per database: what keeps a second one from making limits inexact.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use domain::ids::NodeId;
use sqlx::{Connection, PgConnection};
use tokio::sync::Mutex;

use crate::db::Location;
use crate::error::{Error, Result};

/// The number of the advisory lock in PostgreSQL: "sluice" in ASCII.
const SERVES: i64 = 0x736c_7569_6365;

/// The class of the advisory lock that every node holds while it lives; the other number is the
/// node's.
const LIVES: i32 = 0x736c_7569;

/// What a process means to do with the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Serve it, alone.
    Serve,
    /// Serve it beside others, with limits that count per node.
    ServeShared,
    /// Work on it for a moment, beside a gateway that may be running.
    Visit,
}

/// A claim that holds until it is dropped.
#[derive(Debug)]
pub(crate) enum Lock {
    None,
    File(#[expect(dead_code, reason = "the open file is the lock")] File),
    Postgres(Mutex<PgConnection>),
}

impl Lock {
    /// Shows other nodes that this one lives, for as long as the connection does.
    pub(crate) async fn show(&self, node: NodeId) -> Result<()> {
        if let Self::Postgres(connection) = self {
            sqlx::query("SELECT pg_advisory_lock($1, $2)")
                .bind(LIVES)
                .bind(number(node))
                .execute(&mut *connection.lock().await)
                .await?;
        }
        Ok(())
    }

    /// Takes the place of a node that is gone. False while it lives. A SQLite database has one
    /// node: every other is gone.
    pub(crate) async fn succeeds(&self, node: NodeId) -> Result<bool> {
        match self {
            Self::None | Self::File(_) => Ok(true),
            Self::Postgres(connection) => {
                Ok(sqlx::query_scalar("SELECT pg_try_advisory_lock($1, $2)")
                    .bind(LIVES)
                    .bind(number(node))
                    .fetch_one(&mut *connection.lock().await)
                    .await?)
            }
        }
    }
}

/// A node's number as an advisory lock takes it.
fn number(node: NodeId) -> i32 {
    (node.0 & 0x7fff_ffff) as i32
}

pub(crate) async fn take(location: &Location, claim: Claim) -> Result<Lock> {
    match (location, claim) {
        (_, Claim::Visit) => Ok(Lock::None),
        (Location::Sqlite(path), _) => file(path).map(Lock::File),
        (Location::Postgres(url), _) => {
            let mut connection = PgConnection::connect(url.expose())
                .await
                .map_err(|error| Error::Unavailable(format!("it cannot be reached: {error}")))?;
            if claim == Claim::ServeShared {
                return Ok(Lock::Postgres(Mutex::new(connection)));
            }
            let got: bool = sqlx::query_scalar("SELECT pg_try_advisory_lock($1)")
                .bind(SERVES)
                .fetch_one(&mut connection)
                .await?;
            if got {
                return Ok(Lock::Postgres(Mutex::new(connection)));
            }
            Err(Error::InUse(
                "another Sluice serves this PostgreSQL database, and without Redis the two would make spend \
                 caps inexact: stop the other one, or set SLUICE_ALLOW_INEXACT_LIMITS=true"
                    .to_owned(),
            ))
        }
    }
}

fn file(database: &Path) -> Result<File> {
    let path = database.with_extension("lock");
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(|error| {
        Error::Unavailable(format!("the data folder is not writable ({}): {error}", path.display()))
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse(format!(
            "another Sluice serves this data folder ({} is locked): stop it, or choose another folder with \
             SLUICE_DATA_DIR",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => {
            Err(Error::Unavailable(format!("{} cannot be locked: {error}", path.display())))
        }
    }
}
