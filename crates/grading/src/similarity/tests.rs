#![expect(clippy::float_cmp, reason = "equal figures are the same bits here")]

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The figure of two texts, the same in both orders.
fn figure(one: &str, other: &str) -> f64 {
    let figure = similarity(one, other);
    assert_eq!(figure.to_bits(), similarity(other, one).to_bits(), "{one} | {other}");
    figure
}

#[test]
fn a_person_calls_these_the_same() {
    let pairs = [
        ("", " \n"),
        ("Yes.", "yes"),
        ("The capital of France is Paris.", "the capital of  france is **Paris**"),
        ("# Result\n\n- one\n- two", "Result:\n* one\n* two"),
        ("The total is 1,250.00 USD.", "The total is 1250 USD."),
        ("I don\u{2019}t know", "I don't know."),
        ("cafe\u{301}", "caf\u{e9}"),
        ("\u{ff11}\u{ff12} km", "12 km"),
        ("会议改到了星期四。", "会议改到了星期四"),
        ("42", "42.0"),
        ("10000000000000001", "10000000000000001"),
        (r#"{"a":1,"b":[1,2,3],"c":"x"}"#, r#"{ "c": "x", "b": [1.0, 2, 3e0], "a": 1.0 }"#),
        ("```json\n{\"a\": 1}\n```", "{\"a\":1}"),
        ("[-0.0]", "[0]"),
        (r#"{"id":20000000000000000001}"#, r#"{ "id": 2.0000000000000000001e19 }"#),
        ("[0.1, 100, 1e3]", "[1e-1, 1E2, 1000.0]"),
    ];
    for (one, other) in pairs {
        assert_eq!(figure(one, other), 1.0, "{one} | {other}");
    }
}

#[test]
fn a_person_calls_these_the_same_but_for_a_detail() {
    let pairs = [
        ("The capital of France is Paris.", "Paris is the capital of France."),
        ("def add(a, b):\n    return a + b", "def add(a, b):\n    return a - b"),
        ("The invoice of May was paid in full.", "The invoice of June was paid in full."),
        ("[1,2,3,4,5]", "[0,1,2,3,4,5]"),
        (
            r#"{"city":"Bern","days":2,"unit":"c","wind":true,"rain":false}"#,
            r#"{"city":"Bern","days":2,"unit":"c","wind":true,"rain":true}"#,
        ),
    ];
    for (one, other) in pairs {
        let figure = figure(one, other);
        assert!((0.8..1.0).contains(&figure), "{figure} {one} | {other}");
    }
}

#[test]
fn a_person_calls_these_close() {
    let pairs = [
        (
            "The meeting was moved to Thursday because the client is travelling.",
            "Since the client is away on a trip, the meeting will take place on Thursday.",
        ),
        (
            "To reset your password, open Settings, choose Security, and click Reset password.",
            "Go to the Security page in Settings and click on \"Reset password\".",
        ),
        (
            "Our refund policy allows returns within 30 days of purchase with a receipt.",
            "You can return items for a refund up to 30 days after buying them if you have the receipt.",
        ),
        (
            "I'm sorry, but I can't help with that.",
            "I am sorry, I cannot help you with this request.",
        ),
        ("approved", "The request is approved."),
        (
            "Die Lieferung verzögert sich um zwei Tage, weil das Lager überlastet ist.",
            "Weil das Lager überlastet ist, kommt die Lieferung zwei Tage später.",
        ),
        (
            "Встреча перенесена на четверг, потому что клиент в командировке.",
            "Из-за командировки клиента встречу перенесли на четверг.",
        ),
        ("会议改到了星期四，因为客户正在出差。", "因为客户出差，会议改在星期四举行。"),
        (
            "返品は購入後30日以内に領収書をお持ちください。",
            "購入から30日以内であれば、領収書があれば返品できます。",
        ),
        (
            "고객이 출장 중이어서 회의가 목요일로 변경되었습니다.",
            "회의는 고객의 출장 때문에 목요일로 옮겨졌습니다.",
        ),
        ("การประชุมเลื่อนไปเป็นวันพฤหัสบดีเพราะลูกค้าเดินทาง", "เพราะลูกค้าจะเดินทาง เราจึงต้องเลื่อนประชุมไปวันพฤหัส"),
        ("def add(a, b):\n    return a + b", "def sum(x, y):\n  result = x + y\n  return result"),
        (r#"{"label":"positive","score":0.93}"#, r#"{"label":"positive","score":0.41}"#),
        (r#"{"a":1,"b":2,"c":3}"#, r#"{"a":1,"b":2,"d":3}"#),
    ];
    for (one, other) in pairs {
        let figure = figure(one, other);
        assert!((0.3..0.8).contains(&figure), "{figure} {one} | {other}");
    }
}

#[test]
fn a_person_calls_these_different() {
    let pairs = [
        ("Yes", "No"),
        ("42", "43"),
        ("true", "false"),
        ("10000000000000001", "10000000000000002"),
        ("-5", "5"),
        ("👍", "👎"),
        ("", "x"),
        ("...", "???"),
        ("positive", "negative"),
        (
            "To reset your password, open Settings, choose Security, and click Reset password.",
            "Photosynthesis is the process by which plants turn sunlight, water and carbon dioxide into sugar.",
        ),
        (
            "An index is a data structure that improves the speed of data retrieval on a table, at the \
             cost of additional writes and of the storage space that it takes.",
            "Cats are small animals that are often kept as pets. They sleep for most of the day, hunt at \
             dawn and at dusk, and communicate by meowing and the language of the body.",
        ),
        (
            "Die Lieferung verzögert sich um zwei Tage, weil das Lager überlastet ist.",
            "Der Vertrag kann mit einer Frist von drei Monaten zum Jahresende gekündigt werden.",
        ),
        (
            "会议改到了星期四，因为客户正在出差。",
            "光合作用是植物利用阳光、水和二氧化碳制造糖分和氧气的过程。",
        ),
        (
            "返品は購入後30日以内に領収書をお持ちください。",
            "東京は日本の首都で、人口は約一千四百万人です。",
        ),
        (
            "고객이 출장 중이어서 회의가 변경되었습니다.",
            "광합성은 식물이 햇빛과 물로 당을 만드는 과정입니다.",
        ),
        ("การประชุมเลื่อนไปเป็นวันพฤหัสบดี", "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย"),
        (r#"{"label":"positive"}"#, r#"{"items":[1,2,3]}"#),
        (r#"{"label":"positive","score":0.93}"#, r#"{"label":"negative","score":0.12}"#),
        ("[1,2,3]", "{\"a\":1}"),
        ("{}", "[]"),
    ];
    for (one, other) in pairs {
        let figure = figure(one, other);
        let limit = if one.contains("score") { 0.3 } else { 0.1 };
        assert!(figure < limit, "{figure} {one} | {other}");
    }
}

/// Numbers that are one to a machine, as a floating-point number has no more than seventeen digits.
#[test]
fn numbers_are_compared_with_all_of_their_digits() {
    for (one, other) in [
        ("20000000000000000001", "20000000000000000003"),
        ("-9223372036854775809", "-9223372036854775810"),
        ("0.12345678901234567890", "0.12345678901234567891"),
        ("1e-400", "2e-400"),
    ] {
        let (left, right) = (one.parse::<f64>().unwrap(), other.parse::<f64>().unwrap());
        assert_eq!(left, right, "{one} | {other}");
        assert_eq!(figure(one, other), 0.0, "{one} | {other}");
        let places = [["[", "]"], [r#"{"id":"#, "}"], [r#"{"a":"1","b":["#, ",true]}"]];
        for [before, behind] in places {
            let within = |number: &str| format!("{before}{number}{behind}");
            assert!(figure(&within(one), &within(other)) < 1.0, "{one} | {other}");
            assert_eq!(figure(&within(one), &format!(" {}\n", within(one))), 1.0, "{one}");
        }
        let call = |number: &str| {
            let arguments = format!("{{\"id\":{number}}}");
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function",
                "function": {"name": "read", "arguments": arguments}}]})
        };
        assert_eq!(similarity(&call(one), &call(one)), 1.0);
        assert!(similarity(&call(one), &call(other)) < 1.0, "{one} | {other}");
    }
}

#[test]
fn answers_above_a_quarter_mebibyte_are_compared_as_texts() {
    let list =
        |item: &str, bytes: usize| format!("[{}]", vec![item; bytes / (item.len() + 1)].join(","));
    let (one, other) = (r#"{"city":"Bern","days":2}"#, r#"{"days":2,"city":"Bern"}"#);
    assert_eq!(figure(&list(one, 256 * 1024), &list(other, 256 * 1024)), 1.0);
    let above = figure(&list(one, 257 * 1024), &list(other, 257 * 1024));
    assert!((0.3..1.0).contains(&above), "{above}");
}

#[test]
fn json_has_credit_for_what_it_shares() {
    let whole = r#"{"user":{"name":"Ann","age":40},"tags":["a","b","c"]}"#;
    let figures = [
        whole,
        r#"{"user":{"name":"Ann","age":40},"tags":["a","b"]}"#,
        r#"{"user":{"name":"Ann","age":41},"tags":["a","b"]}"#,
        r#"{"user":{"name":"Ann","age":41},"tags":[]}"#,
        r#"{"user":{"name":"Bob","age":41},"tags":[]}"#,
        r#"{"person":{"name":"Bob","age":41},"tags":[]}"#,
    ]
    .map(|other| figure(whole, other));
    assert!(figures.is_sorted_by(|more, less| more > less), "{figures:?}");
    assert_eq!(figures[5], 0.0);
    // Items of a list count in their order: one that was put in between moves no other.
    assert_eq!(figure("[1,2,3,4]", "[1,2,9,3,4]"), 0.8);
    assert!(figure("[1,2,3]", "[3,2,1]") < 0.5);
    assert!(figure(r#"["1"]"#, "[1]") < 0.1, "a string is no number");
}

#[test]
fn tool_calls_are_compared_by_name_and_arguments() {
    let calls = |name: &str, id: &str, arguments: Value| {
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]})
    };
    let bern = calls("weather", "call_1", json!("{\"city\":\"Bern\",\"days\":2}"));
    let same = calls("weather", "call_2", json!({"days": 2.0, "city": "Bern"}));
    assert_eq!(similarity(&bern, &same), 1.0);
    let days = similarity(&bern, &calls("weather", "a", json!({"city": "Bern", "days": 3})));
    assert!((0.5..1.0).contains(&days), "{days}");
    let other = calls("search", "call_1", json!("{\"query\":\"sights of Rome\"}"));
    assert!(similarity(&bern, &other) < 0.2);
    assert!(similarity(&bern, "It rains in Bern.") < 0.1);
    let message = json!({"role": "assistant", "content": "It rains."});
    assert_eq!(similarity(&message, "It rains"), 1.0);
    assert_eq!(similarity(&json!("It rains."), "It rains"), 1.0);
    let parts = json!({"role": "assistant", "content": [{"type": "text", "text": "It rains."}]});
    assert_eq!(similarity(&message, &parts), 1.0);
    let refused = json!({"role": "assistant", "content": null, "refusal": "I will not."});
    assert_eq!(similarity(&refused, "I will not."), 1.0);
}

/// Inputs whose comparison would take minutes if any part of the work grew faster than they do.
#[test]
fn work_on_hostile_answers_is_bounded() {
    let list = |first: u32| {
        format!(
            "[{}]",
            (first..first + 40_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",")
        )
    };
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let hostile = [
        "a".repeat(8 << 20),
        "-".repeat(8 << 20),
        "\u{fdfa}".repeat(1 << 20),
        "- 5 ".repeat(1 << 20),
        "e\u{301}'".repeat(1 << 20),
        "\u{301}".repeat(1 << 20),
        "漢字 ".repeat(1 << 20),
        list(0),
        list(1),
        nested(100),
        nested(100_000),
        format!("\"{}\"", "\\\"".repeat(100_000)),
        "{\"a\":".repeat(100_000),
    ];
    for (one, other) in hostile.iter().zip(hostile.iter().cycle().skip(1)) {
        assert!(figure(one, other) < 1.0);
        assert_eq!(figure(one, &one.clone()), 1.0);
    }
}

#[test]
fn long_texts_that_differ_in_their_middle_are_not_the_same() {
    let (side, middle) = ("word ".repeat(20_000), "x".repeat(10));
    let one = format!("{side}{middle}{side}");
    let other = format!("{side}{side}");
    assert_eq!(figure(&one, &other), 0.99);
    assert_eq!(figure(&one, &one.clone()), 1.0);
}

fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c ]{0,6}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec(("[a-d]", inner), 0..5)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

/// The same value with the members of its objects the other way round.
fn reordered(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(reordered).collect(),
        Value::Object(members) => {
            members.iter().rev().map(|(name, value)| (name.clone(), reordered(value))).collect()
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn texts_have_a_figure_in_range_and_are_the_same_as_themselves(
        one in "\\PC{0,60}", other in "\\PC{0,60}",
    ) {
        let figure = figure(&one, &other);
        prop_assert!((0.0..=1.0).contains(&figure));
        prop_assert_eq!(similarity(one.as_str(), one.as_str()), 1.0);
        let spaced = format!(" {one}\n");
        prop_assert_eq!(similarity(spaced.as_str(), one.as_str()), 1.0);
    }

    #[test]
    fn values_have_a_figure_in_range_whatever_the_order_of_members(
        one in any_json(), other in any_json(),
    ) {
        let (left, right) = (one.to_string(), other.to_string());
        let figure = figure(&left, &right);
        prop_assert!((0.0..=1.0).contains(&figure));
        prop_assert_eq!(similarity(left.as_str(), reordered(&one).to_string().as_str()), 1.0);
        let swapped = similarity(reordered(&one).to_string().as_str(), right.as_str());
        prop_assert_eq!(figure, swapped);
    }

    #[test]
    fn more_of_the_same_words_is_more_alike(words in proptest::collection::vec("[a-z]{5,9}", 4..20)) {
        let whole = words.join(" ");
        let half = words[..words.len() / 2].join(" ");
        let quarter = words[..words.len() / 4].join(" ");
        prop_assert!(figure(&whole, &half) >= figure(&whole, &quarter));
    }
}
