use domain::conversation::Prompt;
use domain::model::{Model, Provider};
use serde_json::{Value, json};

use crate::adapter::Adapter as _;
use crate::testing::{attempt, model};
use crate::vendors::anthropic::Anthropic;

/// Clients of other formats send sampling of their own accord: gemini-cli with every request.
#[test]
fn sampling_that_a_model_lacks_is_left_out_where_another_format_was_spoken() {
    let all = json!({"temperature": 1.0, "top_p": 0.95, "top_k": 64});
    for (name, sent, left_out) in [
        ("claude-3-7-sonnet-20250219", &["temperature", "top_k", "top_p"][..], &[][..]),
        ("claude-sonnet-4-5", &["temperature", "top_k"], &["top_p"]),
        ("claude-opus-4-8", &[], &["temperature", "top_k", "top_p"]),
    ] {
        let model = Model { identifier: name.to_owned(), ..model(Provider::Anthropic, None) };
        let params = all.as_object().unwrap().clone();
        let mut prompt =
            Prompt { params, is_translated: true, ..Prompt::question("Hello".to_owned()) };
        let encoded = Anthropic.encode(&attempt(&model, &prompt)).unwrap();
        let body: Value = serde_json::from_slice(&encoded.body).unwrap();
        let found: Vec<_> = ["temperature", "top_k", "top_p"]
            .into_iter()
            .filter(|n| body.get(n).is_some())
            .collect();
        assert_eq!(found, sent, "{name}");
        assert_eq!(encoded.dropped, left_out, "{name}");
        // A caller of chat completions is told instead.
        prompt.is_translated = false;
        let refused = Anthropic.encode(&attempt(&model, &prompt)).is_err();
        assert_eq!(refused, !left_out.is_empty(), "{name}");
    }
}
