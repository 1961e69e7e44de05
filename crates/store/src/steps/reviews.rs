//! The steps that wait for a person, and the verdicts on them.

use std::sync::LazyLock;

use async_recursion::async_recursion as boxed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::ids::{ProjectId, ServiceTokenId, StepId, UserId};
use domain::review::{Judge, JudgedFinding, Review, Verdict};
use domain::step::Step;
use domain::time::Timestamp;
use sqlx::{AssertSqlSafe, FromRow as _};

use super::details::{by_id, slots};
use super::row::StepRow;
use crate::Store;
use crate::db::{Tx, bounded, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;
use crate::seal::SealingKey;

static STEPS_BY_ID: LazyLock<String> = LazyLock::new(|| by_id("SELECT * FROM steps WHERE id"));

from_row! {
    /// The judge of a verdict, and its step if it is still there.
    struct Beside {
        judge: Option<String>,
        kept_id: Option<i64>,
    }
}

from_row! {
    struct Row {
        step_id: i64,
        project_id: i64,
        user_id: i64,
        token_id: Option<i64>,
        verdict: String,
        note: Option<String>,
        findings: String,
        risk_score: f64,
        created_at: i64,
    }
}

impl Row {
    fn read(self, key: &SealingKey) -> Result<Review> {
        let corrupt = |what: &str| Error::Corrupt(format!("review {}: {what}", self.step_id));
        Ok(Review {
            step: StepId(self.step_id),
            project: ProjectId(self.project_id),
            judge: match self.token_id {
                Some(token) => Judge::ServiceToken(ServiceTokenId::from_i64(token)),
                None => Judge::User(UserId(self.user_id)),
            },
            verdict: Verdict::parse(&self.verdict).ok_or_else(|| corrupt("verdict"))?,
            findings: serde_json::from_str(&self.findings).map_err(|_| corrupt("findings"))?,
            note: self.note.and_then(|sealed| open_note(StepId(self.step_id), &sealed, key)),
            risk_score: self.risk_score,
            at: Timestamp(self.created_at),
        })
    }
}

/// A verdict, unless it cannot be read.
fn readable(row: Row, key: &SealingKey) -> Option<Review> {
    let unreadable = |error: &Error| tracing::warn!(%error, "a verdict is left out");
    row.read(key).inspect_err(unreadable).ok()
}

/// The location that a note is sealed for.
fn place(step: StepId) -> String {
    format!("review:{step}")
}

/// A note may quote what was found: it is sealed like a content, in the letters of a text.
fn seal_note(step: StepId, note: &str, key: &SealingKey) -> Result<String> {
    Ok(BASE64.encode(key.seal(&place(step), note.as_bytes())?))
}

/// Opens a note. One that is damaged hides no verdict.
fn open_note(step: StepId, sealed: &str, key: &SealingKey) -> Option<String> {
    let sealed = BASE64.decode(sealed).ok();
    let note = sealed.and_then(|sealed| key.open(&place(step), &sealed).ok());
    let note = note.and_then(|note| String::from_utf8(note).ok());
    if note.is_none() {
        tracing::warn!(%step, "the note of a verdict cannot be opened");
    }
    note
}

/// A page of the steps that wait.
#[derive(Debug)]
pub struct ReviewPage {
    /// The steps, newest first, with the characters of their findings.
    pub steps: Vec<(StepId, usize)>,
    /// The step before which the next page begins, if there is one.
    pub next: Option<StepId>,
}

/// A verdict, and what its list shows beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedVerdict {
    /// The verdict.
    pub review: Review,
    /// The address of the user, or the name of the service token, that has judged; `None` if they are not known any
    /// more.
    pub judge: Option<String>,
    /// Whether the step is still there.
    pub has_step: bool,
}

impl Store {
    /// The steps of a project that ask for a review and that nobody has judged, newest first: those that
    /// ended before a step did, at most `most`. Before a step that is gone there are none.
    #[boxed]
    pub async fn steps_for_review(
        &self,
        project: ProjectId,
        before: Option<StepId>,
        most: i64,
    ) -> Result<ReviewPage> {
        const ENDED: &str = "SELECT finished_at FROM steps WHERE id = $1 AND project_id = $2";
        const PAGE: &str = "
            SELECT id, CAST(COALESCE(length(findings), 0) AS BIGINT)
            FROM steps
            WHERE project_id = $1 AND review AND NOT judged AND (finished_at, id) < ($2, $3)
            ORDER BY finished_at DESC, id DESC
            LIMIT $4";
        let from = match before {
            None => (i64::MAX, i64::MAX),
            Some(step) => {
                let ended: Option<i64> = bounded!(&self.reader, db => {
                    sqlx::query_scalar(ENDED)
                        .bind(step.0)
                        .bind(project.0)
                        .fetch_optional(db)
                        .await?
                });
                let Some(ended) = ended else {
                    return Ok(ReviewPage { steps: Vec::new(), next: None });
                };
                (ended, step.0)
            }
        };
        let mut rows: Vec<(i64, i64)> = bounded!(&self.reader, db => {
            sqlx::query_as(PAGE)
                .bind(project.0)
                .bind(from.0)
                .bind(from.1)
                .bind(most.saturating_add(1))
                .fetch_all(db)
                .await?
        });
        let has_more = i64::try_from(rows.len()).is_ok_and(|found| found > most);
        rows.truncate(usize::try_from(most).unwrap_or(0));
        let next = rows.last().filter(|_| has_more).map(|(last, _)| StepId(*last));
        let size = |(id, size)| (StepId(id), usize::try_from(size).unwrap_or(usize::MAX));
        Ok(ReviewPage { steps: rows.into_iter().map(size).collect(), next })
    }

    /// Steps of a project by their ids, at most [`STEPS_AT_ONCE`](crate::STEPS_AT_ONCE), in any order. Those that
    /// are gone or cannot be read are left out.
    #[boxed]
    pub async fn steps_of_project(&self, project: ProjectId, ids: &[StepId]) -> Result<Vec<Step>> {
        let rows: Vec<StepRow<String>> = bounded!(&self.reader, db => {
            let query = sqlx::query_as(AssertSqlSafe(STEPS_BY_ID.as_str()));
            let ids = slots(ids.iter().map(|id| id.0));
            ids.fold(query, sqlx::query::QueryAs::bind).fetch_all(db).await?
        });
        let rows = rows.into_iter().filter(|row| row.project_id == project.0);
        Ok(rows.filter_map(|row| row.read().ok()).collect())
    }

    /// How many steps of a project wait; counting ends above `most`.
    #[boxed]
    pub async fn count_for_review(&self, project: ProjectId, most: i64) -> Result<i64> {
        const COUNT: &str = "
            SELECT count(*)
            FROM (
                SELECT 1 AS one
                FROM steps
                WHERE project_id = $1 AND review AND NOT judged
                LIMIT $2) AS counted";
        Ok(bounded!(&self.reader, db => {
            sqlx::query_scalar(COUNT)
                .bind(project.0)
                .bind(most.saturating_add(1))
                .fetch_one(db)
                .await?
        }))
    }

    /// The verdicts of a project since a time, the latest first, at most `most`; `key` is that of the project. Those
    /// that cannot be read, of a later version for example, are left out.
    #[boxed]
    pub async fn reviews(
        &self,
        project: ProjectId,
        key: &SealingKey,
        since: Timestamp,
        most: i64,
    ) -> Result<Vec<Review>> {
        const LATEST: &str = "
            SELECT step_id, project_id, user_id, token_id, verdict, note, findings, risk_score,
                   created_at
            FROM review_verdicts
            WHERE project_id = $1 AND created_at >= $2
            ORDER BY created_at DESC, step_id DESC
            LIMIT $3";
        let rows: Vec<Row> = bounded!(&self.reader, db => {
            sqlx::query_as(LATEST).bind(project.0).bind(since.0).bind(most).fetch_all(db).await?
        });
        Ok(rows.into_iter().filter_map(|row| readable(row, key)).collect())
    }

    /// The same verdicts, each with its judge and what became of its step.
    #[boxed]
    pub async fn listed_reviews(
        &self,
        project: ProjectId,
        key: &SealingKey,
        since: Timestamp,
        most: i64,
    ) -> Result<Vec<ListedVerdict>> {
        const LATEST: &str = "
            SELECT v.step_id, v.project_id, v.user_id, v.token_id, v.verdict, v.note, v.findings, v.risk_score,
                   v.created_at,
                   COALESCE(t.name, CASE WHEN m.user_id IS NOT NULL THEN u.email END) AS judge,
                   s.id AS kept_id
            FROM review_verdicts v
            LEFT JOIN users u ON u.id = v.user_id
            LEFT JOIN memberships m ON m.user_id = u.id
            LEFT JOIN service_tokens t ON t.id = v.token_id
            LEFT JOIN steps s ON s.id = v.step_id
            WHERE v.project_id = $1 AND v.created_at >= $2
            ORDER BY v.created_at DESC, v.step_id DESC
            LIMIT $3";
        let rows: Vec<(Row, Beside)> = bounded!(&self.reader, db => {
            let rows = sqlx::query(LATEST)
                .bind(project.0).bind(since.0).bind(most)
                .fetch_all(db).await?;
            let read = |row| Ok((Row::from_row(row)?, Beside::from_row(row)?));
            rows.iter().map(read).collect::<sqlx::Result<_>>()?
        });
        let listed = |(row, beside): (Row, Beside)| {
            let (review, has_step) = (readable(row, key)?, beside.kept_id.is_some());
            Some(ListedVerdict { review, judge: beside.judge, has_step })
        };
        Ok(rows.into_iter().filter_map(listed).collect())
    }

    /// Deletes verdicts of before a time whose steps are gone. Nothing else reads them.
    #[boxed]
    pub async fn purge_reviews(&self, before: Timestamp) -> Result<()> {
        const PURGE: &str = "
            DELETE FROM review_verdicts
            WHERE created_at < $1
              AND NOT EXISTS (SELECT 1 FROM steps WHERE steps.id = review_verdicts.step_id)";
        let mut tx = self.begin().await?;
        within!(tx, db => {
            sqlx::query(PURGE).bind(before.0).execute(&mut *db).await?;
        });
        tx.commit().await
    }
}

impl Tx {
    /// Marks a step of a project that asks for a review as judged, and holds it until the end of the
    /// transaction. `None` if there is none such.
    #[boxed]
    pub async fn judge_step(&mut self, project: ProjectId, step: StepId) -> Result<Option<Step>> {
        const JUDGE: &str = "
            UPDATE steps
            SET judged = TRUE
            WHERE id = $1 AND project_id = $2 AND review
            RETURNING *";
        let row: Option<StepRow<String>> = within!(self, db => {
            sqlx::query_as(JUDGE).bind(step.0).bind(project.0).fetch_optional(&mut *db).await?
        });
        row.map(StepRow::read).transpose()
    }

    /// The verdict on a step, of a project with this key.
    #[boxed]
    pub async fn review(&mut self, step: StepId, key: &SealingKey) -> Result<Option<Review>> {
        const ONE: &str = "
            SELECT step_id, project_id, user_id, token_id, verdict, note, findings, risk_score,
                   created_at
            FROM review_verdicts
            WHERE step_id = $1";
        let row: Option<Row> = within!(self, db => {
            sqlx::query_as(ONE).bind(step.0).fetch_optional(&mut *db).await?
        });
        row.map(|row| row.read(key)).transpose()
    }

    /// Stores the verdict on a step, in place of an earlier one. Its note is sealed with the key of the project.
    #[boxed]
    pub async fn save_review(&mut self, review: &Review, key: &SealingKey) -> Result<()> {
        const SAVE: &str = "
            INSERT INTO review_verdicts
                (step_id, project_id, user_id, verdict, note, findings, risk_score, created_at, token_id)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
            ON CONFLICT (step_id) DO UPDATE
            SET user_id = excluded.user_id,
                token_id = excluded.token_id,
                verdict = excluded.verdict,
                note = excluded.note,
                findings = excluded.findings,
                risk_score = excluded.risk_score,
                created_at = excluded.created_at";
        let note = review.note.as_deref().map(|note| seal_note(review.step, note, key));
        let note = note.transpose()?;
        within!(self, db => {
            sqlx::query(SAVE)
                .bind(review.step.0)
                .bind(review.project.0)
                .bind(review.judge.user().map_or(0, |user| user.0))
                .bind(review.verdict.as_str())
                .bind(note)
                .bind(json(&review.findings)?)
                .bind(review.risk_score)
                .bind(review.at.0)
                .bind(review.judge.service_token().map(ServiceTokenId::to_i64))
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }
}

fn json(findings: &[JudgedFinding]) -> Result<String> {
    serde_json::to_string(findings).map_err(|error| Error::Corrupt(error.to_string()))
}
