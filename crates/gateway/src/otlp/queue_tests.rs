use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use ::metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use domain::model::Provider;
use domain::step::{ApiEndpoint, Call};
use domain::trace_context::TraceContext;
use serde_json::json;

use super::*;
use crate::otlp::wire::Metric;
use crate::testing::{Fresh, noise, step};

/// Keeps counters by the value of their label.
#[derive(Default)]
struct Counters(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Counters {
    /// Runs something, and returns what it has counted.
    fn of(run: impl FnOnce()) -> BTreeMap<String, u64> {
        let counters = Self::default();
        ::metrics::with_local_recorder(&counters, run);
        let counted = lock(&counters.0);
        counted
            .iter()
            .map(|(label, count)| (label.clone(), count.load(Ordering::Relaxed)))
            .collect()
    }
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let label = key.labels().map(|label| label.value().to_owned()).collect();
        Counter::from_arc(lock(&self.0).entry(label).or_default().clone())
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn observed(step: Step) -> ObservedStep {
    ObservedStep { step: Box::new(step), content: None, is_lost: false }
}

fn run() -> Step {
    step(StepKind::Run, Some(Call::of("m".to_owned(), Provider::Openai)))
}

/// The calls in the metrics.
fn calls(queue: &TelemetryQueue) -> u64 {
    let metrics = lock(&queue.metrics).metrics(Timestamp(9));
    metrics.iter().map(Metric::count).sum()
}

#[test]
fn what_finds_no_room_is_dropped_at_once() {
    let (queue, mut records) = queue(false, Timestamp(0));
    let counted = Counters::of(|| (0..MOST_RECORDS + 3).for_each(|_| queue.step(observed(run()))));
    assert_eq!(records.len(), MOST_RECORDS);
    assert_eq!(counted, BTreeMap::from([("queue_full".to_owned(), 3)]));
    assert!(records.try_recv().is_ok());
    queue.step(observed(run()));
    assert_eq!(records.len(), MOST_RECORDS);
    // The metrics have them all.
    assert_eq!(calls(&queue), MOST_RECORDS as u64 + 4);
}

#[test]
fn what_comes_after_the_stop_counts_as_stopped() {
    let (queue, mut records) = queue(false, Timestamp(0));
    records.close();
    let counted = Counters::of(|| queue.step(observed(run())));
    assert_eq!(counted, BTreeMap::from([("stopped".to_owned(), 1)]));
}

#[test]
fn a_step_without_a_span_takes_no_room() {
    let (queue, records) = queue(false, Timestamp(0));
    let silent = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
    assert!(silent.is_some());
    let counted = Counters::of(|| queue.step(observed(Step { trace_context: silent, ..run() })));
    assert!(records.is_empty() && counted.is_empty(), "{counted:?}");
    assert_eq!(calls(&queue), 1);
}

#[test]
fn a_lost_call_is_in_no_metric() {
    let (queue, records) = queue(false, Timestamp(0));
    queue.step(ObservedStep { is_lost: true, ..observed(run()) });
    assert_eq!((records.len(), calls(&queue)), (1, 0));
}

/// The records of steps with contents of a MiB.
async fn recorded(steps: Vec<Step>, shows_content: bool) -> Vec<StepRecord> {
    let fresh = Fresh::with(json!({})).await;
    let content = noise(1024 * 1024);
    let key = &fresh.caller.project.sealing;
    let steps = steps.into_iter().map(|step| (step, content.as_slice(), key)).collect();
    let (queue, mut records) = queue(shows_content, Timestamp(0));
    for observed in fresh.observed(steps).await {
        queue.step(observed);
    }
    let mut found = Vec::new();
    while let Ok(record) = records.try_recv() {
        let Record::Step(record) = record else { panic!("{record:?}") };
        found.push(record);
    }
    found
}

#[tokio::test]
async fn only_contents_that_are_shown_are_held() {
    let embedding = Step { api_endpoint: ApiEndpoint::Embeddings, ..run() };
    let of_kind = |kind| step(kind, None);
    let steps = vec![
        run(),
        of_kind(StepKind::Blocked),
        of_kind(StepKind::ToolCall),
        embedding,
        of_kind(StepKind::Check),
        of_kind(StepKind::Log),
    ];
    for (shows_content, held) in [(true, 3), (false, 1)] {
        let records = recorded(steps.clone(), shows_content).await;
        let (shown, rest): (Vec<_>, Vec<_>) =
            records.iter().partition(|it| matches!(it.content, QueuedContent::Held(_)));
        assert_eq!(shown.len(), held, "{records:?}");
        assert!(shown.iter().any(|it| it.step.kind == StepKind::ToolCall));
        assert!(rest.iter().all(|it| matches!(it.content, QueuedContent::None)), "{records:?}");
    }
}

#[tokio::test]
async fn a_step_whose_content_finds_no_room_keeps_its_span() {
    let records = recorded(vec![run(); 34], true).await;
    let is_held: Vec<_> =
        records.iter().map(|it| matches!(it.content, QueuedContent::Held(_))).collect();
    assert!(is_held[..31].iter().all(|is_held| *is_held), "{is_held:?}");
    assert!(matches!(records[33].content, QueuedContent::NoRoom), "{:?}", records[33]);
}
