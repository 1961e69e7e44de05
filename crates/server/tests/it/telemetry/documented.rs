//! The spans that `docs/telemetry.md` shows are those of its call.

use serde_json::{Value, json};

use super::otlp::{attribute, awaited, collector, complete, exporting, named};
use crate::harness::Backend;

const DOCUMENT: &str = include_str!("../../../../../docs/telemetry.md");
/// Attributes with another value in each run.
const VARY: [&str; 2] = ["sluice.trace.id", "sluice.key.id"];

/// The spans of the document.
fn shown() -> Vec<Value> {
    let (_, section) = DOCUMENT.split_once("\n## Spans\n").unwrap();
    let (_, block) = section.split_once("```text\n").unwrap();
    let (block, _) = block.split_once("\n```").unwrap();
    let spans = serde_json::Deserializer::from_str(block).into_iter();
    spans.map(|span| span.expect("the document has JSON")).collect()
}

/// A span without what is of its run alone. Attributes keep their order.
fn lasting(span: &Value) -> Value {
    let mut span = span.clone();
    for name in ["traceId", "spanId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano"] {
        assert!(span[name].is_string(), "{name}: {span:#}");
        span[name] = json!("");
    }
    for pair in span["attributes"].as_array_mut().unwrap() {
        if VARY.iter().any(|name| pair["key"] == *name) {
            pair["value"] = json!("");
        }
    }
    span
}

/// Both spans are of one trace, the step's below the trace's and within its time.
fn are_of_one_trace(spans: &[Value]) {
    let [step, root] = spans else { panic!("{spans:#?}") };
    assert_eq!((&step["parentSpanId"], &root["parentSpanId"]), (&root["spanId"], &json!("")));
    for span in spans {
        let id = attribute(span, "sluice.trace.id").replace('-', "");
        assert_eq!((span["traceId"].as_str(), &span["traceId"]), (Some(&*id), &root["traceId"]));
    }
    assert_eq!(attribute(step, "sluice.key.id"), attribute(root, "sluice.key.id"));
    let time = |span: &Value, name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time(root, "startTimeUnixNano") <= time(step, "startTimeUnixNano"));
    assert_eq!(time(root, "endTimeUnixNano"), time(step, "endTimeUnixNano"));
}

#[tokio::test]
async fn the_document_shows_the_spans_of_its_call() {
    let collector = collector().await;
    let server = exporting(&Backend::Sqlite, &collector).start().await;
    let key = server.key();
    let trace = key.trace().await;
    let input = "Summarise: the meeting moved to Friday. Please bring the figures.";
    key.with("x-sluice-user", "jane").execute(&trace, input).await.ok(200);
    complete(&key, &trace).await;
    let sent = awaited(&collector, 2).await;
    let sent = ["chat sandbox", "sluice.trace"].map(|name| named(&sent, name).clone());
    let shown = shown();
    are_of_one_trace(&sent);
    are_of_one_trace(&shown);
    let lines = |spans: &[Value]| spans.iter().map(lasting).collect::<Vec<_>>();
    let (expected, found) = (lines(&sent), lines(&shown));
    assert_eq!(found, expected, "sent were {}", json!(sent));
}
