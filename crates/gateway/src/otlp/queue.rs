//! The queue of records that wait to be exported, and the metrics of calls. A record does not wait for room:
//! one that finds none is dropped and counted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use domain::step::{Step, StepKind};
use domain::time::Timestamp;
use store::{ObservedStep, SealedContent};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::content;
use super::metrics::CallHistograms;
use super::spans::{self, CompletedTrace};
use crate::lock::lock;

/// The most records that wait.
const MOST_RECORDS: usize = 4_096;
/// The most bytes of sealed contents that wait.
const MOST_CONTENT_BYTES: usize = 32 * 1024 * 1024;

/// The fate of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The collector has it.
    Sent,
    /// There was no room in the queue.
    QueueFull,
    /// The collector refused it.
    Rejected,
    /// The collector was not reached, or was not ready, in all attempts.
    Failed,
    /// The gateway stopped before it was sent.
    Stopped,
}

/// Counts spans by their fate.
pub(crate) fn count(fate: Fate, spans: u64) {
    let outcome = match fate {
        Fate::Sent => "sent",
        Fate::QueueFull => "queue_full",
        Fate::Rejected => "rejected",
        Fate::Failed => "failed",
        Fate::Stopped => "stopped",
    };
    if spans > 0 {
        metrics::counter!("sluice_otlp_spans_total", "outcome" => outcome).increment(spans);
    }
}

/// A record that becomes one span.
#[derive(Debug)]
pub(crate) enum Record {
    Step(StepRecord),
    Trace(Box<CompletedTrace>),
}

/// A step, and the content that its span may show.
#[derive(Debug)]
pub(crate) struct StepRecord {
    pub(crate) step: Box<Step>,
    pub(crate) content: QueuedContent,
    /// Whether its call was lost with its node.
    pub(crate) is_lost: bool,
}

/// The content of a step that waits.
#[derive(Debug)]
pub(crate) enum QueuedContent {
    /// There is none, or its span shows none.
    None,
    /// There was no room for it.
    NoRoom,
    Held(HeldContent),
}

/// The sealed content of a step, and its part of the memory for all of them.
#[derive(Debug)]
pub(crate) struct HeldContent {
    pub(crate) sealed: SealedContent,
    _held: Held,
}

/// Bytes that are held, until this is dropped.
#[derive(Debug)]
struct Held {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The end of the queue at which records come in, and the owner of the tasks that export. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub(crate) struct TelemetryQueue {
    waiting: mpsc::Sender<Record>,
    /// The bytes of the contents that wait or are being written.
    content_bytes: Arc<AtomicUsize>,
    /// Whether inputs and outputs are exported.
    shows_content: bool,
    /// The metrics of all calls, also of those whose spans find no room.
    pub(crate) metrics: Arc<Mutex<CallHistograms>>,
    /// The tasks that export.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when nothing more will be recorded.
    pub(crate) closing: CancellationToken,
}

/// A queue, and the end at which records are taken. Metrics count from a time on.
pub(crate) fn queue(
    shows_content: bool,
    since: Timestamp,
) -> (TelemetryQueue, mpsc::Receiver<Record>) {
    let (waiting, records) = mpsc::channel(MOST_RECORDS);
    let queue = TelemetryQueue {
        waiting,
        content_bytes: Arc::default(),
        shows_content,
        metrics: Arc::new(Mutex::new(CallHistograms::new(since))),
        tasks: TaskTracker::new(),
        closing: CancellationToken::new(),
    };
    (queue, records)
}

impl TelemetryQueue {
    /// Takes a step that is on disk.
    pub(crate) fn step(&self, observed: ObservedStep) {
        let ObservedStep { step, content, is_lost } = observed;
        // Neither the time nor the tokens of a lost call were measured.
        if !is_lost {
            lock(&self.metrics).record(&step);
        }
        if !spans::is_recorded(&step) {
            return;
        }
        let content = content.filter(|_| self.shows(&step));
        let content = content.map_or(QueuedContent::None, |sealed| self.hold(sealed));
        self.add(Record::Step(StepRecord { step, content, is_lost }));
    }

    /// Takes a trace that was completed.
    pub(crate) fn trace(&self, trace: CompletedTrace) {
        self.add(Record::Trace(Box::new(trace)));
    }

    /// Whether the span of a step shows anything of its content.
    fn shows(&self, step: &Step) -> bool {
        // Which tools there were is only in the content.
        step.kind == StepKind::ToolCall || self.shows_content && content::has_messages(step)
    }

    fn add(&self, record: Record) {
        match self.waiting.try_send(record) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => count(Fate::QueueFull, 1),
            Err(TrySendError::Closed(_)) => count(Fate::Stopped, 1),
        }
    }

    fn hold(&self, sealed: SealedContent) -> QueuedContent {
        let bytes = sealed.size();
        let before = self.content_bytes.fetch_add(bytes, Ordering::Relaxed);
        let held = Held { bytes, all: self.content_bytes.clone() };
        if before.saturating_add(bytes) > MOST_CONTENT_BYTES {
            return QueuedContent::NoRoom;
        }
        QueuedContent::Held(HeldContent { sealed, _held: held })
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
