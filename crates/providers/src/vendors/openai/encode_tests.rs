use domain::conversation::{Body, Message, Role};
use domain::model::Provider;
use serde_json::{Value, json};

use crate::adapter::Adapter as _;
use crate::adapter::request::Attempt;
use crate::testing::{attempt, model, prompt};
use crate::vendors::internal::Internal;
use crate::vendors::openai::Openai;

fn encoded(attempt: &Attempt<'_>) -> Value {
    serde_json::from_slice(&Openai.encode(attempt).unwrap().body).unwrap()
}

#[test]
fn a_prompt_becomes_a_request() {
    let mut model = model(Provider::Openai, None);
    model.config.upstream_model = Some("gpt-real".to_owned());
    let mut prompt = prompt(json!({
        "temperature": 0.5,
        "model": "other", "messages": [], "stream": true, "max_tokens": 9, "max_completion_tokens": 9,
        "stream_options": {"include_usage": false},
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }));
    let call =
        json!([{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    prompt.messages.extend([
        Message {
            role: Role::Assistant,
            body: Body::Empty,
            // An answer in the legacy form, as it is sent back.
            extra: [
                ("tool_calls".to_owned(), call.clone()),
                ("function_call".to_owned(), call[0]["function"].clone()),
            ]
            .into_iter()
            .collect(),
        },
        Message {
            role: Role::Tool,
            body: Body::Parts(vec![json!({"type": "text", "text": "42"})]),
            extra: [("tool_call_id".to_owned(), json!("c1"))].into_iter().collect(),
        },
    ]);
    let attempt = Attempt { max_output_tokens: Some(100), ..attempt(&model, &prompt) };
    assert_eq!(
        encoded(&attempt),
        json!({
            "model": "gpt-real",
            "messages": [
                {"role": "user", "content": "Hello there. How are you?"},
                {"role": "assistant", "content": null, "tool_calls": call},
                {"role": "tool", "content": [{"type": "text", "text": "42"}], "tool_call_id": "c1"},
            ],
            "temperature": 0.5,
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "max_completion_tokens": 100,
        }),
    );
}

#[test]
fn what_the_format_lacks_is_refused_or_left_out_where_another_was_spoken() {
    let model = model(Provider::Openai, None);
    for name in ["top_k", "inference_geo"] {
        // Other servers of the format may support it.
        let mut prompt = prompt(json!({name: 5}));
        assert_eq!(encoded(&attempt(&model, &prompt))[name], 5);
        prompt.is_translated = true;
        let encoded = Openai.encode(&attempt(&model, &prompt));
        if name == "top_k" {
            let encoded = encoded.unwrap();
            let body: Value = serde_json::from_slice(&encoded.body).unwrap();
            assert_eq!((body.get(name), encoded.dropped), (None, vec![name.to_owned()]));
        } else {
            let error = encoded.unwrap_err().to_string();
            assert_eq!(error, format!("{name} is not supported by model gpt-test"));
        }
    }
}

#[test]
fn thinking_is_an_effort_where_the_model_takes_one() {
    let asked = |name: &str, params: Value| {
        let mut model = model(Provider::Openai, None);
        model.config.upstream_model = Some(name.to_owned());
        let mut prompt = prompt(params);
        prompt.is_translated = true;
        let encoded = Openai.encode(&attempt(&model, &prompt)).unwrap();
        let body: Value = serde_json::from_slice(&encoded.body).unwrap();
        assert_eq!(body.get("thinking"), None);
        (body.get("reasoning_effort").cloned(), encoded.dropped)
    };
    let thinking = json!({"type": "enabled", "budget_tokens": 31_999});
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let (high, lost) = ((Some(json!("high")), vec![]), (None, vec!["thinking".to_owned()]));
    for (name, plainly, with_tools) in [
        ("gpt-5", &high, &high),
        ("gpt-5-mini-2025-08-07", &high, &high),
        ("openai/gpt-oss-120b", &high, &high),
        ("o4-mini", &high, &high),
        ("o1", &high, &high),
        ("gpt-5.4-nano", &high, &lost),
        ("gpt-6", &high, &lost),
        ("gpt-4o", &lost, &lost),
        ("gpt-4.1", &lost, &lost),
        ("gpt-5-chat-latest", &lost, &lost),
        ("o1-mini", &lost, &lost),
        ("olmo-2", &lost, &lost),
        ("qwen3", &lost, &lost),
    ] {
        assert_eq!(&asked(name, json!({"thinking": thinking})), plainly, "{name}");
        let params = json!({"thinking": thinking, "tools": tools});
        assert_eq!(&asked(name, params), with_tools, "{name} with tools");
    }
    // An effort of the caller's own goes before it, and a model's default is no parameter.
    let both = json!({"thinking": thinking, "reasoning_effort": "low"});
    assert_eq!(asked("gpt-5", both), (Some(json!("low")), vec![]));
    let adaptive = json!({"thinking": {"type": "adaptive"}});
    assert_eq!(asked("gpt-5", adaptive), (None, vec![]));
}

#[test]
fn thoughts_of_another_provider_stay_here() {
    let model = model(Provider::Openai, None);
    for (state, goes) in [(None, true), (Some(json!({"provider": "gemini"})), false)] {
        let mut prompt = prompt(json!({}));
        let mut extra: serde_json::Map<_, _> =
            [("reasoning_content".to_owned(), json!("Hm."))].into_iter().collect();
        extra.extend(state.map(|state| ("provider_state".to_owned(), state)));
        prompt.messages.push(Message { role: Role::Assistant, body: Body::Empty, extra });
        let sent = encoded(&attempt(&model, &prompt));
        assert_eq!(sent["messages"][1].get("reasoning_content").is_some(), goes);
    }
}

#[test]
fn what_clients_add_to_what_they_heard_stays_here() {
    let model = model(Provider::Openai, None);
    let heard = json!({
        "parsed": {"a": 1}, "annotations": [], "provider_state": {"thinking": "t"},
        "tool_calls": [
            {"index": 0, "id": "c1", "type": "function",
                "function": {"name": "f", "arguments": "{}", "parsed_arguments": {}}},
            {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "index"}},
        ],
    });
    let mut prompt = prompt(json!({}));
    let extra = heard.as_object().unwrap().clone();
    prompt.messages.push(Message { role: Role::Assistant, body: Body::Empty, extra });
    assert_eq!(
        encoded(&attempt(&model, &prompt))["messages"][1],
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "index"}},
        ]}),
    );
}

#[test]
fn streams_ask_for_usage_whatever_the_caller_says() {
    let model = model(Provider::Internal, Some("http://127.0.0.1/v1/"));
    let prompt = prompt(json!({"stream_options": {"include_usage": false, "more": 1}}));
    let attempt = Attempt { stream: true, max_output_tokens: Some(7), ..attempt(&model, &prompt) };
    assert_eq!(
        encoded(&attempt),
        json!({
            "model": "gpt-test",
            "messages": [{"role": "user", "content": "Hello there. How are you?"}],
            "max_tokens": 7,
            "stream": true,
            "stream_options": {"include_usage": true, "more": 1},
        }),
    );
    let url = Internal.endpoint(&model, true).unwrap();
    assert_eq!(url.as_str(), "http://127.0.0.1/v1/chat/completions");
}

#[test]
fn the_bound_has_the_name_that_the_server_knows() {
    let prompt = prompt(json!({}));
    for (provider, base, name) in [
        (Provider::Openai, None, "max_completion_tokens"),
        (Provider::Openai, Some("https://API.openai.com/v1"), "max_completion_tokens"),
        (Provider::Openai, Some("https://api.openai.com.example.org/v1"), "max_tokens"),
        (Provider::Openai, Some("https://llm.example.org/v1"), "max_tokens"),
        (Provider::Internal, Some("sandbox:"), "max_tokens"),
    ] {
        let model = model(provider, base);
        let attempt = Attempt { max_output_tokens: Some(5), ..attempt(&model, &prompt) };
        assert_eq!(encoded(&attempt)[name], 5, "{base:?}");
        assert!(encoded(&super::Attempt { max_output_tokens: None, ..attempt })[name].is_null());
    }
}

#[test]
fn reasoning_models_get_the_newer_name_wherever_they_are() {
    let prompt = prompt(json!({}));
    for (identifier, name) in [
        ("gpt-5-mini", "max_completion_tokens"),
        ("gpt-5.1", "max_completion_tokens"),
        ("openai/o3-mini", "max_completion_tokens"),
        ("o1", "max_completion_tokens"),
        ("gpt-4o", "max_tokens"),
        ("o1ympus-7b", "max_tokens"),
        ("llama-3", "max_tokens"),
    ] {
        let mut model = model(Provider::Openai, Some("https://llm.example.org/v1"));
        identifier.clone_into(&mut model.identifier);
        let attempt = Attempt { max_output_tokens: Some(5), ..attempt(&model, &prompt) };
        assert_eq!(encoded(&attempt)[name], 5, "{identifier}");
    }
}

#[test]
fn breakpoints_of_caches_are_left_out_and_named() {
    let marked = json!({"tools": [{"type": "function", "function": {"name": "f"},
        "cache_breakpoint": "5m"}], "cache_breakpoint": "1h"});
    let mut prompt = prompt(marked);
    let extra = json!({"cache_breakpoint": "5m", "tool_calls": [{"id": "a", "type": "function",
        "function": {"name": "f", "arguments": "{}"}, "cache_breakpoint": "5m"}]});
    prompt.messages.push(Message {
        role: Role::Assistant,
        body: Body::Parts(vec![json!({"type": "text", "text": "a", "cache_breakpoint": "5m"})]),
        extra: extra.as_object().unwrap().clone(),
    });
    let model = model(Provider::Internal, Some("http://127.0.0.1/v1"));
    let encoded = Internal.encode(&attempt(&model, &prompt)).unwrap();
    assert_eq!(encoded.dropped, ["cache_control"]);
    let body: Value = serde_json::from_slice(&encoded.body).unwrap();
    assert!(!body.to_string().contains("cache_"), "{body}");
    assert_eq!(body["messages"][1]["tool_calls"][0]["id"], "a");
    assert_eq!(body["tools"][0]["function"]["name"], "f");
}
