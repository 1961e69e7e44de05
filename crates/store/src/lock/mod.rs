//! One gateway per database: what keeps a second one from making limits inexact.

mod postgres;
mod watch;

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use domain::ids::NodeId;

use crate::db::Location;
use crate::error::{Error, Result};
use postgres::Session;
use watch::Watched;

/// What a process means to do with the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Serve it, alone.
    Serve,
    /// Serve it beside others, with limits that count per node.
    ServeShared,
    /// Work on it for a moment, beside a gateway that may be running.
    Visit,
    /// Change what a running gateway holds in memory, so that none may run.
    Alone,
}

/// A claim that holds until it is released, or its process ends.
#[derive(Debug)]
pub(crate) enum Lock {
    None,
    File(#[expect(dead_code, reason = "the open file is the lock")] File),
    Postgres(Watched),
}

impl Lock {
    /// Claims a database. A process that was just killed may seem to hold it for a moment longer:
    /// on PostgreSQL that is waited for.
    pub(crate) async fn take(location: &Location, claim: Claim) -> Result<Self> {
        match (location, claim) {
            (_, Claim::Visit) => Ok(Self::None),
            (Location::Sqlite(path), _) => file(path, claim).map(Self::File),
            (Location::Postgres(url), _) => {
                let session = Session::open(url, claim).await?;
                Ok(Self::Postgres(Watched::new(session)))
            }
        }
    }

    /// Shows other nodes that this one lives, for as long as the claim holds.
    pub(crate) async fn show(&self, node: NodeId) -> Result<()> {
        match self {
            Self::None | Self::File(_) => Ok(()),
            Self::Postgres(watched) => watched.session().show(node).await,
        }
    }

    /// Takes the place of a node that is gone. False while it lives. A SQLite database has one
    /// node: every other is gone.
    pub(crate) async fn succeeds(&self, node: NodeId) -> Result<bool> {
        match self {
            Self::None | Self::File(_) => Ok(true),
            Self::Postgres(watched) => watched.session().succeeds(node).await,
        }
    }

    /// Waits until another process has the claim, which can happen when the connection to the
    /// database was lost. A file stays locked.
    pub(crate) async fn displaced(&self) {
        match self {
            Self::None | Self::File(_) => std::future::pending().await,
            Self::Postgres(watched) => watched.displaced().await,
        }
    }

    /// Gives the claim up. When this returns, another process can have it.
    pub(crate) async fn release(self) {
        match self {
            Self::None | Self::File(_) => {}
            Self::Postgres(watched) => watched.release().await,
        }
    }
}

fn file(database: &Path, claim: Claim) -> Result<File> {
    let path = database.with_extension("lock");
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(|error| {
        Error::Unavailable(format!("the data folder is not writable ({}): {error}", path.display()))
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let remedy = match claim {
                Claim::Alone => "stop it first",
                _ => "stop it, or choose another folder with SLUICE_DATA_DIR",
            };
            Err(Error::InUse(format!(
                "another Sluice serves this data folder ({} is locked): {remedy}",
                path.display()
            )))
        }
        Err(TryLockError::Error(error)) => {
            Err(Error::Unavailable(format!("{} cannot be locked: {error}", path.display())))
        }
    }
}
