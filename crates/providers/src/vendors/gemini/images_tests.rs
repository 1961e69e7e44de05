use domain::model::Provider;
use domain::usage::Usage;

use serde_json::Value;

use super::*;
use crate::error::ErrorKind;
use crate::testing::model;

fn sent(size: &str, count: u64) -> Result<Vec<Value>, Error> {
    let model = model(Provider::Gemini, None);
    let ask =
        ImageRequest { model: &model, prompt: "A crab", size, count, quality: None, trace: None };
    let requests = Images.requests(&ask)?;
    Ok(requests.iter().map(|one| serde_json::from_slice(&one.body).unwrap()).collect())
}

#[test]
fn a_prompt_becomes_one_request_an_image() {
    let request = json!({
        "contents": [{"role": "user", "parts": [{"text": "A crab"}]}],
        "generationConfig": {"responseModalities": ["TEXT", "IMAGE"]},
    });
    assert_eq!(sent("1024x1024", 2).unwrap(), [request.clone(), request]);
}

#[test]
fn sizes_become_shapes() {
    for (size, shape) in [
        ("", json!(null)),
        ("auto", json!(null)),
        ("512x512", json!(null)),
        ("1536x1024", json!("3:2")),
        ("1024x1536", json!("2:3")),
        ("1792x1024", json!("16:9")),
        ("1024x1792", json!("9:16")),
    ] {
        let sent = sent(size, 1).unwrap();
        assert_eq!(sent[0]["generationConfig"]["imageConfig"]["aspectRatio"], shape, "{size}");
    }
    for size in ["1x9", "big", "0x0", "1024", "axb", "-1x1"] {
        let said = sent(size, 1).unwrap_err().to_string();
        assert!(said.contains("size") && said.contains("gpt-test"), "{said}");
    }
}

fn read(answer: Value) -> Result<GeneratedImages, Error> {
    Images.read(answer.to_string().as_bytes())
}

#[test]
fn images_become_data_urls() {
    let inline = |data: &str| json!({"mimeType": "image/png", "data": data});
    let parts = json!([
        {"inlineData": inline("draft"), "thought": true},
        {"text": "Here."},
        {"inlineData": inline("iVBO")},
        {"inlineData": {"mimeType": "audio/wav", "data": "x"}},
    ]);
    let made = read(json!({
        "candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 2, "candidatesTokenCount": 1290},
        "modelVersion": "real",
    }));
    assert_eq!(
        made.unwrap(),
        GeneratedImages {
            urls: vec!["data:image/png;base64,iVBO".to_owned()],
            upstream_model: Some("real".to_owned()),
            usage: Some(Usage { prompt: 2, completion: 1290, ..Usage::default() }),
        },
    );
}

#[test]
fn no_image_is_an_error() {
    for (answer, says) in [
        (json!({"candidates": [{"finishReason": "IMAGE_SAFETY"}]}), "IMAGE_SAFETY"),
        (json!({"promptFeedback": {"blockReason": "SAFETY"}}), "SAFETY"),
    ] {
        let error = read(answer).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Rejected { .. }) && !error.fallback_helps());
        assert!(error.to_string().contains(says), "{error}");
    }
    let none = json!({"candidates": [{"finishReason": "NO_IMAGE"}],
        "usageMetadata": {"promptTokenCount": 2, "candidatesTokenCount": 9}});
    let error = read(none).unwrap_err();
    assert!(!error.is_endpoint_fault() && error.to_string().contains("NO_IMAGE"), "{error}");
    let used = Usage { prompt: 2, completion: 9, ..Usage::default() };
    assert_eq!(error.usage(), Some(used));
    for (answer, says) in [
        (
            json!({"candidates": [{"content": {"parts": [{"text": "No."}]}, "finishReason": "STOP"}]}),
            "no image",
        ),
        (json!({}), "no image"),
    ] {
        let error = read(answer).unwrap_err();
        assert!(error.is_endpoint_fault() && error.to_string().contains(says), "{error}");
    }
}
