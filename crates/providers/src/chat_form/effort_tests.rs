//! The efforts of every format against the models of every provider.

use domain::model::Provider;
use serde_json::{Value, json};

use crate::testing::{attempt, model, prompt};
use crate::vendors::adapter;

/// The body that a model is sent for a lenient request in another format than its own, and the dropped
/// parameters.
fn sent(provider: Provider, name: &str, params: Value) -> (Value, Vec<String>) {
    let mut model = model(provider, Some("http://127.0.0.1/v1"));
    model.config.upstream_model = Some(name.to_owned());
    let mut prompt = prompt(params);
    (prompt.is_translated, prompt.is_lenient) = (true, true);
    let encoded = adapter(provider).encode(&attempt(&model, &prompt)).unwrap();
    (serde_json::from_slice(&encoded.body).unwrap(), encoded.dropped)
}

#[test]
fn every_effort_is_one_of_the_models() {
    use Provider::{Anthropic, Bedrock, Gemini, Openai};
    let level = |level: &str| json!({"thinkingLevel": level, "includeThoughts": true});
    let budget = |budget: u32| json!({"thinkingBudget": budget, "includeThoughts": budget > 0});
    let thinks = |budget: u32| json!({"type": "enabled", "budget_tokens": budget});
    let (openai, claude) = ("/reasoning_effort", "/output_config/effort");
    let (gemini, converse) = ("/generationConfig/thinkingConfig", "/outputConfig/effort");
    let beside = "/additionalModelRequestFields/thinking";
    for (provider, name, place, expected) in [
        (Openai, "gpt-5", openai, [json!("minimal"), json!("low"), json!("high"), json!("high")]),
        (Openai, "o3", openai, [json!("low"), json!("low"), json!("high"), json!("high")]),
        (
            Anthropic,
            "claude-opus-4-6",
            claude,
            [json!("low"), json!("low"), json!("high"), json!("max")],
        ),
        (
            Anthropic,
            "claude-sonnet-4-5",
            "/thinking",
            [Value::Null, thinks(1024), thinks(24_576), thinks(24_576)],
        ),
        (
            Gemini,
            "gemini-3-flash",
            gemini,
            [level("MINIMAL"), level("LOW"), level("HIGH"), level("HIGH")],
        ),
        (
            Gemini,
            "gemini-3.1-pro",
            gemini,
            [level("LOW"), level("LOW"), level("HIGH"), level("HIGH")],
        ),
        (
            Gemini,
            "gemini-2.5-pro",
            gemini,
            [budget(1024), budget(1024), budget(24_576), budget(24_576)],
        ),
        (
            Gemini,
            "gemini-2.5-flash",
            gemini,
            [budget(0), budget(1024), budget(24_576), budget(24_576)],
        ),
        (
            Bedrock,
            "us.anthropic.claude-opus-4-6-v1:0",
            converse,
            [json!("low"), json!("low"), json!("high"), json!("max")],
        ),
        (
            Bedrock,
            "us.anthropic.claude-sonnet-4-5-v1:0",
            beside,
            [Value::Null, thinks(1024), thinks(24_576), thinks(24_576)],
        ),
        (
            Bedrock,
            "amazon.nova-2-lite-v1:0",
            converse,
            [json!("low"), json!("low"), json!("high"), json!("max")],
        ),
    ] {
        for (asked, expected) in ["none", "low", "high", "max"].into_iter().zip(expected) {
            let (body, dropped) = sent(provider, name, json!({"reasoning_effort": asked}));
            let found = body.pointer(place).cloned().unwrap_or_default();
            assert_eq!(found, expected, "{name} {asked}: {body}");
            assert!(dropped.is_empty(), "{name} {asked}: {dropped:?}");
        }
    }
    for (provider, name) in [
        (Openai, "gpt-4.1"),
        (Anthropic, "claude-3-5-haiku-20241022"),
        (Gemini, "gemini-2.0-flash"),
        (Bedrock, "amazon.nova-pro-v1:0"),
        (Bedrock, "anthropic.claude-3-haiku-20240307-v1:0"),
    ] {
        let (body, dropped) = sent(provider, name, json!({"reasoning_effort": "high"}));
        assert_eq!(dropped, ["reasoning_effort"], "{name}");
        assert!(!body.to_string().contains("high"), "{body}");
    }
}

#[test]
fn claude_gets_nothing_beside_thinking_that_it_refuses() {
    let thinking = json!({"type": "enabled", "budget_tokens": 10_000});
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let given = json!({"temperature": 0.2, "top_p": 0.5, "top_k": 4});
    for (provider, name, place) in [
        (Provider::Anthropic, "claude-sonnet-4-5", "/thinking"),
        (
            Provider::Bedrock,
            "us.anthropic.claude-sonnet-4-5-v1:0",
            "/additionalModelRequestFields/thinking",
        ),
    ] {
        let sent = |more: &[(&str, Value)]| {
            let mut params = given.clone();
            let more = more.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            params.as_object_mut().unwrap().extend(more);
            let (body, dropped) = sent(provider, name, params);
            let thinks = body.pointer(place).cloned().unwrap_or_default();
            (body, thinks, dropped)
        };
        let (body, thinks, dropped) = sent(&[("thinking", thinking.clone())]);
        assert_eq!(thinks, thinking, "{name}");
        assert_eq!(dropped, ["temperature", "top_k", "top_p"], "{name}");
        for lost in ["temperature", "top_p", "topP", "top_k"] {
            assert!(!body.to_string().contains(lost), "{lost}: {body}");
        }
        let forced = [("tools", tools.clone()), ("tool_choice", json!("required"))];
        for (asked, value) in [("thinking", &thinking), ("reasoning_effort", &json!("high"))] {
            let mut params = forced.to_vec();
            params.push((asked, value.clone()));
            let (_, thinks, dropped) = sent(&params);
            assert_eq!(thinks, Value::Null, "a forced call goes before {asked}");
            assert_eq!(dropped, [asked, "top_p"], "{name}");
        }
        let lenient = [("tools", tools.clone()), ("reasoning_effort", json!("low"))];
        assert_eq!(sent(&lenient).1["budget_tokens"], 1024, "a free choice goes with it");
    }
}

#[test]
fn a_budget_leaves_room_for_an_answer() {
    let mut model = model(Provider::Anthropic, None);
    model.config.upstream_model = Some("claude-sonnet-4-5".to_owned());
    let thinking = |budget: u64| json!({"thinking": {"type": "enabled", "budget_tokens": budget}});
    let effort = || json!({"reasoning_effort": "high"});
    for (params, bound, budget, most) in [
        (thinking(10_000), Some(20_000), Some(10_000), 20_000),
        (thinking(10_000), Some(10_000), Some(5000), 10_000),
        (thinking(10_000), Some(1500), None, 1500),
        (thinking(10_000), None, Some(10_000), 14_096),
        (effort(), Some(64_000), Some(24_576), 64_000),
        (effort(), Some(8000), Some(4000), 8000),
        (effort(), Some(300), None, 300),
        (effort(), None, Some(24_576), 28_672),
    ] {
        let mut prompt = prompt(params.clone());
        prompt.is_lenient = true;
        let mut attempt = attempt(&model, &prompt);
        attempt.max_output_tokens = bound;
        let encoded = adapter(Provider::Anthropic).encode(&attempt).unwrap();
        let body: Value = serde_json::from_slice(&encoded.body).unwrap();
        assert_eq!(body["thinking"]["budget_tokens"].as_u64(), budget, "{params} {bound:?}");
        assert_eq!(body["max_tokens"], most, "{params} {bound:?}");
        assert_eq!(encoded.dropped.is_empty(), budget.is_some(), "{params} {bound:?}");
    }
}

#[test]
fn claude_does_not_think_amid_turns_without_thoughts() {
    let mut model = model(Provider::Anthropic, None);
    model.config.upstream_model = Some("claude-sonnet-4-5".to_owned());
    let call = json!({"id": "a", "type": "function",
        "function": {"name": "f", "arguments": "{}"}});
    let asked = json!({"role": "user", "content": "Go."});
    let called = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "1"});
    let again = json!({"role": "user", "content": "And now?"});
    for (messages, thinks) in [
        (json!([asked, called, result]), false),
        (json!([asked, called, result, {"role": "assistant", "content": "One."}, again]), true),
    ] {
        let mut prompt = crate::testing::prompt_of(messages, json!({"reasoning_effort": "low"}));
        prompt.is_lenient = true;
        let encoded = adapter(Provider::Anthropic).encode(&attempt(&model, &prompt)).unwrap();
        let body: Value = serde_json::from_slice(&encoded.body).unwrap();
        assert_eq!(body.get("thinking").is_some(), thinks, "{body}");
        assert_eq!(encoded.dropped.is_empty(), thinks, "{:?}", encoded.dropped);
    }
}
