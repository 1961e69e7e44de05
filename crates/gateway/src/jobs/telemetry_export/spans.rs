//! The export of spans, in batches.

use std::time::Duration;

use domain::step::{Content, Step};
use providers::CollectorBody;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::FLUSH_TIME;
use super::sender::{Sender, Sent};
use crate::gateway::Gateway;
use crate::otlp::content::Shown;
use crate::otlp::queue::{Fate, HeldContent, QueuedContent, Record, TelemetryQueue, count};
use crate::otlp::spans::{self, Omission, StepContent};
use crate::otlp::wire::{Span, TracesRequest};

/// The most spans of a request.
const MOST_BATCH_SPANS: usize = 512;
/// A request takes no further span when its contents have so many bytes: collectors refuse large ones.
const BATCH_CONTENT_BYTES: usize = 2 * 1024 * 1024;
/// The longest content that is shown, as JSON.
const MOST_CONTENT_BYTES: usize = 1024 * 1024;
/// The time for which a span waits for others.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// The most attempts to send a request.
const MOST_ATTEMPTS: u32 = 6;

pub(super) struct SpanExporter {
    gateway: Gateway,
    sender: Sender,
    waiting: mpsc::Receiver<Record>,
    closing: CancellationToken,
    /// Records that were taken and whose fate is open.
    in_hand: usize,
}

impl SpanExporter {
    pub(super) fn new(
        gateway: &Gateway,
        queue: &TelemetryQueue,
        sender: Sender,
        waiting: mpsc::Receiver<Record>,
    ) -> Self {
        let (gateway, closing) = (gateway.clone(), queue.closing.clone());
        Self { gateway, sender, waiting, closing, in_hand: 0 }
    }

    pub(super) async fn run(mut self) {
        let closing = self.closing.clone();
        let late = async {
            closing.cancelled().await;
            sleep(FLUSH_TIME).await;
        };
        tokio::select! {
            () = self.export_until_closed() => {}
            () = late => {}
        }
        // The queue counts what comes from now on.
        self.waiting.close();
        let mut left = self.in_hand;
        while self.waiting.recv().await.is_some() {
            left += 1;
        }
        if left > 0 {
            count(Fate::Stopped, left as u64);
            tracing::warn!(spans = left, "spans were not exported before the stop");
        }
    }

    async fn export_until_closed(&mut self) {
        loop {
            let records = self.gather().await;
            let is_last = self.closing.is_cancelled() && self.waiting.is_empty();
            self.export(records).await;
            if is_last {
                return;
            }
        }
    }

    /// Waits for records and takes those that come within the delay, or what is there when the gateway
    /// closes.
    async fn gather(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        let mut until = None;
        while records.len() < MOST_BATCH_SPANS {
            let room = MOST_BATCH_SPANS - records.len();
            let is_late = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = self.waiting.recv_many(&mut records, room) => {}
                () = is_late => break,
                () = self.closing.cancelled() => break,
            }
            self.in_hand = records.len();
            until.get_or_insert_with(|| Instant::now() + BATCH_DELAY);
        }
        records
    }

    /// Sends records as spans, in requests of bounded size.
    async fn export(&mut self, mut records: Vec<Record>) {
        while !records.is_empty() {
            let (gateway, sender) = (self.gateway.clone(), self.sender.clone());
            // Contents are opened and written beside the event loops.
            let written = tokio::task::spawn_blocking(move || {
                let spans = take_spans(&gateway, &mut records, sender.shows_content());
                let count = spans.len();
                let request = TracesRequest::new(sender.resource(), Sender::scope(), spans);
                (sender.body(&request), count, records)
            });
            let Ok((body, spans, rest)) = written.await else {
                // Only a defect panics.
                count(Fate::Failed, self.in_hand as u64);
                self.in_hand = 0;
                return;
            };
            records = rest;
            self.send(&body, spans as u64).await;
            self.in_hand -= spans;
        }
    }

    async fn send(&self, body: &CollectorBody, spans: u64) {
        match self.sender.send("/v1/traces", body, MOST_ATTEMPTS).await {
            Sent::Accepted { rejected } => {
                let rejected = rejected.min(spans);
                count(Fate::Rejected, rejected);
                count(Fate::Sent, spans - rejected);
            }
            Sent::Refused => count(Fate::Rejected, spans),
            Sent::Failed => count(Fate::Failed, spans),
        }
    }
}

/// Takes records from the front until a request is full, and returns their spans.
fn take_spans(gateway: &Gateway, records: &mut Vec<Record>, shows_content: bool) -> Vec<Span> {
    let mut bytes = 0;
    let mut spans = Vec::with_capacity(records.len());
    let mut rest = std::mem::take(records).into_iter();
    while bytes < BATCH_CONTENT_BYTES
        && let Some(record) = rest.next()
    {
        spans.push(match record {
            Record::Trace(trace) => trace.span(),
            Record::Step(record) => {
                let content = match record.content {
                    QueuedContent::None => StepContent::None,
                    QueuedContent::NoRoom => omitted(Omission::NoRoom, shows_content),
                    QueuedContent::Held(held) => {
                        match open(gateway, &record.step, held, shows_content) {
                            Ok((content, size)) => {
                                bytes += size;
                                content
                            }
                            Err(omission) => omitted(omission, shows_content),
                        }
                    }
                };
                spans::of_step(&record.step, content, record.is_lost)
            }
        });
    }
    records.extend(rest);
    spans
}

/// Counts a content that is left out. If none is shown, only the name of a tool is lost, and nothing is
/// counted.
fn omitted(omission: Omission, shows_content: bool) -> StepContent {
    if !shows_content {
        return StepContent::None;
    }
    let reason = omission.as_str();
    metrics::counter!("sluice_otlp_contents_omitted_total", "reason" => reason).increment(1);
    StepContent::Omitted(omission)
}

/// Opens a content, and returns its size as JSON too.
fn open(
    gateway: &Gateway,
    step: &Step,
    held: HeldContent,
    shows_content: bool,
) -> Result<(StepContent, usize), Omission> {
    // The project may have been deleted.
    let project = gateway.registry.project(step.project).ok().flatten();
    let project = project.ok_or(Omission::Unreadable)?;
    let packed = held.sealed.open_packed(&project.sealing).map_err(|_| Omission::Unreadable)?;
    let size = packed.size();
    if size > MOST_CONTENT_BYTES {
        return Err(Omission::TooLong);
    }
    let read = packed.unpack().ok().and_then(|json| serde_json::from_slice::<Content>(&json).ok());
    let content = read.ok_or(Omission::Unreadable)?;
    let shown = if shows_content { Shown::Everything } else { Shown::Names };
    Ok((StepContent::Read(Box::new(content), shown), size))
}

#[cfg(test)]
mod tests {
    use domain::model::Provider;
    use domain::step::{Call, StepKind};
    use domain::time::Timestamp;
    use serde_json::{Value, json};
    use store::SealingKey;

    use super::*;
    use crate::otlp::queue::queue;
    use crate::testing::{Fresh, step};

    #[tokio::test]
    async fn a_span_tells_why_it_shows_no_content() {
        let fresh = Fresh::with(json!({})).await;
        let key = &fresh.caller.project.sealing;
        let other = SealingKey::master(&[9; 32]).unwrap();
        let long = json!({"input": "x".repeat(MOST_CONTENT_BYTES)}).to_string();
        let run = || step(StepKind::Run, Some(Call::of("m".to_owned(), Provider::Openai)));
        let steps: Vec<(_, &[u8], _)> = vec![
            (run(), b"{\"input\":\"Hello.\"}", key),
            // The key was replaced, or the content is damaged.
            (run(), b"{\"input\":\"Hello.\"}", &other),
            (run(), b"[", key),
            (run(), long.as_bytes(), key),
        ];
        let (queue, mut waiting) = queue(true, Timestamp(0));
        for observed in fresh.observed(steps).await {
            queue.step(observed);
        }
        let mut records = Vec::new();
        while let Ok(record) = waiting.try_recv() {
            records.push(record);
        }
        let spans = take_spans(&fresh.gateway, &mut records, true);
        let shown = |span: &Span| -> (Vec<Value>, bool) {
            let attributes = serde_json::to_value(&span.attributes).unwrap();
            let values = |name: &str| -> Vec<Value> {
                let pairs = attributes.as_array().unwrap().iter();
                let pairs = pairs.filter(|pair| pair["key"] == name);
                pairs.map(|pair| pair["value"]["stringValue"].clone()).collect()
            };
            (values("sluice.content.omitted"), !values("gen_ai.input.messages").is_empty())
        };
        let shown: Vec<_> = spans.iter().map(shown).collect();
        let omitted = |word: &str| (vec![json!(word)], false);
        assert_eq!(
            shown,
            [(vec![], true), omitted("unreadable"), omitted("unreadable"), omitted("too_long")]
        );
    }
}
