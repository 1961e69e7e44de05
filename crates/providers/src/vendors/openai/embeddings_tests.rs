use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use domain::model::{Model, Provider, SANDBOX_URL};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::model;
use crate::vendors::embedder;

fn sent(model: &Model, inputs: &[String], dimensions: Option<u64>) -> Result<Vec<Outgoing>, Error> {
    embedder(model)?.requests(&EmbeddingRequest { model, inputs, dimensions, trace: None })
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn answer(data: Value) -> Result<Embedded, Error> {
    read(json!({"object": "list", "data": data, "model": "real"}).to_string().as_bytes())
}

#[test]
fn texts_become_one_request() {
    let mut own = model(Provider::Openai, None);
    own.config.upstream_model = Some("text-embedding-3-small".to_owned());
    let inputs = ["a".to_owned(), "b".to_owned()];
    let [outgoing] = sent(&own, &inputs, Some(256)).unwrap().try_into().unwrap();
    assert_eq!(outgoing.url, "https://api.openai.com/v1/embeddings");
    let body: Value = serde_json::from_slice(&outgoing.body).unwrap();
    assert_eq!(
        body,
        json!({"model": "text-embedding-3-small", "input": ["a", "b"],
            "encoding_format": "base64", "dimensions": 256}),
    );
    let nowhere = model(Provider::Internal, None);
    assert!(sent(&nowhere, &inputs, None).is_err());
    let there = model(Provider::Internal, Some("http://127.0.0.1/v1/"));
    let [outgoing] = sent(&there, &inputs, None).unwrap().try_into().unwrap();
    assert_eq!(outgoing.url, "http://127.0.0.1/v1/embeddings");
    assert!(!String::from_utf8(outgoing.body).unwrap().contains("dimensions"));
}

#[test]
fn many_texts_become_several_requests() {
    let texts: Vec<String> = (0..2048).map(|number| number.to_string()).collect();
    let sent = sent(&model(Provider::Openai, None), &texts, None).unwrap();
    let bodies = sent.iter().map(|one| serde_json::from_slice::<Value>(&one.body).unwrap());
    let inputs: Vec<Value> =
        bodies.flat_map(|body| body["input"].as_array().unwrap().clone()).collect();
    assert_eq!((sent.len(), json!(inputs)), (2, json!(texts)));
}

#[test]
fn vectors_come_in_the_order_of_the_texts() {
    let data = json!([
        {"object": "embedding", "index": 1, "embedding": [0.5, -1, 1e-3]},
        {"object": "embedding", "index": 0, "embedding": STANDARD.encode(bytes(&[1.0, 2.5]))},
    ]);
    let body = json!({"object": "list", "data": data, "model": "real",
        "usage": {"prompt_tokens": 7, "total_tokens": 7}});
    let read = read(body.to_string().as_bytes()).unwrap();
    assert_eq!(read.vectors, [vec![1.0, 2.5], vec![0.5, -1.0, 0.001]]);
    assert_eq!((read.upstream_model.as_deref(), read.tokens), (Some("real"), Some(7)));
    for index in [json!(null), json!(0)] {
        let data = json!([{"embedding": [1], "index": index}, {"embedding": [2], "index": index}]);
        assert_eq!(answer(data).unwrap().vectors, [[1.0], [2.0]], "{index}");
    }
}

#[test]
fn what_is_no_list_of_vectors_is_a_fault() {
    for (data, says) in [
        (json!([{"embedding": []}]), "no list"),
        (json!([{"embedding": [1, "2"]}]), "no list"),
        (json!([{"embedding": [1e60]}]), "no list"),
        (json!([{"embedding": "not base64!"}]), "no list"),
        (json!([{"embedding": STANDARD.encode([1, 2, 3])}]), "no list"),
        (json!([{"embedding": STANDARD.encode(f32::NAN.to_le_bytes())}]), "no list"),
        (json!([{"embedding": [1], "index": 1}]), "numbered"),
        (json!([{"embedding": [1], "index": 0}, {"embedding": [1], "index": 2}]), "numbered"),
        (json!([{"embedding": [1]}, {"embedding": [1], "index": 0}]), "numbered"),
        (json!(null), "no list"),
        (json!({}), "no list"),
    ] {
        let error = answer(data.clone()).unwrap_err();
        assert!(error.to_string().contains(says), "{data}: {error}");
        assert!(error.is_endpoint_fault());
    }
    let error = read(br#"{"error":{"message":"overloaded"}}"#).unwrap_err();
    assert!(error.to_string().contains("overloaded"), "{error}");
}

#[test]
fn the_sandbox_embeds_the_same_text_alike() {
    let sandbox = model(Provider::Internal, Some(SANDBOX_URL));
    let embed = |inputs: &[String], dimensions| {
        let [outgoing] = sent(&sandbox, inputs, dimensions).unwrap().try_into().unwrap();
        read(&crate::sandbox::embed(&outgoing.body)).unwrap()
    };
    let texts = ["A red boat.", "A red  boat!", "Taxes are due.", ""].map(str::to_owned);
    let all = embed(&texts, None);
    assert_eq!(all, embed(&texts, None));
    assert_eq!(all.tokens, Some(12));
    assert_eq!(all.vectors[0].len(), 256);
    let alike = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let [boat, same, taxes, nothing] = all.vectors.as_slice() else { panic!("four vectors") };
    assert!(alike(boat, same) > 0.99 && alike(boat, taxes) < 0.6, "alike by their words");
    for vector in [boat, same, taxes, nothing] {
        assert!((alike(vector, vector) - 1.0).abs() < 1e-3, "of length 1");
    }
    assert_eq!(embed(&texts[..1], Some(8)).vectors[0].len(), 8);
}

proptest! {
    #[test]
    fn base64_and_numbers_say_the_same(vector in prop::collection::vec(-1e9f32..1e9, 1..50)) {
        for embedding in [
            json!(vector),
            json!(STANDARD.encode(bytes(&vector))),
            json!(STANDARD_NO_PAD.encode(bytes(&vector))),
        ] {
            let read = answer(json!([{"index": 0, "embedding": embedding}])).unwrap();
            prop_assert_eq!(&read.vectors[0], &vector);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in ".{0,60}") {
        let _ = read(&bytes);
        let _ = answer(json!([{"embedding": text}]));
    }
}
