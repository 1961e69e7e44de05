//! The run of an export: steps are read, and the file is written in sealed pieces. A run that is broken
//! off leaves pieces that nothing refers to; the next begins from the start.
//!
//! All that takes time is done on a thread of low priority: contents are opened there, rows are written, and
//! pieces are compressed and sealed.

use std::time::Duration;

use domain::job::{JobKind, Progress};
use export::Exporter;
use store::SealingKey;
use tokio::time::Instant;

use crate::bounded_read::write_again;
use crate::capacity::background_thread::BackgroundThread;
use crate::capacity::body_memory::plain_bytes;
use crate::error::{Error, Result};
use crate::export::ask::{ExportFile, Payload, place};
use crate::export::reader::{Batch, ExportedSteps, PIECE, Pause, StepReader, facts, file_fault};
use crate::job_queue::content_memory::{ContentMemory, Memory};
use crate::job_queue::job_handler::{JobHandler, JobOutcome};
use crate::job_queue::queued;
use crate::job_queue::running::RunningJob;

/// The largest file.
const MOST_BYTES: u64 = 1024 * 1024 * 1024;
/// Memory for a larger content, in bytes of JSON, is taken from that of requests.
const LARGE: usize = 256 * 1024;
/// The progress of a file that grows slowly is noted this often.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);

/// Exports of projects.
pub(crate) struct Exports;

impl JobHandler for Exports {
    const KIND: JobKind = JobKind::Export;
    const AT_ONCE: usize = 2;

    async fn run(job: &RunningJob) -> JobOutcome {
        JobOutcome::of(Self::KIND, Box::pin(write_file(job, MOST_BYTES)).await)
    }
}

/// Writes the file, of at most so many bytes. `None` if the node must not continue: a stop does not wait for
/// the database or for memory, and the next run writes a file of its own.
pub(super) async fn write_file(job: &RunningJob, most_bytes: u64) -> Result<Option<ExportFile>> {
    let written = job.gateway.winding_down.run_until_cancelled(write_pieces(job, most_bytes));
    written.await.unwrap_or(Ok(None))
}

async fn write_pieces(job: &RunningJob, most_bytes: u64) -> Result<Option<ExportFile>> {
    let gateway = &job.gateway;
    let payload: Payload = queued::payload(&job.job)?;
    let project = gateway.registry.project(job.job.project)?;
    let project = project.ok_or_else(|| Error::invalid("The project was deleted"))?;
    let selection = payload.selection();
    let mut file = Exporter::new(selection.format).map_err(file_fault)?;
    file.begin_project(facts(&gateway.store, &project.project).await?).map_err(file_fault)?;
    let mut steps = StepReader::new(&gateway.store, project.id(), selection, &project.sealing);
    let thread = BackgroundThread::start("export", &gateway.tasks, &gateway.stopping)?;
    let mut pieces = Pieces {
        job,
        thread,
        sealing: project.sealing.clone(),
        rest: Vec::new(),
        most_bytes,
        bytes: 0,
        count: 0,
        steps: ExportedSteps::default(),
        total: payload.steps,
        noted: Instant::now(),
        memory: ContentMemory::default(),
    };
    while let Some(batch) = steps.next().await? {
        file = match pieces.write(file, batch).await? {
            Some(file) => file,
            None => return Ok(None),
        };
    }
    pieces.finish(file).await
}

/// The pieces of a file that is written.
struct Pieces<'j> {
    job: &'j RunningJob,
    thread: BackgroundThread,
    /// The key that seals them.
    sealing: SealingKey,
    /// The bytes that do not fill a piece yet.
    rest: Vec<u8>,
    /// The largest file.
    most_bytes: u64,
    /// The bytes of the file.
    bytes: u64,
    /// The pieces that are stored.
    count: u64,
    /// The steps of the file.
    steps: ExportedSteps,
    /// The steps that were counted.
    total: u64,
    noted: Instant,
    memory: ContentMemory,
}

impl Pieces<'_> {
    /// Writes a batch into the file, and stores the pieces that it fills. `None` if the node must not
    /// continue.
    async fn write(&mut self, mut file: Exporter, mut batch: Batch) -> Result<Option<Exporter>> {
        let (mut most, mut held) = (LARGE, None);
        loop {
            let mut written = self.steps;
            let writing = self.thread.run(move || {
                let pause = batch.write(&mut file, most, &mut written)?;
                let bytes = file.take().map_err(file_fault)?;
                Ok::<_, Error>((file, batch, written, pause, bytes))
            });
            let (pause, bytes);
            (file, batch, self.steps, pause, bytes) = writing.await??;
            if !self.add(bytes).await? {
                return Ok(None);
            }
            // The bytes of a large content are stored.
            drop(held.take());
            most = LARGE;
            match pause {
                Pause::Written => return Ok(Some(file)),
                Pause::Piece => {}
                Pause::Large(size) => {
                    let mut charge = self.job.empty_charge().await?;
                    match self.memory.raise(self.job, &mut charge, plain_bytes(size)).await? {
                        Memory::Taken => (most, held) = (size, Some(charge)),
                        Memory::Missing => batch.leave_out(),
                        Memory::Stop => return Ok(None),
                    }
                }
            }
        }
    }

    /// Ends the file. `None` if the node must not continue.
    async fn finish(mut self, file: Exporter) -> Result<Option<ExportFile>> {
        // The last row group is encoded here.
        let end = self.thread.run(move || file.finish()).await?.map_err(file_fault)?;
        // A file has one piece at least.
        let is_whole = self.add(end).await?
            && ((self.rest.is_empty() && self.count > 0) || self.store_piece(0).await?);
        if !is_whole {
            return Ok(None);
        }
        let ExportedSteps { steps, content_errors, step_errors } = self.steps;
        if content_errors > 0 {
            let job = self.job.job.id;
            tracing::warn!(%job, contents = content_errors, "an export lacks contents");
        }
        if step_errors > 0 {
            let job = self.job.job.id;
            tracing::warn!(%job, steps = step_errors, "an export has steps that cannot be read");
        }
        let (bytes, pieces) = (self.bytes, self.count);
        Ok(Some(ExportFile { steps, bytes, pieces, content_errors, step_errors }))
    }

    /// Adds bytes to the file, and notes its progress. False if the node must not continue.
    async fn add(&mut self, bytes: Vec<u8>) -> Result<bool> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.most_bytes {
            return Err(Error::invalid(
                "The file would be larger than 1 GiB: choose a shorter time, leave contents out, or use `sluice export`",
            ));
        }
        if self.rest.is_empty() {
            // Without a copy: a content may be large.
            self.rest = bytes;
        } else {
            self.rest.extend_from_slice(&bytes);
        }
        let mut stored = 0;
        while self.rest.len() - stored >= PIECE {
            if !self.store_piece(stored).await? {
                return Ok(false);
            }
            stored += PIECE;
        }
        self.rest.drain(..stored);
        self.rest.shrink_to(PIECE);
        if self.noted.elapsed() < NOTE_INTERVAL {
            return Ok(true);
        }
        self.noted = Instant::now();
        self.job.checkpoint(self.progress()).await
    }

    /// Stores the piece that begins at a place of the rest. False if the node must not continue.
    async fn store_piece(&mut self, begin: usize) -> Result<bool> {
        let RunningJob { gateway, job } = self.job;
        let (number, sealing) = (self.count, self.sealing.clone());
        let (place, rest) = (place(job.id, job.runs, number), std::mem::take(&mut self.rest));
        let sealing = self.thread.run(move || {
            let end = rest.len().min(begin + PIECE);
            let sealed = sealing.seal_content(&place, &rest[begin..end])?;
            Ok::<_, Error>((rest, sealed))
        });
        let sealed;
        (self.rest, sealed) = sealing.await??;
        self.count += 1;
        self.noted = Instant::now();
        let progress = self.progress();
        self.job.note(progress);
        write_again(|| gateway.store.add_export_piece(job, number, &sealed, progress)).await
    }

    fn progress(&self) -> Progress {
        // Steps that were recorded since the count are written too.
        Progress { done: self.steps.steps, total: self.total.max(self.steps.steps) }
    }
}
