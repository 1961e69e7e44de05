//! Commits on PostgreSQL: few statements of many rows, because each is a round trip.

use std::sync::LazyLock;
use std::time::Duration;

use domain::ids::NodeId;

use super::Commit;
use super::batch::Batch;
use super::ledger::{LedgerRow, Rows};
use super::table::{Field, NewTrace, OpenCall, Row, SealedContent, insert_sql};
use super::turns::{self, Numbers};
use crate::error::{Error, Result};
use crate::lock::Held;
use crate::pg::{Begin, Pg, PgTx};
use crate::search::TermRow;
use crate::stored_responses::StoredResource;
use domain::step::Step;

/// Rows a statement holds. Few sizes, so that every statement stays prepared.
const SIZES: [usize; 4] = [32, 8, 2, 1];

/// One table's insert, a text for every size.
struct Texts([String; SIZES.len()]);

impl Texts {
    fn of<R: Row>() -> Self {
        Self(SIZES.map(|rows| insert_sql::<R>(rows, |number| format!("${number}"))))
    }
}

static TRACES: LazyLock<Texts> = LazyLock::new(Texts::of::<NewTrace>);
static STARTS: LazyLock<Texts> = LazyLock::new(Texts::of::<OpenCall<'_>>);
static STEPS: LazyLock<Texts> = LazyLock::new(Texts::of::<Step>);
static CONTENTS: LazyLock<Texts> = LazyLock::new(Texts::of::<SealedContent<'_>>);
static STORED: LazyLock<Texts> = LazyLock::new(Texts::of::<StoredResource>);
static TERMS: LazyLock<Texts> = LazyLock::new(Texts::of::<TermRow>);
static LEDGER: LazyLock<Texts> = LazyLock::new(Texts::of::<LedgerRow<'_>>);
const CLOSE: &str = "DELETE FROM open_calls WHERE step_id = ANY($1)";

/// The writer's side of a PostgreSQL database.
pub(crate) struct PostgresCommits {
    pool: Pg,
    /// Whether the node has its lock: without it another node may be settling the calls of this one.
    held: Held,
}

impl PostgresCommits {
    pub(crate) fn new(pool: Pg, held: Held) -> Self {
        Self { pool, held }
    }
}

impl Commit for PostgresCommits {
    /// A server that is busy stays so for a while.
    const SLOW_PERIOD: Duration = Duration::from_secs(1);

    async fn commit(&mut self, batch: &Batch<'_>, node: NodeId, ledger: &Rows) -> Result<Numbers> {
        self.held.wait().await;
        if !self.held.is_so() {
            return Err(Error::Unavailable("another process has the place of this one".to_owned()));
        }
        let mut tx = self.pool.begin(Begin::Write).await?;
        let starts: Vec<_> = batch.starts.iter().map(|start| OpenCall(start, node.0)).collect();
        let contents: Vec<_> =
            batch.contents.iter().map(|(step, sealed)| SealedContent(step, sealed)).collect();
        let counted: Vec<_> = ledger.iter().map(|(slot, counts)| LedgerRow(slot, counts)).collect();
        insert(&mut tx, &TRACES, batch.traces.iter().copied()).await?;
        insert(&mut tx, &STARTS, starts.iter()).await?;
        if !batch.closed.is_empty() {
            let close = sqlx::query(CLOSE).bind(&batch.closed[..]);
            close.execute(&mut tx.connection()).await?;
        }
        insert(&mut tx, &STEPS, batch.steps.iter().copied()).await?;
        insert(&mut tx, &CONTENTS, contents.iter()).await?;
        insert(&mut tx, &STORED, batch.stored.iter().copied()).await?;
        insert(&mut tx, &TERMS, batch.terms.iter()).await?;
        insert(&mut tx, &LEDGER, counted.iter()).await?;
        // Last: until the end another node that answers in the same trace waits for this row.
        let mut numbers = Numbers::default();
        for (trace, steps) in &batch.turns {
            let added = sqlx::query_scalar(turns::ADD).bind(steps.len() as i64).bind(trace.0);
            numbers.note(steps, added.fetch_optional(&mut tx.connection()).await?);
        }
        tx.commit().await?;
        Ok(numbers)
    }
}

/// Inserts rows in pieces of the prepared sizes.
async fn insert<'r, R: Row + 'r>(
    tx: &mut PgTx,
    texts: &'static Texts,
    rows: impl ExactSizeIterator<Item = &'r R>,
) -> Result<()> {
    let mut rows = rows;
    while let Some(size) = SIZES.iter().position(|&size| size <= rows.len()) {
        let mut query = sqlx::query(texts.0[size].as_str());
        for row in rows.by_ref().take(SIZES[size]) {
            for field in row.fields()? {
                query = match field {
                    Field::Int(value) => query.bind(value),
                    Field::Real(value) => query.bind(value),
                    Field::Bool(value) => query.bind(value),
                    Field::Text(value) => query.bind(value.map(std::borrow::Cow::into_owned)),
                    Field::Bytes(value) => query.bind(value.into_owned()),
                    Field::Uuid(value) => query.bind(value),
                };
            }
        }
        query.execute(&mut tx.connection()).await?;
    }
    Ok(())
}
