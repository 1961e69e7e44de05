//! Commits on SQLite: a thread of its own with a connection of its own, so that a statement costs a
//! function call and not a message to a worker.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::types::{Null, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _};

use super::Commit;
use super::batch::Batch;
use super::ledger::{LedgerRow, Rows};
use super::table::{Field, OpenCall, Row, SealedContent, insert_sql};
use super::turns::{self, Numbers};
use crate::db::WriteLock;
use crate::error::{Error, Result};
use domain::ids::NodeId;

/// While several callers wait, a commit begins this long after the last one at the earliest: a
/// sync costs the same for few rows as for many.
const COMMIT_INTERVAL: Duration = Duration::from_millis(1);
/// Statements that stay prepared.
const MOST_PREPARED_STATEMENTS: usize = 32;
const CLOSE: &str = "DELETE FROM open_calls WHERE step_id = ?";

/// The writer's side of a SQLite database.
pub(crate) struct SqliteCommits {
    path: PathBuf,
    turn: WriteLock,
    connection: Option<Connection>,
    /// When the last commit ended, and how many writes it held.
    ended: Instant,
    held: usize,
}

impl SqliteCommits {
    pub(crate) fn new(path: PathBuf, turn: WriteLock) -> Self {
        Self { path, turn, connection: None, ended: Instant::now(), held: 0 }
    }

    fn connection(&mut self) -> Result<&Connection> {
        if self.connection.is_none() {
            self.connection = Some(open(&self.path)?);
        }
        self.connection.as_ref().ok_or_else(|| Error::Unavailable("no connection".to_owned()))
    }
}

impl Commit for SqliteCommits {
    /// A checkpoint makes one commit slow now and then, and predicts nothing about those after it.
    const SLOW_PERIOD: Duration = Duration::from_millis(20);

    /// Yields the processor to the runtime's threads; the writer has a thread of its own. If calls
    /// come one by one there is nothing to wait for, and beside other programs a yield can take
    /// milliseconds.
    async fn give_way(&mut self, waiting: usize) {
        let pause = COMMIT_INTERVAL.saturating_sub(self.ended.elapsed());
        if waiting > 1 && !pause.is_zero() {
            std::thread::sleep(pause);
        } else if waiting.max(self.held) > 1 {
            std::thread::yield_now();
        }
    }

    async fn commit(&mut self, batch: &Batch<'_>, node: NodeId, ledger: &Rows) -> Result<Numbers> {
        // Waits for the lock that the control plane's writes take too; it is fair, so neither
        // starves.
        let turn = self.turn.clone();
        let _turn = turn.lock().await;
        self.held = batch.traces.len() + batch.starts.len() + batch.steps.len();
        let done = self.connection().and_then(|connection| write(connection, batch, node, ledger));
        if done.as_ref().is_err_and(|error| !error.is_of_one_row()) {
            // The connection's state of a file that failed may be wrong: the next commit opens it
            // anew.
            self.connection = None;
        }
        self.ended = Instant::now();
        done
    }
}

fn open(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(MOST_PREPARED_STATEMENTS);
    connection.busy_timeout(crate::db::ACQUIRE_TIMEOUT)?;
    for (pragma, value) in crate::db::PRAGMAS {
        connection.pragma_update(None, pragma, value)?;
    }
    Ok(connection)
}

fn write(
    connection: &Connection,
    batch: &Batch<'_>,
    node: NodeId,
    ledger: &Rows,
) -> Result<Numbers> {
    run(connection, "BEGIN IMMEDIATE")?;
    let done = rows(connection, batch, node, ledger)
        .and_then(|numbers| run(connection, "COMMIT").map(|()| numbers));
    if done.is_err() && !connection.is_autocommit() {
        run(connection, "ROLLBACK")?;
    }
    done
}

fn run(connection: &Connection, statement: &str) -> Result<()> {
    connection.prepare_cached(statement)?.execute([])?;
    Ok(())
}

fn rows(
    connection: &Connection,
    batch: &Batch<'_>,
    node: NodeId,
    ledger: &Rows,
) -> Result<Numbers> {
    for trace in &batch.traces {
        insert(connection, *trace)?;
    }
    for start in &batch.starts {
        insert(connection, &OpenCall(start, node.0))?;
    }
    for id in &batch.closed {
        connection.prepare_cached(CLOSE)?.execute([id])?;
    }
    for step in &batch.steps {
        insert(connection, *step)?;
    }
    for (step, sealed) in &batch.contents {
        insert(connection, &SealedContent(step, sealed))?;
    }
    for stored in &batch.stored {
        insert(connection, *stored)?;
    }
    for term in &batch.terms {
        insert(connection, term)?;
    }
    for (slot, counts) in ledger {
        insert(connection, &LedgerRow(slot, counts))?;
    }
    let mut numbers = Numbers::default();
    for (trace, steps) in &batch.turns {
        let added = rusqlite::params![steps.len() as i64, trace.0.as_bytes()];
        let mut statement = connection.prepare_cached(turns::ADD)?;
        numbers.note(steps, statement.query_row(added, |row| row.get(0)).optional()?);
    }
    Ok(numbers)
}

fn insert<R: Row>(connection: &Connection, row: &R) -> Result<()> {
    thread_local! {
        static TEXTS: std::cell::RefCell<Vec<(&'static str, std::rc::Rc<str>)>> =
            const { std::cell::RefCell::new(Vec::new()) };
    }
    // One text per table, made once.
    let sql = TEXTS.with_borrow_mut(|texts| {
        if let Some((_, sql)) = texts.iter().find(|(table, _)| *table == R::TABLE) {
            return sql.clone();
        }
        let sql: std::rc::Rc<str> = insert_sql::<R>(1, |_| "?".to_owned()).into();
        texts.push((R::TABLE, sql.clone()));
        sql
    });
    let fields = row.fields()?;
    connection.prepare_cached(&sql)?.execute(rusqlite::params_from_iter(&fields))?;
    Ok(())
}

impl ToSql for Field<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Self::Int(Some(value)) => ValueRef::Integer(*value),
            Self::Real(Some(value)) => ValueRef::Real(*value),
            Self::Bool(Some(value)) => ValueRef::Integer(i64::from(*value)),
            Self::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Uuid(uuid) => ValueRef::Blob(uuid.as_bytes()),
            Self::Int(None) | Self::Real(None) | Self::Bool(None) | Self::Text(None) => {
                return Null.to_sql();
            }
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => Self::Taken,
            Some(ErrorCode::TooBig | ErrorCode::TypeMismatch) => Self::Corrupt(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}
