//! The metrics of calls: tokens and durations as histograms that count from the start of the process.

use domain::step::{Step, StepKind};
use domain::time::{SECOND, Timestamp};
use indexmap::{Equivalent, IndexMap};

use super::names;
use super::spans::{error_type, operation, provider_name};
use super::wire::{Attribute, HistogramPoint, Metric, nanos};

/// The most series of one metric. Calls of further models count together in one more.
const MOST_SERIES: usize = 1_000;

/// The boundaries that the conventions set, in tokens.
const TOKEN_BOUNDS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];
/// The boundaries that the conventions set, in seconds.
const SECOND_BOUNDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// The metrics of all calls since a moment.
#[derive(Clone, Debug)]
pub(crate) struct CallHistograms {
    since: Timestamp,
    tokens: Histograms,
    durations: Histograms,
}

impl CallHistograms {
    pub(crate) fn new(since: Timestamp) -> Self {
        let of = |bounds| Histograms { bounds, series: IndexMap::new() };
        Self { since, tokens: of(&TOKEN_BOUNDS), durations: of(&SECOND_BOUNDS) }
    }

    /// Counts a step, if a model was called.
    pub(crate) fn record(&mut self, step: &Step) {
        let Some(call) = step.call.as_ref().filter(|_| step.kind == StepKind::Run) else { return };
        let series = SeriesRef {
            operation: operation(step.api_endpoint, call.provider),
            provider: provider_name(call.provider),
            request_model: &call.model,
            response_model: call.upstream_model.as_deref(),
            detail: None,
        };
        for (kind, tokens) in [("input", call.usage.prompt), ("output", call.usage.completion)] {
            if tokens > 0 {
                let detail = Some((names::TOKEN_TYPE, kind));
                self.tokens.record(SeriesRef { detail, ..series }, tokens as f64);
            }
        }
        let error = error_type(step);
        let detail = error.as_deref().map(|error| (names::ERROR_TYPE, error));
        let seconds = step.latency() as f64 / SECOND as f64;
        self.durations.record(SeriesRef { detail, ..series }, seconds);
    }

    /// The metrics so far.
    pub(crate) fn metrics(&self, now: Timestamp) -> Vec<Metric> {
        let tokens = self.tokens.points(self.since, now);
        let durations = self.durations.points(self.since, now);
        let metrics = [
            (
                "gen_ai.client.token.usage",
                "Number of input and output tokens used.",
                "{token}",
                tokens,
            ),
            ("gen_ai.client.operation.duration", "GenAI operation duration.", "s", durations),
        ];
        let metrics = metrics.into_iter().filter(|(.., points)| !points.is_empty());
        metrics.map(|(name, text, unit, points)| Metric::new(name, text, unit, points)).collect()
    }
}

/// The values that distinguish the series of a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Series {
    operation: &'static str,
    provider: &'static str,
    request_model: String,
    response_model: Option<String>,
    /// The kind of tokens, or the class of the failure.
    detail: Option<(&'static str, String)>,
}

impl Series {
    fn borrowed(&self) -> SeriesRef<'_> {
        SeriesRef {
            operation: self.operation,
            provider: self.provider,
            request_model: &self.request_model,
            response_model: self.response_model.as_deref(),
            detail: self.detail.as_ref().map(|(name, value)| (*name, value.as_str())),
        }
    }

    fn attributes(&self) -> Vec<Attribute> {
        if self.operation.is_empty() {
            return vec![Attribute::new(names::METRIC_OVERFLOW, true)];
        }
        let mut attributes = vec![
            Attribute::new(names::OPERATION, self.operation),
            Attribute::new(names::PROVIDER, self.provider),
            Attribute::new(names::REQUEST_MODEL, self.request_model.as_str()),
        ];
        let model = self.response_model.as_deref();
        attributes.extend(model.map(|model| Attribute::new(names::RESPONSE_MODEL, model)));
        let detail = self.detail.as_ref();
        attributes.extend(detail.map(|(name, value)| Attribute::new(*name, value.as_str())));
        attributes
    }
}

/// The same values, borrowed: a series that exists is found without a copy of its names.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SeriesRef<'a> {
    operation: &'static str,
    provider: &'static str,
    request_model: &'a str,
    response_model: Option<&'a str>,
    detail: Option<(&'static str, &'a str)>,
}

impl Equivalent<Series> for SeriesRef<'_> {
    fn equivalent(&self, series: &Series) -> bool {
        *self == series.borrowed()
    }
}

impl SeriesRef<'_> {
    fn to_owned(self) -> Series {
        Series {
            operation: self.operation,
            provider: self.provider,
            request_model: self.request_model.to_owned(),
            response_model: self.response_model.map(str::to_owned),
            detail: self.detail.map(|(name, value)| (name, value.to_owned())),
        }
    }
}

#[derive(Clone, Debug)]
struct Histograms {
    bounds: &'static [f64; 14],
    series: IndexMap<Series, Histogram>,
}

#[derive(Clone, Debug, Default)]
struct Histogram {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    /// One more than there are bounds.
    buckets: [u64; 15],
}

impl Histograms {
    fn record(&mut self, series: SeriesRef<'_>, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        let histogram = match self.series.get_index_of(&series) {
            Some(known) => &mut self.series[known],
            // The series without values is that of all others.
            None if self.series.len() >= MOST_SERIES => {
                self.series.entry(Series::default()).or_default()
            }
            None => self.series.entry(series.to_owned()).or_default(),
        };
        histogram.buckets[bucket] += 1;
        let is_first = histogram.count == 0;
        histogram.min = if is_first { value } else { histogram.min.min(value) };
        histogram.max = histogram.max.max(value);
        histogram.count += 1;
        histogram.sum += value;
    }

    fn points(&self, since: Timestamp, now: Timestamp) -> Vec<HistogramPoint> {
        let point = |(series, histogram): (&Series, &Histogram)| HistogramPoint {
            attributes: series.attributes(),
            start_time_unix_nano: nanos(since),
            time_unix_nano: nanos(now),
            count: histogram.count,
            sum: Some(histogram.sum),
            bucket_counts: histogram.buckets.to_vec(),
            explicit_bounds: self.bounds.to_vec(),
            min: Some(histogram.min),
            max: Some(histogram.max),
        };
        self.series.iter().map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(model: &str) -> SeriesRef<'_> {
        SeriesRef {
            operation: "chat",
            provider: "openai",
            request_model: model,
            response_model: Some("m-2026"),
            detail: Some((names::TOKEN_TYPE, "input")),
        }
    }

    #[test]
    fn a_series_is_found_by_its_borrowed_names() {
        let mut histograms = CallHistograms::new(Timestamp(0)).tokens;
        for _ in 0..3 {
            histograms.record(series("m"), 1.0);
        }
        histograms.record(SeriesRef { response_model: None, ..series("m") }, 1.0);
        let counts: Vec<_> = histograms.series.values().map(|histogram| histogram.count).collect();
        assert_eq!(counts, [3, 1]);
    }

    #[test]
    fn a_value_at_a_boundary_is_in_the_bucket_below_it() {
        let mut histograms = CallHistograms::new(Timestamp(0)).tokens;
        for value in [1.0, 4.0, 5.0, 1e9] {
            histograms.record(series("m"), value);
        }
        let point = histograms.points(Timestamp(1), Timestamp(2)).remove(0);
        let counted: Vec<_> =
            point.bucket_counts.iter().enumerate().filter(|(_, count)| **count > 0).collect();
        assert_eq!(counted, [(0, &1), (1, &1), (2, &1), (14, &1)]);
        assert_eq!((point.count, point.min, point.max), (4, Some(1.0), Some(1e9)));
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1000, 2000));
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let mut histograms = CallHistograms::new(Timestamp(0)).tokens;
        for model in 0..MOST_SERIES + 5 {
            histograms.record(series(&model.to_string()), 1.0);
        }
        assert_eq!(histograms.series.len(), MOST_SERIES + 1);
        assert_eq!(histograms.series[&Series::default()].count, 5);
    }
}
