use serde_json::{Value, json};

use super::*;

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
    }))
    .unwrap_err();
    assert_eq!(errors.len(), 9, "{errors:#?}");
    assert!(errors.iter().any(|e| e == "settings.safety.rules[0].pattern is required"));
    assert!(errors.iter().any(|e| e.starts_with("settings.routing_tiers.cheap is not known")));
}

#[test]
fn a_patch_merges_at_every_depth() {
    let mut settings = json!({"a": {"b": 1, "c": [1, 2]}, "d": 1}).as_object().unwrap().clone();
    let patch = json!({"a": {"c": [3]}, "d": null, "e": 2}).as_object().unwrap().clone();
    merge(&mut settings, patch);
    assert_eq!(Value::Object(settings), json!({"a": {"b": 1, "c": [3]}, "d": null, "e": 2}));
}
