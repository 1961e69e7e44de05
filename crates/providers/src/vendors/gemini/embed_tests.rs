use domain::model::Provider;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::model;

fn sent(texts: &[String], dimensions: Option<u64>) -> Vec<(String, Value)> {
    let model = Model {
        identifier: "gemini-embedding-001".to_owned(),
        ..model(Provider::Gemini, Some("http://x"))
    };
    let ask = EmbeddingRequest { model: &model, inputs: texts, dimensions, trace: None };
    let requests = Embeddings.requests(&ask).unwrap();
    let read = |one: Outgoing| (one.url, serde_json::from_slice(&one.body).unwrap());
    requests.into_iter().map(read).collect()
}

#[test]
fn texts_become_requests() {
    let base = "http://x/v1beta/models/gemini-embedding-001";
    let text = |text: &str| json!({"parts": [{"text": text}]});
    assert_eq!(
        sent(&["a".to_owned()], Some(16)),
        [(
            format!("{base}:embedContent"),
            json!({"content": text("a"), "outputDimensionality": 16}),
        )],
    );
    let name = "models/gemini-embedding-001";
    assert_eq!(
        sent(&["a".to_owned(), "b".to_owned()], None),
        [(
            format!("{base}:batchEmbedContents"),
            json!({"requests": [
                {"model": name, "content": text("a")},
                {"model": name, "content": text("b")},
            ]}),
        )],
    );
    let many: Vec<_> = (0..201).map(|number| number.to_string()).collect();
    let sizes = |(_, body): &(String, Value)| body["requests"].as_array().map_or(1, Vec::len);
    assert_eq!(sent(&many, None).iter().map(sizes).collect::<Vec<_>>(), [100, 100, 1]);
}

#[test]
fn answers_become_vectors() {
    let read = |body: Value| Embeddings.read(&HeaderMap::new(), body.to_string().as_bytes());
    let one = read(json!({"embedding": {"values": [0.5, -1]}})).unwrap();
    assert_eq!(one, Embedded { vectors: vec![vec![0.5, -1.0]], ..Embedded::default() });
    let two = json!({"embeddings": [{"values": [1]}, {"values": [2]}],
        "usageMetadata": {"promptTokenCount": 6}});
    let two = read(two).unwrap();
    assert_eq!((two.vectors, two.tokens), (vec![vec![1.0], vec![2.0]], Some(6)));
    for (body, says) in [
        (json!({"error": {"message": "no"}}), "no"),
        (json!({"embedding": {}}), "empty"),
        (json!({"embeddings": 1}), "no embeddings"),
        (json!("x"), "no embeddings"),
    ] {
        let said = read(body).unwrap_err().to_string();
        assert!(said.contains(says), "{said}");
    }
}

proptest! {
    #[test]
    fn no_answer_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..9),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = Embeddings.read(&HeaderMap::new(), &noise);
        let mut answer = json!({"embeddings": [{"values": [0.5, -1.0]}, {"values": [1e-9]}],
            "usageMetadata": {"promptTokenCount": 7}}).to_string().into_bytes();
        for (place, byte) in changes {
            let place = place.index(answer.len());
            answer[place] = byte;
        }
        if let Ok(read) = Embeddings.read(&HeaderMap::new(), &answer) {
            prop_assert!(read.vectors.iter().all(|vector| !vector.is_empty()));
        }
    }
}

#[test]
fn usage_that_makes_no_sense_spoils_no_vector() {
    for usage in
        [json!("6"), json!([6]), json!({"promptTokenCount": "6"}), json!({"promptTokenCount": -6})]
    {
        let body = json!({"embedding": {"values": [0.5]}, "usageMetadata": usage});
        let read = Embeddings.read(&HeaderMap::new(), body.to_string().as_bytes()).unwrap();
        assert_eq!((read.vectors.len(), read.tokens), (1, None), "{usage}");
    }
}
