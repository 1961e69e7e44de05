//! Token counts of one model call.

use std::ops::Add;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fees::Extras;
use crate::tier::words;

/// More tokens than one call can have of any kind: a larger count is wrong.
pub const MOST_TOKENS: u64 = 1_000_000_000;

words!(
    /// The kind of a token: each token of a call is of one kind.
    TokenKind {
        /// Prompt tokens, except those read from or written to the provider's cache.
        Prompt = "prompt",
        /// Prompt tokens read from the provider's cache.
        Cached = "cached",
        /// Prompt tokens written to the provider's cache.
        CacheWrite = "cache_write",
        /// Completion tokens, except those spent on reasoning.
        Completion = "completion",
        /// Completion tokens spent on reasoning.
        Reasoning = "reasoning",
    }
);

/// Tokens as the provider reported them, or as they were counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All prompt tokens, cache reads and writes included.
    pub prompt: u64,
    /// Prompt tokens read from the provider's cache.
    pub cached: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
    /// Tokens among those written that are kept for an hour.
    #[serde(default)]
    pub cache_write_1h: u64,
    /// All completion tokens, reasoning included.
    pub completion: u64,
    /// Completion tokens spent on reasoning.
    pub reasoning: u64,
    /// The charges beside tokens.
    #[serde(skip)]
    pub extras: Extras,
    /// Doubts that a provider's report leaves; none once a call is recorded.
    #[serde(skip)]
    pub open: Open,
}

/// Doubts that a provider's report of its usage leaves. The gateway decides them when it records the call,
/// which is an estimate then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// The count of the prompt is missing or impossible: it is at least the count in the usage.
    pub prompt: bool,
    /// The count of the completion is missing or impossible: it is at least the count in the usage.
    pub completion: bool,
    /// A detail is impossible, or contradicts another count: it is left out, and its tokens have the price
    /// of the count they are a part of.
    pub detail: bool,
    /// Tokens written to the cache for a time that the report leaves out.
    pub cache_write: u64,
}

impl Open {
    /// Whether a count of the report is impossible.
    pub fn is_doubtful(self) -> bool {
        self.prompt || self.completion || self.detail
    }
}

impl Usage {
    /// The usage of a report without a valid count.
    pub fn unknown() -> Self {
        let open = Open { prompt: true, completion: true, ..Open::default() };
        Self { open, ..Self::default() }
    }

    /// Usage of several requests together. If some have reported nothing, the sum of the others is the
    /// least; `None` if none has reported.
    pub fn total(reports: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        let sum = reports
            .into_iter()
            .map(|report| report.unwrap_or_else(Self::unknown))
            .reduce(|sum, report| sum + report)?;
        (sum != Self::unknown()).then_some(sum)
    }

    /// The counts alone, without the doubts that the report leaves.
    #[must_use]
    pub fn counts(self) -> Self {
        Self { open: Open::default(), ..self }
    }

    /// The tokens of each kind, in the order of [`TokenKind::ALL`].
    pub fn by_kind(&self) -> [(TokenKind, u64); TokenKind::ALL.len()] {
        let reasoning = self.reasoning.min(self.completion);
        let plain = self.prompt.saturating_sub(self.cached).saturating_sub(self.cache_write);
        [
            (TokenKind::Prompt, plain),
            (TokenKind::Cached, self.cached),
            (TokenKind::CacheWrite, self.cache_write),
            (TokenKind::Completion, self.completion - reasoning),
            (TokenKind::Reasoning, reasoning),
        ]
    }

    /// Nothing but prompt tokens.
    pub fn of_prompt(tokens: u64) -> Self {
        Self { prompt: tokens, ..Self::default() }
    }

    /// Counts as a provider has written them, with no part larger than its whole. `None` if one of them is
    /// impossible: then the others are not trusted either.
    pub fn reported(self) -> Option<Self> {
        let Self { prompt, cached, cache_write, completion, reasoning, .. } = self;
        if [prompt, cached, cache_write, completion, reasoning].iter().any(|n| *n > MOST_TOKENS) {
            return None;
        }
        let cached = cached.min(prompt);
        let cache_write = cache_write.min(prompt - cached);
        let cache_write_1h = self.cache_write_1h.min(cache_write);
        let reasoning = reasoning.min(completion);
        let unsaid = self.open.cache_write.min(cache_write - cache_write_1h);
        let open = Open { cache_write: unsaid, ..self.open };
        let extras = self.extras;
        Some(Self {
            prompt,
            cached,
            cache_write,
            cache_write_1h,
            completion,
            reasoning,
            extras,
            open,
        })
    }

    /// Returns this report updated by a later one of the same call. Every report of a stream counts all
    /// tokens so far: a half that went down, or became impossible, stays as it was.
    #[must_use]
    pub fn followed_by(self, later: Self) -> Self {
        let mut last = Self { extras: self.extras.followed_by(later.extras), ..later };
        if later.prompt < self.prompt {
            (last.prompt, last.cached) = (self.prompt, self.cached);
            (last.cache_write, last.cache_write_1h) = (self.cache_write, self.cache_write_1h);
            last.open.prompt = self.open.prompt;
            last.open.cache_write = self.open.cache_write;
            last.open.detail = true;
        }
        if later.completion < self.completion {
            (last.completion, last.reasoning) = (self.completion, self.reasoning);
            last.open.completion |= self.open.completion;
            last.open.detail = true;
        }
        last
    }

    /// The counts under the names of the chat-completions format.
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
        if self.cache_write_1h > 0 {
            form["prompt_tokens_details"]["cache_write_1h_tokens"] = self.cache_write_1h.into();
        }
        form
    }
}

/// The usage of two requests together.
impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            prompt: self.prompt + other.prompt,
            cached: self.cached + other.cached,
            cache_write: self.cache_write + other.cache_write,
            cache_write_1h: self.cache_write_1h + other.cache_write_1h,
            completion: self.completion + other.completion,
            reasoning: self.reasoning + other.reasoning,
            extras: self.extras + other.extras,
            open: Open {
                prompt: self.open.prompt || other.open.prompt,
                completion: self.open.completion || other.open.completion,
                detail: self.open.detail || other.open.detail,
                cache_write: self.open.cache_write + other.open.cache_write,
            },
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
            Usage { prompt, cached, cache_write, completion, reasoning, ..Usage::default() }
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

    #[test]
    fn reports_of_a_stream_never_take_tokens_back() {
        let report = |prompt, completion| Usage { completion, ..Usage::of_prompt(prompt) };
        let doubtful = |prompt, completion| {
            let open = Open { detail: true, ..Open::default() };
            Usage { open, ..report(prompt, completion) }
        };
        for (earlier, later, last) in [
            (report(10, 0), report(10, 5), report(10, 5)),
            (report(10, 5), report(12, 7), report(12, 7)),
            (report(10, 5), report(0, 0), doubtful(10, 5)),
            (report(10, 5), report(12, 4), doubtful(12, 5)),
        ] {
            assert_eq!(earlier.followed_by(later), last);
        }
    }
}
