//! The reads behind the detail of a trace: an outline of all steps, then a few steps and contents at a
//! time. No read here holds the contents of a whole trace.

use async_recursion::async_recursion as boxed;
use std::fmt::Write as _;
use std::sync::LazyLock;

use domain::ids::{StepId, TraceId};
use domain::step::Step;
use futures_util::TryStreamExt as _;
use sqlx::AssertSqlSafe;

use super::row::StepRow;
use super::{MOST_STEPS, place};
use crate::Store;
use crate::db::{bounded, on};
use crate::error::Result;
use crate::seal::{PackedContent, SealingKey};

/// Sealed contents of one trace are shown up to this many bytes.
const MOST_CONTENT: usize = 64 * 1024 * 1024;
/// The most steps or contents that one statement reads.
pub const STEPS_AT_ONCE: usize = 50;

static STEPS_BY_ID: LazyLock<String> = LazyLock::new(|| by_id("SELECT * FROM steps WHERE id"));
static CONTENTS_BY_ID: LazyLock<String> =
    LazyLock::new(|| by_id("SELECT step_id, sealed FROM step_contents WHERE step_id"));

/// A step without its longer texts: findings, reason and error.
#[derive(Debug)]
pub struct Outline {
    /// The step; these three are `None`.
    pub step: Step,
    /// The bytes of the three together.
    pub texts: usize,
}

/// The sealed content of a step.
pub struct SealedContent {
    step: StepId,
    sealed: Vec<u8>,
}

impl std::fmt::Debug for SealedContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SealedContent({}, {} bytes)", self.step, self.sealed.len())
    }
}

impl SealedContent {
    pub(crate) fn new(step: StepId, sealed: Vec<u8>) -> Self {
        Self { step, sealed }
    }

    /// The step whose content this is.
    pub fn step(&self) -> StepId {
        self.step
    }

    /// The size of the sealed content.
    pub fn size(&self) -> usize {
        self.sealed.len()
    }

    /// The content as it was stored: a [`domain::step::Content`] as JSON.
    pub fn open(self, key: &SealingKey) -> Result<Vec<u8>> {
        self.open_packed(key)?.unpack()
    }

    /// The same, still compressed: its size is known before memory for it is taken.
    pub fn open_packed(self, key: &SealingKey) -> Result<PackedContent> {
        key.open_packed(&place(self.step), self.sealed)
    }
}

impl Store {
    /// Outlines of the steps of a trace in the order they began, at most 10,000. The rows are read one
    /// after the other: the findings of all steps are never held at once.
    #[boxed]
    pub async fn step_outlines(&self, trace: TraceId) -> Result<Vec<Outline>> {
        const ALL: &str = "
            SELECT * FROM steps WHERE trace_id = $1 ORDER BY started_at, id LIMIT $2";
        let mut outlines = Vec::new();
        on!(&self.reader, db => {
            let mut rows =
                sqlx::query_as::<_, StepRow<String>>(ALL).bind(trace.0).bind(MOST_STEPS).fetch(db);
            while let Some(row) = rows.try_next().await? {
                outlines.push(row.outline()?);
            }
        });
        Ok(outlines)
    }

    /// The sizes of the sealed contents of a trace, in the order its steps began: the first 64 MiB.
    #[boxed]
    pub async fn content_sizes(&self, trace: TraceId) -> Result<Vec<(StepId, usize)>> {
        const ALL: &str = "
            SELECT s.id, CAST(length(c.sealed) AS BIGINT)
            FROM steps s
            JOIN step_contents c ON c.step_id = s.id
            WHERE s.trace_id = $1
            ORDER BY s.started_at, s.id
            LIMIT $2";
        let rows: Vec<(i64, i64)> = on!(&self.reader, db => {
            sqlx::query_as(ALL).bind(trace.0).bind(MOST_STEPS).fetch_all(db).await?
        });
        let mut so_far = 0_usize;
        let sizes = rows.into_iter().map(|(id, size)| {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            so_far = so_far.saturating_add(size);
            (so_far <= MOST_CONTENT).then_some((StepId(id), size))
        });
        Ok(sizes.map_while(|known| known).collect())
    }

    /// Steps of a trace by their ids, at most [`STEPS_AT_ONCE`], in any order. Steps that are not
    /// there are left out.
    #[boxed]
    pub async fn steps_by_id(&self, trace: TraceId, ids: &[StepId]) -> Result<Vec<Step>> {
        let rows: Vec<StepRow<String>> = on!(&self.reader, db => {
            let query = sqlx::query_as(AssertSqlSafe(STEPS_BY_ID.as_str()));
            let ids = slots(ids.iter().map(|id| id.0));
            ids.fold(query, sqlx::query::QueryAs::bind).fetch_all(db).await?
        });
        let rows = rows.into_iter().filter(|row| row.trace_id == trace.0);
        rows.map(StepRow::read).collect()
    }

    /// The sealed contents of steps, at most of [`STEPS_AT_ONCE`], in any order. Steps without a
    /// content are left out.
    #[boxed]
    pub async fn sealed_contents(&self, ids: &[StepId]) -> Result<Vec<SealedContent>> {
        let rows: Vec<(i64, Vec<u8>)> = bounded!(&self.reader, db => {
            let query = sqlx::query_as(AssertSqlSafe(CONTENTS_BY_ID.as_str()));
            let ids = slots(ids.iter().map(|id| id.0));
            ids.fold(query, sqlx::query::QueryAs::bind).fetch_all(db).await?
        });
        Ok(rows
            .into_iter()
            .map(|(id, sealed)| SealedContent { step: StepId(id), sealed })
            .collect())
    }
}

impl StepRow<String> {
    fn outline(mut self) -> Result<Outline> {
        let texts = [self.findings.take(), self.reason.take(), self.error.take()];
        let texts = texts.iter().flatten().map(String::len).sum();
        Ok(Outline { step: self.read()?, texts })
    }
}

/// A statement with a slot for each id: with one text for any number it is prepared once.
pub(crate) fn by_id(select: &str) -> String {
    format!("{select} IN {}", id_slots(1))
}

/// The slots of the ids, from a number on, in brackets.
pub(crate) fn id_slots(first: usize) -> String {
    let mut text = format!("(${first}");
    for slot in first + 1..first + STEPS_AT_ONCE {
        // Writing to a string cannot fail.
        let _ = write!(text, ", ${slot}");
    }
    text + ")"
}

/// At most [`STEPS_AT_ONCE`] ids for all slots. Superfluous slots are filled with an id that no step
/// and no project has, and a key by chance alone.
pub(crate) fn slots(ids: impl Iterator<Item = i64>) -> impl Iterator<Item = i64> {
    ids.chain(std::iter::repeat(i64::MIN)).take(STEPS_AT_ONCE)
}
