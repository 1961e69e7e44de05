use domain::conversation::StreamEvent;
use domain::original::SourceEvent;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::credentials::stream::StreamFilter;

const KEY: &str = "sk-test-9fA3/zQ+71bX";

fn credentials(key: &str) -> Credentials {
    Credentials::of(Some(&Secret::new(key.to_owned()))).unwrap()
}

#[test]
fn an_ordinary_answer_is_passed_over() {
    assert!(!credentials(KEY).may_be_in_json(r#"{"text": "A line.\n\"Quoted\" sk-test-"}"#));
    assert!(credentials(KEY).may_be_in_json(r#"{"text": "sk-test-9fA3\/zQ+71bX"}"#));
}

/// A JSON string, some or all of whose characters are spelled by their numbers.
fn spelled(text: &str, by_number: u8) -> String {
    if by_number == 0 {
        return json!(text).to_string();
    }
    let mut units = text.encode_utf16().zip((0..by_number).cycle());
    let escape = |unit: u16| format!("\\u{unit:04x}");
    let all: String = units
        .by_ref()
        .map(|(unit, at)| match char::from_u32(unit.into()) {
            Some(plain @ ('a'..='z' | '0'..='9' | '-')) if at > 0 => plain.to_string(),
            Some('/') if at > 0 => "\\/".to_owned(),
            _ => escape(unit),
        })
        .collect();
    format!("\"{all}\"")
}

#[test]
fn a_key_that_is_split_over_parts_does_not_leave_in_the_answer_as_it_came() {
    let cleaned = |source: Value, text: &str| {
        let mut reply =
            Reply { text: text.to_owned(), source: Some(source.to_string()), ..Reply::default() };
        credentials(KEY).clean_reply(&mut reply);
        reply.source
    };
    let part = |text: &str| json!({"type": "text", "text": text});
    for cut in [1, 5, KEY.len() / 2, KEY.len() - 2] {
        let parts = [part(&KEY[..cut]), part(&KEY[cut..])];
        let gemini = |text| json!({"candidates": [text, {"content": {"parts": parts}}]});
        let first = json!({"content": {"parts": parts}});
        assert_eq!(cleaned(gemini(first), KEY), None, "{cut}");
        let other = json!({"content": {"parts": [part("It is")]}});
        assert_eq!(cleaned(gemini(other), "It is"), None, "{cut}: beside the canonical form");
        let thought = |text: &str| json!({"text": text, "thought": true});
        let apart = [part(&KEY[..cut]), thought("It is"), part(&KEY[cut..])];
        assert_eq!(cleaned(json!({"candidates": [{"content": {"parts": apart}}]}), ""), None);
        let blocks = json!({"content": parts});
        assert_eq!(cleaned(blocks, ""), None, "{cut}");
    }
    let whole = json!({"content": [part("It is"), part(" so.")], "echo": KEY});
    let clean = whole.to_string().replace(KEY, "***");
    assert_eq!(cleaned(whole, "It is so."), Some(clean));
}

proptest! {
    #[test]
    fn a_text_that_is_passed_over_has_nothing_to_clean(
        key_text in prop::sample::select(vec![KEY, "a\"b\\c/quoted-9fA3", "\u{e9}\u{e8}t\u{e9}-2b71bX9q"]),
        parts in prop::collection::vec((".{0,3}", any::<prop::sample::Index>()), 0..4),
        by_number in 0..4_u8,
    ) {
        let credentials = credentials(key_text);
        let cuts: Vec<usize> = key_text.char_indices().map(|(at, _)| at).chain([key_text.len()]).collect();
        let pieces = parts.iter().flat_map(|(around, cut)| [around.as_str(), &key_text[..*cut.get(&cuts)]]);
        let text: String = pieces.collect();
        let json = format!("{{\"a\": [{}]}}", spelled(&text, by_number));
        prop_assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), json!({"a": [text]}));
        prop_assert!(credentials.may_be_in_json(&json) || credentials.is_clean(&text), "{}", json);
    }
}

/// The events that leave a stream of these.
fn left(mut events: Vec<StreamEvent>) -> Vec<StreamEvent> {
    let key = Secret::new(KEY.to_owned());
    let mut filter = StreamFilter::new(Some(&key));
    filter.clean_sources(Some(&key));
    filter.pass(&mut events, 0).unwrap();
    filter.end(&mut events);
    events
}

/// A reader of the whole answer at the end of a stream joins the texts of its parts.
#[test]
fn a_credential_that_is_split_over_parts_leaves_in_no_event() {
    let (head, tail) = KEY.split_at(9);
    let part = |text: &str| json!({"type": "output_text", "text": text});
    let item = |texts: [&str; 2]| json!({"type": "message", "content": texts.map(part)});
    for (name, member) in
        [("response.output_item.done", "item"), ("response.completed", "response")]
    {
        let event = |item: Value| {
            let item = if member == "item" { item } else { json!({"output": [item]}) };
            let data = json!({member: item}).to_string();
            StreamEvent::Source(SourceEvent::new(name.to_owned(), data, Vec::new()))
        };
        assert_eq!(left(vec![event(item([head, tail]))]), [event(item(["***", ""]))], "{name}");
        let fine = event(item(["Say ", "it."]));
        assert_eq!(left(vec![fine.clone()]), [fine]);
    }
}

/// A thought that was withheld is not forgotten when a text comes between its pieces.
#[test]
fn a_credential_in_thoughts_does_not_leave_around_a_text() {
    let thought = |text: &str| {
        let delta = json!({"content": [{"thinking": [{"text": text}]}]});
        let Value::Object(chunk) = json!({"choices": [{"index": 0, "delta": delta}]}) else {
            panic!()
        };
        StreamEvent::Native { text: String::new(), chunk }
    };
    let (head, tail) = KEY.split_at(3);
    let left = left(vec![thought(head), StreamEvent::Text("x".to_owned()), thought(tail)]);
    let shown = format!("{left:?}");
    assert!(shown.contains("***") && !shown.contains(tail), "{shown}");
}
