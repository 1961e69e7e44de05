//! PostgreSQL, reached directly or through a pooler that may give every transaction another session.
//!
//! Through a pooler nothing may be left in a session: no prepared statement, no setting, no lock. So there each
//! statement is part of a transaction, has no name, and settings are made inside the transaction. A statement is
//! prepared in one message and executed in the next, and only a transaction keeps both in one session.

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{Either, Execute, Executor, PgConnection, PgPool, Postgres, SqlStr, Transaction};

use crate::db::ACQUIRE_TIMEOUT;

/// Begins a transaction with the settings that a session has where there is no pooler, in one message.
macro_rules! begin_pooled {
    ($begin:literal) => {
        begin_pooled!($begin, "30s")
    };
    ($begin:literal, $timeout:literal) => {
        concat!(
            $begin,
            "; SET LOCAL statement_timeout = '",
            $timeout,
            "'; SET LOCAL jit = off; SET LOCAL parallel_setup_cost = 10000"
        )
    };
}

/// Begins a transaction whose statements have generic plans, which a session makes once.
macro_rules! begin_planned {
    ($begin:literal) => {
        concat!($begin, "; SET LOCAL plan_cache_mode = force_generic_plan")
    };
}

/// A kind of transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begin {
    /// Reads and writes.
    Write,
    /// A read that PostgreSQL ends after [`READ_BOUND`](crate::READ_BOUND).
    BoundedRead,
    /// The same, planned once a session: for few texts, of which each looks into all partitions of steps, and whose
    /// plan no value changes. Their plans for values take longer than they do, and PostgreSQL makes five before it
    /// keeps one.
    PlannedRead,
    /// Reads one state of the database, whatever is written meanwhile.
    Snapshot,
    /// The same, planned once a session, as [`Self::PlannedRead`] is. Statements of many texts do no harm if they read
    /// no steps.
    PlannedSnapshot,
}

impl Begin {
    fn statement(self, is_pooled: bool) -> &'static str {
        match (self, is_pooled) {
            (Self::Write, false) => "BEGIN",
            (Self::Write, true) => begin_pooled!("BEGIN"),
            (Self::BoundedRead, false) => "BEGIN READ ONLY; SET LOCAL statement_timeout = '5s'",
            (Self::PlannedRead, false) => {
                begin_planned!("BEGIN READ ONLY; SET LOCAL statement_timeout = '5s'")
            }
            (Self::BoundedRead | Self::PlannedRead, true) => {
                begin_pooled!("BEGIN READ ONLY", "5s")
            }
            (Self::Snapshot, false) => "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
            (Self::PlannedSnapshot, false) => {
                begin_planned!("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            }
            (Self::Snapshot | Self::PlannedSnapshot, true) => {
                begin_pooled!("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            }
        }
    }
}

/// A pool of connections. A reference to it executes statements.
#[derive(Clone, Debug)]
pub(crate) struct Pg {
    pool: PgPool,
    /// Whether the connections lead to a pooler.
    is_pooled: bool,
}

impl Pg {
    pub(crate) fn new(pool: PgPool, is_pooled: bool) -> Self {
        Self { pool, is_pooled }
    }

    /// Begins a transaction. A pooler takes connections that it has no session for, and keeps them waiting for
    /// minutes: the wait for one is as long as that for a connection.
    pub(crate) async fn begin(&self, begin: Begin) -> sqlx::Result<PgTx> {
        let begun = self.pool.begin_with(begin.statement(self.is_pooled));
        let begun = tokio::time::timeout(ACQUIRE_TIMEOUT, begun).await;
        let transaction = begun.map_err(|_| sqlx::Error::PoolTimedOut)??;
        Ok(PgTx { transaction, is_pooled: self.is_pooled })
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }
}

/// A transaction.
#[derive(Debug)]
pub(crate) struct PgTx {
    transaction: Transaction<'static, Postgres>,
    is_pooled: bool,
}

impl PgTx {
    /// The connection of the transaction. A mutable reference to it executes statements.
    pub(crate) fn connection(&mut self) -> InTransaction<'_> {
        InTransaction { connection: &mut self.transaction, is_pooled: self.is_pooled }
    }

    pub(crate) async fn commit(self) -> sqlx::Result<()> {
        self.transaction.commit().await
    }
}

/// A connection that is inside a transaction.
#[derive(Debug)]
pub(crate) struct InTransaction<'t> {
    connection: &'t mut PgConnection,
    is_pooled: bool,
}

/// A statement that gets no name in its session.
struct Unnamed<E>(E);

impl<'q, E: Execute<'q, Postgres>> Execute<'q, Postgres> for Unnamed<E> {
    fn sql(self) -> SqlStr {
        self.0.sql()
    }

    fn statement(&self) -> Option<&PgStatement> {
        self.0.statement()
    }

    fn take_arguments(&mut self) -> Result<Option<PgArguments>, BoxDynError> {
        self.0.take_arguments()
    }

    fn persistent(&self) -> bool {
        false
    }
}

type Many<'e> = BoxStream<'e, sqlx::Result<Either<PgQueryResult, PgRow>>>;

impl<'c> Executor<'c> for &'c Pg {
    type Database = Postgres;

    /// Through a pooler all rows are read before the first is given: the transaction ends in between.
    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> Many<'e>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        if !self.is_pooled {
            return self.pool.fetch_many(query);
        }
        let all = async move {
            let mut tx = self.begin(Begin::Write).await?;
            let found: Vec<_> = tx.connection().fetch_many(query).try_collect().await?;
            tx.commit().await?;
            Ok::<_, sqlx::Error>(stream::iter(found.into_iter().map(Ok)))
        };
        stream::once(all).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<PgRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        if !self.is_pooled {
            return self.pool.fetch_optional(query);
        }
        Box::pin(async move {
            let mut tx = self.begin(Begin::Write).await?;
            let found = tx.connection().fetch_optional(query).await?;
            tx.commit().await?;
            Ok(found)
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, sqlx::Result<PgStatement>>
    where
        'c: 'e,
    {
        self.pool.prepare_with(sql, parameters)
    }
}

impl<'c> Executor<'c> for &'c mut InTransaction<'_> {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> Many<'e>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        if self.is_pooled {
            (&mut *self.connection).fetch_many(Unnamed(query))
        } else {
            (&mut *self.connection).fetch_many(query)
        }
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, sqlx::Result<Option<PgRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        if self.is_pooled {
            (&mut *self.connection).fetch_optional(Unnamed(query))
        } else {
            (&mut *self.connection).fetch_optional(query)
        }
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, sqlx::Result<PgStatement>>
    where
        'c: 'e,
    {
        (&mut *self.connection).prepare_with(sql, parameters)
    }
}
