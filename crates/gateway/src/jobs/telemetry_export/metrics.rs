//! The export of metrics: once a minute, and when the gateway closes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::time::Clock;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;

use super::FLUSH_TIME;
use super::sender::Sender;
use crate::gateway::Gateway;
use crate::lock::lock;
use crate::otlp::metrics::CallHistograms;
use crate::otlp::queue::TelemetryQueue;
use crate::otlp::wire::MetricsRequest;

/// The time between two exports.
const INTERVAL: Duration = Duration::from_mins(1);

pub(super) struct MetricsExporter {
    clock: Clock,
    metrics: Arc<Mutex<CallHistograms>>,
    sender: Sender,
    closing: CancellationToken,
}

impl MetricsExporter {
    pub(super) fn new(gateway: &Gateway, queue: &TelemetryQueue, sender: Sender) -> Self {
        let (clock, metrics) = (gateway.clock.clone(), queue.metrics.clone());
        Self { clock, metrics, sender, closing: queue.closing.clone() }
    }

    pub(super) async fn run(self) {
        let mut due = interval_at(Instant::now() + INTERVAL, INTERVAL);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let regular = async {
            loop {
                due.tick().await;
                self.export().await;
            }
        };
        // An export that is under way at the end is given up: the last one has all that it has.
        self.closing.run_until_cancelled(regular).await;
        if timeout(FLUSH_TIME, self.export()).await.is_err() {
            tracing::warn!("metrics were not exported before the stop");
        }
    }

    /// Sends the metrics, once: they count from the start of the process, and what one request loses is
    /// in the next.
    async fn export(&self) {
        let (metrics, sender, now) = (self.metrics.clone(), self.sender.clone(), self.clock.now());
        let written = tokio::task::spawn_blocking(move || {
            // Copied, so that no step that is recorded meanwhile waits until all is written.
            let metrics = lock(&metrics).clone();
            let metrics = metrics.metrics(now);
            (!metrics.is_empty()).then(|| {
                let request = MetricsRequest::new(sender.resource(), Sender::scope(), metrics);
                sender.body(&request)
            })
        });
        // Only a defect panics.
        if let Ok(Some(body)) = written.await {
            self.sender.send("/v1/metrics", &body, 1).await;
        }
    }
}
