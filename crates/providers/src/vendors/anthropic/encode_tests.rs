use domain::conversation::{Body, Message, Prompt, Role};
use domain::model::{Model, Provider};
use serde_json::{Map, Value, json};

use super::*;
use crate::adapter::Adapter as _;
use crate::chat_form::STATE;
use crate::chat_form::answer::state;
use crate::error::ErrorKind;
use crate::testing::{attempt, model};
use crate::vendors::anthropic::Anthropic;

fn claude(name: &str) -> Model {
    Model { identifier: name.to_owned(), ..model(Provider::Anthropic, None) }
}

/// A message as a caller would write it.
fn message(value: &Value) -> Message {
    let Value::Object(mut extra) = value.clone() else { panic!("a message is an object") };
    let role = Role::parse(extra["role"].as_str().unwrap()).unwrap();
    let body = match extra.shift_remove("content") {
        None | Some(Value::Null) => Body::Empty,
        Some(Value::Array(parts)) => Body::Parts(parts),
        Some(text) => Body::Text(text.as_str().unwrap().to_owned()),
    };
    extra.shift_remove("role");
    Message { role, body, extra }
}

fn prompt(messages: &Value, params: &Value) -> Prompt {
    Prompt {
        messages: messages.as_array().unwrap().iter().map(message).collect(),
        params: params.as_object().unwrap().clone(),
        ..Prompt::default()
    }
}

fn encoded(messages: &Value, params: &Value) -> Result<(Map<String, Value>, Vec<String>), Error> {
    encoded_for("claude-3-5-haiku-20241022", messages, params)
}

fn encoded_for(
    name: &str,
    messages: &Value,
    params: &Value,
) -> Result<(Map<String, Value>, Vec<String>), Error> {
    let (model, prompt) = (claude(name), prompt(messages, params));
    let Encoded { body, dropped } = Anthropic.encode(&attempt(&model, &prompt))?;
    Ok((serde_json::from_slice(&body).unwrap(), dropped))
}

/// Returns the messages as they are sent.
fn sent(messages: &Value) -> Value {
    encoded(messages, &json!({})).unwrap().0["messages"].clone()
}

fn refusal(messages: &Value, params: &Value) -> String {
    let error = encoded(messages, params).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Unsupported(_)), "{error:?}");
    error.to_string()
}

fn hello() -> Value {
    json!([{"role": "user", "content": "Hello"}])
}

fn weather_tool() -> Value {
    json!({"type": "function", "function": {"name": "weather", "description": "The weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}})
}

#[test]
fn a_prompt_becomes_a_request() {
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "What is the weather?"},
    ]);
    let params = json!({
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop": ["END", "STOP"], "user": "u-1",
        "thinking": {"type": "disabled"}, "seed": 7, "n": 1, "tools": [weather_tool()],
        "inference_geo": "us",
        "response_format": {"type": "json_schema",
            "json_schema": {"name": "a", "strict": true, "schema": {"type": "object"}}},
    });
    let (body, dropped) = encoded(&messages, &params).unwrap();
    assert_eq!(dropped, ["seed"]);
    assert_eq!(
        Value::Object(body),
        json!({
            "model": "claude-3-5-haiku-20241022",
            "max_tokens": 4096,
            "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "Hi."}]},
                {"role": "user", "content": [{"type": "text", "text": "What is the weather?"}]},
            ],
            "tools": [{"name": "weather", "description": "The weather", "input_schema":
                {"type": "object", "properties": {"city": {"type": "string"}}}}],
            "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
            "inference_geo": "us",
            "stop_sequences": ["END", "STOP"],
            "thinking": {"type": "disabled"},
            "metadata": {"user_id": "u-1"},
            "temperature": 0.5, "top_p": 0.9, "top_k": 40,
        }),
    );
}

#[test]
fn a_request_holds_nothing_that_nobody_asked_for() {
    let (model, prompt) = (claude("claude-sonnet-5"), prompt(&hello(), &json!({})));
    let attempt = Attempt { max_output_tokens: Some(9), stream: true, ..attempt(&model, &prompt) };
    let body: Value = serde_json::from_slice(&Anthropic.encode(&attempt).unwrap().body).unwrap();
    assert_eq!(
        body,
        json!({"model": "claude-sonnet-5", "max_tokens": 9, "stream": true,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]}),
    );
}

#[test]
fn rounds_of_tools_are_blocks() {
    let call = |id: &str, arguments: Value| {
        json!({"id": id, "type": "function",
            "function": {"name": "weather", "arguments": arguments}})
    };
    let messages = json!([
        {"role": "user", "content": "Rome and Oslo?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [
            call("a", json!({"city": "Rome"})), call("functions.weather:1", json!(""))]},
        {"role": "user", "content": "Be quick."},
        {"role": "tool", "tool_call_id": "a", "content": "18 C"},
        {"role": "tool", "tool_call_id": "functions.weather:1", "content": " "},
    ]);
    assert_eq!(
        sent(&messages),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Rome and Oslo?"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "weather", "input": {"city": "Rome"}},
                {"type": "tool_use", "id": "functions_2eweather_3a1", "name": "weather",
                    "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "18 C"},
                {"type": "tool_result", "tool_use_id": "functions_2eweather_3a1"},
                {"type": "text", "text": "Be quick."},
            ]},
        ]),
    );
    let (body, _) = encoded(&messages, &json!({})).unwrap();
    assert_eq!(body["tools"], json!([{"name": "weather", "input_schema": {"type": "object"}}]));
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
}

#[test]
fn pictures_of_a_result_are_shown_beside_it() {
    let call = json!({"id": "a", "type": "function",
        "function": {"name": "look", "arguments": "{}"}});
    let picture = json!({"type": "image_url",
        "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}});
    let content = json!([{"type": "text", "text": "The screen:"}, picture]);
    let messages = json!([
        {"role": "user", "content": "What do you see?"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": content},
    ]);
    let source = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="});
    assert_eq!(
        sent(&messages)[2]["content"],
        json!([
            {"type": "tool_result", "tool_use_id": "a", "content": "The screen:"},
            {"type": "image", "source": source},
        ]),
    );
}

#[test]
fn the_choice_of_tools_is_translated() {
    let one = json!({"parallel_tool_calls": false});
    for (params, choice) in [
        (json!({}), Value::Null),
        (json!({"parallel_tool_calls": true}), Value::Null),
        (json!({"tool_choice": "auto"}), json!({"type": "auto"})),
        (json!({"tool_choice": "required"}), json!({"type": "any"})),
        (json!({"tool_choice": "none"}), json!({"type": "none"})),
        (one.clone(), json!({"type": "auto", "disable_parallel_tool_use": true})),
        (
            json!({"tool_choice": {"type": "function", "function": {"name": "weather"}},
                "parallel_tool_calls": false}),
            json!({"type": "tool", "name": "weather", "disable_parallel_tool_use": true}),
        ),
        (json!({"tool_choice": "none", "parallel_tool_calls": false}), json!({"type": "none"})),
    ] {
        let mut params = params;
        params["tools"] = json!([weather_tool()]);
        let (body, _) = encoded(&hello(), &params).unwrap();
        assert_eq!(body.get("tool_choice").unwrap_or(&Value::Null), &choice, "{params}");
    }
    let (body, _) = encoded(&hello(), &one).unwrap();
    assert!(!body.contains_key("tool_choice") && !body.contains_key("tools"));
}

#[test]
fn images_come_in_two_ways() {
    let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let messages = json!([{"role": "user", "content": [
        {"type": "text", "text": "What is this?"},
        image("data:image/png;base64,AAAA"), image("data:image/jpg;base64,BBBB"),
        image("https://example.com/a.png"),
    ]}]);
    let block = |source: Value| json!({"type": "image", "source": source});
    assert_eq!(
        sent(&messages)[0]["content"],
        json!([
            {"type": "text", "text": "What is this?"},
            block(json!({"type": "base64", "media_type": "image/png", "data": "AAAA"})),
            block(json!({"type": "base64", "media_type": "image/jpeg", "data": "BBBB"})),
            block(json!({"type": "url", "url": "https://example.com/a.png"})),
        ]),
    );
    let tiff = json!([{"role": "user", "content": [image("data:image/tiff;base64,AAAA")]}]);
    assert!(refusal(&tiff, &json!({})).contains("JPEG, PNG, GIF or WebP"));
    let own = json!([{"role": "user", "content": "Draw"},
        {"role": "assistant", "content": [image("https://example.com/a.png")]}]);
    assert!(refusal(&own, &json!({})).contains("cannot hold an image"));
}

#[test]
fn what_the_model_thought_goes_back_as_it_came() {
    let content = json!([
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome"}},
    ]);
    let call = json!({"id": "toolu_1", "type": "function",
        "function": {"name": "weather", "arguments": r#"{"city":"Rome"}"#}});
    let messages = |of: &str| {
        json!([
            {"role": "user", "content": "Rome?"},
            {"role": "assistant", "content": null, "tool_calls": [call],
                STATE: state(Provider::Anthropic, of, content.clone())},
            {"role": "tool", "tool_call_id": "toolu_1", "content": "18 C"},
        ])
    };
    let replayed = sent(&messages("claude-3-5-haiku-20241022"));
    assert_eq!(replayed[1]["content"], json!([content[0], content[2]]));
    assert_eq!(replayed[2]["content"][0]["tool_use_id"], "toolu_1");
    // Signatures are not valid for another model.
    assert_eq!(sent(&messages("claude-sonnet-5"))[1]["content"], json!([content[2]]));
}

#[test]
fn sampling_is_for_models_that_take_it() {
    for (name, takes) in [
        ("claude-3-5-haiku-20241022", true),
        ("claude-2.1", true),
        ("claude-instant-1.2", true),
        ("claude-opus-4-20250514", true),
        ("claude-opus-4-6", true),
        ("claude-sonnet-4-5-20250929", true),
        ("claude-haiku-4-9", true),
        ("our-own-name", true),
        ("claude-opus-4-7", false),
        ("anthropic/claude-opus-4.8", false),
        ("claude-sonnet-5", false),
        ("claude-fable-5-20260801", false),
        ("claude-opus-6-1", false),
        ("claude-mythos-preview", false),
    ] {
        for param in ["temperature", "top_p", "top_k"] {
            let answer = encoded_for(name, &hello(), &json!({param: 1}));
            match answer {
                Ok((body, _)) => assert!(takes && body.contains_key(param), "{name} {param}"),
                Err(error) => assert_eq!(
                    (takes, error.to_string()),
                    (false, format!("{param} is not supported by model {name}")),
                ),
            }
        }
    }
}

#[test]
fn temperature_and_top_p_go_together_to_older_models_alone() {
    let both = json!({"temperature": 0.5, "top_p": 0.9});
    for (name, takes) in [
        ("claude-3-7-sonnet-20250219", true),
        ("claude-sonnet-4-20250514", true),
        ("our-own-name", true),
        ("claude-opus-4-1-20250805", false),
        ("claude-sonnet-4-5-20250929", false),
        ("claude-haiku-4-5", false),
        ("claude-opus-4.6", false),
    ] {
        match encoded_for(name, &hello(), &both) {
            Ok((body, _)) => assert!(takes && body["top_p"] == 0.9, "{name}"),
            Err(error) => {
                let fault = "top_p together with temperature is not supported by model";
                assert_eq!((takes, error.to_string()), (false, format!("{fault} {name}")));
            }
        }
    }
}

#[test]
fn an_answer_has_room_beside_the_thinking() {
    let model = claude("claude-sonnet-4-5");
    let bound = |thinking: Value, asked: Option<u64>, bound: Option<u64>| {
        let mut prompt = prompt(&hello(), &json!({"thinking": thinking}));
        prompt.max_output_tokens = asked;
        let attempt = Attempt { max_output_tokens: bound, ..attempt(&model, &prompt) };
        let body = Anthropic.encode(&attempt).map_err(|error| error.to_string())?.body;
        let body: Value = serde_json::from_slice(&body).unwrap();
        Ok::<_, String>(body["max_tokens"].as_u64().unwrap())
    };
    let thinks = || json!({"type": "enabled", "budget_tokens": 10_000});
    assert_eq!(bound(thinks(), None, None), Ok(14_096));
    assert_eq!(bound(thinks(), Some(10_001), Some(10_001)), Ok(10_001));
    assert_eq!(bound(thinks(), None, Some(12_000)), Ok(12_000), "what is reserved is not passed");
    assert_eq!(bound(json!({"type": "adaptive"}), None, None), Ok(4096));
    let fault = "max_tokens 10000 must be above thinking.budget_tokens 10000 for model \
        claude-sonnet-4-5";
    assert_eq!(bound(thinks(), Some(10_000), Some(10_000)), Err(fault.to_owned()));
    let fault = bound(thinks(), None, Some(9000)).unwrap_err();
    assert!(fault.contains("thinking.budget_tokens 10000 is not supported"), "{fault}");
    assert!(fault.contains("a completion of 9000 tokens"), "{fault}");
}

#[test]
fn a_refusal_of_before_is_what_the_model_said() {
    let messages = json!([
        {"role": "user", "content": "Do it."},
        {"role": "assistant", "content": null, "refusal": "No."},
        {"role": "user", "content": "Please."},
    ]);
    let said =
        |role: &str, text: &str| json!({"role": role, "content": [{"type": "text", "text": text}]});
    let turns = [said("user", "Do it."), said("assistant", "No."), said("user", "Please.")];
    assert_eq!(sent(&messages), json!(turns));
}

#[test]
fn a_conversation_begins_with_what_the_user_says() {
    let named = "for model claude-3-5-haiku-20241022";
    let empty = "messages[1]: the first user message is empty, which model \
        claude-3-5-haiku-20241022 does not take";
    for (messages, fault) in [
        (
            json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": " "}]),
            empty.to_owned(),
        ),
        (
            json!([{"role": "assistant", "content": "Hello."}]),
            format!("The conversation must begin with a user message {named}"),
        ),
    ] {
        assert_eq!(refusal(&messages, &json!({})), fault);
    }
}

#[test]
fn an_effort_goes_to_models_that_have_one() {
    for (name, takes) in [
        ("claude-3-7-sonnet-20250219", false),
        ("claude-sonnet-4-20250514", false),
        ("claude-sonnet-4-5", false),
        ("claude-opus-4-1-20250805", false),
        ("claude-haiku-4-5-20251001", false),
        ("us.anthropic.claude-v2", false),
        ("claude-opus-4-5", true),
        ("claude-sonnet-4-6", true),
        ("claude-sonnet-5", true),
        ("claude-mythos-preview", true),
        ("claude-opus-latest", true),
        ("our-own", true),
    ] {
        let body = encoded_for(name, &hello(), &json!({"reasoning_effort": "low"}));
        let effort = body.map(|(body, _)| body["output_config"]["effort"].clone());
        assert_eq!(effort.ok(), takes.then(|| json!("low")), "{name}");
    }
    for (name, effort) in [
        ("claude-opus-4-5", "max"),
        ("claude-opus-4-6", "xhigh"),
        ("claude-sonnet-4-6", "xhigh"),
        ("claude-opus-4-6", "minimal"),
    ] {
        let asked = json!({"reasoning_effort": effort});
        let error = encoded_for(name, &hello(), &asked).unwrap_err().to_string();
        assert_eq!(error, format!("reasoning_effort {effort} is not supported by model {name}"));
    }
    for (name, effort) in [
        ("claude-opus-4-6", "max"),
        ("claude-opus-4-7", "xhigh"),
        ("claude-haiku-5", "xhigh"),
        ("claude-mythos-preview", "xhigh"),
    ] {
        let asked = json!({"reasoning_effort": effort});
        encoded_for(name, &hello(), &asked).unwrap();
    }
}

#[test]
fn what_the_format_has_not_is_refused() {
    for (params, part) in [
        (
            json!({"reasoning_effort": "low"}),
            "reasoning_effort low is not supported by model claude",
        ),
        (json!({"logprobs": true}), "logprobs is not supported"),
        (json!({"n": 2}), "n is not supported"),
        (json!({"frequency_penalty": 0.5}), "frequency_penalty is not supported"),
        (json!({"temperature": 1.5}), "temperature must be a number from 0 to 1 for model claude"),
        (json!({"response_format": {"type": "json_object"}}), "json_object is not supported"),
        (json!({"response_format": {"type": "x"}}), "json_object or json_schema for model claude"),
        (json!({"stop": 1}), "stop must be a string or an array of strings for model claude"),
        (json!({"user": 1}), "user must be a string for model claude"),
        (
            json!({"tool_choice": "x"}),
            "tool_choice must be auto, none, required or name a function",
        ),
    ] {
        let said = refusal(&hello(), &params);
        assert!(said.contains(part), "{said}");
        assert!(said.contains("model claude-3-5-haiku-20241022"), "{said}");
    }
    let state = json!([{"role": "user", "content": "a"}, {"role": "assistant",
        STATE: state(Provider::Anthropic, "claude-3-5-haiku-20241022", json!("text"))}]);
    assert!(refusal(&state, &json!({})).contains("provider_state.content must be"));
}

#[test]
fn the_address_needs_no_version() {
    for (base, url) in [
        (None, "https://api.anthropic.com/v1/messages"),
        (Some(""), "https://api.anthropic.com/v1/messages"),
        (Some("https://llm.example.org"), "https://llm.example.org/v1/messages"),
        (Some("https://llm.example.org/"), "https://llm.example.org/v1/messages"),
        (Some("https://llm.example.org/v1"), "https://llm.example.org/v1/messages"),
        (Some("https://llm.example.org/claude/v1/"), "https://llm.example.org/claude/v1/messages"),
    ] {
        assert_eq!(Anthropic.endpoint(&model(Provider::Anthropic, base), true).unwrap(), url);
    }
}

/// Tests our breakpoints, and those that clients of chat completions send.
#[test]
fn breakpoints_end_what_is_cached() {
    let mut tool = weather_tool();
    tool["cache_breakpoint"] = "1h".into();
    let call = json!({"id": "a", "type": "function", "cache_breakpoint": "5m",
        "function": {"name": "weather", "arguments": "{}"}});
    let thought = json!([{"type": "text", "text": "Hm."}, {"type": "thinking", "thinking": "?",
        "signature": "s"}]);
    let own = state(Provider::Anthropic, "claude-3-5-haiku-20241022", thought);
    let messages = json!([
        {"role": "system", "content": "Be brief.", "cache_breakpoint": "1h"},
        {"role": "user", "content": [
            {"type": "text", "text": "One", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "Two", "cache_control": {"type": "eternal"}},
            {"type": "text", "text": " ", "cache_breakpoint": "nonsense"}]},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "user", "content": "Be quick."},
        {"role": "tool", "tool_call_id": "a", "content": "18 C", "cache_breakpoint": "5m"},
        {"role": "assistant", "content": "Hm.", "cache_breakpoint": "5m", STATE: own},
        {"role": "user", "content": "", "cache_breakpoint": "5m"},
    ]);
    let params = json!({"tools": [tool], "cache_breakpoint": "5m"});
    let (body, dropped) = encoded(&messages, &params).unwrap();
    let (five, hour) = (json!({"type": "ephemeral"}), json!({"type": "ephemeral", "ttl": "1h"}));
    assert_eq!(body["cache_control"], five);
    assert_eq!(
        body["system"],
        json!([{"type": "text", "text": "Be brief.", "cache_control": hour}])
    );
    assert_eq!(body["tools"][0]["cache_control"], hour);
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [
                {"type": "text", "text": "One", "cache_control": five},
                {"type": "text", "text": "Two"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "weather",
                "input": {}, "cache_control": five}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "18 C",
                    "cache_control": five},
                {"type": "text", "text": "Be quick."}]},
            // Nothing can end with a thought.
            {"role": "assistant", "content":
                [{"type": "text", "text": "Hm.", "cache_control": five}]},
        ]),
    );
    assert!(dropped.is_empty());
}
