//! Results of tools, in the words of each format.

use domain::model::Provider;
use serde_json::{Value, json};

use crate::testing::{attempt, model, prompt_of};
use crate::vendors::adapter;

/// Returns the result of a tool as it is sent, and the names of the parts left out.
fn sent(provider: Provider, result: &Value) -> Result<(Value, Vec<String>), String> {
    let mut result = result.clone();
    result["role"] = "tool".into();
    result["tool_call_id"] = "a".into();
    let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let prompt = prompt_of(
        json!([{"role": "user", "content": "?"}, {"role": "assistant", "tool_calls": [call]}, result]),
        json!({}),
    );
    let encoded = adapter(provider).encode(&attempt(&model(provider, None), &prompt));
    let encoded = encoded.map_err(|error| error.to_string())?;
    let body: Value = serde_json::from_slice(&encoded.body).unwrap();
    let (list, content, member) = match provider {
        Provider::Anthropic => ("messages", "content", ""),
        Provider::Bedrock => ("messages", "content", "/toolResult"),
        Provider::Gemini => ("contents", "parts", "/functionResponse/response"),
        _ => return Ok((body["messages"][2].clone(), encoded.dropped)),
    };
    let result = body[list][2][content][0].pointer(member).cloned();
    Ok((result.unwrap_or_else(|| panic!("{body}")), encoded.dropped))
}

#[test]
fn several_texts_stay_several() {
    let parts = json!([{"type": "text", "text": "10"}, {"type": "text", "text": "20"}]);
    let said = |provider| sent(provider, &json!({"content": parts})).unwrap().0;
    assert_eq!(said(Provider::Anthropic)["content"], parts);
    assert_eq!(said(Provider::Bedrock)["content"], json!([{"text": "10"}, {"text": "20"}]));
    assert_eq!(said(Provider::Gemini), json!({"output": ["10", "20"]}));
    assert_eq!(said(Provider::Openai)["content"], parts);
}

#[test]
fn that_a_tool_failed_is_said_where_there_is_a_word_for_it() {
    let failed = json!({"content": "{\"code\": 7}", "tool_failed": true});
    let said = |provider| sent(provider, &failed).unwrap();
    assert_eq!(said(Provider::Anthropic).0["is_error"], true);
    assert_eq!(said(Provider::Bedrock).0["status"], "error");
    assert_eq!(said(Provider::Gemini).0, json!({"error": "{\"code\": 7}"}));
    for provider in [Provider::Anthropic, Provider::Bedrock, Provider::Gemini] {
        assert!(said(provider).1.is_empty(), "{provider:?}");
        let (fine, _) = sent(provider, &json!({"content": "7", "tool_failed": false})).unwrap();
        assert!(!fine.to_string().contains("error"), "{fine}");
    }
    let (message, dropped) = said(Provider::Openai);
    assert_eq!((message.get("tool_failed"), dropped), (None, vec!["is_error".to_owned()]));
}

#[test]
fn a_pdf_has_each_providers_own_form() {
    let file = json!({"type": "file", "file": {"filename": "My report.pdf",
        "file_data": "data:application/pdf;base64,JVBERi0="}});
    let asked = json!([{"role": "user", "content": [{"type": "text", "text": "See."}, file]}]);
    let forms = [
        (Provider::Openai, "/messages/0/content/1", file.clone()),
        (
            Provider::Anthropic,
            "/messages/0/content/1",
            json!({"type": "document", "title": "My report.pdf", "source":
                {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}),
        ),
        (
            Provider::Gemini,
            "/contents/0/parts/1",
            json!({"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}}),
        ),
        (
            Provider::Bedrock,
            "/messages/0/content/1",
            json!({"document": {"format": "pdf", "source": {"bytes": "JVBERi0="},
                "name": format!("Myreport-{:08x}", crc32fast::hash(b"JVBERi0="))}}),
        ),
    ];
    for (provider, at, form) in forms {
        let (model, prompt) = (model(provider, None), prompt_of(asked.clone(), json!({})));
        let body = adapter(provider).encode(&attempt(&model, &prompt)).unwrap().body;
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body.pointer(at), Some(&form), "{provider:?}");
    }
    let archive = json!([{"role": "user", "content": [{"type": "file", "file":
        {"file_data": "data:application/zip;base64,UEs="}}]}]);
    for provider in [Provider::Anthropic, Provider::Gemini, Provider::Bedrock] {
        let (model, prompt) = (model(provider, None), prompt_of(archive.clone(), json!({})));
        let error = adapter(provider).encode(&attempt(&model, &prompt)).unwrap_err().to_string();
        assert!(error.contains("documents as PDF"), "{error}");
    }
}

#[test]
fn what_a_model_cannot_take_is_refused_in_a_result_as_well() {
    let file = json!({"type": "file", "file": {"file_id": "x"}});
    let far = json!({"type": "image_url", "image_url": {"url": "https://a.example/b.png"}});
    for provider in [Provider::Anthropic, Provider::Bedrock, Provider::Gemini] {
        let error = sent(provider, &json!({"content": [file]})).unwrap_err();
        assert!(
            error.contains("messages[2]: this model cannot take a content part 'file'"),
            "{error}"
        );
        let shown = sent(provider, &json!({"content": [{"type": "text", "text": "See."}, far]}));
        assert_eq!(shown.is_ok(), provider == Provider::Anthropic, "{provider:?}");
    }
}
