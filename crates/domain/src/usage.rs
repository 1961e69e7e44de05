//! Token counts of one model call.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Tokens as the provider reported them, or as they were counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All prompt tokens, cache reads and writes included.
    pub prompt: u64,
    /// Of those, read from the provider's cache.
    pub cached: u64,
    /// Of those, written to the provider's cache.
    pub cache_write: u64,
    /// All completion tokens, reasoning included.
    pub completion: u64,
    /// Of those, spent on reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Nothing but prompt tokens.
    pub fn of_prompt(tokens: u64) -> Self {
        Self { prompt: tokens, ..Self::default() }
    }

    /// The counts in the words of the chat-completions format.
    pub fn chat_form(&self) -> Value {
        let mut form = json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        });
        if self.cache_write > 0 {
            form["prompt_tokens_details"]["cache_write_tokens"] = self.cache_write.into();
        }
        form
    }
}
