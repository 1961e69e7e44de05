use checks::Redactor;
use domain::original::SourcePiece;
use serde_json::json;

use super::*;
use crate::testing::Fresh;

fn event(data: Value, piece: Option<(PieceKind, &str, Option<usize>)>) -> SourceEvent {
    let (name, data) = (data["type"].as_str().unwrap().to_owned(), data.to_string());
    let piece = piece.map(|(kind, text, call)| {
        let spelled = domain::json_text::quoted(text);
        let begins = data.find(&spelled).unwrap();
        let range = begins..begins + spelled.len();
        SourcePiece { block: 0, kind, call, range, text: text.to_owned(), is_changed: false }
    });
    let ends = (name == "stop").then_some(0);
    let (begins_call, is_end) = (name == "call", name == "end");
    SourceEvent { name, data, piece, ends, begins_call, is_end }
}

fn text(text: &str) -> SourceEvent {
    event(json!({"type": "delta", "text": text, "x": 1}), Some((PieceKind::Text, text, None)))
}

fn arguments(text: &str) -> SourceEvent {
    event(json!({"type": "delta", "json": text}), Some((PieceKind::Json, text, Some(0))))
}

fn plain(kind: &str, more: &str) -> SourceEvent {
    event(json!({"type": kind, "more": more}), None)
}

async fn filter(action: &str) -> SourceFilter {
    let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
    let fresh = Fresh::with(output).await;
    let trace = fresh.trace().await;
    let flight = fresh.in_flight(&trace).await;
    let project = fresh.caller.project.clone();
    let judging = project.policy.acts_on_outputs().then(|| Judging::new(project, 7));
    let filter =
        SourceFilter::new(flight.funded().unwrap().model(), &Placeholders::default(), judging);
    flight.finish().await.unwrap();
    filter
}

fn let_out(filter: &mut SourceFilter, events: impl IntoIterator<Item = SourceEvent>) -> Vec<Value> {
    let mut pieces = Vec::new();
    for event in events {
        filter.pass(event, &mut pieces).unwrap();
    }
    read(pieces)
}

fn read(pieces: Vec<Piece>) -> Vec<Value> {
    let read = pieces.into_iter().map(|piece| match piece {
        Piece::Source(name, json) => {
            let value: Value = serde_json::from_str(&json).unwrap();
            assert_eq!(value["type"], *name);
            value
        }
        other => panic!("{other:?}"),
    });
    read.collect()
}

const HEAD: &str = "Use AKIAQ3EGR";
const TAIL: &str = "VXT7ZLNB5PD for it.";

#[tokio::test]
async fn a_finding_over_two_events_is_replaced() {
    let mut filter = filter("redact").await;
    let events =
        [plain("message_start", ""), text(HEAD), text(TAIL), plain("stop", ""), plain("end", "")];
    let told = let_out(&mut filter, events);
    let said: String = told.iter().filter_map(|event| event["text"].as_str()).collect();
    assert!(said.starts_with("Use [") && said.ends_with("] for it."), "{told:?}");
    assert_eq!(filter.left(), said);
    assert_eq!(told.last().unwrap()["type"], "stop", "the end waits");
    let mut pieces = Vec::new();
    filter.end(&mut pieces);
    assert_eq!(read(pieces), [json!({"type": "end", "more": ""})]);
}

#[tokio::test]
async fn nothing_leaves_behind_a_finding_that_blocks() {
    let mut filter = filter("block").await;
    let told = let_out(&mut filter, [text("Fine. "), text(HEAD), text(TAIL), plain("stop", "")]);
    let said: String = told.iter().filter_map(|event| event["text"].as_str()).collect();
    assert!(!said.contains("AKIA"), "{said}");
    assert!(filter.blocked().is_some());
}

#[tokio::test]
async fn calls_wait_for_the_verdict() {
    let mut filter = filter("redact").await;
    let events = [
        text("Fine. "),
        plain("call", ""),
        arguments("{\"a\": \"A"),
        arguments("B\"}"),
        plain("stop", ""),
    ];
    let told = let_out(&mut filter, events.clone());
    assert!(told.iter().all(|event| event["type"] != "call"), "{told:?}");
    let message = json!({"tool_calls": [{"function": {"arguments": "{\"a\": \"[KEY]\"}"}}]});
    let mut pieces = Vec::new();
    filter.pass_withheld(Some(&message), &mut pieces);
    let told = read(pieces);
    let said: String = told.iter().filter_map(|event| event["json"].as_str()).collect();
    assert_eq!(said, "{\"a\": \"[KEY]\"}");
    assert_eq!(told.last().unwrap()["type"], "stop");
}

#[tokio::test]
async fn strings_beside_the_pieces_are_judged() {
    let mut filter = filter("redact").await;
    let secret = format!("{HEAD}{TAIL}");
    let told = let_out(&mut filter, [plain("of_tomorrow", &secret)]);
    assert!(told[0]["more"].as_str().unwrap().starts_with("Use ["), "{told:?}");
    let mut redactor = filter.exchange(Redactor::of_answer(0));
    assert!(redactor.redact("x", &[]).is_none());
    let placeholders = json!(redactor.into_placeholders());
    assert_eq!(placeholders.as_object().unwrap().len(), 1);
}

#[tokio::test]
async fn without_judging_events_leave_as_they_came() {
    let mut filter = filter("flag").await;
    let events = [text(HEAD), plain("call", HEAD), arguments("{\"a\""), text(TAIL)];
    let expected: Vec<Value> =
        events.iter().map(|event| serde_json::from_str(&event.data).unwrap()).collect();
    assert_eq!(let_out(&mut filter, events), expected);
}
