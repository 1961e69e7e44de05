//! The detail of a trace: its figures, and which steps there are. The steps themselves are read while
//! they are [written](crate::evidence::traces::writing).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use domain::ids::{ProjectId, StepId, TraceId};
use domain::money::Usd;
use domain::step::Step;
use domain::trace::Trace;
use grading::TraceFigures;
use store::Outline;

use crate::bounded_read::{READ_BOUND, bounded};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::caller::Caller;
use crate::state::member::Member;
use crate::state::registry::ProjectState;

/// A trace with its figures, and the steps that its detail shows.
#[derive(Debug)]
pub struct TraceDetail {
    /// The trace.
    pub trace: Trace,
    /// Its figures.
    pub figures: TraceFigures,
    /// The cost of its run steps so far, those that are gone included.
    pub total_cost: Usd,
    /// The latest step that was routed.
    pub routed: Option<Step>,
    /// Its steps in the order they began.
    pub steps: StepList,
}

/// A step of a trace, and those beside it.
#[derive(Debug)]
pub struct StepDetail {
    /// The step, without its content.
    pub step: Step,
    /// The one that began before it.
    pub before: Option<StepId>,
    /// The one that began after it.
    pub next: Option<StepId>,
    /// The list of this step alone, to be written with its content.
    pub list: StepList,
}

/// The steps that a detail shows. Only this list is held until the detail is written, so an entry
/// is small.
#[derive(Debug)]
pub struct StepList {
    pub(super) trace: TraceId,
    pub(super) project: Arc<ProjectState>,
    pub(super) entries: Vec<Entry>,
}

/// A step of a detail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) id: StepId,
    /// Bytes of its findings and other texts.
    pub(super) texts: u32,
    /// Bytes of its sealed content; 0 if none is shown.
    pub(super) sealed: u32,
}

impl StepList {
    /// The number of steps.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Those in a range of their indices that are there.
    #[must_use]
    pub fn part(mut self, range: Range<usize>) -> Self {
        self.entries.truncate(range.end);
        self.entries.drain(..range.start.min(self.entries.len()));
        self
    }
}

impl Gateway {
    /// One of the caller's traces, with the list of its steps.
    pub async fn trace(&self, caller: &Caller, id: &str) -> Result<TraceDetail> {
        self.trace_of(&caller.project, id).await.map(|(detail, _)| detail)
    }

    /// A trace of a project that is a member's to see, with the list of its steps and, without contents, the
    /// steps themselves.
    pub async fn trace_for_member(
        &self,
        member: &Member,
        project: ProjectId,
        id: &str,
    ) -> Result<(TraceDetail, Vec<Step>)> {
        self.trace_of(&self.visible_project(member, project)?, id).await
    }

    /// A step of a trace of a project that is a member's to see. Nothing is read of the other steps but the ids of
    /// those beside it, however many there are.
    pub async fn step_of_trace(
        &self,
        member: &Member,
        project: ProjectId,
        trace: &str,
        step: StepId,
    ) -> Result<StepDetail> {
        let project = self.visible_project(member, project)?;
        let trace: TraceId = trace.parse().map_err(|_| Error::NotFound)?;
        let found = bounded(self.store.step_of_project(step, project.id())).await?;
        let step = found.filter(|found| found.trace == trace).ok_or(Error::NotFound)?;
        let id = [step.id];
        let ((before, next), sizes) = tokio::try_join!(
            bounded(self.store.steps_beside(&step)),
            bounded(self.store.sealed_sizes(&id)),
        )?;
        let sealed = sizes.get(&step.id).map_or(0, |size| short(*size));
        // The texts of a step that is read alone need no share of a batch.
        let entries = vec![Entry { id: step.id, texts: 0, sealed }];
        Ok(StepDetail { step, before, next, list: StepList { trace, project, entries } })
    }

    /// The first `most` steps of a trace of a project that is a member's to see, without their contents; none of
    /// another trace.
    pub async fn first_steps_of_trace(
        &self,
        member: &Member,
        project: ProjectId,
        trace: &str,
        most: i64,
    ) -> Result<Vec<Step>> {
        let project = self.visible_project(member, project)?;
        let trace: TraceId = trace.parse().map_err(|_| Error::NotFound)?;
        bounded(self.store.first_steps(trace, project.id(), most)).await
    }

    async fn trace_of(
        &self,
        state: &Arc<ProjectState>,
        id: &str,
    ) -> Result<(TraceDetail, Vec<Step>)> {
        let id: TraceId = id.parse().map_err(|_| Error::NotFound)?;
        let project = state.id();
        // The owner is checked first: nothing of another project is read.
        let trace = bounded(self.store.trace(project, id)).await?.ok_or(Error::NotFound)?;
        let _place = self.detail_slots.take(project, READ_BOUND).await?;
        // Contents after steps: what is committed in between has a content too many, never one too few.
        let outlines = bounded(self.store.step_outlines(id)).await?;
        let sizes = bounded(self.store.content_sizes(id)).await?;
        let gap = self.typical_gap(project).await?;
        let entries = entries(&outlines, &sizes.into_iter().collect());
        let steps: Vec<Step> = outlines.into_iter().map(|outline| outline.step).collect();
        let pause = trace.assessment.as_ref().and_then(|assessment| assessment.baselines.pause);
        let mut figures = grading::figures_in_turns(trace.created_at, &steps, gap, pause);
        let mut total_cost: Usd = steps.iter().map(Step::cost).sum();
        if let Some(purged) = trace.purged {
            total_cost += purged.cost;
            figures.pii_detected |= purged.pii;
            figures.injection_attempt |= purged.injection;
            figures.secret_leaked |= purged.secret;
        }
        let is_routed =
            |step: &Step| step.routing.as_ref().is_some_and(|routing| routing.tier.is_some());
        let routed = steps.iter().rfind(|step| is_routed(step)).cloned();
        let list = StepList { trace: id, project: state.clone(), entries };
        Ok((TraceDetail { trace, figures, total_cost, routed, steps: list }, steps))
    }
}

fn entries(outlines: &[Outline], sizes: &HashMap<StepId, usize>) -> Vec<Entry> {
    let entries = outlines.iter().map(|outline| {
        let id = outline.step.id;
        let sealed = sizes.get(&id).copied().unwrap_or_default();
        Entry { id, texts: short(outline.texts), sealed: short(sealed) }
    });
    entries.collect()
}

fn short(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
