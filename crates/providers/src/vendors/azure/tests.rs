use domain::conversation::StreamEvent;
use domain::model::Provider;
use domain::step::FinishReason;
use http::{HeaderMap, Uri};
use serde_json::{Value, json};

use super::*;
use crate::adapter::embeddings::EmbeddingRequest;
use crate::adapter::images::ImageRequest;
use crate::client::Client;
use crate::error::ErrorKind;
use crate::net::egress::Egress;
use crate::testing::{self, After, CANARY, Server, Step, attempt, model, prompt};
use crate::vendors::{embedder, image_generator};

/// Returns the model with this configuration.
pub(super) fn at(mut model: Model, config: Value) -> Model {
    let Value::Object(all) = config else { panic!("a configuration is an object") };
    model.config.all = all;
    model
}

fn azure(base: &str, config: Value) -> Model {
    at(model(Provider::Azure, Some(base)), config)
}

#[test]
fn an_address_has_one_of_two_forms() {
    let dated = || json!({"api_version": "2024-10-21"});
    let root = "https://x.openai.azure.com/openai/deployments/";
    let tail = "/chat/completions?api-version=2024-10-21";
    for (base, config, url) in [
        ("https://x.openai.azure.com", dated(), format!("{root}gpt-test{tail}")),
        ("https://x.openai.azure.com/openai/", dated(), format!("{root}gpt-test{tail}")),
        (
            "https://x.openai.azure.com/",
            json!({"api_version": "2024-10-21", "deployment": "our/gpt é+1"}),
            format!("{root}our%2Fgpt%20%C3%A9%2B1{tail}"),
        ),
        (
            "https://x.openai.azure.com",
            json!({"api_version": " "}),
            "https://x.openai.azure.com/openai/v1/chat/completions".to_owned(),
        ),
        (
            "https://x.openai.azure.com/openai/v1/",
            json!({}),
            "https://x.openai.azure.com/openai/v1/chat/completions".to_owned(),
        ),
        (
            "https://x.openai.azure.com/openai/v1",
            json!({"api_version": "preview"}),
            "https://x.openai.azure.com/openai/v1/chat/completions?api-version=preview".to_owned(),
        ),
        (
            "https://x.openai.azure.com/openai",
            json!({"api_version": "preview", "deployment": "dep-1"}),
            "https://x.openai.azure.com/openai/v1/chat/completions?api-version=preview".to_owned(),
        ),
    ] {
        assert_eq!(Azure.endpoint(&azure(base, config), true).unwrap(), url, "{base}");
    }
}

#[test]
fn embeddings_and_images_are_at_the_same_place() {
    let root = "https://x.openai.azure.com";
    let inputs = ["a".to_owned()];
    for (config, prefix, version) in [
        (
            json!({"api_version": "2024-10-21"}),
            "/openai/deployments/dep-1",
            "?api-version=2024-10-21",
        ),
        (json!({}), "/openai/v1", ""),
    ] {
        let mut model = azure(root, config);
        model.config.all.insert("deployment".to_owned(), json!("dep-1"));
        let ask =
            EmbeddingRequest { model: &model, inputs: &inputs, dimensions: None, trace: None };
        let embed = embedder(&model).unwrap().requests(&ask).unwrap().remove(0);
        let ask = ImageRequest {
            model: &model,
            prompt: "a",
            size: "auto",
            count: 1,
            quality: None,
            trace: None,
        };
        let image = image_generator(&model).unwrap().requests(&ask).unwrap().remove(0);
        assert_eq!(embed.url, format!("{root}{prefix}/embeddings{version}"));
        assert_eq!(image.url, format!("{root}{prefix}/images/generations{version}"));
        for body in [embed.body, image.body] {
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["model"], "dep-1");
        }
    }
}

#[test]
fn what_is_missing_is_named() {
    let root = "https://x.openai.azure.com";
    for (base, config, part) in [
        ("", json!({"api_version": "2024-10-21"}), "no base url"),
        (root, json!({"api_version": "2024&x=1"}), "must be a version"),
        (root, json!({"api_version": "2024-10-21", "deployment": ".."}), "no valid name"),
        (
            "https://x.openai.azure.com/openai/v1",
            json!({"api_version": "2024-10-21"}),
            "no dated additional_config.api_version",
        ),
    ] {
        let error = Azure.endpoint(&azure(base, config), false).unwrap_err();
        assert!(
            matches!(&error.kind, ErrorKind::Unsupported(said) if said.contains(part)),
            "{part}"
        );
    }
}

#[test]
fn older_versions_are_spoken_to_in_older_words() {
    let prompt = prompt(json!({"temperature": 0.5}));
    for (base, config, bound, usage) in [
        ("https://x.y", json!({"api_version": "2024-06-01"}), "max_tokens", false),
        (
            "https://x.y",
            json!({"api_version": "2024-09-01-preview"}),
            "max_completion_tokens",
            true,
        ),
        ("https://x.y", json!({"api_version": "2024-10-21"}), "max_completion_tokens", true),
        ("https://x.y/openai/v1", json!({}), "max_completion_tokens", true),
        ("https://x.y", json!({"api_version": "preview"}), "max_completion_tokens", true),
    ] {
        let mut model = azure(base, config);
        model.config.all.insert("deployment".to_owned(), json!("dep-1"));
        let attempt =
            Attempt { max_output_tokens: Some(5), stream: true, ..attempt(&model, &prompt) };
        let body: Value = serde_json::from_slice(&Azure.encode(&attempt).unwrap().body).unwrap();
        let mut expected = json!({
            "model": "dep-1",
            "messages": [{"role": "user", "content": "Hello there. How are you?"}],
            "temperature": 0.5, "stream": true,
        });
        expected[bound] = json!(5);
        if usage {
            expected["stream_options"] = json!({"include_usage": true});
        }
        assert_eq!(body, expected);
    }
}

#[test]
fn the_key_travels_in_a_header_of_its_own() {
    let model = azure("https://x.y/openai/v1", json!({}));
    let mut call = Call { uri: Uri::from_static("/"), headers: HeaderMap::new(), body: Vec::new() };
    Azure.authenticate(&model, &mut call, Timestamp(0)).unwrap();
    assert_eq!(call.headers["api-key"], CANARY);
    assert!(call.headers["api-key"].is_sensitive());
    assert_eq!(call.headers.len(), 1);
}

#[test]
fn the_verdict_on_the_prompt_comes_first() {
    let filters = json!([{"prompt_index": 0, "content_filter_results":
        {"hate": {"filtered": false, "severity": "safe"}}}]);
    let chunks = [
        json!({"choices": [], "created": 0, "id": "", "model": "", "object": "",
            "prompt_filter_results": filters}),
        json!({"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": null,
            "content_filter_results": {}, "content_filter_offsets": {"check_offset": 1}}],
            "model": "gpt-real"}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "content_filter"}]}),
    ];
    let mut decoder = Azure.decoder(&azure("https://x.y/openai/v1", json!({})));
    let mut events = Vec::new();
    for chunk in chunks.iter().map(Value::to_string).chain(["[DONE]".to_owned()]) {
        decoder.feed(format!("data: {chunk}\n\n").as_bytes(), &mut events).unwrap();
    }
    decoder.end(&mut events).unwrap();
    assert_eq!(
        events,
        [
            StreamEvent::Model("gpt-real".to_owned()),
            StreamEvent::Text("Hi".to_owned()),
            StreamEvent::Finish(FinishReason::ContentFilter),
            StreamEvent::Done,
        ],
    );
}

/// The filter on prompts answers with an error: the request is at fault, wherever it would be sent.
#[tokio::test]
async fn a_blocked_prompt_is_rejected() {
    let body = json!({"error": {"code": "content_filter", "status": 400, "param": "prompt",
        "message": "The response was filtered", "innererror":
            {"code": "ResponsibleAIPolicyViolation"}}});
    let answer = testing::json("400 Bad Request", &body.to_string());
    let server = Server::new(vec![Step { bytes: answer, after: After::Close }]).await;
    let base = format!("http://127.0.0.1:{}", server.port);
    let model = Model { is_public: false, ..azure(&base, json!({"api_version": "2024-10-21"})) };
    let client = Client::new(Egress::default()).unwrap();
    let error = client.complete(attempt(&model, &prompt(json!({})))).await.unwrap_err();
    let rejected =
        ErrorKind::Rejected { status: 400, message: "The response was filtered".to_owned() };
    assert_eq!(error.kind, rejected);
    assert!(!error.fallback_helps() && !error.is_endpoint_fault() && !error.retryable_here());
    let request = server.requests.lock().unwrap()[0].clone();
    let line = "POST /openai/deployments/gpt-test/chat/completions?api-version=2024-10-21 HTTP";
    assert!(request.starts_with(line) && request.contains(CANARY), "{request}");
    assert!(!request.contains("authorization"));
}
