use domain::conversation::{Body, Message as Said, Prompt, Role};
use domain::model::Provider;
use serde_json::Map;

use super::*;
use crate::testing::{self, attempt};

fn model() -> Model {
    testing::model(Provider::Bedrock, None)
}

fn encoded(prompt: &Prompt) -> Result<(Value, Vec<String>), Error> {
    let model = model();
    let Encoded { body, dropped } = encode(&attempt(&model, prompt))?;
    Ok((serde_json::from_slice(&body).unwrap(), dropped))
}

fn with(messages: Vec<Said>, params: Value) -> Prompt {
    Prompt { messages, ..testing::prompt(params) }
}

fn said(role: Role, text: &str) -> Said {
    Said { role, body: Body::Text(text.to_owned()), extra: Map::new() }
}

fn calling(text: &str, calls: &[(&str, &str, &str)]) -> Said {
    let calls: Value = calls
        .iter()
        .map(|(id, name, arguments)| {
            json!({"id": id, "type": "function",
                "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    let mut said = said(Role::Assistant, text);
    said.extra.insert("tool_calls".to_owned(), calls);
    said
}

fn result(id: &str, text: &str) -> Said {
    let mut said = said(Role::Tool, text);
    said.extra.insert("tool_call_id".to_owned(), json!(id));
    said
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name}})
}

fn declared(name: &str) -> Value {
    json!({"toolSpec": {"name": name,
        "inputSchema": {"json": {"type": "object", "properties": {}}}}})
}

#[test]
fn a_prompt_becomes_a_request() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let prompt = with(
        vec![
            said(Role::System, "Be brief."),
            said(Role::Developer, "Be kind."),
            said(Role::User, "Weather?"),
            said(Role::User, "And the time?"),
            calling("", &[("c1", "weather", r#"{"city":"Oslo"}"#), ("c2", "time", "")]),
            result("c2", "noon"),
            result("c1", " "),
            said(Role::User, "Thanks."),
        ],
        json!({
            "temperature": 0.5, "top_p": 1, "stop": "END", "seed": 7, "n": 1, "stream": null,
            "tools": [
                {"type": "function", "function": {"name": "weather", "description": "Tells.",
                    "parameters": schema, "strict": true}},
                {"type": "function", "function": {"name": "time", "description": ""}},
            ],
            "tool_choice": {"type": "function", "function": {"name": "time"}},
            "response_format": {"type": "json_schema",
                "json_schema": {"name": "out", "schema": {"type": "object"}}},
            "reasoning_effort": "low",
            "additionalModelRequestFields": {"top_k": 5},
        }),
    );
    let model = model();
    let attempt = Attempt { max_output_tokens: Some(100), ..attempt(&model, &prompt) };
    let Encoded { body, dropped } = encode(&attempt).unwrap();
    assert_eq!(dropped, ["seed"]);
    let use_of = |id: &str, name: &str, input: Value| json!({"toolUse": {"toolUseId": id, "name": name, "input": input}});
    assert_eq!(
        serde_json::from_slice::<Value>(&body).unwrap(),
        json!({
            "messages": [
                {"role": "user", "content": [{"text": "Weather?"}, {"text": "And the time?"}]},
                {"role": "assistant", "content": [
                    use_of("c1", "weather", json!({"city": "Oslo"})),
                    use_of("c2", "time", json!({})),
                ]},
                {"role": "user", "content": [
                    {"toolResult": {"toolUseId": "c2", "content": [{"text": "noon"}]}},
                    {"toolResult": {"toolUseId": "c1", "content": []}},
                    {"text": "Thanks."},
                ]},
            ],
            "system": [{"text": "Be brief."}, {"text": "Be kind."}],
            "inferenceConfig": {"maxTokens": 100, "temperature": 0.5, "topP": 1.0,
                "stopSequences": ["END"]},
            "toolConfig": {
                "tools": [
                    {"toolSpec": {"name": "weather", "inputSchema": {"json": schema},
                        "description": "Tells.", "strict": true}},
                    declared("time"),
                ],
                "toolChoice": {"tool": {"name": "time"}},
            },
            "outputConfig": {
                "textFormat": {"type": "json_schema", "structure":
                    {"jsonSchema": {"name": "out", "schema": "{\"type\":\"object\"}"}}},
                "effort": "low",
            },
            "additionalModelRequestFields": {"top_k": 5},
        })
    );
}

#[test]
fn nothing_is_sent_that_was_not_asked_for() {
    let (body, dropped) =
        encoded(&testing::prompt(json!({"tools": [], "tool_choice": "auto"}))).unwrap();
    let content = json!([{"text": "Hello there. How are you?"}]);
    assert_eq!(body, json!({"messages": [{"role": "user", "content": content}]}));
    assert!(dropped.is_empty());
}

#[test]
fn every_choice_of_tools() {
    for (choice, sent) in [
        (json!("auto"), json!({"auto": {}})),
        (json!("required"), json!({"any": {}})),
        (json!({"type": "function", "function": {"name": "f"}}), json!({"tool": {"name": "f"}})),
        (json!(null), json!(null)),
    ] {
        let params = json!({"tools": [tool("f")], "tool_choice": choice});
        let (body, _) = encoded(&testing::prompt(params)).unwrap();
        assert_eq!(body["toolConfig"]["toolChoice"], sent);
    }
    let none = json!({"tools": [tool("f")], "tool_choice": "none", "parallel_tool_calls": false});
    let (body, _) = encoded(&testing::prompt(none.clone())).unwrap();
    assert!(body.get("toolConfig").is_none());

    let history = vec![said(Role::User, "a"), calling("", &[("c", "f", "{}")]), result("c", "b")];
    let error = encoded(&with(history, none)).unwrap_err();
    assert!(error.to_string().contains("tool_choice none after tool calls"), "{error}");
}

#[test]
fn tools_of_the_history_are_declared_when_nobody_did() {
    let own = json!({"provider": "bedrock", "model": "gpt-test", "content": [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"toolUse": {"toolUseId": "c3", "name": "h", "input": {}}},
    ]});
    let mut thinking = calling("", &[("c3", "h", "{}")]);
    thinking.extra.insert("provider_state".to_owned(), own.clone());
    let history = vec![
        said(Role::User, "a"),
        calling("", &[("c1", "g", "{}"), ("c2", "g", "{}")]),
        result("c1", "b"),
        result("c2", "b"),
        thinking,
        result("c3", "c"),
    ];
    let (body, _) = encoded(&with(history, json!({}))).unwrap();
    assert_eq!(body["toolConfig"], json!({"tools": [declared("g"), declared("h")]}));
    assert_eq!(body["messages"][3]["content"], own["content"]);
}

#[test]
fn images_are_sent_as_bytes() {
    let image = |url: &str| {
        let parts = vec![
            json!({"type": "text", "text": "What is it?"}),
            json!({"type": "image_url", "image_url": {"url": url}}),
        ];
        let message = Said { role: Role::User, body: Body::Parts(parts), extra: Map::new() };
        encoded(&with(vec![message], json!({})))
    };
    for (mime, format) in
        [("png", "png"), ("jpeg", "jpeg"), ("jpg", "jpeg"), ("gif", "gif"), ("webp", "webp")]
    {
        let (body, _) = image(&format!("data:image/{mime};base64,AAEC")).unwrap();
        assert_eq!(
            body["messages"][0]["content"][1],
            json!({"image": {"format": format, "source": {"bytes": "AAEC"}}})
        );
    }
    for (url, says) in [
        ("https://example.com/a.png", "fetches no images"),
        ("data:image/tiff;base64,AAEC", "png, jpeg, gif or webp"),
    ] {
        assert!(image(url).unwrap_err().to_string().contains(says), "{url}");
    }
}

fn with_parts(role: Role, parts: Vec<Value>) -> Said {
    Said { role, body: Body::Parts(parts), extra: Map::new() }
}

fn pdf(name: &str, data: &str) -> Value {
    json!({"type": "file", "file": {"filename": name,
        "file_data": format!("data:application/pdf;base64,{data}")}})
}

#[test]
fn no_two_documents_have_one_name() {
    let turn = |text: &str, file: Value| {
        with_parts(Role::User, vec![json!({"type": "text", "text": text}), file])
    };
    let mut history = vec![
        turn("a", pdf("My report.pdf", "JVBERi0=")),
        said(Role::Assistant, "b"),
        with_parts(
            Role::User,
            vec![
                json!({"type": "text", "text": "c"}),
                pdf("My report.pdf", "JVBERi0="),
                pdf("", "JVBERi0="),
            ],
        ),
    ];
    let names = |history: &[Said]| -> Vec<String> {
        let (body, _) = encoded(&with(history.to_vec(), json!({}))).unwrap();
        let messages = body["messages"].as_array().unwrap().iter();
        let blocks = messages.flat_map(|message| message["content"].as_array().unwrap());
        blocks.filter_map(|block| Some(block["document"]["name"].as_str()?.to_owned())).collect()
    };
    let first = names(&history);
    let hash = format!("{:08x}", crc32fast::hash(b"JVBERi0="));
    assert_eq!(
        first,
        [format!("Myreport-{hash}"), format!("Myreport-{hash}-2"), format!("-{hash}")]
    );
    history.extend([said(Role::Assistant, "d"), turn("e", pdf("My report.pdf", "JVBERi0="))]);
    let later = names(&history);
    assert_eq!(later[..3], first, "a turn is sent again as it was");
    assert_eq!(later[3], format!("Myreport-{hash}-3"));
}

#[test]
fn a_document_has_a_text_beside_it() {
    let file = || pdf("a.pdf", "JVBERi0=");
    let kinds = |parts: Vec<Value>| -> Vec<String> {
        let mut history = vec![
            said(Role::User, "x"),
            calling("", &[("c1", "f", "{}")]),
            result("c1", "y"),
            said(Role::Assistant, "z"),
        ];
        history.push(with_parts(Role::User, parts));
        let prompt = with(history, json!({"tools": [tool("f")]}));
        let model = Model { identifier: "anthropic.claude-sonnet-4-5".to_owned(), ..model() };
        let Encoded { body, .. } = encode(&attempt(&model, &prompt)).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let blocks = body["messages"][4]["content"].as_array().unwrap().iter();
        blocks
            .map(|block| match block["text"].as_str() {
                Some(text) => text.to_owned(),
                None => block.as_object().unwrap().keys().next().unwrap().clone(),
            })
            .collect()
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(kinds(vec![file()]), ["document", "."]);
    assert_eq!(kinds(vec![text(" "), file(), file()]), ["document", "document", "."]);
    assert_eq!(kinds(vec![text("See."), file()]), ["See.", "document"]);
    assert_eq!(kinds(vec![file(), text("See.")]), ["document", "See."]);
    let mut marked = file();
    marked["cache_breakpoint"] = "5m".into();
    assert_eq!(kinds(vec![marked]), ["document", ".", "cachePoint"]);
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAEC"}});
    assert_eq!(kinds(vec![image]), ["image"], "pictures need none");
}

#[test]
fn what_converse_has_not_is_refused_by_name() {
    for (params, says) in [
        (json!({"temperature": 1.5}), "temperature must be a number from 0 to 1"),
        (json!({"n": 2}), "n is not supported by model gpt-test"),
        (json!({"logprobs": true}), "logprobs is not supported"),
        (json!({"frequency_penalty": 1}), "frequency_penalty is not supported"),
        (json!({"response_format": {"type": "json_object"}}), "use json_schema"),
        (json!({"reasoning_effort": "minimal"}), "must be one of low, medium"),
        (json!({"tools": [tool("f")], "parallel_tool_calls": false}), "parallel_tool_calls: false"),
    ] {
        let error = encoded(&testing::prompt(params)).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(matches!(error.kind, crate::error::ErrorKind::Unsupported(_)));
    }
    let mut odd = said(Role::Assistant, "a");
    let own = json!({"provider": "bedrock", "model": "gpt-test", "content": "a"});
    odd.extra.insert("provider_state".to_owned(), own);
    let error = encoded(&with(vec![said(Role::User, "a"), odd], json!({}))).unwrap_err();
    assert!(error.to_string().contains("provider_state"), "{error}");
}

#[test]
fn claude_gets_what_converse_has_no_place_for() {
    let body = |name: &str, params: Value| {
        let mut model = model();
        model.config.upstream_model = Some(name.to_owned());
        let prompt = testing::prompt(params);
        let encoded = encode(&attempt(&model, &prompt))?;
        Ok::<Value, Error>(serde_json::from_slice(&encoded.body).unwrap())
    };
    let thinking = json!({"type": "enabled", "budget_tokens": 1024});
    let params = json!({"thinking": thinking, "top_k": 5, "temperature": 1,
        "additionalModelRequestFields": {"anthropic_beta": ["x"], "top_k": 1}});
    let sent = body("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", params.clone()).unwrap();
    let additional = json!({"anthropic_beta": ["x"], "top_k": 5, "thinking": thinking});
    assert_eq!(sent["additionalModelRequestFields"], additional);
    assert_eq!(sent["inferenceConfig"], json!({"temperature": 1.0}));
    for (name, params, lacks) in [
        ("us.anthropic.claude-opus-4-7-v1:0", json!({"temperature": 0.5}), "temperature"),
        ("us.anthropic.claude-sonnet-5-v1:0", json!({"top_p": 0.5}), "top_p"),
        ("us.anthropic.claude-sonnet-5-v1:0", json!({"top_k": 5}), "top_k"),
        (
            "us.anthropic.claude-opus-4-1-20250805-v1:0",
            json!({"temperature": 0.5, "top_p": 0.5}),
            "top_p together with temperature",
        ),
    ] {
        let error = body(name, params).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{lacks} is not supported by model")), "{error}");
    }
}

#[test]
fn thinking_of_claude_is_dropped_for_other_models() {
    let mut model = model();
    model.config.upstream_model = Some("amazon.nova-pro-v1:0".to_owned());
    let thinking = json!({"type": "enabled", "budget_tokens": 1024});
    let prompt = testing::prompt(json!({"thinking": thinking}));
    let encoded = encode(&attempt(&model, &prompt)).unwrap();
    assert_eq!(encoded.dropped, ["thinking"]);
    let body: Value = serde_json::from_slice(&encoded.body).unwrap();
    assert_eq!(body.get("additionalModelRequestFields"), None);
}

#[test]
fn ids_of_other_providers_are_made_legal_and_stay_apart() {
    let long = "x".repeat(80);
    for (id, legal) in [
        ("tooluse_a.B:c-1", Some("tooluse_a.B:c-1")),
        ("call|1", None),
        ("call|é", None),
        (long.as_str(), None),
    ] {
        let made = legal_id(id);
        assert_eq!(made, legal_id(id));
        assert!(made.len() <= 64 && legal.is_none_or(|legal| made == legal), "{made}");
    }
    assert_ne!(legal_id("call|1"), legal_id("call/1"));
}

#[test]
fn breakpoints_are_cache_points_of_models_that_have_them() {
    let mut system = said(Role::System, "Be brief.");
    system.extra.insert("cache_breakpoint".to_owned(), json!("1h"));
    let mut user = said(Role::User, "Hello.");
    user.extra.insert("cache_breakpoint".to_owned(), json!("5m"));
    let mut offered = tool("f");
    offered["cache_breakpoint"] = "5m".into();
    let prompt = with(vec![system, user], json!({"tools": [offered]}));
    let (five, hour) = (
        json!({"cachePoint": {"type": "default"}}),
        json!({"cachePoint": {"type": "default", "ttl": "1h"}}),
    );
    for (name, says, offers, for_an_hour) in [
        ("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", true, true, true),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", true, true, false),
        ("anthropic.claude-3-5-haiku-20241022-v1:0", true, true, false),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", false, false, false),
        ("anthropic.claude-3-haiku-20240307-v1:0", false, false, false),
        ("us.amazon.nova-pro-v1:0", true, false, false),
        ("amazon.nova-canvas-v1:0", false, false, false),
        ("meta.llama3-70b-instruct-v1:0", false, false, false),
        ("arn:aws:bedrock:eu-west-1:1:application-inference-profile/x", false, false, false),
    ] {
        let model = Model { identifier: name.to_owned(), ..model() };
        let Encoded { body, dropped } = encode(&attempt(&model, &prompt)).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let list = |first: Value, point: &Value, has: bool| {
            Value::Array(std::iter::once(first).chain(has.then(|| point.clone())).collect())
        };
        let hour = if for_an_hour { &hour } else { &five };
        assert_eq!(body["system"], list(json!({"text": "Be brief."}), hour, says), "{name}");
        let content = &body["messages"][0]["content"];
        assert_eq!(content, &list(json!({"text": "Hello."}), &five, says), "{name}");
        assert_eq!(body["toolConfig"]["tools"], list(declared("f"), &five, offers), "{name}");
        let left_out: &[&str] = if says && offers { &[] } else { &["cache_control"] };
        assert_eq!(dropped, left_out, "{name}");
    }
}
