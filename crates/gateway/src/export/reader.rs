//! The steps of an export, read from the database a few at a time and written into its file.

use std::collections::HashMap;

use domain::ids::{ProjectId, StepId};
use export::{Exporter, ProjectFacts, Record, TraceFacts};
use store::{SealedContent, SealingKey, StepCursor, Store};

use crate::bounded_read::{bounded, light};
use crate::capacity::offload::{Share, offload_always};
use crate::error::{Error, Result};
use crate::export::selection::Selection;

/// Bytes of sealed contents that are read at once; a single step may have more.
const BATCH_CONTENT: usize = 1024 * 1024;
/// A step without its content takes about this many bytes of a file.
const STEP_BYTES: usize = 1024;
/// Content that is worth compressing is rarely compressed better.
const COMPRESSED: usize = 8;

/// Reads the steps of one project.
#[derive(Debug)]
pub(crate) struct StepReader<'s> {
    store: &'s Store,
    project: ProjectId,
    selection: Selection,
    /// The key that opens contents.
    sealing: &'s SealingKey,
    cursor: StepCursor,
}

impl<'s> StepReader<'s> {
    pub(crate) fn new(
        store: &'s Store,
        project: ProjectId,
        selection: Selection,
        sealing: &'s SealingKey,
    ) -> Self {
        let cursor = StepCursor::at(selection.since);
        Self { store, project, selection, sealing, cursor }
    }

    /// Writes the next steps into a file. Returns how many there were: 0 at the end.
    pub(crate) async fn write_next(&mut self, file: &mut Exporter) -> Result<usize> {
        let (store, cursor) = (self.store, self.cursor);
        let until = self.selection.until;
        let mut steps = bounded(store.next_ended_steps(self.project, cursor, until)).await?;
        if steps.is_empty() {
            return Ok(0);
        }
        if self.selection.content {
            let ids: Vec<StepId> = steps.iter().map(|step| step.id).collect();
            let sizes = bounded(store.sealed_sizes(&ids)).await?;
            let sizes = steps.iter().map(|step| sizes.get(&step.id).copied().unwrap_or_default());
            steps.truncate(light(sizes, BATCH_CONTENT));
        }
        let ids: Vec<StepId> = steps.iter().map(|step| step.id).collect();
        let contents = if self.selection.content {
            bounded(store.sealed_contents(&ids)).await?
        } else {
            Vec::new()
        };
        let traces = bounded(store.trace_grades(&steps)).await?;
        let sealed: usize = contents.iter().map(SealedContent::size).sum();
        let mut contents: HashMap<StepId, SealedContent> =
            contents.into_iter().map(|content| (content.step(), content)).collect();
        let bytes = sealed.saturating_mul(COMPRESSED) + steps.len() * STEP_BYTES;
        let share = Share::of_project(self.project);
        let written = offload_always(share, bytes, || {
            for step in &steps {
                let content = contents.remove(&step.id);
                let content = content.map(|content| content.open(self.sealing)).transpose()?;
                let trace = traces.get(&step.trace);
                let trace = trace.map(|&(status, grade)| TraceFacts { status, grade });
                file.write(&Record { step, trace, content: content.as_deref() })
                    .map_err(file_fault)?;
            }
            Ok::<_, Error>(())
        });
        written.await?;
        if let Some(last) = steps.last() {
            self.cursor = StepCursor::after(last);
        }
        Ok(steps.len())
    }
}

/// The facts of a project that exports name.
pub(crate) async fn facts(
    store: &Store,
    project: &domain::project::Project,
) -> Result<ProjectFacts> {
    let keys = bounded(store.key_names(project.id)).await?;
    Ok(ProjectFacts { id: project.id, name: project.name.clone(), org: project.org, keys })
}

/// A file that cannot be written is a defect of ours.
pub(crate) fn file_fault(error: export::Error) -> Error {
    Error::Internal(error.to_string())
}
