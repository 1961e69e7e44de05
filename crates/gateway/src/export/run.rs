//! The run of an export: steps are read, and the file is written in sealed pieces. A run that is broken
//! off leaves pieces that nothing refers to; the next begins from the start.

use std::time::Duration;

use domain::job::{JobKind, Progress};
use export::Exporter;
use tokio::time::Instant;

use crate::capacity::offload::hand_over;
use crate::error::{Error, Result};
use crate::export::ask::{ExportFile, Payload, place};
use crate::export::reader::{StepReader, facts, file_fault};
use crate::job_queue::job_handler::{JobHandler, JobOutcome};
use crate::job_queue::queued;
use crate::job_queue::running::RunningJob;
use crate::state::registry::ProjectState;

/// Bytes of a piece, before it is compressed.
const PIECE: usize = 256 * 1024;
/// The largest file.
const MOST_BYTES: u64 = 1024 * 1024 * 1024;
/// The progress of a file that grows slowly is noted this often.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

/// Exports of projects.
pub(crate) struct Exports;

impl JobHandler for Exports {
    const KIND: JobKind = JobKind::Export;
    const AT_ONCE: usize = 2;

    async fn run(job: &RunningJob) -> JobOutcome {
        JobOutcome::of(Self::KIND, write_file(job).await)
    }
}

/// Writes the file. `None` if the node must not continue.
async fn write_file(job: &RunningJob) -> Result<Option<ExportFile>> {
    let gateway = &job.gateway;
    let payload: Payload = queued::payload(&job.job)?;
    let project = gateway.registry.project(job.job.project)?;
    let project = project.ok_or_else(|| Error::invalid("The project was deleted"))?;
    let selection = payload.selection();
    let mut file = Exporter::new(selection.format).map_err(file_fault)?;
    file.begin_project(facts(&gateway.store, &project.project).await?).map_err(file_fault)?;
    let mut steps = StepReader::new(&gateway.store, project.id(), selection, &project.sealing);
    let mut pieces = Pieces::new(job, &project, payload.steps);
    loop {
        let count = steps.write_next(&mut file).await?;
        if count == 0 {
            break;
        }
        pieces.file.steps += count as u64;
        if !pieces.add(file.take().map_err(file_fault)?).await? {
            return Ok(None);
        }
    }
    // The last row group is encoded here.
    let end = hand_over(PIECE, || file.finish()).map_err(file_fault)?;
    let ended = pieces.add(end).await? && pieces.end().await?;
    Ok(ended.then_some(pieces.file))
}

/// The pieces of a file that is written.
struct Pieces<'j> {
    job: &'j RunningJob,
    project: &'j ProjectState,
    /// The bytes that do not fill a piece yet.
    rest: Vec<u8>,
    file: ExportFile,
    /// The steps that were counted.
    total: u64,
    noted: Instant,
}

impl<'j> Pieces<'j> {
    fn new(job: &'j RunningJob, project: &'j ProjectState, total: u64) -> Self {
        let file = ExportFile { steps: 0, bytes: 0, pieces: 0 };
        Self { job, project, rest: Vec::new(), file, total, noted: Instant::now() }
    }

    /// Adds bytes to the file, and notes its progress. False if the node must not continue.
    async fn add(&mut self, bytes: Vec<u8>) -> Result<bool> {
        self.file.bytes += bytes.len() as u64;
        if self.file.bytes > MOST_BYTES {
            return Err(Error::invalid(
                "The file would be larger than 1 GiB: choose a shorter time, leave contents out, or use `sluice export`",
            ));
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(&bytes);
        let mut whole = rest.chunks_exact(PIECE);
        for piece in &mut whole {
            if !self.write(piece).await? {
                return Ok(false);
            }
        }
        self.rest = whole.remainder().to_vec();
        if self.noted.elapsed() < NOTE_INTERVAL {
            return Ok(!self.job.gateway.winding_down.is_cancelled());
        }
        self.noted = Instant::now();
        self.job.checkpoint(self.progress()).await
    }

    /// Writes the last piece. A file has one piece at least.
    async fn end(&mut self) -> Result<bool> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() && self.file.pieces > 0 {
            return Ok(true);
        }
        self.write(&rest).await
    }

    async fn write(&mut self, piece: &[u8]) -> Result<bool> {
        let RunningJob { gateway, job } = self.job;
        if gateway.winding_down.is_cancelled() {
            return Ok(false);
        }
        let number = self.file.pieces;
        let sealed = self.project.sealing.seal_content(&place(job.id, job.runs, number), piece)?;
        self.file.pieces += 1;
        self.noted = Instant::now();
        Ok(gateway.store.add_export_piece(job, number, sealed, self.progress()).await?)
    }

    fn progress(&self) -> Progress {
        // Steps that were recorded since the count are written too.
        Progress { done: self.file.steps, total: self.total.max(self.file.steps) }
    }
}
