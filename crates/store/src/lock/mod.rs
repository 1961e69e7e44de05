//! One gateway per database: the lock that keeps a second one from making limits inexact.

mod postgres;
mod watched;

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use domain::ids::NodeId;
use tokio::sync::watch;

use crate::db::{Location, Pool};
use crate::error::{Error, Result};
use postgres::Session;
pub(crate) use postgres::{
    CONTRACTS, MIGRATES, PARTITIONS, has_one_run_for, oldest_running, running,
};
use watched::Watched;

/// The intended use of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Serve it, alone.
    Serve,
    /// Serve it beside others, with limits that all of them count as one.
    ServeFleet,
    /// Serve it beside others, with limits that count per node.
    ServeShared,
    /// Work on it for a moment, beside a gateway that may be running. On SQLite a visitor that meets
    /// none keeps others away for that moment.
    Visit,
    /// Read it and change nothing.
    Look,
    /// Change data that a running gateway holds in memory, so that none may run.
    Alone,
}

/// Whether a claim holds at the moment.
#[derive(Clone, Debug)]
pub struct Held(Option<watch::Receiver<bool>>);

impl Held {
    /// Whether it does now.
    pub(crate) fn is_so(&self) -> bool {
        self.0.as_ref().is_none_or(|held| *held.borrow())
    }

    /// Waits until it does. Returns at once if it does now, or never will again because its store closes.
    pub(crate) async fn wait(&mut self) {
        if let Some(held) = &mut self.0 {
            let _ = held.wait_for(|is_held| *is_held).await;
        }
    }

    /// Waits until it holds again after it did not, however short that was. False if it never will, because it cannot
    /// be lost, or because its store closes.
    pub async fn retaken(&mut self) -> bool {
        let Some(held) = &mut self.0 else { return false };
        while held.changed().await.is_ok() {
            // Each loss and each end of one is a change. If it holds at a change, there was a loss before.
            if *held.borrow_and_update() {
                return true;
            }
        }
        false
    }
}

/// A claim that holds until it is released, or its process ends.
#[derive(Debug)]
pub(crate) enum Lock {
    None,
    File(#[expect(dead_code, reason = "the open file is the lock")] File),
    Postgres(Watched),
}

impl Lock {
    /// Claims a database. A process that was just killed may seem to hold it for a moment longer, and
    /// a command holds it for a moment: this waits for either.
    pub(crate) async fn take(location: &Location, claim: Claim) -> Result<Self> {
        match (location, claim) {
            (_, Claim::Look) | (Location::Postgres(_) | Location::Pooled { .. }, Claim::Visit) => {
                Ok(Self::None)
            }
            (Location::Sqlite(path), Claim::Visit) => {
                Ok(try_lock(path, claim).ok().flatten().map_or(Self::None, Self::File))
            }
            (Location::Sqlite(path), _) => file(path, claim).await.map(Self::File),
            (Location::Postgres(url) | Location::Pooled { direct: url, .. }, _) => {
                let session = Session::open(url, claim).await?;
                Ok(Self::Postgres(Watched::new(session)))
            }
        }
    }

    /// Whether no other process can set the database up at the same time. PostgreSQL sees to that
    /// itself.
    pub(crate) fn may_set_up(&self, location: &Location, claim: Claim) -> bool {
        match location {
            _ if claim == Claim::Look => false,
            Location::Sqlite(_) => matches!(self, Self::File(_)),
            Location::Postgres(_) | Location::Pooled { .. } => true,
        }
    }

    /// Shows other nodes that this one lives, for as long as the claim holds.
    pub(crate) async fn show(&self, node: NodeId) -> Result<()> {
        match self {
            Self::None | Self::File(_) => Ok(()),
            Self::Postgres(watched) => watched.session().show(node).await,
        }
    }

    /// Stands in for a node that is gone, until [`Lock::leave`]. False while it lives, or may be about to come back:
    /// true comes after two seconds on PostgreSQL. A SQLite database has one node: every other is gone.
    pub(crate) async fn succeeds(&self, node: NodeId) -> Result<bool> {
        match self {
            Self::None | Self::File(_) => Ok(true),
            Self::Postgres(watched) => watched.session().succeeds(node).await,
        }
    }

    /// Stands in for a node no longer: it may only have been cut off, and then it takes its lock again.
    pub(crate) async fn leave(&self, node: NodeId) {
        if let Self::Postgres(watched) = self {
            watched.session().leave(node).await;
        }
    }

    /// Whether the claim is on the database that a pool leads to: a pooler may lead to another.
    pub(crate) async fn is_in(&self, pool: &Pool) -> Result<bool> {
        match self {
            Self::None | Self::File(_) => Ok(true),
            Self::Postgres(watched) => watched.session().is_in(pool).await,
        }
    }

    /// Whether the claim holds at the moment, as far as is known. A file stays locked.
    pub(crate) fn held(&self) -> Held {
        match self {
            Self::None | Self::File(_) => Held(None),
            Self::Postgres(watched) => Held(Some(watched.held())),
        }
    }

    /// The nodes that live and count as one, if there can be several. Fails while some that do may not have shown it again.
    pub(crate) async fn live(&self) -> Result<Vec<NodeId>> {
        match self {
            Self::None | Self::File(_) => Ok(Vec::new()),
            Self::Postgres(watched) => watched.session().live_nodes().await,
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

/// How long to wait for a lock that a gateway holds: it may have been killed just now.
const LOCK_TIMEOUT: Duration = Duration::from_millis(500);
/// How long to wait for a lock that a command holds: it may be setting a new folder up.
const COMMAND_LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

fn lock_path(database: &Path) -> PathBuf {
    database.with_extension("lock")
}

/// Whether a process holds the lock of a SQLite database. The check holds the lock for a moment only.
pub(crate) fn is_served(database: &Path) -> bool {
    let file = File::open(lock_path(database));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The content of a lock file while a gateway has it.
const SERVING: &str = "serve";

/// Takes the lock of a SQLite database; `None` while another process has it.
fn try_lock(database: &Path, claim: Claim) -> Result<Option<File>> {
    let path = lock_path(database);
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(|error| {
        Error::Unavailable(format!("the data folder is not writable ({}): {error}", path.display()))
    })?;
    match file.try_lock() {
        Ok(()) => {
            let holder = match claim {
                Claim::Serve | Claim::ServeFleet | Claim::ServeShared => SERVING,
                Claim::Visit | Claim::Look | Claim::Alone => "",
            };
            // A hint for waiting processes, which a full disk may prevent: the lock is authoritative.
            let _ = file.set_len(0).and_then(|()| (&file).write_all(holder.as_bytes()));
            Ok(Some(file))
        }
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => {
            Err(Error::Unavailable(format!("{} cannot be locked: {error}", path.display())))
        }
    }
}

async fn file(database: &Path, claim: Claim) -> Result<File> {
    let began = Instant::now();
    loop {
        if let Some(file) = try_lock(database, claim)? {
            return Ok(file);
        }
        // Right after the lock has changed hands it may name the last holder.
        let is_serving = is_held_by_gateway(database);
        let patience = if is_serving { LOCK_TIMEOUT } else { COMMAND_LOCK_TIMEOUT };
        if began.elapsed() > patience {
            return Err(in_use(database, claim, is_serving));
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Whether the lock file names a gateway as its holder.
fn is_held_by_gateway(database: &Path) -> bool {
    let mut holder = String::new();
    let most = SERVING.len() as u64 + 1;
    let read = File::open(lock_path(database));
    let read = read.and_then(|file| file.take(most).read_to_string(&mut holder));
    read.is_ok() && holder == SERVING
}

fn in_use(database: &Path, claim: Claim, is_serving: bool) -> Error {
    let remedy = match claim {
        _ if !is_serving => "wait until a command that runs there has ended, or stop it",
        Claim::Alone => "stop it first",
        _ => "stop it, or choose another folder with SLUICE_DATA_DIR",
    };
    let does = if is_serving { "serves" } else { "uses" };
    Error::InUse(format!(
        "another Sluice {does} this data folder ({} is locked): {remedy}",
        lock_path(database).display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_claim_that_is_held_again_is_noticed_once_each_time() {
        let (is_held, held) = watch::channel(true);
        let mut held = Held(Some(held));
        for losses in [1, 3] {
            for _ in 0..losses {
                is_held.send_replace(false);
            }
            // Nobody has looked since.
            is_held.send_replace(true);
            assert!(held.retaken().await, "{losses}");
        }
        is_held.send_replace(false);
        drop(is_held);
        assert!(!held.retaken().await, "it was lost, and its store has closed");
        assert!(!Held(None).retaken().await, "a file stays locked");
    }
}
