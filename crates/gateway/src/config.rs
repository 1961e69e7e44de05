//! The settings that the server passes to the gateway.

use domain::settings::Perimeter;
use mail::Mailer;
use providers::Collector;

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
