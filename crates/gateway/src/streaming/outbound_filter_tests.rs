use checks::Redactor;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const ORIGINAL: &str = "jo \"J\" <jo@a.example>";
const PLACEHOLDER: &str = "[A_1_00000001]";

fn placeholders() -> Placeholders {
    let mut redactor = Redactor::new(1);
    assert_eq!(redactor.replace_whole("A", ORIGINAL), PLACEHOLDER);
    redactor.into_placeholders()
}

fn chunk(choice: u64, delta: Value, end: Value) -> Map<String, Value> {
    let choice = json!({"index": choice, "delta": delta, "finish_reason": end});
    json!({"choices": [choice]}).as_object().unwrap().clone()
}

fn tool(index: u64, arguments: &str) -> Value {
    json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})
}

/// The strings of each choice, in order: the field, a piece of it, or `end`.
fn outcome(pieces: &[Piece]) -> Vec<(u64, String, String)> {
    let mut all = Vec::new();
    for piece in pieces {
        let chunk = match piece {
            Piece::Text(text) => chunk(0, json!({"content": text}), Value::Null),
            Piece::Native(chunk) => chunk.clone(),
            other => panic!("{other:?}"),
        };
        for choice in chunk["choices"].as_array().unwrap() {
            let index = choice["index"].as_u64().unwrap();
            for (field, said) in choice["delta"].as_object().unwrap() {
                if let Some(text) = said.as_str() {
                    all.push((index, field.clone(), text.to_owned()));
                }
                for call in said.as_array().into_iter().flatten() {
                    let text = call["function"]["arguments"].as_str().unwrap();
                    all.push((index, format!("tool {}", call["index"]), text.to_owned()));
                }
            }
            if choice["finish_reason"].is_string() {
                all.push((index, "end".to_owned(), String::new()));
            }
        }
    }
    all.retain(|(_, field, text)| field == "end" || !text.is_empty());
    all
}

/// The whole text of one field.
fn whole(outcome: &[(u64, String, String)], choice: u64, field: &str) -> String {
    let of = outcome.iter().filter(|(of, name, _)| *of == choice && name == field);
    of.map(|(_, _, text)| text.as_str()).collect()
}

#[test]
fn what_is_held_back_is_not_overtaken() {
    let mut outlet = OutboundFilter::new(&placeholders(), None);
    let mut pieces = Vec::new();
    outlet.native(chunk(0, json!({"reasoning": "ask [A_1"}), Value::Null), &mut pieces);
    outlet.text("I write to [A_1_00000001]", &mut pieces);
    outlet.native(chunk(0, tool(0, "{\"to\":\"[A_1_0"), Value::Null), &mut pieces);
    outlet.native(chunk(0, tool(1, "{\"cc\":\"[A_1_0"), Value::Null), &mut pieces);
    outlet.native(chunk(1, json!({"refusal": "no, [A_"}), Value::Null), &mut pieces);
    outlet.native(chunk(0, tool(0, "0000001]\"}"), Value::Null), &mut pieces);
    outlet.native(chunk(1, json!({}), json!("stop")), &mut pieces);
    outlet.native(chunk(0, tool(1, "0000001]\"}"), Value::Null), &mut pieces);
    outlet.text("and [A_1", &mut pieces);
    outlet.finish(&mut pieces);
    let said = |choice, field: &str, text: &str| (choice, field.to_owned(), text.to_owned());
    let escaped = r#"jo \"J\" <jo@a.example>"#;
    assert_eq!(
        outcome(&pieces),
        [
            said(0, "reasoning", "ask "),
            said(0, "reasoning", "[A_1"),
            said(0, "content", "I write to "),
            said(0, "content", ORIGINAL),
            said(0, "tool 0", "{\"to\":\""),
            said(0, "tool 1", "{\"cc\":\""),
            said(1, "refusal", "no, "),
            said(0, "tool 0", &format!("{escaped}\"}}")),
            said(1, "refusal", "[A_"),
            said(1, "end", ""),
            said(0, "tool 1", &format!("{escaped}\"}}")),
            said(0, "content", "and "),
            said(0, "content", "[A_1"),
        ]
    );
}

#[test]
fn a_note_does_not_interrupt_the_text() {
    let mut outlet = OutboundFilter::new(&placeholders(), None);
    let mut pieces = Vec::new();
    outlet.text("I write to [A_1_", &mut pieces);
    let note = json!({"annotations": [{"type": "url_citation", "title": PLACEHOLDER}]});
    outlet.native(chunk(0, note, Value::Null), &mut pieces);
    outlet.text("00000001].", &mut pieces);
    outlet.finish(&mut pieces);
    let noted = pieces.iter().find_map(|piece| match piece {
        Piece::Native(chunk) => Some(&chunk["choices"][0]["delta"]["annotations"][0]["title"]),
        _ => None,
    });
    assert_eq!(noted.unwrap(), ORIGINAL);
    let text = pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(text.collect::<String>(), format!("I write to {ORIGINAL}."));
}

#[test]
fn text_that_looks_like_a_picture_stays_in_its_place() {
    let mut outlet = OutboundFilter::new(&placeholders(), None);
    let mut pieces = Vec::new();
    for choice in [0, 1] {
        for text in ["see [A_1", "data:image/png;base64,AAAA", " and [A_1_00000001]"] {
            outlet.native(chunk(choice, json!({"content": text}), Value::Null), &mut pieces);
        }
    }
    outlet.finish(&mut pieces);
    for choice in [0, 1] {
        let said = whole(&outcome(&pieces), choice, "content");
        assert_eq!(said, format!("see [A_1data:image/png;base64,AAAA and {ORIGINAL}"));
    }
}

#[test]
fn log_probabilities_go_with_the_text_they_tell() {
    let mut outlet = OutboundFilter::new(&placeholders(), None);
    let mut pieces = Vec::new();
    for text in ["To ", PLACEHOLDER, " it is."] {
        let logprobs = json!({"content": [{"token": text, "logprob": -0.1}]});
        let choice = json!({"index": 0, "delta": {"content": text}, "logprobs": logprobs});
        let chunk = json!({"choices": [choice]}).as_object().unwrap().clone();
        outlet.native(chunk, &mut pieces);
    }
    let logprobs = |piece: &Piece| match piece {
        Piece::Native(chunk) => chunk["choices"][0]["logprobs"]["content"][0]["token"].clone(),
        other => panic!("{other:?}"),
    };
    let logprobs: Vec<Value> = pieces.iter().map(logprobs).collect();
    assert_eq!(logprobs, [json!("To "), Value::Null, Value::Null]);
}

/// The strings of one choice: its text, then the arguments of a tool call.
#[derive(Clone, Debug)]
struct Speech {
    text: String,
    arguments: String,
}

fn speech() -> impl Strategy<Value = Speech> {
    let text = "(\\[A_1_00000001\\]|\\[A_|://|\\]\\(|[a-zé\"\\\\ \n]){0,8}";
    let arguments = prop::collection::vec(text, 0..3);
    (text, arguments).prop_map(|(text, arguments)| Speech {
        text,
        arguments: Value::from(arguments).to_string(),
    })
}

proptest! {
    #[test]
    fn any_split_and_any_order_of_choices_say_the_same(
        speeches in prop::collection::vec(speech(), 1..4),
        turns in prop::collection::vec((0_usize..4, 1_usize..9, any::<bool>()), 0..60),
    ) {
        let placeholders = placeholders();
        let mut outlet = OutboundFilter::new(&placeholders, None);
        let mut pieces = Vec::new();
        let mut rest: Vec<(Vec<char>, Vec<char>)> = speeches
            .iter()
            .map(|said| (said.text.chars().collect(), said.arguments.chars().collect()))
            .collect();
        // A choice that is not complete at the end sends the rest at once.
        let last = (0..speeches.len()).flat_map(|choice| [(choice, usize::MAX, true); 2]);
        for (choice, length, native) in turns.into_iter().chain(last) {
            let choice = choice % speeches.len();
            let (text, arguments) = &mut rest[choice];
            let is_text = !text.is_empty();
            let from = if is_text { &mut *text } else { &mut *arguments };
            let piece: String = from.drain(..length.min(from.len())).collect();
            if piece.is_empty() {
                continue;
            }
            let index = choice as u64;
            let delta = if is_text { json!({"content": piece}) } else { tool(0, &piece) };
            if is_text && choice == 0 && !native {
                outlet.text(&piece, &mut pieces);
                continue;
            }
            let over = choice > 0 && text.is_empty() && arguments.is_empty();
            let end = if over { json!("stop") } else { Value::Null };
            outlet.native(chunk(index, delta, end), &mut pieces);
        }
        outlet.finish(&mut pieces);
        let outcome = outcome(&pieces);
        for (choice, said) in speeches.iter().enumerate() {
            let index = choice as u64;
            let text = placeholders.restore(&said.text);
            prop_assert_eq!(whole(&outcome, index, "content"), text);
            let arguments = placeholders.restore_json(&said.arguments);
            prop_assert_eq!(whole(&outcome, index, "tool 0"), arguments);
            let fields: Vec<&str> = outcome
                .iter()
                .filter(|(of, ..)| *of == index)
                .map(|(_, field, _)| field.as_str())
                .collect();
            prop_assert!(fields.is_sorted_by_key(|field| match *field {
                "content" => 0,
                "end" => 2,
                _ => 1,
            }), "{:?}", fields);
        }
    }
}
