//! Findings that ask for a person: the queue, the verdicts, and the advice that follows from them.

use std::collections::HashMap;
use std::sync::Arc;

use domain::ids::{ProjectId, StepId};
use domain::review::{Judge, JudgedFinding, LONGEST_NOTE, Review, Verdict};
use domain::safety::Category;
use domain::step::Step;
use domain::time::{DAY, SECOND, Timestamp};
use grading::JudgedCategory;
use serde::Deserialize;
use serde_json::{Map, Value};
use store::{ListedVerdict, ReviewPage, SealedContent, Store};

use crate::audit::Event;
use crate::bounded_read::{READ_BOUND, bounded};
use crate::capacity::offload::hand_over;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::member::Member;
use crate::state::registry::ProjectState;

/// The most steps of a page of the queue.
pub const MOST_REVIEWS: usize = store::STEPS_AT_ONCE;
/// The most bytes of sealed contents of a page; a step beyond is listed without its text.
const MOST_SEALED: usize = 1 << 20;
/// The most bytes of a content, sealed and open; a larger one is left to the page of its trace.
const LARGEST_CONTENT: usize = 512 * 1024;
/// The most characters of findings that are read at once; those of one step are always.
const FINDINGS_AT_ONCE: usize = 256 * 1024;
/// The most findings of a verdict, each the strongest of its kind.
const MOST_FINDINGS: usize = 50;
/// The time for which verdicts give advice.
pub(crate) const ADVICE_WINDOW: i64 = 30 * DAY;
/// The verdicts that advice is computed from, the latest.
const MOST_VERDICTS: i64 = 5_000;

/// The stored content of a step in the queue.
#[derive(Clone, Copy, Debug)]
pub enum ReviewContent<'c> {
    /// A [`domain::step::Content`] as JSON.
    Stored(&'c [u8]),
    /// None is stored, or not any more.
    None,
    /// There is one, which is too large for a list.
    TooLarge,
    /// There is one, which cannot be opened.
    Damaged,
}

/// Makes what is shown of a step of its content.
pub type PresentReview<T> = fn(&Step, ReviewContent<'_>) -> T;

/// A page of the queue.
#[derive(Debug)]
pub struct ReviewQueue<T> {
    /// The steps as they are shown, newest first.
    pub items: Vec<T>,
    /// The step before which the next page begins, if there is one.
    pub next: Option<StepId>,
}

/// The verdict that a later one expects to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedVerdict {
    /// None: nobody has judged the step.
    Unjudged,
    /// The one of this time, to the millisecond: the API has no finer ones.
    Of(Timestamp),
}

impl ExpectedVerdict {
    fn is(self, stands: Option<&Review>) -> bool {
        let millisecond = |at: Timestamp| at.0.div_euclid(SECOND / 1_000);
        match (self, stands) {
            (Self::Unjudged, None) => true,
            (Self::Of(at), Some(stands)) => millisecond(at) == millisecond(stands.at),
            (Self::Unjudged, Some(_)) | (Self::Of(_), None) => false,
        }
    }
}

/// The note of a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerdictNote {
    /// That of the earlier verdict stays.
    Kept,
    /// It is replaced; `None` leaves none.
    Replaced(Option<String>),
}

/// The outcome of judging.
#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    /// This verdict is stored.
    Stored(Review),
    /// Another one than was expected stands, and nothing was changed. `None`: nobody has judged the step.
    Refused(Option<Review>),
}

impl Gateway {
    /// The steps of a project that ask for a review and that nobody has judged, newest first: those before a
    /// step, at most [`MOST_REVIEWS`]. Their findings and contents are opened one at a time.
    pub async fn review_queue<T>(
        &self,
        member: &Member,
        project: ProjectId,
        before: Option<StepId>,
        limit: usize,
        present: PresentReview<T>,
    ) -> Result<ReviewQueue<T>> {
        let project = self.visible_project(member, project)?;
        let _place = self.detail_slots.take(project.id(), READ_BOUND).await?;
        let page = self.waiting(&project, before, limit).await?;
        let ids: Vec<StepId> = page.steps.iter().map(|(id, _)| *id).collect();
        let sizes = bounded(self.store.sealed_sizes(&ids)).await?;
        let mut contents = self.light_contents(&ids, &sizes).await?;
        let item = |step: &Step| match (contents.remove(&step.id), sizes.contains_key(&step.id)) {
            (Some(content), _) => opened(&project, step, content, present),
            (None, true) => present(step, ReviewContent::TooLarge),
            (None, false) => present(step, ReviewContent::None),
        };
        let items = self.each_waiting(project.id(), &page.steps, item).await?;
        Ok(ReviewQueue { items, next: page.next })
    }

    /// The same steps without their contents.
    pub async fn list_for_review<T>(
        &self,
        member: &Member,
        project: ProjectId,
        before: Option<StepId>,
        limit: usize,
        present: fn(&Step) -> T,
    ) -> Result<ReviewQueue<T>> {
        let project = self.visible_project(member, project)?;
        let _place = self.detail_slots.take(project.id(), READ_BOUND).await?;
        let page = self.waiting(&project, before, limit).await?;
        let items = self.each_waiting(project.id(), &page.steps, present).await?;
        Ok(ReviewQueue { items, next: page.next })
    }

    async fn waiting(
        &self,
        project: &ProjectState,
        before: Option<StepId>,
        limit: usize,
    ) -> Result<ReviewPage> {
        let limit = limit.clamp(1, MOST_REVIEWS) as i64;
        bounded(self.store.steps_for_review(project.id(), before, limit)).await
    }

    /// Steps as they are shown, in their order. A few are read at a time: the findings of a page may be large.
    async fn each_waiting<T>(
        &self,
        project: ProjectId,
        mut steps: &[(StepId, usize)],
        mut present: impl FnMut(&Step) -> T,
    ) -> Result<Vec<T>> {
        let mut items = Vec::with_capacity(steps.len());
        while !steps.is_empty() {
            let (now, later) = steps.split_at(read_together(steps));
            let ids: Vec<StepId> = now.iter().map(|(id, _)| *id).collect();
            let read = bounded(self.store.steps_of_project(project, &ids)).await?;
            let of = |id: &StepId| read.iter().find(|step| step.id == *id);
            items.extend(ids.iter().filter_map(of).map(&mut present));
            steps = later;
        }
        Ok(items)
    }

    /// The contents of these steps, in their order, as far as they are small.
    async fn light_contents(
        &self,
        ids: &[StepId],
        sizes: &HashMap<StepId, usize>,
    ) -> Result<HashMap<StepId, SealedContent>> {
        let mut left = MOST_SEALED;
        let is_light = |id: &&StepId| {
            let size = sizes.get(id).copied().filter(|size| *size <= LARGEST_CONTENT.min(left));
            left -= size.unwrap_or(0);
            size.is_some()
        };
        let light: Vec<StepId> = ids.iter().filter(is_light).copied().collect();
        let contents = bounded(self.store.sealed_contents(&light)).await?;
        Ok(contents.into_iter().map(|content| (content.step(), content)).collect())
    }

    /// How many steps of a project wait for a verdict; counting ends above `most`.
    pub async fn count_reviews(
        &self,
        member: &Member,
        project: ProjectId,
        most: i64,
    ) -> Result<i64> {
        let project = self.visible_project(member, project)?;
        bounded(self.store.count_for_review(project.id(), most)).await
    }

    /// The latest verdicts of a project in 30 days, newest first.
    pub async fn list_verdicts(
        &self,
        member: &Member,
        project: ProjectId,
        most: i64,
    ) -> Result<Vec<ListedVerdict>> {
        let project = self.visible_project(member, project)?;
        let since = self.clock.now().minus_micros(ADVICE_WINDOW);
        bounded(self.store.listed_reviews(project.id(), &project.sealing, since, most)).await
    }

    /// Judges the findings of a step that asks for a review (not viewers). A later verdict takes the place of
    /// an earlier one, if it is the expected one; the same again changes nothing.
    pub async fn judge_findings(
        &self,
        member: &Member,
        project: ProjectId,
        step: StepId,
        verdict: Verdict,
        note: VerdictNote,
        expected: Option<ExpectedVerdict>,
    ) -> Result<Judged> {
        let project = self.visible_project(member, project)?;
        if !member.role.may_judge_findings() {
            return Err(Error::Forbidden);
        }
        let note = clean_note(note)?;
        let key = &project.sealing;
        let mut tx = self.store.begin().await?;
        let step = tx.judge_step(project.id(), step).await?.ok_or(Error::NotFound)?;
        let earlier = tx.review(step.id, key).await?;
        let review = Review {
            step: step.id,
            project: project.id(),
            judge: member.token.map_or(Judge::User(member.user), Judge::ServiceToken),
            verdict,
            note: match note {
                VerdictNote::Kept => earlier.as_ref().and_then(|earlier| earlier.note.clone()),
                VerdictNote::Replaced(note) => note,
            },
            findings: judged_findings(&step),
            risk_score: step.security.risk_score,
            at: self.clock.now(),
        };
        let is_same = |earlier: &Review| Review { at: earlier.at, ..review.clone() } == *earlier;
        if let Some(earlier) = earlier.as_ref().filter(|earlier| is_same(earlier)) {
            return Ok(Judged::Stored(earlier.clone()));
        }
        if expected.is_some_and(|expected| !expected.is(earlier.as_ref())) {
            return Ok(Judged::Refused(earlier));
        }
        tx.save_review(&review, key).await?;
        let target = ("step", step.id.to_string());
        // Without the note: it may quote what is deleted with the step.
        let mut metadata = Map::from_iter([
            ("project_id".to_owned(), Value::from(project.id().0)),
            ("trace_id".to_owned(), step.trace.to_string().into()),
            ("verdict".to_owned(), verdict.as_str().into()),
        ]);
        if let Some(earlier) = earlier {
            metadata.insert("earlier_verdict".to_owned(), earlier.verdict.as_str().into());
        }
        self.note_act(&mut tx, member, Event::ReviewJudged, target, metadata).await?;
        tx.commit().await?;
        Ok(Judged::Stored(review))
    }

    /// Advice on the safety settings of a project, by the verdicts of 30 days.
    pub async fn review_advice(
        &self,
        member: &Member,
        project: ProjectId,
    ) -> Result<Vec<JudgedCategory>> {
        let project = self.visible_project(member, project)?;
        advice_on(&self.store, &project, self.clock.now()).await
    }

    /// A step of a project that a member may see, without its content.
    pub async fn step_for_member(
        &self,
        member: &Member,
        project: ProjectId,
        step: StepId,
    ) -> Result<Step> {
        let project = self.visible_project(member, project)?;
        let found = bounded(self.store.step_of_project(step, project.id())).await?;
        found.ok_or(Error::NotFound)
    }
}

/// Advice on the safety settings of a project at a time.
pub(crate) async fn advice_on(
    store: &Store,
    project: &Arc<ProjectState>,
    now: Timestamp,
) -> Result<Vec<JudgedCategory>> {
    let since = now.minus_micros(ADVICE_WINDOW);
    let reviews =
        bounded(store.reviews(project.id(), &project.sealing, since, MOST_VERDICTS)).await?;
    let safety = project.policy.safety();
    let (types, saved) = (checks::found_kinds(safety), &project.project.settings);
    Ok(grading::review_advice(&reviews, safety, &types, saved))
}

/// A content as it is shown. One that is damaged hides no other step.
fn opened<T>(
    project: &ProjectState,
    step: &Step,
    content: SealedContent,
    present: PresentReview<T>,
) -> T {
    hand_over(LARGEST_CONTENT, || {
        let packed = content.open_packed(&project.sealing);
        if packed.as_ref().is_ok_and(|packed| packed.size() > LARGEST_CONTENT) {
            return present(step, ReviewContent::TooLarge);
        }
        match packed.and_then(|packed| packed.unpack()) {
            Ok(json) => present(step, ReviewContent::Stored(&json)),
            Err(error) => {
                tracing::warn!(step = %step.id, %error, "a content in the review queue is damaged");
                present(step, ReviewContent::Damaged)
            }
        }
    })
}

/// How many steps are read together, at least one.
fn read_together(steps: &[(StepId, usize)]) -> usize {
    let mut size = 0_usize;
    let fits = |(_, findings): &&(StepId, usize)| {
        size = size.saturating_add(*findings);
        size <= FINDINGS_AT_ONCE
    };
    steps.iter().take_while(fits).count().max(1)
}

fn clean_note(note: VerdictNote) -> Result<VerdictNote> {
    let VerdictNote::Replaced(note) = note else { return Ok(note) };
    let note = note.map(|note| note.trim().replace('\0', "\u{fffd}"));
    let note = note.filter(|note| !note.is_empty());
    if note.as_ref().is_some_and(|note| note.chars().count() > LONGEST_NOTE) {
        return Err(Error::invalid(format!("note is longer than {LONGEST_NOTE} characters")));
    }
    Ok(VerdictNote::Replaced(note))
}

/// A finding as it is stored with its step.
#[derive(Deserialize)]
struct StoredFinding {
    category: Category,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    score: f64,
}

/// The findings of a step, the strongest of each kind.
fn judged_findings(step: &Step) -> Vec<JudgedFinding> {
    let stored = step.security.findings.as_ref();
    let stored = stored.and_then(|found| Vec::<StoredFinding>::deserialize(found).ok());
    let mut judged: Vec<JudgedFinding> = Vec::new();
    for StoredFinding { category, kind, score } in stored.unwrap_or_default() {
        let is_known = |one: &&mut JudgedFinding| one.category == category && one.kind == kind;
        if let Some(known) = judged.iter_mut().find(is_known) {
            known.score = known.score.max(score);
        } else if judged.len() < MOST_FINDINGS {
            judged.push(JudgedFinding { category, kind, score });
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_findings_are_read_alone() {
        let together = |sizes: &[usize]| {
            read_together(&sizes.iter().map(|size| (StepId(1), *size)).collect::<Vec<_>>())
        };
        assert_eq!(together(&[0; 50]), 50);
        assert_eq!(together(&[FINDINGS_AT_ONCE, 1, 1]), 1);
        assert_eq!(together(&[1, FINDINGS_AT_ONCE - 1, 1]), 2);
        assert_eq!(together(&[usize::MAX, usize::MAX]), 1);
    }
}
