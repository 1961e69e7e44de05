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
    Step(Box<Step>, Option<HeldContent>),
    Trace(Box<CompletedTrace>),
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

/// The end of the queue at which records come in, and the owner of the task that takes them. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub(crate) struct TelemetryQueue {
    waiting: mpsc::Sender<Record>,
    /// The bytes of the contents that wait or are being written.
    content_bytes: Arc<AtomicUsize>,
    /// Whether inputs and outputs are exported.
    shows_content: bool,
    /// The task that exports.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when nothing more will be recorded.
    pub(crate) closing: CancellationToken,
}

/// A queue, and the end at which records are taken.
pub(crate) fn queue(shows_content: bool) -> (TelemetryQueue, mpsc::Receiver<Record>) {
    let (waiting, records) = mpsc::channel(MOST_RECORDS);
    let queue = TelemetryQueue {
        waiting,
        content_bytes: Arc::default(),
        shows_content,
        tasks: TaskTracker::new(),
        closing: CancellationToken::new(),
    };
    (queue, records)
}

impl TelemetryQueue {
    /// Takes a step that is on disk.
    pub(crate) fn step(&self, step: Box<Step>, content: Option<SealedContent>) {
        // Which tools there were is only in the content.
        let is_wanted = self.shows_content || step.kind == StepKind::ToolCall;
        match content.filter(|_| is_wanted).map(|content| self.hold(content)) {
            None => self.add(Record::Step(step, None)),
            Some(Some(content)) => self.add(Record::Step(step, Some(content))),
            Some(None) => count(Fate::QueueFull, 1),
        }
    }

    /// Takes a trace that was completed.
    pub(crate) fn trace(&self, trace: CompletedTrace) {
        self.add(Record::Trace(Box::new(trace)));
    }

    fn add(&self, record: Record) {
        if self.waiting.try_send(record).is_err() {
            count(Fate::QueueFull, 1);
        }
    }

    /// `None` if there is no room for it.
    fn hold(&self, sealed: SealedContent) -> Option<HeldContent> {
        let bytes = sealed.size();
        let before = self.content_bytes.fetch_add(bytes, Ordering::Relaxed);
        let held = Held { bytes, all: self.content_bytes.clone() };
        let fits = before.saturating_add(bytes) <= MOST_CONTENT_BYTES;
        fits.then_some(HeldContent { sealed, _held: held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::testing::step;

    #[test]
    fn what_finds_no_room_is_dropped_at_once() {
        let (queue, mut records) = queue(false);
        let add = || queue.step(Box::new(step(StepKind::Run, None)), None);
        for _ in 0..MOST_RECORDS + 3 {
            add();
        }
        assert_eq!(records.len(), MOST_RECORDS);
        assert!(records.try_recv().is_ok());
        add();
        assert_eq!(records.len(), MOST_RECORDS);
    }
}
