use domain::safety::{Origin, Safety};
use proptest::prelude::*;

use super::*;
use crate::policy::compiled::Policy;
use crate::report::Part;

/// Returns the findings in a JSON text, and the text with them replaced.
fn redacted(raw: &str) -> (Vec<String>, String) {
    let json = JsonText::read(raw).unwrap();
    let policy = Policy::compile(&Safety::default()).unwrap();
    let report = policy.inspect(&[Part { origin: Origin::Tool, text: json.text() }]);
    let findings: Vec<_> = report.findings.iter().collect();
    let out = json.redact(&mut Redactor::new(1), &findings);
    let kinds = report.findings.iter().map(|finding| finding.kind.to_string()).collect();
    (kinds, out.unwrap_or_else(|| raw.to_owned()))
}

#[test]
fn strings_and_numbers_are_replaced_in_place() {
    for (raw, out) in [
        (r#"{"to": "jo@a.example", "n": 1.50}"#, r#"{"to": "[EMAIL_1_00000001]", "n": 1.50}"#),
        (r#"{"to":"jo\u0040a.example\n\u00e9"}"#, r#"{"to":"[EMAIL_1_00000001]\né"}"#),
        (r#"{"ssn":536228741,"x":1e3}"#, r#"{"ssn":"[US_SSN_1_00000001]","x":1e3}"#),
        (r#"{"customerSsn":[536228741]}"#, r#"{"customerSsn":["[US_SSN_1_00000001]"]}"#),
        (r#"{"customer_ssn":"536228741"}"#, r#"{"customer_ssn":"[US_SSN_1_00000001]"}"#),
        (r#"{"card":4111111111111111.0}"#, r#"{"card":"[PAYMENT_CARD_1_00000001]"}"#),
        ("[4.111111111111111e15]", r#"["[PAYMENT_CARD_1_00000001]"]"#),
        (r#"{"jo@a.example":true}"#, r#"{"[EMAIL_1_00000001]":true}"#),
        // Cut off.
        (r#"{"to":"jo@a.example","#, r#"{"to":"[EMAIL_1_00000001]","#),
        (r#"{"to":"jo@a.example and"#, r#"{"to":"[EMAIL_1_00000001] and"#),
        // No JSON after all: what stands between quotes is text as well.
        (r#"{to: jo@a.example, "x"}"#, r#"{to: [EMAIL_1_00000001], "x"}"#),
    ] {
        assert_eq!(redacted(raw).1, out, "{raw}: {:?}", redacted(raw).0);
    }
}

#[test]
fn ordinary_json_stays_as_it_is() {
    for raw in [
        r#"{"created_at":1718000004,"ms":1718000000977,"max":2147483647,"x":-1.50e-3}"#,
        r#"{"list":[1000000,2000000.0,123456789012345678901234567890],"t":true,"n":null}"#,
        r#"{"note":"\u00e9\/ \"quoted\" \ud83d\ude00 \ud83d"}"#,
        "[]",
        " { } ",
    ] {
        let (kinds, out) = redacted(raw);
        assert_eq!(out, raw, "{kinds:?}");
    }
    assert!(JsonText::read("jo@a.example").is_none());
    assert!(JsonText::read("").is_none());
}

#[test]
fn names_of_fields_in_words() {
    for (name, words) in [
        ("ssn", Some("ssn")),
        ("customer_ssn", Some("customer ssn")),
        ("socialSecurityNumber", Some("social security number")),
        ("tax-id", Some("tax id")),
        ("a1", None),
        ("", None),
        ("_", None),
        ("jo@a.example", None),
    ] {
        assert_eq!(label(name).as_deref(), words);
    }
    assert_eq!(long_number("-536228741").as_deref(), Some("536228741"));
    assert_eq!(long_number("123456"), None);
    assert_eq!(long_number("1.0000001").as_deref(), Some("1.0000001"));
}

proptest! {
    #[test]
    fn what_is_replaced_is_json_again(
        fields in prop::collection::vec(("[a-z_]{1,8}|\\PC{0,6}", any_value()), 0..5)
    ) {
        let object: serde_json::Map<_, _> = fields.into_iter().collect();
        let raw = Value::Object(object).to_string();
        let (kinds, out) = redacted(&raw);
        prop_assert!(serde_json::from_str::<Value>(&out).is_ok(), "{}", out);
        prop_assert!(!kinds.is_empty() || out == raw);
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let said = "(ann@a\\.example|4111111111111111|[ \"\\\\\n,:{}\\[\\]é😀a-z0-9]){0,8}";
    prop_oneof![
        said.prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::from(4_111_111_111_111_111_u64)),
        prop::collection::vec(said.prop_map(Value::from), 0..3).prop_map(Value::from),
    ]
}
