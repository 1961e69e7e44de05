//! Logs and metrics. Neither ever holds a secret, a prompt or a query string.

use std::fmt;
use std::io::IsTerminal as _;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer, format};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::commands::Failure;
use crate::config;

/// Buckets of every histogram, in seconds: from a tenth of a millisecond to five minutes.
const SECONDS: [f64; 16] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0,
    60.0, 300.0,
];

/// Reads a level or a filter.
pub(crate) fn filter(text: &str) -> Result<EnvFilter, config::Error> {
    EnvFilter::try_new(text).map_err(|error| {
        config::Error(format!("log is '{text}', which is no level or filter: {error}"))
    })
}

/// Starts logging to the standard error output: for people on a terminal, as JSON elsewhere.
pub(crate) fn start_logs(text: &str) -> Result<(), Failure> {
    let filter = filter(text)?;
    // The MCP library logs what servers say, at every level.
    let quiet = "rmcp=off".parse().map_err(|error| Failure(format!("{error}")))?;
    let filter = filter.add_directive(quiet);
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if std::io::stderr().is_terminal() {
        logs.event_format(WithRequest(format().with_ansi(true))).finish().try_init()
    } else {
        let lines = WithRequest(format().json().flatten_event(true));
        logs.json().event_format(lines).finish().try_init()
    };
    started.map_err(|error| Failure(format!("logging cannot start: {error}")))
}

/// A format of lines to which the id of the request is added that they are about.
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
        // The edge lets through no id that would have to be escaped.
        match line.strip_suffix('}').filter(|_| line.starts_with('{')) {
            Some(open) => writeln!(writer, "{open},\"request_id\":\"{id}\"}}"),
            None => writeln!(writer, "{line} request_id={id}"),
        }
    }
}

/// Starts recording metrics; the handle renders them.
pub(crate) fn start_metrics() -> Result<PrometheusHandle, Failure> {
    PrometheusBuilder::new()
        .set_buckets(&SECONDS)
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(|error| Failure(format!("metrics cannot start: {error}")))
}
