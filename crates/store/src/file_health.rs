//! The health of a SQLite database as seen from outside: whether it was closed cleanly, whether its
//! write-ahead log is there, and whether its pages are sound.
//!
//! A serving gateway leaves the mark [`IN_USE`] in the database itself, so that it travels with a
//! copy, and takes it away when it stops. The mark reaches the file at the start of serving. A file
//! that has it, is in WAL mode and has no log beside it lacks the content of the log. `VACUUM INTO`
//! makes a file that is not in WAL mode: it is whole.

use async_recursion::async_recursion as boxed;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqlx::{ConnectOptions as _, Connection as _};

use crate::Store;
use crate::db::{self, AnyTx, Location, Pool, WritePool};
use crate::error::{Error, Result};
use crate::lock;

/// The name of the mark in `meta`.
const IN_USE: &str = "in_use";
/// The most faults that are listed.
const MOST_FAULTS: u32 = 10;
/// The number of SQLite's instructions between two looks at the deadline of a check.
const CHECK_INSTRUCTIONS: i32 = 10_000;

/// The health of the file of a SQLite database.
#[derive(Debug)]
pub struct FileHealth {
    /// Whether a gateway serves it now.
    pub is_served: bool,
    /// Whether it was not closed cleanly and its write-ahead log is missing.
    pub lacks_log: bool,
    /// The result of SQLite's `quick_check`.
    pub pages: Pages,
}

/// The outcome of SQLite's `quick_check`.
#[derive(Debug, PartialEq, Eq)]
pub enum Pages {
    /// Nothing is wrong.
    Sound,
    /// These faults.
    Damaged(Vec<String>),
    /// The time was over before all pages were read.
    Stopped,
}

/// Inspects the file of a SQLite database, for at most `most`. Changes nothing, and disturbs no
/// gateway.
#[boxed]
pub async fn inspect_file(path: &Path, most: Duration) -> Result<FileHealth> {
    let is_served = lock::is_served(path);
    let lacks_log = !is_served && is_without_log(path) && is_marked(path).await.unwrap_or(false);
    Ok(FileHealth { is_served, lacks_log, pages: check_pages(path, most).await? })
}

async fn is_marked(path: &Path) -> Result<bool> {
    let pool = db::connect_read_only(&Location::Sqlite(path.to_owned())).await?;
    let marked = mark(&pool).await;
    pool.close().await;
    marked
}

async fn check_pages(path: &Path, most: Duration) -> Result<Pages> {
    let deadline = Instant::now() + most;
    let had_log = log_of(path).exists();
    let pages = check_pages_once(path, deadline).await?;
    // Without a log the file is read as one that no process changes. A gateway that has started
    // since may have changed it beneath the check.
    let may_be_moving = !had_log && log_of(path).exists();
    match pages {
        Pages::Damaged(_) if may_be_moving => check_pages_once(path, deadline).await,
        pages => Ok(pages),
    }
}

/// A log that a gateway writes grows while this reads.
async fn check_pages_once(path: &Path, deadline: Instant) -> Result<Pages> {
    let checked = async {
        let mut connection = db::read_only_sqlite(path).connect().await?;
        let mut handle = connection.lock_handle().await?;
        handle.set_progress_handler(CHECK_INSTRUCTIONS, move || Instant::now() < deadline);
        drop(handle);
        let check = sqlx::AssertSqlSafe(format!("PRAGMA quick_check({MOST_FAULTS})"));
        let found: Vec<String> = sqlx::query_scalar(check).fetch_all(&mut connection).await?;
        connection.close().await?;
        Ok(found)
    };
    match checked.await {
        Ok(found) if found == ["ok"] => Ok(Pages::Sound),
        Ok(found) => Ok(Pages::Damaged(found)),
        Err(sqlx::Error::Database(error)) => match primary(error.code().as_deref()) {
            Some(INTERRUPT) => Ok(Pages::Stopped),
            Some(CORRUPT | NO_DATABASE) => Ok(Pages::Damaged(vec![error.message().to_owned()])),
            _ => Err(Error::Unavailable(error.to_string())),
        },
        Err(error) => Err(error.into()),
    }
}

const INTERRUPT: u32 = 9;
const CORRUPT: u32 = 11;
const NO_DATABASE: u32 = 26;

/// The primary result code in an extended one.
fn primary(code: Option<&str>) -> Option<u32> {
    code?.parse::<u32>().ok().map(|code| code & 0xff)
}

/// Whether a file is in WAL mode and no log with anything in it is beside it.
pub(crate) fn is_without_log(path: &Path) -> bool {
    let mut header = [0; 20];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut header));
    // The version of the format for reading and for writing: 2 is WAL.
    read.is_ok() && header[18..] == [2, 2] && !db::has_content(&log_of(path))
}

/// The write-ahead log of a database.
fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Whether the database has the mark; false if there is no schema yet.
async fn mark(pool: &Pool) -> Result<bool> {
    const FIND: &str = "SELECT count(*) FROM meta WHERE name = $1";
    let Pool::Sqlite(pool) = pool else { return Ok(false) };
    let found: sqlx::Result<i64> = sqlx::query_scalar(FIND).bind(IN_USE).fetch_one(pool).await;
    match found {
        Err(sqlx::Error::Database(error)) if error.message().contains("no such table") => Ok(false),
        found => Ok(found? > 0),
    }
}

/// Checks how the last use of a database ended that is being opened under the lock. The content of
/// its log has been taken in by now; a missing log is reported in the gateway's log.
pub(crate) async fn note_last_end(
    path: &Path,
    was_without_log: bool,
    writer: &WritePool,
) -> Result<()> {
    if !mark(&writer.pool).await? {
        return Ok(());
    }
    if was_without_log {
        tracing::error!(
            database = %path.display(),
            "the database was not closed cleanly and its write-ahead log was missing: what was written last may \
             be lost. If this is a copy, stop, remove it, and copy the database and its -wal file of the same moment \
             anew, together, or restore a backup. Never put a log beside a database that was opened since: it would \
             be damaged. \
             (Nothing is missing if another program, such as sqlite3, has opened or copied the database.)"
        );
        return Ok(());
    }
    set_mark(writer, false).await
}

async fn set_mark(writer: &WritePool, in_use: bool) -> Result<()> {
    const SET: &str =
        "INSERT INTO meta (name, value) VALUES ($1, x'01') ON CONFLICT (name) DO NOTHING";
    const CLEAR: &str = "DELETE FROM meta WHERE name = $1";
    let mut tx = writer.begin().await?;
    if let AnyTx::Sqlite(tx) = &mut tx.0 {
        sqlx::query(if in_use { SET } else { CLEAR }).bind(IN_USE).execute(&mut **tx).await?;
    }
    tx.commit().await
}

impl Store {
    /// Marks the database as in use, in the file itself, until [`Store::end_use`]. For a serving
    /// process.
    #[boxed]
    pub async fn begin_use(&self) -> Result<()> {
        let Pool::Sqlite(pool) = &self.writer.pool else { return Ok(()) };
        set_mark(&self.writer, true).await?;
        // Without it the mark would be in the log only.
        sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").fetch_all(pool).await?;
        Ok(())
    }

    /// Takes the mark of [`Store::begin_use`] away: all that was answered is written.
    #[boxed]
    pub async fn end_use(&self) -> Result<()> {
        if matches!(self.writer.pool, Pool::Sqlite(_)) {
            set_mark(&self.writer, false).await?;
        }
        Ok(())
    }
}
