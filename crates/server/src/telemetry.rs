//! Logs and metrics. Neither ever holds a secret, a prompt or a query string.

use std::fmt;
use std::io::IsTerminal as _;

use metrics::Unit;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer, format};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::commands::Failure;
use crate::config;

/// Buckets of every histogram, in seconds: from a tenth of a millisecond to five minutes.
const SECONDS: [f64; 16] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0,
    60.0, 300.0,
];

/// Reads a level, or levels by crate: `warn`, `info,store=debug`. Without a level of their own, crates
/// have none if only crates are named.
pub(crate) fn filter(text: &str) -> Result<Targets, config::Error> {
    let wrong = |part: &str| {
        let message = format!("log is '{text}', which is no level or filter: '{part}' is wrong");
        config::Error(message)
    };
    let mut filter = Targets::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (target, level) = match part.split_once('=') {
            Some((target, level)) => (Some(target), level),
            None => (None, part),
        };
        // An empty one would be read as an error's.
        if level.is_empty() {
            return Err(wrong(part));
        }
        let level: LevelFilter = level.parse().map_err(|_| wrong(part))?;
        let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-');
        filter = match target {
            None => filter.with_default(level),
            Some(target) if !target.is_empty() && target.chars().all(is_path) => {
                filter.with_target(target, level)
            }
            Some(_) => return Err(wrong(part)),
        };
    }
    Ok(filter)
}

/// Starts logging to the standard error output: for people on a terminal, as JSON elsewhere.
pub(crate) fn start_logs(text: &str) -> Result<(), Failure> {
    // The MCP library logs the messages of servers, at every level.
    let filter = filter(text)?.with_target("rmcp", LevelFilter::OFF);
    // A line that cannot be written is lost in silence: a report of that would panic for the same reason.
    let logs = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let started = if std::io::stderr().is_terminal() {
        let lines = logs.event_format(WithRequest(format().with_ansi(true)));
        tracing_subscriber::registry().with(lines).with(filter).try_init()
    } else {
        let lines = WithRequest(format().json().flatten_event(true));
        let lines = logs.json().event_format(lines);
        tracing_subscriber::registry().with(lines).with(filter).try_init()
    };
    started.map_err(|error| Failure(format!("logging cannot start: {error}")))
}

/// A format of log lines that adds the id of their request.
struct WithRequest<F>(F);

impl<S, N, F> FormatEvent<S, N> for WithRequest<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(id) = gateway::request_id::current() else {
            return self.0.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let line = line.trim_end_matches('\n');
        // The request log accepts no id that would have to be escaped.
        match line.strip_suffix('}').filter(|_| line.starts_with('{')) {
            Some(open) => writeln!(writer, "{open},\"request_id\":\"{id}\"}}"),
            None => writeln!(writer, "{line} request_id={id}"),
        }
    }
}

/// The kind of a metric, with its unit if the recorder has one for it.
#[derive(Clone, Copy)]
enum Kind {
    Counter(Unit),
    Gauge(Unit),
    Histogram(Unit),
}

/// Every metric that any crate records, with the text that goes with it.
const METRICS: [(&str, Kind, &str); 34] = [
    (
        "sluice_counters_up",
        Kind::Gauge(Unit::Count),
        "Whether every Redis server of the shared counters answers.",
    ),
    (
        "sluice_counter_decisions_total",
        Kind::Counter(Unit::Count),
        "Decisions asked of the shared counters, by function and outcome (made, lost, away).",
    ),
    (
        "sluice_counter_seconds",
        Kind::Histogram(Unit::Seconds),
        "Time of each decision of the shared counters, by function.",
    ),
    (
        "sluice_counter_rebuilds_total",
        Kind::Counter(Unit::Count),
        "Projects whose shared counters were rebuilt from the database.",
    ),
    ("sluice_requests_total", Kind::Counter(Unit::Count), "Requests, by route and status."),
    (
        "sluice_request_seconds",
        Kind::Histogram(Unit::Seconds),
        "Time to the head of the answer, by route.",
    ),
    (
        "sluice_upstream_seconds",
        Kind::Histogram(Unit::Seconds),
        "Time of each attempt on a model; of a stream, the time to its first word.",
    ),
    (
        "sluice_upstream_failures_total",
        Kind::Counter(Unit::Count),
        "Attempts on a model and streams of it that failed, by reason.",
    ),
    (
        "sluice_tokens_total",
        Kind::Counter(Unit::Count),
        "Tokens of all calls, by kind; each token is of one kind.",
    ),
    (
        "sluice_cost_nanodollars_total",
        Kind::Counter(Unit::Count),
        "Cost of all calls in billionths of a dollar, by the kind of token that it is for.",
    ),
    (
        "sluice_endpoint_calls_total",
        Kind::Counter(Unit::Count),
        "Attempts at each endpoint of a model that has several, by outcome.",
    ),
    (
        "sluice_first_token_seconds",
        Kind::Histogram(Unit::Seconds),
        "Time to the first text of a stream.",
    ),
    (
        "sluice_blocked_total",
        Kind::Counter(Unit::Count),
        "Requests refused by safety or routing, by reason.",
    ),
    (
        "sluice_shadow_calls_total",
        Kind::Counter(Unit::Count),
        "Shadow calls, made or left out, by outcome.",
    ),
    (
        "sluice_spend_nanodollars_total",
        Kind::Counter(Unit::Count),
        "Money spent, in billionths of a dollar, by project.",
    ),
    ("sluice_commit_seconds", Kind::Histogram(Unit::Seconds), "Time of each commit of the writer."),
    (
        "sluice_writer_queue_depth",
        Kind::Gauge(Unit::Count),
        "Writes that wait behind the latest commit.",
    ),
    (
        "sluice_perimeter_blocks_total",
        Kind::Counter(Unit::Count),
        "Requests with a refused key or token, or from a blocked address.",
    ),
    (
        "sluice_slow_connections_total",
        Kind::Counter(Unit::Count),
        "Connections closed because their client took too long.",
    ),
    (
        "sluice_clock_steps_total",
        Kind::Counter(Unit::Count),
        "Steps of the machine's clock by more than a minute, by direction; waking from suspend or a pause counts.",
    ),
    (
        "sluice_body_memory_bytes",
        Kind::Gauge(Unit::Bytes),
        "Memory that request bodies hold, in bytes.",
    ),
    (
        "sluice_replay_memory_bytes",
        Kind::Gauge(Unit::Bytes),
        "Memory that kept answers on their way to their callers hold, in bytes.",
    ),
    (
        "sluice_bodies_refused_total",
        Kind::Counter(Unit::Count),
        "Requests refused with 503 for want of memory for their bodies.",
    ),
    (
        "sluice_texts_abandoned_total",
        Kind::Counter(Unit::Count),
        "Long texts whose caller hung up while they were judged.",
    ),
    (
        "sluice_idempotent_requests_total",
        Kind::Counter(Unit::Count),
        "Requests with an Idempotency-Key, by outcome.",
    ),
    (
        "sluice_jobs_waiting",
        Kind::Gauge(Unit::Count),
        "Jobs that wait for a node, of all nodes, by kind.",
    ),
    ("sluice_jobs_running", Kind::Gauge(Unit::Count), "Jobs that this node runs, by kind."),
    (
        "sluice_jobs_parts_done",
        Kind::Gauge(Unit::Count),
        "Parts of the jobs that this node runs that are done, by kind.",
    ),
    (
        "sluice_jobs_parts",
        Kind::Gauge(Unit::Count),
        "All parts of the jobs that this node runs, by kind.",
    ),
    (
        "sluice_jobs_finished_total",
        Kind::Counter(Unit::Count),
        "Jobs that have come to their end, by kind and outcome.",
    ),
    (
        "sluice_letters_total",
        Kind::Counter(Unit::Count),
        "Letters that the mail server took, and those that it did not take, by outcome.",
    ),
    (
        "sluice_otlp_spans_total",
        Kind::Counter(Unit::Count),
        "Spans for the collector of OpenTelemetry, by outcome.",
    ),
    (
        "sluice_otlp_contents_omitted_total",
        Kind::Counter(Unit::Count),
        "Contents that spans leave out although they would be shown, by reason.",
    ),
    (
        "sluice_dropped_total",
        Kind::Counter(Unit::Count),
        "Work that was lost, by kind; it should stay 0.",
    ),
];

/// Starts recording metrics; the handle renders them.
pub(crate) fn start_metrics() -> Result<PrometheusHandle, Failure> {
    let started = PrometheusBuilder::new()
        .set_buckets(&SECONDS)
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(|error| Failure(format!("metrics cannot start: {error}")))?;
    for (name, kind, help) in METRICS {
        match kind {
            Kind::Counter(unit) => metrics::describe_counter!(name, unit, help),
            Kind::Gauge(unit) => metrics::describe_gauge!(name, unit, help),
            Kind::Histogram(unit) => metrics::describe_histogram!(name, unit, help),
        }
    }
    Ok(started)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    #[test]
    fn levels_are_read_and_what_is_none_is_refused() {
        use tracing::Level;

        for (text, gateway, store) in [
            ("info", Level::INFO, Level::INFO),
            ("WARN,", Level::WARN, Level::WARN),
            ("info, store=debug", Level::INFO, Level::DEBUG),
            ("store::writer=trace,error", Level::ERROR, Level::ERROR),
        ] {
            let filter = filter(text).unwrap();
            for (target, most) in [("gateway", gateway), ("store", store)] {
                assert!(filter.would_enable(target, &most), "{text}: {target}");
                let more = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
                let more = more.iter().find(|level| **level > most);
                assert!(more.is_none_or(|more| !filter.would_enable(target, more)), "{text}");
            }
        }
        assert!(!filter("off").unwrap().would_enable("gateway", &Level::ERROR));
        for wrong in ["\"info\"", "inof", "store=", "=debug", "store[call]=debug", "[{a}]=debug"] {
            assert!(filter(wrong).is_err(), "{wrong}");
        }
    }

    /// The names in `counter!`, `gauge!` and `histogram!` of all crates, with their kinds.
    fn recorded(folder: &Path, found: &mut BTreeMap<String, &'static str>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                recorded(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                for kind in ["counter", "gauge", "histogram"] {
                    for (at, call) in text.match_indices(&format!("metrics::{kind}!(")) {
                        let rest = text[at + call.len()..].trim_start();
                        let name = rest.strip_prefix('"').and_then(|rest| rest.split('"').next());
                        let name = name.unwrap_or_else(|| panic!("{}: {rest:.40}", path.display()));
                        found.insert(name.to_owned(), kind);
                    }
                }
            }
        }
    }

    #[test]
    fn every_metric_is_described_once_and_documented() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(root.join("crates")).unwrap() {
            recorded(&entry.unwrap().path().join("src"), &mut found);
        }
        let described: BTreeMap<_, _> = METRICS
            .iter()
            .map(|(name, kind, help)| {
                assert!(help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
                let kind = match kind {
                    Kind::Counter(_) => "counter",
                    Kind::Gauge(_) => "gauge",
                    Kind::Histogram(_) => "histogram",
                };
                ((*name).to_owned(), kind)
            })
            .collect();
        assert_eq!(described.len(), METRICS.len(), "one is described twice");
        assert_eq!(described, found, "METRICS lists what is recorded");
        let manual = std::fs::read_to_string(root.join("docs/operations.md")).unwrap();
        for name in described.keys() {
            assert!(
                manual.contains(&format!("| `{name}` |")),
                "{name} is not in docs/operations.md"
            );
        }
    }
}
