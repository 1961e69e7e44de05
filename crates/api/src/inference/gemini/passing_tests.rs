use domain::conversation::Body;
use domain::original::{ExternalAccess, Original, WireFormat};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::http::error::Result;
use crate::inference::format::ParsedRequest;
use crate::inference::gemini::generate::{AnswerForm, AnswerOptions, Generate};
use crate::inference::gemini::request::parse;

fn parsed(body: &Value) -> Result<ParsedRequest<AnswerOptions>> {
    let original = Original::new(WireFormat::GenerateContent, body.to_string());
    let body = body.as_object().unwrap().clone();
    parse(Generate { model: "m".to_owned(), body, form: AnswerForm::Whole }, None, Some(original))
}

fn original(body: &Value) -> Original {
    *parsed(body).unwrap().request.prompt.original.unwrap()
}

fn with(mut value: Value, more: &Map<String, Value>) -> Value {
    value.as_object_mut().unwrap().extend(more.clone());
    value
}

fn says(more: Value) -> Value {
    let Value::Object(more) = more else { panic!("no object") };
    with(json!({"contents": [{"parts": [{"text": "Hello."}]}]}), &more)
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z ]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3);
        let object = prop::collection::vec(("[a-z]{1,6}", inner), 0..3);
        prop_oneof![
            list.prop_map(Value::from),
            object.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Members that nobody knows.
fn unknown() -> impl Strategy<Value = Map<String, Value>> {
    let members = prop::collection::vec(("x[A-Z][a-z]{1,6}", any_json()), 0..3);
    members.prop_map(|members| members.into_iter().collect())
}

#[test]
fn a_single_part_does_not_hide_its_address() {
    let part = json!({"fileData": {"fileUri": "https://a.example/x"}});
    let one = original(&json!({"contents": {"parts": part}})).external_access;
    let list = original(&json!({"contents": [{"parts": [part]}]})).external_access;
    assert_eq!(one.len(), 1);
    assert_eq!(one, list);
}

proptest! {
    #[test]
    fn unknown_parts_are_no_fault(more in unknown(), kind in "x[A-Z][a-z]{1,9}", text in "[a-z]{1,9}") {
        let part = json!({kind.as_str(): more});
        let words = with(json!({"text": text}), &more);
        let called = with(json!({"functionCall": {"name": "n", "args": {}}}), &more);
        let result = json!({"name": "n", "response": {"output": text}, "parts": [part]});
        let config = json!({"temperature": 0.5, "responseMimeType": kind, "candidateCount": 2});
        let body = with(json!({
            "systemInstruction": {"parts": [words, part]},
            "tools": [{"functionDeclarations": [with(json!({"name": "n"}), &more)], kind.as_str(): more}],
            "toolConfig": {"functionCallingConfig": {"mode": kind}},
            "generationConfig": with(config, &more),
            "contents": [
                with(json!({"role": "user", "parts": [part, words]}), &more),
                {"role": "model", "parts": [part, words, called]},
                {"role": "user", "parts": [with(json!({"functionResponse": result}), &more), part]},
                {"role": kind, "parts": [words]},
            ],
        }), &more);
        let request = parsed(&body).unwrap().request;
        let original = request.prompt.original.unwrap();
        prop_assert!(original.untranslatable.is_some());
        prop_assert_eq!(original.body, Some(body.to_string()));
        prop_assert_eq!(original.external_access, []);
        let said: Vec<&Body> = request.prompt.messages.iter().map(|message| &message.body).collect();
        let count = said.iter().filter(|body| ***body == Body::Text(text.clone())).count();
        prop_assert_eq!(count, 4, "what is known keeps its canonical form: {:?}", said);
        prop_assert_eq!(request.prompt.params["tools"].as_array().unwrap().len(), 1);
        prop_assert_eq!(&request.prompt.params["n"], &json!(2), "each is paid for");
    }
}

#[test]
fn a_request_with_a_canonical_form_can_be_translated() {
    let body = says(json!({"safetySettings": [], "tools": [{"codeExecution": {}}],
        "generationConfig": {"thinkingConfig": {"thinkingLevel": "of_tomorrow"}}}));
    let passing = original(&body);
    assert_eq!((passing.untranslatable, passing.is_partial), (None, false));
    assert!(passing.lacks_tools);
    for more in [
        json!({"cachedContent": "cachedContents/1"}),
        json!({"generationConfig": {"responseLogprobs": true}}),
        json!({"tools": [{"fileSearch": {}}]}),
        json!({"contents": [{"parts": [{"fileData": {"fileUri": "gs://a/b"}}]}]}),
        json!({"contents": [{"parts": [{"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}}]}]}),
    ] {
        let original = original(&says(more.clone()));
        assert!(original.untranslatable.is_some() && original.body.is_some(), "{more}");
    }
}

#[test]
fn what_is_refused_stays_refused() {
    for more in [
        json!({"contents": []}),
        json!({"base_url": "http://a.example"}),
        json!({"apiKey": "sk-x"}),
        json!({"generationConfig": {"maxOutputTokens": 0}}),
        json!({"generationConfig": {"models": ["x"]}}),
        json!({"generationConfig": {"maxOutputTokens": -1, "candidateCount": 2}}),
        json!({"contents": [{"parts": [{}]}]}),
    ] {
        assert!(parsed(&says(more.clone())).is_err(), "{more}");
    }
}

#[test]
fn what_servers_may_read_in_two_ways_does_not_pass() {
    for (more, passes) in [
        (json!({"generationConfig": {"maxOutputTokens": 5}}), true),
        (json!({"generation_config": {"max_output_tokens": 5}}), true),
        (json!({"generationConfig": {"maxOutputTokens": 5, "max_output_tokens": 6}}), false),
        (json!({"generationConfig": {"maxOutputTokens": 5, "max_output_tokens": null}}), false),
        (json!({"generationConfig": {}, "generation_config": {"maxOutputTokens": 5}}), false),
        (json!({"generationConfig": {"MaxOutputTokens": 5}}), false),
        (json!({"generationConfig": {"max_outputTokens": 5}}), false),
        (json!({"generationConfig": {"max__output_tokens": 5}}), false),
        (json!({"generationConfig": {"maxOutputTo\u{212a}ens": 5}}), false),
        (json!({"GenerationConfig": {"maxOutputTokens": 5}}), false),
        (json!({"generationConfig": {"candidateCount": 1, "candidate_count": 2}}), false),
        (json!({"generationConfig": {"routingConfig": {"autoMode": {}}}}), false),
        (json!({"generationConfig": {"model_selection_config": {}}}), false),
        (json!({"generationConfig": {"routingConfig": null}}), true),
        (
            json!({"tool_config": {"functionCallingConfig": {"stream_function_call_arguments": true}}}),
            false,
        ),
        (
            json!({"toolConfig": {"functionCallingConfig": {"streamFunctionCallArguments": false}}}),
            true,
        ),
        (json!({"cached_content": "a", "cachedContent": "b"}), false),
        (json!({"ofTomorrow": 1, "of_tomorrow": 2}), true),
    ] {
        assert_eq!(original(&says(more.clone())).body.is_some(), passes, "{more}");
    }
}

/// The vendor could not read the state of another vendor's model.
#[test]
fn what_the_gateway_has_signed_does_not_pass() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    let state = json!({"provider": "anthropic", "model": "c", "content": [{"thinking": "Hm."}]});
    let message = json!({"provider_state": state}).as_object().unwrap().clone();
    let token = {
        let mut message = message;
        crate::inference::canonical::prompt::State::taken(&mut message).unwrap().token()
    };
    let history = |signature: &str| {
        let part = json!({"functionCall": {"name": "f"}, "thoughtSignature": signature});
        says(
            json!({"contents": [{"parts": [{"text": "Go."}]}, {"role": "model", "parts": [part]}]}),
        )
    };
    assert!(original(&history(&STANDARD.encode(token))).body.is_none());
    assert!(original(&history("c2ln")).body.is_some(), "the vendor's own");
}

#[test]
fn everything_that_would_be_reached_is_found() {
    let body = json!({
        "cached_content": "cachedContents/1",
        "systemInstruction": {"parts": [{"text": "https://text.example/"},
            {"file_data": {"file_uri": "https://s.example/a.pdf"}}]},
        "tools": [
            {"functionDeclarations": [{"name": "f", "description": "https://text.example/"}]},
            {"google_search": {}, "codeExecution": {}, "computerUse": {}},
            {"URL_Context": {}},
            {"googleMaps": null, "fileSearch": {}, "enterpriseWebSearch": {}},
            {"mcp_servers": [{"name": "a", "streamableHttpTransport": {"url": "https://m.example/"}},
                {"name": "b"}]},
            {"exa_ai_search": {"apiKey": "k"}},
            {"ofTomorrow": {"endpoint": "http://10.0.0.1/"}, "quiet": {"n": 1}},
        ],
        "contents": [
            {"parts": [
                {"text": "https://text.example/"},
                {"fileData": {"fileUri": "https://youtu.be/x", "mimeType": "video/mp4"}},
                {"fileData": {"fileUri": "files/abc"}},
                {"FileData": "gs://bucket/a"},
                {"inlineData": {"displayName": "C:/a.pdf", "mimeType": "application/pdf", "data": "JVBERi0xLjQK"}},
                {"inlineData": {"data": "https://i.example/", "mimeType": "image/png"}},
                {"of_tomorrow": {"parts": [{"x": "s3://bucket/a"}, {"fileUri": "b"}]}},
            ]},
            {"role": "model", "parts": [
                {"functionCall": {"name": "f", "args": {"fileUri": "https://a.example/"}}},
                {"executableCode": {"code": "https://text.example/"}},
            ]},
            {"parts": [{"functionResponse": {"name": "f", "response": {"x": "https://a.example/"},
                "parts": [{"fileData": {"fileUri": "https://r.example/"}}]}}]},
        ],
    });
    let found = original(&body).external_access.into_iter().map(|access| {
        let ExternalAccess { at, kind, address, is_public_allowed, .. } = access;
        assert!(!is_public_allowed, "no address will do by itself");
        (at, kind, address.unwrap_or_default())
    });
    let expected = [
        ("cachedContent", "cachedContent", ""),
        ("tools[1]", "googleSearch", ""),
        ("tools[2]", "urlContext", ""),
        ("tools[3]", "fileSearch", ""),
        ("tools[3]", "enterpriseWebSearch", ""),
        ("tools[4]", "mcp", "https://m.example/"),
        ("tools[4]", "mcp", ""),
        ("tools[5]", "exaAiSearch", ""),
        ("tools[6]", "ofTomorrow", "http://10.0.0.1/"),
        ("systemInstruction.parts[1]", "fileData", "https://s.example/a.pdf"),
        ("contents[0].parts[1]", "fileData", "https://youtu.be/x"),
        ("contents[0].parts[2]", "fileData", "files/abc"),
        ("contents[0].parts[3]", "fileData", "gs://bucket/a"),
        ("contents[0].parts[5]", "inlineData", "https://i.example/"),
        ("contents[0].parts[6]", "ofTomorrow", "s3://bucket/a"),
        ("contents[0].parts[6]", "fileData", "b"),
        ("contents[2].parts[0].functionResponse.parts[0]", "fileData", "https://r.example/"),
    ];
    let expected =
        expected.map(|(at, kind, address)| (at.to_owned(), kind.to_owned(), address.to_owned()));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}
