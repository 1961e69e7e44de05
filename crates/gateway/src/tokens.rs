//! Token counts where a provider gives none.

use domain::conversation::{Body, Prompt};
use domain::usage::Usage;
use serde_json::Value;

/// Tokens that a message costs beside its text, in the chat-completions format (OpenAI's cookbook,
/// "How to count tokens with tiktoken").
const PER_MESSAGE: u64 = 3;

/// A quick estimate from the length in bytes: about four bytes a token in English.
pub(crate) fn estimate(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}

/// Counts with the o200k vocabulary: exact for some models, close for the others.
pub(crate) fn count(prompt: &Prompt, output: &str) -> Usage {
    let vocabulary = bpe_openai::o200k_base();
    let text = |text: &str| vocabulary.count(text) as u64;
    let mut tokens = 0;
    for message in &prompt.messages {
        tokens += PER_MESSAGE;
        tokens += match &message.body {
            Body::Empty => 0,
            Body::Text(body) => text(body),
            Body::Parts(parts) => {
                let texts =
                    parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
                texts.map(text).sum()
            }
        };
    }
    if let Some(tools) = prompt.params.get("tools") {
        tokens += text(&tools.to_string());
    }
    Usage { prompt: tokens, completion: text(output), ..Usage::default() }
}
