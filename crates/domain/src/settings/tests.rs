use serde_json::{Value, json};

use super::*;
use crate::safety::Checksum;

fn parse(value: Value) -> Result<Settings, Vec<String>> {
    Settings::parse(value.as_object().unwrap())
}

#[test]
fn nothing_set_means_the_defaults() {
    let settings = parse(json!({})).unwrap();
    assert_eq!(settings.limits.requests_per_hour, Some(1000));
    assert!(!settings.discard_content);
    assert_eq!(settings.safety, Safety::default());
}

#[test]
fn a_session_is_idle_after_half_an_hour_or_as_set() {
    assert_eq!(parse(json!({})).unwrap().session_idle_minutes(), 30);
    for (minutes, read) in [
        (json!(1), Some(1)),
        (json!(1440), Some(1440)),
        (json!(0), None),
        (json!(1441), None),
        (json!(1.5), None),
        (json!("5"), None),
    ] {
        let settings = parse(json!({"sessions": {"idle_minutes": minutes}}));
        match read {
            Some(read) => assert_eq!(settings.unwrap().session_idle_minutes(), read),
            None => assert_eq!(
                settings.unwrap_err(),
                ["settings.sessions.idle_minutes must be a whole number from 1 to 1440"]
            ),
        }
    }
}

#[test]
fn attributes_are_named_as_in_statistics() {
    let rules = parse(json!({"attributes": {"required": ["user", "tag:team"], "hash": ["user"]}}));
    let rules = rules.unwrap().attributes;
    let names: Vec<String> = rules.required.iter().map(ToString::to_string).collect();
    assert_eq!((names, rules.hash.len()), (vec!["user".to_owned(), "tag:team".to_owned()], 1));
    assert_eq!(
        parse(json!({"attributes": {"required": ["team"], "hash": "user", "hashed": []}}))
            .unwrap_err(),
        [
            "settings.attributes.required holds 'team', which is none of user, session and tag:NAME",
            "settings.attributes.hash must be an array of texts",
            "settings.attributes.hashed is not known: it is one of required, hash",
        ]
    );
}

#[test]
fn null_turns_a_limit_off() {
    let settings =
        parse(json!({"limits": {"loop_requests": null}, "monthly_budget": null})).unwrap();
    assert_eq!(settings.limits.loop_requests, None);
    assert_eq!(settings.limits.requests_per_hour, Some(1000));
    assert_eq!(settings.monthly_budget, None);
}

#[test]
fn unknown_keys_are_no_fault_and_every_known_one_is_checked() {
    let errors = parse(json!({
        "my_own_key": {"a": 1},
        "monthly_budget": -1,
        "routing_tiers": {"simple": 3, "cheap": "x"},
        "routing": {"complexity_threshold": 2},
        "safety": {"pii": {"action": "erase"}, "rules": [{"name": "no code names"}]},
        "perimeter": {"block": ["10.0.0.0/99"]},
        "images": {"blocked_terms": ["Acme", "..."]},
        "mcp": {"allowed_servers": "https://a.example/mcp"},
        "passthrough": {"vendor_tools": "mcp"},
    }))
    .unwrap_err();
    assert_eq!(errors.len(), 10, "{errors:#?}");
    assert!(errors.iter().any(|e| e == "settings.safety.rules[0].pattern is required"));
    assert!(errors.iter().any(|e| e.starts_with("settings.routing_tiers.cheap is not known")));
}

#[test]
fn recognizers_are_bounded_and_have_defaults() {
    let read = |recognizers: Value| parse(json!({"safety": {"recognizers": recognizers}}));
    let plain = read(json!([{"name": "STAFF_ID", "pattern": "S[0-9]{6}"}])).unwrap();
    let own = &plain.safety.recognizers[0];
    assert_eq!((own.checksum, own.score, own.context.len()), (Checksum::None, 0.6, 0));
    let one = |fields: Value| {
        let mut whole = json!({"name": "STAFF_ID", "pattern": "x"});
        whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        read(json!([whole])).unwrap_err().join("; ")
    };
    let at = "settings.safety.recognizers[0]";
    for (fields, fault) in [
        (json!({"name": "two words"}), "name has at most 32 letters"),
        (json!({"name": "x".repeat(33)}), "name has at most 32 letters"),
        (json!({"pattern": "x".repeat(1025)}), "pattern is longer than 1024 bytes"),
        (json!({"checksum": "crc"}), "checksum must be one of none, luhn, verhoeff"),
        (json!({"context": [" "]}), "context holds at most 20 words"),
        (json!({"context": vec!["a"; 21]}), "context holds at most 20 words"),
        (json!({"score": 1.5}), "score must be a number between 0 and 1"),
    ] {
        let said = one(fields);
        assert!(said.starts_with(&format!("{at}.{fault}")), "{said}");
    }
    let many = vec![json!({"name": "a", "pattern": "x"}); 101];
    let said = read(many.into()).unwrap_err();
    assert_eq!(said, ["settings.safety.recognizers holds more than 100 recognizers"]);
}

#[test]
fn a_patch_merges_at_every_depth() {
    let mut settings = json!({"a": {"b": 1, "c": [1, 2]}, "d": 1}).as_object().unwrap().clone();
    let patch = json!({"a": {"c": [3]}, "d": null, "e": 2}).as_object().unwrap().clone();
    merge(&mut settings, patch);
    assert_eq!(Value::Object(settings), json!({"a": {"b": 1, "c": [3]}, "d": null, "e": 2}));
}
