use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// Any JSON, spelled with whitespace, escapes and numbers that a tree would not keep.
fn spelled() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?[1-9][0-9]{0,30}(\\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?",
        "[a-z ,:{}\\[\\]é]{0,8}".prop_map(|text| quoted(&text)),
        Just(r#""\u0061\n\"\\ \ud83d\ude42""#.to_owned()),
    ];
    let list = |items: Vec<String>| format!("[ {}]", items.join(" ,\n"));
    let object = |members: Vec<String>| {
        let members = members.iter().enumerate();
        let members = members.map(|(at, value)| format!("\"k{at}\" :{value} "));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    scalar.prop_recursive(4, 32, 5, move |inner| {
        let items = prop::collection::vec(inner, 0..5);
        prop_oneof![items.clone().prop_map(list), items.prop_map(object)]
    })
}

fn an_object() -> impl Strategy<Value = String> {
    let members = prop::collection::vec(spelled(), 0..5);
    members.prop_map(|values| {
        let members = values.iter().enumerate();
        let members = members.map(|(at, value)| format!("\"m{at}\": {value}"));
        format!(" {{ {} }} ", members.collect::<Vec<_>>().join(" , "))
    })
}

fn shouted(value: Value) -> Value {
    match value {
        Value::String(text) => text.to_uppercase().into(),
        Value::Array(items) => items.into_iter().map(shouted).collect(),
        Value::Object(map) => map
            .into_iter()
            .map(|(name, value)| (name, shouted(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other,
    }
}

proptest! {
    #[test]
    fn what_is_not_changed_stays_as_it_is_spelled(json in spelled()) {
        prop_assert_eq!(rewrite(&json, |_, _| None), Ok(None));
        let same = rewrite(&json, |_, token| match token {
            Token::Text(text) => Some(text.to_owned()),
            _ => None,
        });
        let same = same.unwrap().unwrap_or_else(|| json.clone());
        let tree = |json: &str| serde_json::from_str::<Value>(json).unwrap();
        prop_assert_eq!(tree(&same), tree(&json));
    }

    #[test]
    fn every_string_is_reached(json in spelled()) {
        let new = rewrite(&json, |_, token| match token {
            Token::Text(text) => Some(text.to_uppercase()),
            _ => None,
        });
        let new = new.unwrap().unwrap_or_else(|| json.clone());
        let tree = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&new).unwrap(), shouted(tree));
    }

    #[test]
    fn only_the_edited_members_change(json in an_object(), name in "m[0-5]") {
        prop_assert_eq!(edited(&json, &[]).unwrap(), json.clone());
        let mut expected: Map<String, Value> = serde_json::from_str(&json).unwrap();
        let set = edited(&json, &[(&name, Edit::Set("[1]"))]).unwrap();
        expected.insert(name.clone(), json!([1]));
        prop_assert_eq!(serde_json::from_str::<Map<_, _>>(&set).unwrap(), expected.clone());
        let removed = edited(&json, &[(&name, Edit::Remove), ("none", Edit::Remove)]).unwrap();
        expected.shift_remove(&name);
        prop_assert_eq!(serde_json::from_str::<Map<_, _>>(&removed).unwrap(), expected);
    }

    #[test]
    fn nothing_makes_it_panic(text in r#"[\[\]{},:"\\u0-9a-e .é-]{0,60}"#) {
        let _ = visit(&text, |_, _| {});
        let _ = rewrite(&text, |_, token| Some(token.text().to_owned()));
        let _ = edited(&text, &[("a", Edit::Remove), ("b", Edit::Set("1"))]);
    }
}

#[test]
fn bytes_of_a_request_are_kept() {
    let json = "{ \"model\":\"a\",\"x\" : 1.50, \"n\":[1e400, 12345678901234567890123] ,\"y\":\"\\u00e9\"}";
    let edits = [("model", Edit::Set("\"b\"")), ("trace_id", Edit::Remove)];
    assert_eq!(edited(json, &edits).unwrap(), json.replace("\"a\"", "\"b\""));
    let new = rewrite(json, |place, token| {
        (place.is_at(&["y"]) && token == Token::Text("é")).then(|| "ü".to_owned())
    });
    assert_eq!(new.unwrap().unwrap(), json.replace("\\u00e9", "ü"));
}

#[test]
fn a_place_has_a_name() {
    let mut places = Vec::new();
    let json = r#"{"a": [{"b": "x", "c": [1, "y"]}], "d": "z"}"#;
    let see = |place: &Place<'_, '_>, token: Token<'_>| {
        if !matches!(token, Token::Name(_)) {
            let (top, index) = (place.member(0).unwrap().to_owned(), place.index(1));
            places.push((
                top,
                index,
                place.name().to_owned(),
                json[place.range.clone()].to_owned(),
            ));
        }
    };
    visit(json, see).unwrap();
    let at = |top: &str, index, name: &str, token: &str| {
        (top.to_owned(), index, name.to_owned(), token.to_owned())
    };
    let expected = [
        at("a", Some(0), "b", "\"x\""),
        at("a", Some(0), "c", "1"),
        at("a", Some(0), "c", "\"y\""),
        at("d", None, "d", "\"z\""),
    ];
    assert_eq!(places, expected);
}

#[test]
fn a_member_that_is_there_twice_is_noticed() {
    for json in [r#"{"a": 1, "\u0061": 2}"#, r#"[{"b": {"a": 1, "b": 2, "a": 3}}]"#] {
        assert_eq!(visit(json, |_, _| {}), Err(Unreadable::Twice), "{json}");
    }
    let many: Vec<String> = (0..100).map(|n| format!("\"{n}\": 1")).collect();
    let json = format!("{{{}, \"77\": 2}}", many.join(","));
    assert_eq!(visit(&json, |_, _| {}), Err(Unreadable::Twice));
    assert_eq!(visit(r#"[{"a": {"a": 1}}, {"a": 2}]"#, |_, _| {}), Ok(()));
    assert_eq!(visit(&"[".repeat(200), |_, _| {}), Err(Unreadable::Malformed));
}
