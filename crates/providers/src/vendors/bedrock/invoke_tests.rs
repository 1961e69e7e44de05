use domain::model::{Model, Provider};
use proptest::prelude::*;

use super::*;
use crate::testing;

fn model(name: &str) -> Model {
    let mut model = testing::model(Provider::Bedrock, Some("http://127.0.0.1:1"));
    model.config.upstream_model = Some(name.to_owned());
    model
}

fn bodies(requests: Vec<Outgoing>) -> Vec<Value> {
    requests.iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
}

fn embed(name: &str, count: usize, dimensions: Option<u64>) -> Result<Vec<Outgoing>, Error> {
    let inputs: Vec<String> = (0..count).map(|number| format!("text {number}")).collect();
    Embedder::requests(
        &Invoke,
        &EmbeddingRequest { model: &model(name), inputs: &inputs, dimensions, trace: None },
    )
}

#[test]
fn titan_embeds_one_text_a_call() {
    let requests = embed("amazon.titan-embed-text-v2:0", 2, Some(256)).unwrap();
    assert_eq!(requests[0].url, "http://127.0.0.1:1/model/amazon.titan-embed-text-v2%3A0/invoke");
    assert_eq!(
        bodies(requests),
        [
            json!({"inputText": "text 0", "dimensions": 256}),
            json!({"inputText": "text 1", "dimensions": 256}),
        ]
    );
    let plain = embed("amazon.titan-embed-text-v1", 1, None).unwrap();
    assert_eq!(bodies(plain), [json!({"inputText": "text 0"})]);
}

#[test]
fn cohere_embeds_96_texts_a_call() {
    let bodies = bodies(embed("us.cohere.embed-v4:0", 200, Some(512)).unwrap());
    let counts: Vec<_> =
        bodies.iter().map(|body| body["texts"].as_array().unwrap().len()).collect();
    assert_eq!(counts, [96, 96, 8]);
    assert_eq!(bodies[1]["texts"][0], "text 96");
    assert_eq!(bodies[2]["input_type"], "search_document");
    assert_eq!(bodies[2]["output_dimension"], 512);
}

#[test]
fn the_purpose_of_cohere_s_vectors_is_configured() {
    let mut model = model("cohere.embed-english-v3");
    model.config.all.insert("input_type".to_owned(), json!("search_query"));
    let ask = EmbeddingRequest {
        model: &model,
        inputs: &["a".to_owned()],
        dimensions: None,
        trace: None,
    };
    let requests = Embedder::requests(&Invoke, &ask).unwrap();
    assert_eq!(bodies(requests), [json!({"texts": ["a"], "input_type": "search_query"})]);
}

#[test]
fn what_a_model_cannot_do_is_said() {
    for (name, dimensions, says) in [
        ("amazon.titan-embed-text-v1", Some(256), "dimensions is not supported by model gpt-test"),
        ("cohere.embed-english-v3", Some(256), "dimensions is not supported"),
        ("anthropic.claude-3-haiku-20240307-v1:0", None, "makes no embeddings"),
    ] {
        let error = embed(name, 1, dimensions).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn vectors_are_read_in_every_form() {
    let mut counted = HeaderMap::new();
    counted.insert(INPUT_TOKENS, "7".parse().unwrap());
    let (plain, none) = (json!([[0.5, 1.0], [2, 3]]), HeaderMap::new());
    for (body, headers, vectors, tokens) in [
        (json!({"embedding": [0.5], "inputTextTokenCount": 3}), &counted, vec![vec![0.5]], Some(3)),
        (
            json!({"embeddings": plain, "id": "x"}),
            &counted,
            vec![vec![0.5, 1.0], vec![2.0, 3.0]],
            Some(7),
        ),
        (json!({"embeddings": {"float": [[1.5]]}}), &none, vec![vec![1.5]], None),
    ] {
        let read = Embedder::read(&Invoke, headers, body.to_string().as_bytes()).unwrap();
        assert_eq!(read, Embedded { vectors, tokens, ..Embedded::default() });
    }
    for body in ["", "{}", r#"{"embeddings":{"int8":[[1]]}}"#, r#"{"message":"no"}"#] {
        assert!(Embedder::read(&Invoke, &none, body.as_bytes()).is_err(), "{body}");
    }
}

fn generate_images(name: &str, size: &str, count: u64) -> Result<Vec<Outgoing>, Error> {
    let ask = ImageRequest {
        model: &model(name),
        prompt: "a cat",
        size,
        count,
        quality: None,
        trace: None,
    };
    ImageGenerator::requests(&Invoke, &ask)
}

#[test]
fn images_are_asked_for_five_at_a_time() {
    for name in ["amazon.titan-image-generator-v2:0", "amazon.nova-canvas-v1:0"] {
        let bodies = bodies(generate_images(name, "1024x512", 7).unwrap());
        let body = |count| {
            json!({"taskType": "TEXT_IMAGE", "textToImageParams": {"text": "a cat"},
                "imageGenerationConfig": {"numberOfImages": count, "width": 1024, "height": 512}})
        };
        assert_eq!(bodies, [body(5), body(2)]);
    }
    for (name, size, says) in [
        ("amazon.nova-canvas-v1:0", "big", "width x height"),
        ("amazon.nova-canvas-v1:0", "0x5", "width x height"),
        ("anthropic.claude", "1024x1024", "makes no images"),
    ] {
        assert!(generate_images(name, size, 1).unwrap_err().to_string().contains(says), "{name}");
    }
}

#[test]
fn images_become_data_urls() {
    let made =
        ImageGenerator::read(&Invoke, br#"{"images":["AAEC","AwQF"],"error":null}"#).unwrap();
    assert_eq!(made.urls, ["data:image/png;base64,AAEC", "data:image/png;base64,AwQF"]);
    for (body, says) in [
        (r#"{"images":[],"error":"blocked by filters"}"#, "blocked by filters"),
        (r#"{"images":[]}"#, "no images"),
        (r#"{"images":[""]}"#, "no images"),
        ("{}", "no images"),
        ("x", "no JSON"),
    ] {
        let error = ImageGenerator::read(&Invoke, body.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

proptest! {
    #[test]
    fn no_answer_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..9),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let answers = [
            json!({"embedding": [0.5, -1.0], "inputTextTokenCount": 3}),
            json!({"embeddings": [[0.5], [1.0]]}),
            json!({"embeddings": {"float": [[0.5], [1.0]]}, "response_type": "embeddings_by_type"}),
            json!({"images": ["aGk=", "aGk="]}),
        ];
        let mut bodies: Vec<Vec<u8>> =
            answers.iter().map(|answer| answer.to_string().into_bytes()).collect();
        for body in &mut bodies {
            for (place, byte) in &changes {
                let place = place.index(body.len());
                body[place] = *byte;
            }
        }
        bodies.push(noise);
        for body in &bodies {
            let _ = Embedder::read(&Invoke, &HeaderMap::new(), body);
            if let Ok(made) = ImageGenerator::read(&Invoke, body) {
                prop_assert!(!made.urls.is_empty());
            }
        }
    }
}
