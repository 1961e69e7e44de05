//! The settings that the server passes to the gateway.

use aws_lc_rs::hmac;
use counters::{Counters, Target};
use domain::settings::Perimeter;
use domain::time::Clock;
use mail::Mailer;
use providers::Collector;
use store::Store;

/// Settings of the whole installation.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses that may call, and those that may not, on every project.
    pub perimeter: Perimeter,
    /// The largest request body in bytes.
    pub max_body_bytes: usize,
    /// The memory in bytes that all request bodies may take together.
    pub max_body_memory: usize,
    /// Hosts that any model may be at, however private: names or addresses.
    pub egress_allow: Vec<String>,
    /// A pending trace that is idle for this many hours has failed, unless its project sets another
    /// time.
    pub idle_hours: u64,
    /// The address of the gateway for people, with its scheme; `None` if it is not known.
    pub public_url: Option<String>,
    /// The mail server; `None` if links are shown instead of sent.
    pub mailer: Option<Mailer>,
    /// The export of steps and traces; `None` if there is none.
    pub otlp: Option<Otlp>,
    /// The counters that all gateways share; `None` if this one counts for itself.
    pub shared_counters: Option<SharedCounters>,
}

/// Counters in Redis, and what is done without them.
#[derive(Clone, Debug)]
pub struct SharedCounters {
    /// The counters.
    pub counters: Counters,
    /// The treatment of calls under a cap or a budget while they cannot be reached.
    pub on_loss: OnCounterLoss,
}

impl SharedCounters {
    /// Finds and checks the Redis of a target. What is counted there belongs to this database alone.
    pub async fn open(
        store: &Store,
        target: Target,
        on_loss: OnCounterLoss,
        clock: &Clock,
    ) -> std::result::Result<Self, String> {
        let pepper = store.pepper().await.map_err(|error| error.to_string())?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &pepper);
        let name = hmac::sign(&key, b"counters");
        let mut first = [0; 4];
        first.copy_from_slice(&name.as_ref()[..4]);
        let installation = format!("{:08x}", u32::from_be_bytes(first));
        let settings =
            counters::Settings { target, installation, node: store.node(), clock: clock.clone() };
        let counters = Counters::open(settings).await.map_err(|unusable| unusable.to_string())?;
        Ok(Self { counters, on_loss })
    }
}

/// The treatment of calls under a cap or a budget while spend cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCounterLoss {
    /// They are refused.
    Refuse,
    /// They are held against what this gateway counts, and what the database knows of others.
    Local,
}

/// The export to a collector of OpenTelemetry.
#[derive(Clone, Debug)]
pub struct Otlp {
    /// The collector.
    pub collector: Collector,
    /// The encoding of requests.
    pub protocol: OtlpProtocol,
    /// The compression of requests.
    pub compression: OtlpCompression,
    /// Whether inputs and outputs are exported, of projects that store them.
    pub content: bool,
    /// The attributes of the process, by name.
    pub resource: Vec<(String, String)>,
}

/// The compression of requests to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpCompression {
    /// None.
    None,
    /// Gzip (RFC 1952).
    Gzip,
}

/// The encoding of requests to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// Protobuf over HTTP.
    Protobuf,
    /// JSON over HTTP.
    Json,
}
