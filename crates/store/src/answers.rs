//! The answers of models, counted by what they look like.

use std::fmt::Write as _;
use std::sync::LazyLock;

use async_recursion::async_recursion as boxed;
use domain::ids::ProjectId;
use domain::time::Timestamp;
use sqlx::AssertSqlSafe;

use crate::Store;
use crate::db::bounded;
use crate::error::Result;
use crate::from_row::from_row;

/// The bounds of the bins of lengths, in characters.
const LENGTHS: &[i64] =
    &[20, 50, 100, 200, 350, 600, 1_000, 1_700, 3_000, 5_000, 9_000, 15_000, 30_000];
/// The bounds of the bins of latencies, in microseconds.
const LATENCIES: &[i64] = &[
    50_000, 100_000, 200_000, 350_000, 600_000, 1_000_000, 1_700_000, 3_000_000, 5_000_000,
    9_000_000, 15_000_000, 30_000_000, 60_000_000,
];
/// The number of bins of either: one below each bound, one above all.
pub const ANSWER_BINS: usize = LENGTHS.len() + 1;

from_row! {
    /// Answers of one model that look alike.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AlikeAnswers {
        /// The model.
        pub model: String,
        /// The bin of their length, from 0.
        pub length: i64,
        /// The bin of their latency, from 0.
        pub latency: i64,
        /// Their language.
        pub language: String,
        /// Whether they are refusals.
        pub refuses: bool,
        /// How many there are.
        pub answers: i64,
    }
}

static COUNTS: LazyLock<String> = LazyLock::new(|| {
    let length = bin("answer_characters", LENGTHS);
    let latency = bin("finished_at - started_at", LATENCIES);
    format!(
        "SELECT model, {length} AS length, {latency} AS latency,
                COALESCE(answer_language, '') AS language,
                COALESCE(answer_refuses, FALSE) AS refuses, count(*) AS answers
         FROM (
             SELECT *
             FROM steps
             WHERE project_id = $1 AND finished_at >= $2 AND finished_at < $3
             ORDER BY finished_at DESC
             LIMIT $4) AS recent
         WHERE kind = 'run' AND status = 'completed' AND model IS NOT NULL
             AND answer_characters IS NOT NULL
             AND COALESCE(shadow, FALSE) = FALSE AND api_endpoint <> 'replay'
         GROUP BY 1, 2, 3, 4, 5
         ORDER BY 1, 2, 3, 4, 5"
    )
});

/// The number of the bin of an expression.
fn bin(of: &str, bounds: &[i64]) -> String {
    let mut text = "CASE".to_owned();
    for (bin, bound) in bounds.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, " WHEN {of} < {bound} THEN {bin}");
    }
    let last = bounds.len();
    // Both databases count in 64 bits then.
    format!("CAST({text} ELSE {last} END AS BIGINT)")
}

impl Store {
    /// The answers of a project's models to calls that ended in a period, without shadow calls and
    /// replays: those among its latest steps, at most `most`.
    #[boxed]
    pub async fn answers(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
        most: i64,
    ) -> Result<Vec<AlikeAnswers>> {
        Ok(bounded!(&self.reports, db => {
            sqlx::query_as(AssertSqlSafe(COUNTS.as_str()))
                .bind(project.0).bind(from.0).bind(to.0).bind(most)
                .fetch_all(db).await?
        }))
    }
}
