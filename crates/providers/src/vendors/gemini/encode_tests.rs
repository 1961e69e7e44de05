use domain::model::Provider;
use serde_json::json;

use super::*;
use crate::adapter::Adapter as _;
use crate::chat_form::{STATE, answer};
use crate::error::ErrorKind;
use crate::testing::{attempt, model, prompt_of};
use crate::vendors::gemini::Gemini;

const SKIP: &str = "skip_thought_signature_validator";

fn named(name: &str) -> Model {
    Model { identifier: name.to_owned(), ..model(Provider::Gemini, None) }
}

fn encoded(name: &str, messages: Value, params: Value) -> Value {
    let (model, prompt) = (named(name), prompt_of(messages, params));
    let encoded = Gemini.encode(&attempt(&model, &prompt)).unwrap();
    serde_json::from_slice(&encoded.body).unwrap()
}

fn refused(messages: Value, params: Value) -> String {
    let (model, prompt) = (named("gemini-2.5-pro"), prompt_of(messages, params));
    let error = Gemini.encode(&attempt(&model, &prompt)).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Unsupported(_)));
    error.to_string()
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

#[test]
fn a_prompt_becomes_a_request() {
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}});
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
        {"role": "assistant", "content": "A crab."},
        {"role": "developer", "content": "Speak French."},
        {"role": "user", "content": "And in French?"},
    ]);
    let schema = json!({"$schema": "x", "type": "object", "oneOf": [{}], "properties": {}});
    let params = json!({
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "seed": 7, "stop": ["END"],
        "presence_penalty": 0.1, "frequency_penalty": 0.2, "n": 1, "stream_options": {}, "user": "u",
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "F.", "parameters": schema}},
            {"type": "function", "function": {"name": "g"}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "g"}},
    });
    let (model, prompt) = (named("gemini-2.5-pro"), prompt_of(messages, params));
    let attempt = Attempt { max_output_tokens: Some(100), ..attempt(&model, &prompt) };
    let encoded = Gemini.encode(&attempt).unwrap();
    assert_eq!(encoded.dropped, ["user"]);
    assert_eq!(
        serde_json::from_slice::<Value>(&encoded.body).unwrap(),
        json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "Speak French."}]},
            "contents": [
                {"role": "user", "parts": [
                    {"text": "What is this?"},
                    {"inlineData": {"mimeType": "image/png", "data": "iVBO"}},
                ]},
                {"role": "model", "parts": [{"text": "A crab."}]},
                {"role": "user", "parts": [{"text": "And in French?"}]},
            ],
            "tools": [{"functionDeclarations": [
                {"name": "f", "description": "F.", "parametersJsonSchema": schema},
                {"name": "g", "parametersJsonSchema": {"type": "object", "properties": {}}},
            ]}],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["g"]}},
            "generationConfig": {
                "maxOutputTokens": 100, "temperature": 0.5, "topP": 0.9, "topK": 40, "seed": 7,
                "presencePenalty": 0.1, "frequencyPenalty": 0.2, "stopSequences": ["END"],
                "responseMimeType": "application/json", "responseJsonSchema": schema,
                "thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": true},
            },
        }),
    );
}

#[test]
fn what_nobody_asked_for_is_not_sent() {
    let params =
        json!({"n": 1, "tools": [], "tool_choice": "auto", "response_format": {"type": "text"}});
    assert_eq!(
        encoded("gemini-3.1-pro", json!([{"role": "user", "content": "Hi"}]), params),
        json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
    );
}

#[test]
fn choices_and_efforts_have_their_own_words() {
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let hi = json!([{"role": "user", "content": "Hi"}]);
    for (choice, mode) in [("auto", "AUTO"), ("none", "NONE"), ("required", "ANY")] {
        let body = encoded("gemini-3", hi.clone(), json!({"tools": tools, "tool_choice": choice}));
        assert_eq!(body["toolConfig"], json!({"functionCallingConfig": {"mode": mode}}));
    }
    let thinks = |level| json!({"thinkingLevel": level, "includeThoughts": true});
    let spends = |budget: u32| json!({"thinkingBudget": budget, "includeThoughts": budget > 0});
    for (name, effort, config) in [
        ("gemini-3.1-pro", "minimal", thinks("MINIMAL")),
        ("gemini-3.1-pro", "low", thinks("LOW")),
        ("gemini-flash-latest", "medium", thinks("MEDIUM")),
        ("gemini-4-pro", "high", thinks("HIGH")),
        ("gemini-4-pro", "xhigh", thinks("XHIGH")),
        ("gemini-2.5-flash", "none", spends(0)),
        ("gemini-2.5-flash", "medium", spends(8192)),
        ("gemini-2.5-flash", "high", spends(24_576)),
    ] {
        let body = encoded(name, hi.clone(), json!({"reasoning_effort": effort}));
        assert_eq!(body["generationConfig"]["thinkingConfig"], config, "{name} {effort}");
    }
    let asked = json!({"type": "enabled", "budget_tokens": 31_999});
    for (name, params, config) in [
        ("gemini-4-pro", json!({"thinking": asked}), thinks("HIGH")),
        ("gemini-2.5-flash", json!({"thinking": asked}), spends(24_576)),
        ("gemini-4-pro", json!({"thinking": asked, "reasoning_effort": "low"}), thinks("LOW")),
        ("gemini-4-pro", json!({"thinking": {"type": "adaptive"}}), Value::Null),
        ("gemini-2.0-flash", json!({"thinking": asked}), Value::Null),
    ] {
        let body = encoded(name, hi.clone(), params);
        assert_eq!(body["generationConfig"]["thinkingConfig"], config, "{name}");
        let (model, prompt) = (named(name), prompt_of(hi.clone(), json!({"thinking": asked})));
        let dropped = Gemini.encode(&attempt(&model, &prompt)).unwrap().dropped;
        assert_eq!(dropped.is_empty(), name != "gemini-2.0-flash", "{dropped:?}");
    }
    for (name, effort) in [
        ("gemini-2.0-flash", "low"),
        ("gemini-2.5-pro", "none"),
        ("gemini-2.5-flash-image", "low"),
        ("gemini-2.5-pro-preview-tts", "low"),
    ] {
        let (model, prompt) =
            (named(name), prompt_of(hi.clone(), json!({"reasoning_effort": effort})));
        let error = Gemini.encode(&attempt(&model, &prompt)).unwrap_err().to_string();
        assert_eq!(error, format!("reasoning_effort {effort} is not supported by model {name}"));
    }
    let body = encoded("gemini-3", hi, json!({"response_format": {"type": "json_object"}}));
    assert_eq!(body["generationConfig"], json!({"responseMimeType": "application/json"}));
}

#[test]
fn what_the_format_has_not_is_refused() {
    let hi = json!([{"role": "user", "content": "Hi"}]);
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    for (params, says) in [
        (json!({"n": 2}), "n is not supported by model gemini-2.5-pro"),
        (json!({"logprobs": true}), "logprobs is not supported"),
        (json!({"parallel_tool_calls": false, "tools": tools}), "parallel_tool_calls is not"),
        (json!({"reasoning_effort": "xhigh"}), "reasoning_effort xhigh is not supported"),
        (json!({"temperature": 3}), "temperature must be"),
        (json!({"top_k": 0.5}), "top_k must be"),
    ] {
        let said = refused(hi.clone(), params);
        assert!(said.contains(says), "{said}");
    }
    let image = json!({"type": "image_url", "image_url": {"url": "https://x.example/a.png"}});
    let said = refused(json!([{"role": "user", "content": [image]}]), json!({}));
    assert!(said.contains("data: URL"), "{said}");

    let (model, prompt) =
        (named("gemini-3"), prompt_of(hi, json!({"seed": 4_294_967_296_u64, "user": "u"})));
    let encoded = Gemini.encode(&attempt(&model, &prompt)).unwrap();
    assert_eq!(encoded.dropped, ["seed", "user"]);
}

#[test]
fn strict_tools_are_sent_as_others_and_that_is_told() {
    let strict = |strict: bool| {
        let tool = json!({"type": "function", "function": {"name": "f", "strict": strict}});
        let params = json!({"tools": [tool], "user": "u"});
        let (model, prompt) =
            (named("gemini-3"), prompt_of(json!([{"role": "user", "content": "Hi"}]), params));
        let Encoded { body, dropped } = Gemini.encode(&attempt(&model, &prompt)).unwrap();
        assert!(!String::from_utf8(body).unwrap().contains("strict"));
        dropped
    };
    assert_eq!(strict(true), ["strict", "user"]);
    assert_eq!(strict(false), ["user"]);
}

#[test]
fn rounds_of_tools_from_elsewhere_have_no_ids_and_a_signature_where_one_is_due() {
    let messages = json!([
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": null, "tool_calls": [
            call("call_a", "weather", r#"{"city":"Paris"}"#), call("call_b", "weather", ""),
        ]},
        // The results are not in the order of the calls.
        {"role": "tool", "tool_call_id": "call_b", "content": "42"},
        {"role": "tool", "tool_call_id": "call_a", "content": r#"{"degrees": 9}"#},
        {"role": "assistant", "content": "Once more.", "tool_calls": [call("call_c", "time", "{}")]},
        {"role": "tool", "tool_call_id": "call_c", "content": r#"{"id": 9007199254740993}"#},
        {"role": "user", "content": "And?"},
    ]);
    let contents = |signature: Option<&str>| {
        let mut contents = json!([
            {"role": "user", "parts": [{"text": "Weather?"}]},
            {"role": "model", "parts": [
                {"functionCall": {"name": "weather", "args": {"city": "Paris"}}},
                {"functionCall": {"name": "weather", "args": {}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "weather", "response": {"degrees": 9}}},
                {"functionResponse": {"name": "weather", "response": {"output": "42"}}},
            ]},
            {"role": "model", "parts": [
                {"text": "Once more."},
                {"functionCall": {"name": "time", "args": {}}},
            ]},
            {"role": "user", "parts": [
                // A number that Google's doubles cannot hold stays text.
                {"functionResponse": {"name": "time",
                    "response": {"output": r#"{"id": 9007199254740993}"#}}},
                {"text": "And?"},
            ]},
        ]);
        if let Some(signature) = signature {
            contents[1]["parts"][0]["thoughtSignature"] = signature.into();
            contents[3]["parts"][1]["thoughtSignature"] = signature.into();
        }
        contents
    };
    for (name, signature) in [("gemini-2.5-pro", None), ("gemini-3.1-pro", Some(SKIP))] {
        let body = encoded(name, messages.clone(), json!({}));
        assert_eq!(body["contents"], contents(signature), "{name}");
    }
}

#[test]
fn what_the_model_wrote_comes_back_as_it_was() {
    let parts = json!([
        {"text": "Hm.", "thought": true},
        {"functionCall": {"name": "f", "args": {"a": 1}, "id": "own1"}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "f", "args": {"a": 2}}},
        {"functionCall": {"name": "f", "args": {"a": 3}}},
    ]);
    let turn = |name: &str| {
        let state = answer::state(Provider::Gemini, name, parts.clone());
        json!({"role": "assistant", "content": null, STATE: state, "tool_calls": [
            call("own1", "f", r#"{"a":1}"#),
            call("call_1_x", "f", r#"{"a":2}"#),
            call("call_2_x", "f", r#"{"a":3}"#),
        ]})
    };
    let messages = |name: &str| {
        json!([
            {"role": "user", "content": "Go."},
            turn(name),
            {"role": "tool", "tool_call_id": "call_2_x", "content": "3"},
            {"role": "tool", "tool_call_id": "own1", "content": "1"},
            {"role": "tool", "tool_call_id": "call_1_x", "content": "2"},
        ])
    };
    let body = encoded("gemini-3.1-pro", messages("gemini-3.1-pro"), json!({}));
    assert_eq!(body["contents"][1], json!({"role": "model", "parts": parts}));
    assert_eq!(
        body["contents"][2]["parts"],
        json!([
            {"functionResponse": {"id": "own1", "name": "f", "response": {"output": "1"}}},
            {"functionResponse": {"name": "f", "response": {"output": "2"}}},
            {"functionResponse": {"name": "f", "response": {"output": "3"}}},
        ]),
    );
    // Another model's state is worthless, and so are its ids.
    let body = encoded("gemini-3.1-pro", messages("gemini-3.1-flash"), json!({}));
    assert_eq!(
        body["contents"][1]["parts"],
        json!([
            {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": SKIP},
            {"functionCall": {"name": "f", "args": {"a": 2}}},
            {"functionCall": {"name": "f", "args": {"a": 3}}},
        ]),
    );
    assert!(!body["contents"][2].to_string().contains("\"id\""));
}

#[test]
fn a_state_that_is_no_parts_is_refused() {
    for content in [json!([]), json!("x"), json!([1]), json!({"functionCall": {}})] {
        let state = answer::state(Provider::Gemini, "gemini-2.5-pro", content);
        let messages =
            json!([{"role": "user", "content": "a"}, {"role": "assistant", STATE: state}]);
        assert!(refused(messages, json!({})).contains("provider_state"));
    }
}

#[test]
fn breakpoints_of_caches_are_left_out_and_named() {
    let messages = json!([
        {"role": "system", "content": "Be brief.", "cache_breakpoint": "5m"},
        {"role": "user", "content": [{"type": "text", "text": "Hello.", "cache_breakpoint": "5m"}]},
    ]);
    let plain = json!([{"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello."}]);
    let (model, prompt) = (
        named("gemini-2.5-pro"),
        prompt_of(messages, json!({"cache_breakpoint": "5m", "user": "u"})),
    );
    let marked = Gemini.encode(&attempt(&model, &prompt)).unwrap();
    assert_eq!(marked.dropped, ["cache_control", "user"]);
    let body: Value = serde_json::from_slice(&marked.body).unwrap();
    assert_eq!(body, encoded("gemini-2.5-pro", plain, json!({})));
}
