//! Requests to the collector, and their repetition.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use providers::{CollectorBody, Delivery};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::config::Otlp;
use crate::otlp::wire::{Attribute, Resource, Scope};

/// The time for all attempts to send a request.
const RETRY_TIME: Duration = Duration::from_mins(1);
/// The first wait before another attempt, unless the collector asks for one; it doubles.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The result of a request.
pub(super) enum Sent {
    /// The collector took it, apart from this many spans or points.
    Accepted { rejected: u64 },
    /// It would be refused again.
    Refused,
    /// It was not taken, and there is no time left.
    Failed,
}

/// Writes and sends requests as the configuration asks. Cheap to clone.
#[derive(Clone)]
pub(super) struct Sender(Arc<Otlp>);

impl Sender {
    pub(super) fn new(otlp: Otlp) -> Self {
        Self(Arc::new(otlp))
    }

    pub(super) fn shows_content(&self) -> bool {
        self.0.content
    }

    pub(super) fn resource(&self) -> Resource {
        let given = self.0.resource.iter();
        let attributes = given.map(|(name, value)| Attribute::new(name.as_str(), value.as_str()));
        Resource { attributes: attributes.collect() }
    }

    pub(super) fn scope() -> Scope {
        Scope { name: "sluice".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// Writes a request, which takes long enough to be done beside the event loops.
    pub(super) fn body(&self, request: &(impl Message + Serialize)) -> CollectorBody {
        let Otlp { protocol, compression, .. } = *self.0;
        let (content_encoding, bytes) = compression.pack(protocol.encode(request));
        CollectorBody { content_type: protocol.content_type(), content_encoding, bytes }
    }

    /// Sends a request, again and again while that may help and there is time.
    pub(super) async fn send(&self, path: &str, body: &CollectorBody, most_attempts: u32) -> Sent {
        let Otlp { collector, protocol, .. } = &*self.0;
        let end = Instant::now() + RETRY_TIME;
        let mut wait = FIRST_WAIT;
        for attempt in 1.. {
            let (fault, asked) = match collector.post(path, body).await {
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
            // Compared so, because a collector may ask for more than a clock can count.
            let left = end.saturating_duration_since(Instant::now());
            if attempt == most_attempts || pause > left {
                tracing::warn!(path, fault, "telemetry was not taken and is lost");
                break;
            }
            wait *= 2;
            sleep(pause).await;
        }
        Sent::Failed
    }
}
