//! The steps of an export, read from the database a few at a time and written into its file.
//!
//! A batch is bounded where it is read, by its steps and by its sealed contents, and again where it is
//! written: contents are opened one at a time, and writing pauses when the file has a piece to store, so
//! that contents which compress well are never held all at once.

use std::collections::{HashMap, VecDeque};

use domain::ids::{ProjectId, StepId, TraceId};
use domain::shown_content::ShownContent;
use domain::step::Step;
use export::{
    ContentFault, DamagedStep, Exporter, ProjectFacts, Record, RecordedContent, TraceFacts,
};
use store::{EndedStep, PackedContent, SealedContent, SealingKey, StepCursor, Store};

use crate::bounded_read::{light, read_again};
use crate::error::{Error, Result};
use crate::export::selection::Selection;

/// Bytes of sealed contents that are read at once; a single step may have more.
const BATCH_CONTENT: usize = 1024 * 1024;
/// Writing pauses when so many bytes can be taken from the file: a piece of a file that is kept in pieces.
pub(crate) const PIECE: usize = 256 * 1024;
/// The most contents with a fault that the log names, and the most steps.
const MOST_LOGGED: u64 = 10;

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

    /// The next steps; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Batch>> {
        let (store, cursor) = (self.store, self.cursor);
        let until = self.selection.until;
        let mut steps = read_again(|| store.next_ended_steps(self.project, cursor, until)).await?;
        let mut contents = HashMap::new();
        if self.selection.content {
            let mut ids: Vec<StepId> = steps.iter().map(|step| step.id).collect();
            let sizes = read_again(|| store.sealed_sizes(&ids)).await?;
            let sizes = steps.iter().map(|step| sizes.get(&step.id).copied().unwrap_or_default());
            steps.truncate(light(sizes, BATCH_CONTENT));
            ids.truncate(steps.len());
            let sealed = read_again(|| store.sealed_contents(&ids)).await?;
            contents.extend(sealed.into_iter().map(|content| (content.step(), content)));
        }
        let Some(last) = steps.last() else { return Ok(None) };
        self.cursor = StepCursor::after(last);
        let traces = steps.iter().filter_map(|ended| Some(ended.step.as_ref().ok()?.trace));
        let traces: Vec<TraceId> = traces.collect();
        let traces = read_again(|| store.trace_grades(&traces)).await?;
        let steps = steps.into_iter().map(|EndedStep { id, finished_at, step }| {
            let damaged = DamagedStep { id, project: self.project, finished_at };
            let content = contents.remove(&id).map_or(StoredContent::Absent, StoredContent::Sealed);
            (step.map_err(|error| (damaged, error)), content)
        });
        let facts = |(trace, (status, grade))| (trace, TraceFacts { status, grade });
        Ok(Some(Batch {
            steps: steps.collect(),
            traces: traces.into_iter().map(facts).collect(),
            sealing: self.sealing.clone(),
        }))
    }
}

/// Steps that were read.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Those that are not written yet.
    steps: VecDeque<(StoredStep, StoredContent)>,
    traces: HashMap<TraceId, TraceFacts>,
    sealing: SealingKey,
}

/// A step that is not written yet, or the place and the reason of one that cannot be read.
type StoredStep = std::result::Result<Step, (DamagedStep, store::Error)>;

/// The content of a step that is not written yet.
#[derive(Debug)]
enum StoredContent {
    Absent,
    Sealed(SealedContent),
    /// It is opened and still compressed, and waits for memory.
    Packed(PackedContent),
    Missing(ContentFault),
}

/// The reason why a batch is written no further for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// All of its steps are written.
    Written,
    /// A piece of the file can be taken.
    Piece,
    /// The content of the next step has so many bytes, more than may be opened.
    Large(usize),
}

/// The steps that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportedSteps {
    /// How many they are.
    pub steps: u64,
    /// How many of them have a stored content that the file lacks.
    pub content_errors: u64,
    /// How many of them cannot be read.
    pub step_errors: u64,
}

impl Batch {
    /// Writes the next steps into a file, and counts them. A content of more than `most` bytes is not
    /// decompressed: the next call may allow more. A step or a content that cannot be read ends nothing.
    pub(crate) fn write(
        &mut self,
        file: &mut Exporter,
        most: usize,
        written: &mut ExportedSteps,
    ) -> Result<Pause> {
        while let Some((step, content)) = self.steps.pop_front() {
            let step = match step {
                Ok(step) => step,
                Err((damaged, error)) => {
                    write_damaged(&damaged, &error, file, written)?;
                    continue;
                }
            };
            let packed = match content {
                StoredContent::Absent => Ok(None),
                StoredContent::Missing(fault) => Err(fault),
                StoredContent::Packed(packed) => Ok(Some(packed)),
                StoredContent::Sealed(sealed) => sealed
                    .open_packed(&self.sealing)
                    .map(Some)
                    .map_err(|_| ContentFault::Unreadable),
            };
            let json = match packed {
                Ok(Some(packed)) if packed.size() > most => {
                    let size = packed.size();
                    self.steps.push_front((Ok(step), StoredContent::Packed(packed)));
                    return Ok(Pause::Large(size));
                }
                Ok(Some(packed)) => packed.unpack().map(Some).map_err(|_| ContentFault::Unreadable),
                Ok(None) => Ok(None),
                Err(fault) => Err(fault),
            };
            self.write_step(&step, &json, file, written)?;
            if file.ready() >= PIECE {
                return Ok(Pause::Piece);
            }
        }
        Ok(Pause::Written)
    }

    fn write_step(
        &self,
        step: &Step,
        json: &std::result::Result<Option<Vec<u8>>, ContentFault>,
        file: &mut Exporter,
        written: &mut ExportedSteps,
    ) -> Result<()> {
        let content = match json {
            Ok(None) => RecordedContent::Absent,
            Ok(Some(json)) => ShownContent::read(json)
                .map_or(RecordedContent::Missing(ContentFault::Unreadable), RecordedContent::Shown),
            Err(fault) => RecordedContent::Missing(*fault),
        };
        if let RecordedContent::Missing(fault) = content {
            if written.content_errors < MOST_LOGGED {
                let fault = fault.as_str();
                tracing::warn!(step = step.id.0, fault, "a content is missing in an export");
            }
            written.content_errors += 1;
        }
        written.steps += 1;
        let trace = self.traces.get(&step.trace).copied();
        file.write(&Record { step, trace, content }).map_err(file_fault)
    }

    /// Has the next step written without its content, for which there is no memory.
    pub(crate) fn leave_out(&mut self) {
        if let Some((_, content)) = self.steps.front_mut() {
            *content = StoredContent::Missing(ContentFault::NoMemory);
        }
    }
}

/// Marks a step that cannot be read, and counts it.
fn write_damaged(
    step: &DamagedStep,
    error: &store::Error,
    file: &mut Exporter,
    written: &mut ExportedSteps,
) -> Result<()> {
    if written.step_errors < MOST_LOGGED {
        tracing::warn!(step = step.id.0, %error, "a step cannot be read in an export");
    }
    written.step_errors += 1;
    written.steps += 1;
    file.write_damaged(step).map_err(file_fault)
}

/// The facts of a project that exports name.
pub(crate) async fn facts(
    store: &Store,
    project: &domain::project::Project,
) -> Result<ProjectFacts> {
    let keys = read_again(|| store.key_names(project.id)).await?;
    Ok(ProjectFacts { id: project.id, name: project.name.clone(), org: project.org, keys })
}

/// A file that cannot be written is a defect of ours, unless a part of its costs is not known.
pub(crate) fn file_fault(error: export::Error) -> Error {
    match error {
        export::Error::UnknownCost(_) => Error::invalid(error.to_string()),
        _ => Error::Internal(error.to_string()),
    }
}
