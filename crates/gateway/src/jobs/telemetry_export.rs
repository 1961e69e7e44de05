//! Sends records to a collector of OpenTelemetry: spans in batches, metrics once a minute, each in a task
//! of its own, so that neither waits for attempts of the other. They run until the gateway closes, and have
//! a bounded time then for what is left.

mod metrics;
mod sender;
mod spans;

use std::time::Duration;

use tokio::sync::mpsc;

use self::metrics::MetricsExporter;
use self::sender::Sender;
use self::spans::SpanExporter;
use crate::config::Otlp;
use crate::evidence::traces::time_ordered_id;
use crate::gateway::Gateway;
use crate::otlp::queue::Record;

/// The time for what is left when the gateway closes.
const FLUSH_TIME: Duration = Duration::from_secs(5);

/// The attribute of a resource that tells processes of one service apart.
const INSTANCE: &str = "service.instance.id";

/// Starts the exporters.
pub(crate) fn start(gateway: &Gateway, mut otlp: Otlp, waiting: mpsc::Receiver<Record>) {
    let Some(queue) = &gateway.telemetry else { return };
    let has_instance = otlp.resource.iter().any(|(name, _)| name == INSTANCE);
    if !has_instance && let Ok(id) = time_ordered_id(gateway.clock.now()) {
        otlp.resource.push((INSTANCE.to_owned(), id.to_string()));
    }
    let sender = Sender::new(otlp);
    queue.tasks.spawn(MetricsExporter::new(gateway, queue, sender.clone()).run());
    queue.tasks.spawn(SpanExporter::new(gateway, queue, sender, waiting).run());
}

/// Sends what is left, within a bounded time.
pub(crate) async fn close(gateway: &Gateway) {
    let Some(queue) = &gateway.telemetry else { return };
    queue.closing.cancel();
    queue.tasks.close();
    queue.tasks.wait().await;
}
