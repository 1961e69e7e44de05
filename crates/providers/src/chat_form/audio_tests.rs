//! Recordings in messages, in the words of each format.

use domain::model::Provider;
use serde_json::{Value, json};

use crate::testing::{attempt, model, prompt_of};
use crate::vendors::adapter;

/// Returns the part of a message of the user's with a recording.
fn sent(provider: Provider, audio: &Value, is_translated: bool) -> Result<Value, String> {
    let part = json!({"type": "input_audio", "input_audio": audio});
    let mut prompt = prompt_of(json!([{"role": "user", "content": [part]}]), json!({}));
    prompt.is_translated = is_translated;
    let encoded = adapter(provider).encode(&attempt(&model(provider, None), &prompt));
    let body: Value =
        serde_json::from_slice(&encoded.map_err(|error| error.to_string())?.body).unwrap();
    let content = &body["messages"][0]["content"][0];
    Ok(if content.is_null() { body["contents"][0]["parts"][0].clone() } else { content.clone() })
}

#[test]
fn a_recording_goes_to_models_that_take_it() {
    let wav = json!({"data": "UklGRg==", "format": "wav"});
    let flac = json!({"data": "ZkxhQw==", "format": "flac"});
    for (provider, audio, expected) in [
        (Provider::Openai, &wav, Ok(json!({"type": "input_audio", "input_audio": wav}))),
        (Provider::Openai, &flac, Err("OpenAI takes audio as wav or mp3 only")),
        (
            Provider::Gemini,
            &flac,
            Ok(json!({"inlineData": {"mimeType": "audio/flac", "data": "ZkxhQw=="}})),
        ),
        (
            Provider::Bedrock,
            &wav,
            Ok(json!({"audio": {"format": "wav", "source": {"bytes": "UklGRg=="}}})),
        ),
        (
            Provider::Bedrock,
            &json!({"data": "Rk9STQ==", "format": "aiff"}),
            Err("Bedrock takes audio as mp3, opus, wav"),
        ),
        (Provider::Anthropic, &wav, Err("Claude takes no audio")),
        (Provider::Gemini, &json!({"data": "", "format": "wav"}), Err("input_audio needs data")),
        (
            Provider::Gemini,
            &json!({"data": "AA==", "format": "wav; x=\"y\""}),
            Err("input_audio needs data"),
        ),
    ] {
        match (sent(provider, audio, true), expected) {
            (Err(error), Err(says)) => assert!(error.contains(says), "{error}"),
            (found, expected) => {
                assert_eq!(found, expected.map_err(str::to_owned), "{provider:?}");
            }
        }
    }
    let own = sent(Provider::Openai, &flac, false).unwrap();
    assert_eq!(own["input_audio"], flac, "chat completions go as they are");
}
