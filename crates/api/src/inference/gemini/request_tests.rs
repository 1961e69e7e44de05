use axum::http::StatusCode;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::inference::canonical::testing::{Asked, Exchange, conversation};
use crate::inference::gemini::AnswerForm;

fn generate(body: Value) -> Generate {
    let Value::Object(mut body) = body else { panic!("no object") };
    body.entry("contents").or_insert(json!([{"parts": [{"text": "?"}]}]));
    Generate { model: "m".to_owned(), body, form: AnswerForm::Whole }
}

fn asked(body: Value) -> super::ParsedRequest<AnswerOptions> {
    parse(generate(body), Some("t".to_owned()), None).unwrap()
}

fn fault(body: Value) -> (u16, String) {
    let failure = parse(generate(body), None, None).unwrap_err();
    let status: StatusCode = failure.status();
    (status.as_u16(), failure.into_body().error)
}

fn messages(body: Value) -> Value {
    json!(asked(body).request.prompt.messages)
}

/// As the vendor's own examples for a shell have it.
#[test]
fn a_single_object_is_a_list_of_one() {
    let one = json!({"system_instruction": {"parts": {"text": "Be brief."}},
        "contents": {"parts": {"text": "Hi."}}});
    let list = json!({"system_instruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"parts": [{"text": "Hi."}]}]});
    assert_eq!(messages(one), messages(list));
    let (status, text) = fault(json!({"contents": "Hi."}));
    assert_eq!((status, text.as_str()), (400, "contents must be an array"));
}

#[test]
fn settings_have_their_canonical_names() {
    let schema = json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}});
    let read = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let camel = json!({
        "generationConfig": {"temperature": 0.5, "topP": 1, "topK": 40.0, "maxOutputTokens": 9,
            "stopSequences": ["END"], "candidateCount": 1, "seed": -3, "presencePenalty": 1,
            "frequencyPenalty": 0.5, "responseMimeType": "application/json", "responseSchema": schema,
            "thinkingConfig": {"thinkingBudget": 8192, "includeThoughts": true}, "logprobs": 3},
        "tools": [{"functionDeclarations": [{"name": "f", "description": "d", "parameters": schema},
            {"name": "g", "parametersJsonSchema": {"my_name": {"type": "STRING"}}}]},
            {"googleSearch": {}}, {"codeExecution": {}, "urlContext": {}}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
        "safetySettings": [{"category": "x"}], "newMember": 1, "labels": null,
    });
    let snake = json!({
        "generation_config": {"temperature": 0.5, "top_p": 1, "top_k": 40, "max_output_tokens": 9,
            "stop_sequences": ["END"], "candidate_count": 1, "seed": -3, "presence_penalty": 1,
            "frequency_penalty": 0.5, "response_mime_type": "application/json",
            "response_schema": schema,
            "thinking_config": {"thinking_budget": 8192, "include_thoughts": true}, "logprobs": 3},
        "tools": [{"function_declarations": [{"name": "f", "description": "d", "parameters": schema},
            {"name": "g", "parameters_json_schema": {"my_name": {"type": "STRING"}}}]},
            {"google_search": {}}, {"code_execution": {}, "url_context": {}}],
        "tool_config": {"function_calling_config": {"mode": "any", "allowed_function_names": ["f"]}},
        "safety_settings": [{"category": "x"}], "new_member": 1,
    });
    for body in [camel, snake] {
        let super::ParsedRequest { request, dropped, options, streams, .. } = asked(body);
        assert_eq!((request.model.as_deref(), request.trace_id.as_deref()), (Some("m"), Some("t")));
        assert_eq!(request.prompt.max_output_tokens, Some(9));
        assert!(options.with_thoughts && !streams);
        assert_eq!(
            Value::Object(request.prompt.params),
            json!({
                "temperature": 0.5, "top_p": 1, "presence_penalty": 1, "frequency_penalty": 0.5,
                "top_k": 40, "seed": -3, "stop": ["END"], "reasoning_effort": "medium",
                "response_format": {"type": "json_schema",
                    "json_schema": {"name": "answer", "schema": read}},
                "tool_choice": {"type": "function", "function": {"name": "f"}},
                "tools": [
                    {"type": "function", "function": {"name": "f", "description": "d",
                        "parameters": read}},
                    {"type": "function", "function": {"name": "g",
                        "parameters": {"my_name": {"type": "STRING"}}}},
                ],
            })
        );
        let names = [
            "logprobs",
            "newMember",
            "safetySettings",
            "tools[1] (googleSearch)",
            "tools[2] (codeExecution)",
            "tools[2] (urlContext)",
        ];
        assert_eq!(dropped, names);
    }
}

#[test]
fn thinking_is_an_effort() {
    for (thinking, effort) in [
        (json!({"thinkingBudget": 0}), Some("none")),
        (json!({"thinkingBudget": 1024}), Some("low")),
        (json!({"thinkingBudget": 24576}), Some("high")),
        (json!({"thinkingBudget": -1}), None),
        (json!({"thinkingLevel": "MINIMAL"}), Some("minimal")),
        (json!({"thinkingLevel": "HIGH", "thinkingBudget": 0}), Some("high")),
        (json!({"includeThoughts": true}), None),
    ] {
        let read = asked(json!({"generationConfig": {"thinkingConfig": thinking}}));
        let params = read.request.prompt.params;
        assert_eq!(params.get("reasoning_effort").and_then(Value::as_str), effort, "{thinking}");
        assert!(read.dropped.is_empty());
    }
}

#[test]
fn the_choice_among_tools() {
    for (config, choice, offered) in [
        (json!({"mode": "AUTO"}), json!("auto"), 3),
        (json!({"mode": "NONE"}), json!("none"), 3),
        (json!({"mode": "ANY"}), json!("required"), 3),
        (json!({"mode": "ANY", "allowedFunctionNames": ["f", "h"]}), json!("required"), 2),
        (json!({"mode": "VALIDATED", "allowedFunctionNames": ["f"]}), json!("auto"), 1),
        (json!({}), Value::Null, 3),
    ] {
        let names = ["f", "g", "h"].map(|name| json!({"name": name}));
        let body = json!({"tools": [{"functionDeclarations": names}],
            "toolConfig": {"functionCallingConfig": config}});
        let params = asked(body).request.prompt.params;
        assert_eq!(params.get("tool_choice").cloned().unwrap_or_default(), choice, "{config}");
        assert_eq!(params["tools"].as_array().unwrap().len(), offered, "{config}");
    }
    // Vendors refuse a choice among no tools.
    let body = json!({"toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}, "tools": [{"googleSearch": {}}]});
    assert!(asked(body).request.prompt.params.is_empty());
}

#[test]
fn choices_and_tools_that_cannot_be_had() {
    let config = |mode: &str, names: Value| json!({"functionCallingConfig": {"mode": mode, "allowedFunctionNames": names}});
    let declared = json!([{"functionDeclarations": [{"name": "f"}]}]);
    for (tools, config, says) in [
        (
            json!([{"googleSearch": {}}]),
            config("ANY", Value::Null),
            "tool_choice demands a call, and no tool is left to call: tools[0] (googleSearch)",
        ),
        (
            declared.clone(),
            config("ANY", json!(["g", "h"])),
            "toolConfig.functionCallingConfig.allowedFunctionNames must name functions of tools",
        ),
        (
            declared.clone(),
            config("SOME", Value::Null),
            "toolConfig.functionCallingConfig: a mode of type 'SOME' is not supported",
        ),
        (
            json!([{"mcpServers": [{"name": "m", "streamableHttpTransport": {"url": "https://a.example"}}]}]),
            Value::Null,
            "tools[0]: a tool of type 'mcpServers' is not supported",
        ),
        (
            json!([{"file_search": {"file_search_store_names": ["s"]}}]),
            Value::Null,
            "tools[0]: a tool of type 'fileSearch' is not supported",
        ),
    ] {
        let (status, said) = fault(json!({"tools": tools, "toolConfig": config}));
        assert_eq!(status, 422, "{said}");
        assert!(said.starts_with(says), "{said}");
    }
}

#[test]
fn answers_are_texts() {
    let read = |config: Value| asked(json!({"generationConfig": config})).dropped;
    assert!(read(json!({"responseModalities": ["Text"], "responseLogprobs": false})).is_empty());
    assert_eq!(read(json!({"responseModalities": ["TEXT", "IMAGE"]})), ["responseModalities"]);
    for config in [json!({"responseModalities": ["AUDIO"]}), json!({"responseLogprobs": true})] {
        let (status, said) = fault(json!({"generationConfig": config}));
        assert_eq!(status, 422);
        assert!(said.contains("response"), "{said}");
    }
}

#[test]
fn a_signature_may_come_alone() {
    let said = messages(json!({"contents": [
        {"role": "model", "parts": [{"text": "Hm."}, {"thoughtSignature": "c2ln"}]}]}));
    assert_eq!(said, json!([{"role": "assistant", "content": "Hm."}]));
}

#[test]
fn turns_have_their_canonical_form() {
    let text = |text: &str| json!({"text": text});
    let said = messages(json!({
        "systemInstruction": {"role": "user", "parts": [text("Be kind.")]},
        "contents": [
            {"role": "user", "parts": [text("See:"),
                {"inline_data": {"mime_type": "image/png", "data": "-_8="}},
                {"inlineData": {"mimeType": "text/plain", "data": URL_SAFE_NO_PAD.encode("é")}},
                {"inlineData": {"mimeType": "application/pdf", "data": "JVA", "displayName": "a.pdf"}}]},
            // A client keeps each chunk of a stream as a content.
            {"role": "model", "parts": [{"text": "Hm.", "thought": true}, text("Let ")]},
            {"role": "model", "parts": [text("me."), {"functionCall": {"name": "f", "args": {"a": 1}}},
                {"functionCall": {"name": "f"}}, {"functionCall": {"name": "g", "id": "own"}},
                {"text": "", "thoughtSignature": "c2ln"}]},
            {"role": "function", "parts": [
                {"functionResponse": {"id": "own", "name": "g", "response": {"error": "no"}}},
                {"functionResponse": {"name": "f", "response": {"output": "one"}}},
                {"functionResponse": {"name": "f", "response": {"b": [2]}}},
                text("And?")]},
        ],
    }));
    let call = |id: &str, name: &str, arguments: &str| call(id, name, arguments);
    assert_eq!(
        said,
        json!([
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [
                {"type": "text", "text": "See:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,+/8="}},
                {"type": "text", "text": "é"},
                {"type": "file", "file": {"filename": "a.pdf",
                    "file_data": "data:application/pdf;base64,JVA="}}]},
            {"role": "assistant", "content": "Let me.", "tool_calls": [
                call("call_0_c1", "f", "{\"a\":1}"), call("call_1_c1", "f", "{}"), call("own", "g", "{}")]},
            {"role": "tool", "content": "no", "tool_call_id": "own", "tool_failed": true},
            {"role": "tool", "content": "one", "tool_call_id": "call_0_c1"},
            {"role": "tool", "content": "{\"b\":[2]}", "tool_call_id": "call_1_c1"},
            {"role": "user", "content": "And?"},
        ])
    );
}

#[test]
fn a_message_is_named_by_its_content() {
    let body = json!({"systemInstruction": {"parts": [{"text": "s"}]}, "contents": [
        {"parts": [{"text": "a"}]},
        {"role": "model", "parts": [{"text": "b"}]}, {"role": "model", "parts": [{"text": "c"}]},
        {"role": "user", "parts": [{"text": "d"}]}]});
    let names = asked(body).names.unwrap();
    assert_eq!(names.sources, [None, Some(0), Some(1), Some(3)]);
    assert_eq!((names.list, names.beside), ("contents", "systemInstruction"));
}

#[test]
fn requests_that_cannot_be_read() {
    let part = |part: Value| json!({"contents": [{"parts": [part]}]});
    for (body, status, says) in [
        (json!({"contents": null}), 400, "Missing required parameter: contents"),
        (json!({"contents": []}), 422, "contents must not be empty"),
        (json!({"contents": "Hi"}), 400, "contents must be an array"),
        (json!({"contents": [1]}), 400, "contents[0] must be an object"),
        (json!({"contents": [{"role": "system", "parts": []}]}), 422, "contents[0].role must be"),
        (json!({"cachedContent": "cachedContents/1"}), 422, "cachedContent is not supported"),
        (json!({"systemInstruction": "x"}), 400, "systemInstruction must be an object"),
        (
            part(json!({"fileData": {"fileUri": "gs://a"}})),
            422,
            "contents[0].parts[0].fileData is not",
        ),
        (
            part(json!({"executableCode": {}})),
            422,
            "contents[0].parts[0]: a part with 'executableCode'",
        ),
        (part(json!({})), 400, "contents[0].parts[0] must have content"),
        (part(json!({"text": 1})), 400, "contents[0].parts[0].text must be a string"),
        (
            part(json!({"inlineData": {"mimeType": "video/mp4", "data": "AA"}})),
            422,
            "contents[0].parts[0].inlineData.data: a document must be a PDF or a text",
        ),
        (
            part(json!({"functionResponse": {"name": "f", "response": {}}})),
            422,
            "contents[0].parts[0].functionResponse.name: the model's turn before has no such",
        ),
        (
            json!({"generationConfig": {"candidateCount": 2}}),
            422,
            "generationConfig.candidateCount",
        ),
        (json!({"generationConfig": {"topK": -1}}), 400, "generationConfig.topK must be a whole"),
        (json!({"generationConfig": {"topK": 0.5}}), 400, "generationConfig.topK must be a whole"),
        (
            json!({"generationConfig": {"maxOutputTokens": 0}}),
            422,
            "generationConfig.maxOutputTokens",
        ),
        (
            json!({"generationConfig": {"temperature": "hot"}}),
            400,
            "generationConfig.temperature must",
        ),
        (
            json!({"generationConfig": {"stopSequences": [1]}}),
            400,
            "generationConfig.stopSequences",
        ),
        (
            json!({"generationConfig": {"responseMimeType": "text/x.enum"}}),
            422,
            "generationConfig.resp",
        ),
        (
            json!({"tools": [{"functionDeclarations": [{}]}]}),
            400,
            "Missing required parameter: tools[0]",
        ),
    ] {
        let (told, said) = fault(body);
        assert!(said.starts_with(says), "{said}");
        assert_eq!(told, status, "{said}");
    }
}

#[test]
fn names_that_are_left_out_are_short() {
    let long = "x".repeat(100);
    let many: Map<String, Value> =
        (0..100).map(|index| (format!("{index}\r\n{long}"), json!(1))).collect();
    let names = asked(Value::Object(many)).dropped;
    assert_eq!(names.len(), 100);
    assert!(names.iter().all(|name| name.len() == 64 && name.contains("??xx")));
}

#[test]
fn many_results_take_no_longer_each() {
    let count = 20_000;
    let calls = vec![json!({"functionCall": {"name": "f"}}); count];
    let results = vec![json!({"functionResponse": {"name": "f"}}); count];
    let body = json!({"contents": [{"role": "model", "parts": calls}, {"parts": results}]});
    assert_eq!(asked(body).request.prompt.messages.len(), 1 + count);
}

/// A conversation as a client of the format holds it.
fn contents(exchanges: &[Exchange]) -> Value {
    let mut contents = Vec::new();
    for Exchange { asked, speech, results } in exchanges {
        let parts = asked.iter().map(|asked| match asked {
            Asked::Text(text) => json!({"text": text}),
            Asked::Image(url) => {
                let data = url.strip_prefix("data:image/png;base64,").unwrap();
                json!({"inlineData": {"mimeType": "image/png", "data": data}})
            }
        });
        contents.push(json!({"role": "user", "parts": parts.collect::<Vec<_>>()}));
        let mut parts = vec![json!({"text": speech.thought, "thought": true})];
        if !speech.text.is_empty() {
            parts.push(json!({"text": speech.text}));
        }
        let calls = speech.calls.iter();
        parts.extend(calls.map(|call| {
            let args: Value = serde_json::from_str(&call.arguments).unwrap();
            json!({"functionCall": {"id": call.id, "name": call.name, "args": args}})
        }));
        if let Some(state) = &speech.state {
            // The vendor's packages write base64 in an alphabet of their own.
            parts[0]["thoughtSignature"] = URL_SAFE_NO_PAD.encode(state.to_string()).into();
        }
        contents.push(json!({"role": "model", "parts": parts}));
        let results: Vec<Value> = speech.calls.iter().zip(results).map(|(call, text)| {
            json!({"functionResponse": {"id": call.id, "name": call.name, "response": {"output": text}}})
        }).collect();
        if !results.is_empty() {
            contents.push(json!({"role": "user", "parts": results}));
        }
    }
    contents.into()
}

proptest! {
    #[test]
    fn any_conversation_is_the_same_in_the_canonical_form(exchanges in conversation()) {
        let read = asked(json!({"contents": contents(&exchanges)}));
        let expected: Vec<Message> = exchanges.iter().flat_map(Exchange::messages).collect();
        prop_assert_eq!(read.request.prompt.messages, expected);
        prop_assert!(read.dropped.is_empty());
    }

    #[test]
    fn any_json_is_read_or_refused(name in "[a-zA-Z_]{1,20}", value in prop_oneof![
        Just(json!([])), Just(json!({})), Just(json!([{}])), Just(json!(1)), Just(json!("x")),
        Just(json!([[1]])), Just(json!({"parts": [{"text": {}}]})), Just(json!([{"parts": {}}]))]) {
        for known in ["contents", "systemInstruction", "tools", "toolConfig", "generationConfig", &name] {
            let _ = parse(generate(json!({known: value})), None, None);
        }
    }
}
