use domain::conversation::{Prompt, StreamEvent};
use domain::model::Provider;
use domain::original::{Original, SourceEvent, WireFormat};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::adapter::{Adapter, Decoder};
use crate::credentials::stream::StreamFilter;
use crate::testing::{CANARY, attempt, model};
use crate::vendors::anthropic::Anthropic;

fn prompt(body: &str, asked: u64) -> Prompt {
    let original = Original::new(WireFormat::Messages, body.to_owned());
    Prompt {
        original: Some(Box::new(original)),
        max_output_tokens: Some(asked),
        ..Prompt::default()
    }
}

fn passed(body: &str, asked: u64, bound: u64) -> String {
    let (model, prompt) = (model(Provider::Anthropic, None), prompt(body, asked));
    let attempt = attempt(&model, &prompt);
    let attempt = crate::Attempt { max_output_tokens: Some(bound), ..attempt };
    let original = prompt.original.as_ref().unwrap();
    String::from_utf8(Anthropic.pass(&attempt, original).unwrap().unwrap()).unwrap()
}

#[test]
fn only_what_governance_names_is_changed() {
    let body =
        r#"{ "x": {"y": 1.50}, "model":"mine", "trace_id": "t", "max_tokens": 100, "n": 1e3 }"#;
    let expected = body.replace("mine", "gpt-test").replace(r#" "trace_id": "t","#, "");
    assert_eq!(passed(body, 100, 100), expected);
    assert_eq!(passed(body, 100, 60), expected.replace("100", "60"));
    let routed = r#"{"max_tokens": 100}"#;
    assert_eq!(passed(routed, 100, 100), r#"{"max_tokens": 100,"model":"gpt-test"}"#);
}

/// Events as the vendor sends them, with members that nobody knows.
fn stream(texts: &[String], more: &Value) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "model": "claude-real",
            "content": [], "usage": {"input_tokens": 2, "output_tokens": 1}, "new": more}}),
        json!({"type": "ping", "new": more}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text",
            "text": "", "new": more}}),
    ];
    events.extend(texts.iter().map(|text| {
        json!({"new": more, "type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": text, "new": more}})
    }));
    events.push(json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "citations_delta", "citation": more}}));
    events.push(json!({"type": "content_block_stop", "index": 0}));
    let query = json!({"q": texts.concat()}).to_string();
    let (head, tail) = query.split_at(query.find(':').unwrap());
    events.push(json!({"type": "content_block_start", "index": 1, "content_block":
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}}));
    for part in [head, tail] {
        events.push(json!({"type": "content_block_delta", "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": part}}));
    }
    events.push(json!({"type": "content_block_stop", "index": 1}));
    events.push(json!({"type": "of_tomorrow", "new": more}));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 9, "new": more}}));
    events.push(json!({"type": "message_stop"}));
    events
}

/// The vendor's own events of a stream that comes in pieces.
fn sources(bytes: &[u8], cuts: &[usize], key: &str) -> Vec<SourceEvent> {
    let mut decoder = Anthropic.passing_decoder(&model(Provider::Anthropic, None));
    let key = domain::secret::Secret::new(key.to_owned());
    let mut filter = StreamFilter::new(Some(&key));
    filter.clean_sources(Some(&key));
    let mut events = Vec::new();
    let mut feed = |decoder: &mut dyn Decoder, piece: &[u8]| {
        let known = events.len();
        decoder.feed(piece, &mut events).unwrap();
        filter.pass(&mut events, known).unwrap();
    };
    let mut begun = 0;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % bytes.len()).collect();
    cuts.sort_unstable();
    for cut in cuts {
        feed(&mut *decoder, &bytes[begun..cut]);
        begun = cut;
    }
    feed(&mut *decoder, &bytes[begun..]);
    assert!(decoder.is_done());
    filter.end(&mut events);
    let own = events.into_iter().filter_map(|event| match event {
        StreamEvent::Source(event) => Some(event),
        _ => None,
    });
    own.collect()
}

fn written(events: &[Value]) -> Vec<u8> {
    let text = |event: &Value| format!("event: {}\ndata: {event:#}\n\n", event["type"]);
    let text: String = events.iter().map(text).collect();
    // Each line of the data is a line of its own.
    text.replace("\n ", "\ndata:  ").replace("\n}", "\ndata: }").into_bytes()
}

/// Nothing of the vendor's own tools has a canonical form, and a caller waits for them all the same.
#[test]
fn a_call_of_the_vendors_own_tool_is_a_beginning() {
    let sent = stream(&[], &json!(1));
    let told = sources(&written(&sent), &[], CANARY);
    let begins: Vec<&str> =
        told.iter().filter(|event| event.begins_call).map(|event| &*event.name).collect();
    assert_eq!(begins, ["content_block_start"]);
    let pieces = told.iter().flat_map(|event| &event.pieces);
    assert_eq!(pieces.count(), 2);
}

/// Readers join the texts of blocks.
#[test]
fn a_credential_that_is_split_over_blocks_does_not_leave_whole() {
    let (head, tail) = CANARY.split_at(CANARY.len() / 3);
    let mut sent = stream(&[], &json!(1));
    let end = sent.split_off(sent.len() - 2);
    sent.truncate(2);
    for (index, text) in [(0, head), (1, &format!("{tail}!"))] {
        sent.push(json!({"type": "content_block_start", "index": index,
            "content_block": {"type": "text", "text": ""}}));
        sent.push(json!({"type": "content_block_delta", "index": index,
            "delta": {"type": "text_delta", "text": text}}));
        sent.push(json!({"type": "content_block_stop", "index": index}));
    }
    sent.extend(end);
    let told = sources(&written(&sent), &[], CANARY);
    let texts = told.iter().flat_map(|event| &event.pieces).map(|piece| &*piece.text);
    assert_eq!(texts.filter(|text| !text.is_empty()).collect::<Vec<_>>(), [head, "***!"]);
}

proptest! {
    #[test]
    fn events_come_as_they_were_sent(
        texts in prop::collection::vec("[a-zé🙂\"\\\\ ]{0,6}", 0..5),
        more in prop_oneof![Just(json!(1.5)), Just(json!({"a": ["b", null]})), Just(json!("é"))],
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let sent = stream(&texts, &more);
        // No text begins as this key does, so nothing is withheld.
        let told = sources(&written(&sent), &cuts, "4711-key-of-nobody");
        let names: Vec<&str> = told.iter().map(|event| &*event.name).collect();
        let kinds: Vec<&str> = sent.iter().map(|event| event["type"].as_str().unwrap()).collect();
        prop_assert_eq!(names, kinds);
        let ends = told.iter().position(|event| event.is_end);
        prop_assert_eq!(ends, Some(sent.len() - 2));
        for (event, sent) in told.into_iter().zip(&sent) {
            prop_assert_eq!(event.json(), format!("{sent:#}"));
        }
    }

    #[test]
    fn a_credential_is_cut_out_wherever_it_is_cut(
        cut in 1..CANARY.len(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let (head, tail) = CANARY.split_at(cut);
        let texts = [format!("It is {head}"), tail.to_owned(), " indeed".to_owned()];
        let sent = stream(&texts, &json!({"echo": CANARY}));
        let told = sources(&written(&sent), &cuts, CANARY);
        let mut said = String::new();
        for event in told {
            let json = event.json();
            prop_assert!(!json.contains(CANARY), "{json}");
            let value: Value = serde_json::from_str(&json).unwrap();
            said.push_str(value["delta"]["text"].as_str().unwrap_or_default());
        }
        prop_assert_eq!(said, "It is *** indeed");
    }
}
