//! The queue of records that wait to be exported. Whoever records does not wait: what finds no room is
//! dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::step::{Step, StepKind};
use store::SealedContent;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::spans::CompletedTrace;

/// The most records that wait.
const MOST_RECORDS: usize = 4_096;
/// The most bytes of sealed contents that wait.
const MOST_CONTENT_BYTES: usize = 32 * 1024 * 1024;

/// The fate of a record.
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

/// A record that becomes a span.
#[derive(Debug)]
pub(crate) enum Record {
    Step(Box<Step>, Option<SealedContent>),
    Trace(Box<CompletedTrace>),
}

impl Record {
    /// The bytes of its sealed content.
    fn bytes(&self) -> usize {
        match self {
            Self::Step(_, Some(content)) => content.size(),
            Self::Step(_, None) | Self::Trace(_) => 0,
        }
    }
}

/// The end of the queue at which records come in, and the exporter's owner. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct TelemetryQueue {
    waiting: mpsc::Sender<Record>,
    bytes: Arc<AtomicUsize>,
    /// Whether inputs and outputs are exported.
    shows_content: bool,
    /// The task of the exporter.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when nothing more will be recorded.
    pub(crate) closing: CancellationToken,
}

/// The end of the queue at which records are taken.
#[derive(Debug)]
pub(crate) struct Waiting {
    records: mpsc::Receiver<Record>,
    bytes: Arc<AtomicUsize>,
}

/// A queue.
pub(crate) fn queue(shows_content: bool) -> (TelemetryQueue, Waiting) {
    let (waiting, records) = mpsc::channel(MOST_RECORDS);
    let bytes = Arc::new(AtomicUsize::new(0));
    let queue = TelemetryQueue {
        waiting,
        bytes: bytes.clone(),
        shows_content,
        tasks: TaskTracker::new(),
        closing: CancellationToken::new(),
    };
    (queue, Waiting { records, bytes })
}

impl TelemetryQueue {
    /// Takes a step that is on disk.
    pub(crate) fn step(&self, step: Box<Step>, content: Option<SealedContent>) {
        // Which tools there were is only in the content.
        let is_wanted = self.shows_content || step.kind == StepKind::ToolCall;
        self.add(Record::Step(step, content.filter(|_| is_wanted)));
    }

    /// Takes a trace that was completed.
    pub(crate) fn trace(&self, trace: CompletedTrace) {
        self.add(Record::Trace(Box::new(trace)));
    }

    fn add(&self, record: Record) {
        let bytes = record.bytes();
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_full = bytes > 0 && before.saturating_add(bytes) > MOST_CONTENT_BYTES;
        if is_full || self.waiting.try_send(record).is_err() {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            count(Fate::QueueFull, 1);
        }
    }
}

impl Waiting {
    /// Waits for records and takes at most `most` of them.
    pub(crate) async fn take(&mut self, records: &mut Vec<Record>, most: usize) {
        let known = records.len();
        self.records.recv_many(records, most).await;
        let bytes = records[known..].iter().map(Record::bytes).sum();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The number of records that wait.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }
}
