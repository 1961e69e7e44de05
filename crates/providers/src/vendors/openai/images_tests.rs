use domain::model::Provider;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::model;
use crate::vendors::image_generator;

fn answer(body: &Value) -> Result<GeneratedImages, Error> {
    read(body.to_string().as_bytes())
}

#[test]
fn a_prompt_becomes_one_request_without_a_response_format() {
    let model = model(Provider::Openai, Some("http://127.0.0.1/v1"));
    let ask = ImageRequest {
        model: &model,
        prompt: "a boat",
        size: "1024x1024",
        count: 2,
        quality: None,
        trace: None,
    };
    let [outgoing] = image_generator(&model).unwrap().requests(&ask).unwrap().try_into().unwrap();
    assert_eq!(outgoing.url, "http://127.0.0.1/v1/images/generations");
    let body: Value = serde_json::from_slice(&outgoing.body).unwrap();
    assert_eq!(body, json!({"model": "gpt-test", "prompt": "a boat", "n": 2, "size": "1024x1024"}));
    let ask = ImageRequest { quality: Some("low"), ..ask };
    let [outgoing] = image_generator(&model).unwrap().requests(&ask).unwrap().try_into().unwrap();
    let body: Value = serde_json::from_slice(&outgoing.body).unwrap();
    assert_eq!(body["quality"], "low");
}

#[test]
fn images_become_urls() {
    let usage = json!({"input_tokens": 12, "output_tokens": 544, "total_tokens": 556,
        "input_tokens_details": {"text_tokens": 12, "image_tokens": 0}});
    let body = json!({"created": 1, "data": [{"b64_json": "iVBORw0KGgo="}, {"b64_json": "AAAA"}],
        "output_format": "webp", "usage": usage});
    let made = answer(&body).unwrap();
    assert_eq!(made.urls, ["data:image/webp;base64,iVBORw0KGgo=", "data:image/webp;base64,AAAA"]);
    let usage = made.usage.unwrap();
    assert_eq!((usage.prompt, usage.completion), (12, 544));
    let body = json!({"data": [
        {"url": "https://images.example/1.png", "revised_prompt": "A boat"},
        {"url": null, "b64_json": "AAAA"},
        {"url": "https://images.example/2.png", "b64_json": null},
    ]});
    let made = answer(&body).unwrap();
    let urls = [
        "https://images.example/1.png",
        "data:image/png;base64,AAAA",
        "https://images.example/2.png",
    ];
    assert_eq!((made.urls.as_slice(), made.usage), (&urls.map(str::to_owned)[..], None));
}

#[test]
fn what_is_no_list_of_images_is_a_fault() {
    for (body, says) in [
        (json!({"data": []}), "no image"),
        (json!({"data": [{}]}), "neither"),
        (json!({"data": [{"url": ""}]}), "neither"),
        (json!({"data": [{"url": "javascript:alert(1)"}]}), "neither"),
        (json!({"data": [{"b64_json": "<svg>"}]}), "no base64"),
        (json!({"created": 1}), "no list"),
        (json!({"error": {"message": "overloaded"}}), "overloaded"),
        (json!([]), "no list"),
    ] {
        let error = answer(&body).unwrap_err();
        assert!(error.to_string().contains(says), "{body}: {error}");
        assert!(error.is_endpoint_fault());
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }
}

#[test]
fn usage_that_makes_no_sense_spoils_no_image() {
    for (usage, told) in [
        (json!("12"), None),
        (json!([1]), None),
        (json!({"input_tokens": "12", "output_tokens": -1}), None),
        (json!({"input_tokens": 12, "output_tokens": "9"}), Some((12, 0, false, true))),
        (json!({"input_tokens": [1], "output_tokens": 9}), Some((0, 9, true, false))),
    ] {
        let body = json!({"data": [{"b64_json": "aGk="}], "usage": usage}).to_string();
        let read = read(body.as_bytes()).unwrap().usage;
        let read = read.map(|u| (u.prompt, u.completion, u.open.prompt, u.open.completion));
        assert_eq!(read, told, "{usage}");
    }
}
