//! Token counts of one model call.

use std::ops::Add;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// More tokens than one call can have of any kind: who counts more has miscounted.
pub const MOST_TOKENS: u64 = 1_000_000_000;

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

    /// Counts as a provider has written them, with no part larger than what it is a part of. `None`
    /// where one of them is impossible: then the others are not believed either.
    pub fn reported(self) -> Option<Self> {
        let Self { prompt, cached, cache_write, completion, reasoning } = self;
        if [prompt, cached, cache_write, completion, reasoning].iter().any(|n| *n > MOST_TOKENS) {
            return None;
        }
        let cached = cached.min(prompt);
        Some(Self {
            prompt,
            cached,
            cache_write: cache_write.min(prompt - cached),
            completion,
            reasoning: reasoning.min(completion),
        })
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

/// What two requests have used together.
impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            prompt: self.prompt + other.prompt,
            cached: self.cached + other.cached,
            cache_write: self.cache_write + other.cache_write,
            completion: self.completion + other.completion,
            reasoning: self.reasoning + other.reasoning,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_counts_are_not_believed() {
        let usage = |counts: [u64; 5]| {
            let [prompt, cached, cache_write, completion, reasoning] = counts;
            Usage { prompt, cached, cache_write, completion, reasoning }
        };
        for (told, believed) in [
            ([30, 10, 5, 9, 4], Some([30, 10, 5, 9, 4])),
            ([30, 40, 5, 9, 10], Some([30, 30, 0, 9, 9])),
            ([30, 10, 40, 9, 4], Some([30, 10, 20, 9, 4])),
            ([MOST_TOKENS, 0, 0, MOST_TOKENS, 0], Some([MOST_TOKENS, 0, 0, MOST_TOKENS, 0])),
            ([MOST_TOKENS + 1, 0, 0, 1, 0], None),
            ([1, u64::MAX, 0, 1, 0], None),
            ([1, 0, MOST_TOKENS + 1, 1, 0], None),
            ([1, 0, 0, u64::MAX, 0], None),
            ([1, 0, 0, 1, MOST_TOKENS + 1], None),
        ] {
            assert_eq!(usage(told).reported(), believed.map(usage), "{told:?}");
        }
    }
}
