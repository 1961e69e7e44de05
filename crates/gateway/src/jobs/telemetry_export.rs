//! Sends records to a collector of OpenTelemetry: spans in batches, metrics once a minute. It runs until
//! the gateway closes, and has a bounded time then for what still waits.

use std::time::Duration;

use domain::step::{Content, Step};
use providers::Delivery;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::config::Otlp;
use crate::evidence::traces::time_ordered_id;
use crate::gateway::Gateway;
use crate::otlp::content::Shown;
use crate::otlp::metrics::CallHistograms;
use crate::otlp::queue::{Fate, HeldContent, Record, count};
use crate::otlp::spans::{self, StepContent};
use crate::otlp::wire::{Attribute, MetricsRequest, Resource, Scope, Span, TracesRequest};

/// The most spans of a request.
const MOST_BATCH_SPANS: usize = 512;
/// A request takes no further span when its contents have so many bytes: collectors refuse large ones.
const BATCH_CONTENT_BYTES: usize = 2 * 1024 * 1024;
/// The longest content that is shown, as JSON.
const MOST_CONTENT_BYTES: usize = 1024 * 1024;
/// The time for which a span waits for others.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// The time between two exports of metrics.
const METRICS_INTERVAL: Duration = Duration::from_mins(1);
/// The time for all attempts to send spans, and the most of them.
const RETRY_TIME: Duration = Duration::from_mins(1);
const MOST_ATTEMPTS: u32 = 6;
/// The first wait before another attempt, without a word of the collector; it doubles.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The time for what waits when the gateway closes.
const FLUSH_TIME: Duration = Duration::from_secs(5);

/// The attribute of a resource that tells processes of one service apart.
const INSTANCE: &str = "service.instance.id";

/// Starts the exporter.
pub(crate) fn start(gateway: &Gateway, mut otlp: Otlp, waiting: mpsc::Receiver<Record>) {
    let Some(queue) = &gateway.telemetry else { return };
    let has_instance = otlp.resource.iter().any(|(name, _)| name == INSTANCE);
    if !has_instance && let Ok(id) = time_ordered_id(gateway.clock.now()) {
        otlp.resource.push((INSTANCE.to_owned(), id.to_string()));
    }
    let exporter = Exporter {
        gateway: gateway.clone(),
        metrics: CallHistograms::new(gateway.clock.now()),
        closing: queue.closing.clone(),
        otlp,
        waiting,
        metrics_due: Instant::now() + METRICS_INTERVAL,
        in_hand: 0,
    };
    queue.tasks.spawn(exporter.run());
}

/// Sends what waits, within a bounded time.
pub(crate) async fn close(gateway: &Gateway) {
    let Some(queue) = &gateway.telemetry else { return };
    queue.closing.cancel();
    queue.tasks.close();
    queue.tasks.wait().await;
}

struct Exporter {
    gateway: Gateway,
    otlp: Otlp,
    waiting: mpsc::Receiver<Record>,
    metrics: CallHistograms,
    metrics_due: Instant,
    closing: CancellationToken,
    /// Records that were taken and whose fate is open.
    in_hand: usize,
}

impl Exporter {
    async fn run(mut self) {
        let closing = self.closing.clone();
        let late = async {
            closing.cancelled().await;
            sleep(FLUSH_TIME).await;
        };
        tokio::select! {
            () = self.export_until_closed() => {}
            () = late => {}
        }
        let left = self.in_hand + self.waiting.len();
        if left > 0 {
            count(Fate::Stopped, left as u64);
            tracing::warn!(spans = left, "spans were not exported before the stop");
        }
    }

    async fn export_until_closed(&mut self) {
        loop {
            let records = self.gather().await;
            let is_last = self.closing.is_cancelled() && self.waiting.is_empty();
            self.in_hand = records.len();
            for record in &records {
                if let Record::Step(step, _) = record {
                    self.metrics.record(step);
                }
            }
            self.export_spans(records).await;
            if is_last || Instant::now() >= self.metrics_due {
                self.metrics_due = Instant::now() + METRICS_INTERVAL;
                self.export_metrics().await;
            }
            if is_last {
                return;
            }
        }
    }

    /// Waits for records and takes those that come within the delay, or what is there when the gateway
    /// closes.
    async fn gather(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        let mut until = self.metrics_due;
        while records.len() < MOST_BATCH_SPANS {
            let room = MOST_BATCH_SPANS - records.len();
            let is_first = records.is_empty();
            tokio::select! {
                biased;
                _ = self.waiting.recv_many(&mut records, room) => {}
                () = sleep_until(until) => break,
                () = self.closing.cancelled() => break,
            }
            if is_first {
                until = Instant::now() + BATCH_DELAY;
            }
        }
        records
    }

    /// Sends records as spans, in requests of bounded size.
    async fn export_spans(&mut self, mut records: Vec<Record>) {
        while !records.is_empty() {
            let gateway = self.gateway.clone();
            let Otlp { protocol, content: shown, .. } = self.otlp;
            let (resource, scope) = (resource(&self.otlp), scope());
            // Contents are opened and written beside the event loops.
            let written = tokio::task::spawn_blocking(move || {
                let before = records.len();
                let spans = take_spans(&gateway, &mut records, shown);
                let (taken, count) = (before - records.len(), spans.len() as u64);
                let request = TracesRequest::new(resource, scope, spans);
                (protocol.encode(&request), count, taken, records)
            });
            let Ok((body, spans, taken, rest)) = written.await else {
                // Only a defect panics.
                return count(Fate::Failed, self.in_hand as u64);
            };
            records = rest;
            if spans > 0 {
                self.send_spans(body, spans).await;
            }
            self.in_hand -= taken;
        }
    }

    async fn send_spans(&self, body: Vec<u8>, spans: u64) {
        match self.send("/v1/traces", body, MOST_ATTEMPTS).await {
            Sent::Accepted { rejected } => {
                let rejected = rejected.min(spans);
                count(Fate::Rejected, rejected);
                count(Fate::Sent, spans - rejected);
            }
            Sent::Refused => count(Fate::Rejected, spans),
            Sent::Failed => count(Fate::Failed, spans),
        }
    }

    /// Sends the metrics, once: they count from the start of the process, and what one request loses is
    /// in the next.
    async fn export_metrics(&self) {
        let metrics = self.metrics.metrics(self.gateway.clock.now());
        if !metrics.is_empty() {
            let request = MetricsRequest::new(resource(&self.otlp), scope(), metrics);
            self.send("/v1/metrics", self.otlp.protocol.encode(&request), 1).await;
        }
    }

    /// Sends a request, again and again while that may help and there is time.
    async fn send(&self, path: &str, body: Vec<u8>, most_attempts: u32) -> Sent {
        let Otlp { collector, protocol, .. } = &self.otlp;
        let end = Instant::now() + RETRY_TIME;
        let mut wait = FIRST_WAIT;
        for attempt in 1.. {
            let delivery = collector.post(path, protocol.content_type(), body.clone()).await;
            let (fault, asked) = match delivery {
                Delivery::Taken(answer) => {
                    let (rejected, message) = protocol.rejected(&answer);
                    if rejected > 0 {
                        tracing::warn!(
                            path,
                            rejected,
                            message,
                            "a part of the telemetry was rejected"
                        );
                    }
                    return Sent::Accepted { rejected };
                }
                Delivery::Refused(fault) => {
                    tracing::warn!(path, fault, "telemetry was rejected");
                    return Sent::Refused;
                }
                Delivery::Again { fault, wait } => (fault, wait),
            };
            let pause = asked.unwrap_or(wait).max(FIRST_WAIT);
            if attempt == most_attempts || Instant::now() + pause > end {
                tracing::warn!(path, fault, "telemetry was not taken and is lost");
                break;
            }
            wait *= 2;
            sleep(pause).await;
        }
        Sent::Failed
    }
}

/// The result of a request.
enum Sent {
    /// The collector took it, apart from this many spans or points.
    Accepted { rejected: u64 },
    /// It would be refused again.
    Refused,
    /// It was not taken, and there is no time left.
    Failed,
}

/// Takes records from the front until a request is full, and returns the spans of those that have one.
fn take_spans(gateway: &Gateway, records: &mut Vec<Record>, shows_content: bool) -> Vec<Span> {
    let mut bytes = 0;
    let mut spans = Vec::with_capacity(records.len());
    let mut rest = std::mem::take(records).into_iter();
    while bytes < BATCH_CONTENT_BYTES
        && let Some(record) = rest.next()
    {
        let span = match record {
            Record::Trace(trace) => trace.span(),
            Record::Step(step, held) => {
                let content = held.map_or(StepContent::Unknown, |held| {
                    let (content, size) = open(gateway, &step, held, shows_content);
                    bytes += size;
                    content
                });
                spans::of_step(&step, content)
            }
        };
        spans.extend(span);
    }
    records.extend(rest);
    spans
}

/// Opens a content, and returns its size as JSON too.
fn open(
    gateway: &Gateway,
    step: &Step,
    held: HeldContent,
    shows_content: bool,
) -> (StepContent, usize) {
    // The project may have been deleted.
    let Ok(Some(project)) = gateway.registry.project(step.project) else {
        return (StepContent::Unknown, 0);
    };
    let Ok(packed) = held.sealed.open_packed(&project.sealing) else {
        return (StepContent::Unknown, 0);
    };
    let size = packed.size();
    if size > MOST_CONTENT_BYTES {
        return (StepContent::TooLong, 0);
    }
    let read = packed.unpack().ok().and_then(|json| serde_json::from_slice::<Content>(&json).ok());
    let shown = if shows_content { Shown::Everything } else { Shown::Names };
    let unknown = (StepContent::Unknown, 0);
    read.map_or(unknown, |content| (StepContent::Read(Box::new(content), shown), size))
}

fn resource(otlp: &Otlp) -> Resource {
    let attributes =
        otlp.resource.iter().map(|(name, value)| Attribute::new(name.as_str(), value.as_str()));
    Resource { attributes: attributes.collect() }
}

fn scope() -> Scope {
    Scope { name: "sluice".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}
