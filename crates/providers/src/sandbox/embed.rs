//! The sandbox's embeddings: a text is the sum of its words, so that alike texts are near each
//! other, and every vector has the length 1.

use std::hash::{DefaultHasher, Hasher as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::sandbox::tokens;

const DIMENSIONS: u64 = 256;
const MOST_DIMENSIONS: u64 = 1024;
/// Number of dimensions that each word contributes to.
const SPREAD: u64 = 8;

pub(super) fn answer(request: &Map<String, Value>) -> Vec<u8> {
    let dimensions = request.get("dimensions").and_then(Value::as_u64).unwrap_or(DIMENSIONS);
    let dimensions = dimensions.clamp(1, MOST_DIMENSIONS);
    let base64 = request.get("encoding_format").is_some_and(|format| format == "base64");
    let inputs = request.get("input").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let texts = || inputs.iter().map(|input| input.as_str().unwrap_or_default());
    let data = texts().enumerate().map(|(index, text)| {
        let vector = vector(text, dimensions);
        let embedding = if base64 {
            let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
            json!(STANDARD.encode(bytes))
        } else {
            json!(vector)
        };
        json!({"object": "embedding", "index": index, "embedding": embedding})
    });
    let data: Vec<Value> = data.collect();
    let tokens: u64 = texts().map(tokens::count).sum();
    let model = request.get("model").and_then(Value::as_str).unwrap_or("sandbox");
    json!({
        "object": "list",
        "data": data,
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })
    .to_string()
    .into_bytes()
}

fn vector(text: &str, dimensions: u64) -> Vec<f32> {
    let mut vector = vec![0.0_f32; dimensions as usize];
    for token in tokens::tokens(text) {
        let word: String =
            token.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
        if word.is_empty() {
            continue;
        }
        for place in 0..SPREAD {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(place);
            hasher.write(word.as_bytes());
            let hash = hasher.finish();
            let sign = if hash >> 63 == 0 { 1.0 } else { -1.0 };
            vector[(hash % dimensions) as usize] += sign;
        }
    }
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    if length == 0.0 {
        // A text without words still has a direction.
        vector[0] = 1.0;
        return vector;
    }
    vector.iter().map(|number| number / length).collect()
}
