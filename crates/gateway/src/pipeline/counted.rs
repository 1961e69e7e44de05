//! A count of a prompt's tokens that is closer to the truth than its bytes: it takes time, and is made only
//! where the bytes do not fit into what is left.

use std::sync::OnceLock;

use domain::conversation::{Body, Prompt};
use serde_json::Value;

use crate::pipeline::file_tokens;
use crate::pipeline::prompt_size::TOKENS_PER_MESSAGE;
use crate::pipeline::tokens;

/// An estimate of the prompt tokens that is closer than their bytes, counted on first use.
#[derive(Debug)]
pub(super) struct Counted<'p> {
    /// The prompt.
    pub(super) prompt: &'p Prompt,
    /// The bytes of everything but texts, which are not counted here.
    pub(super) unread: u64,
    /// The context window of the model, in tokens.
    pub(super) context_window: Option<u64>,
    /// The count, once it was made.
    pub(super) tokens: OnceLock<u64>,
}

impl Counted<'_> {
    /// Counts, unless that was done.
    pub(super) fn count(&self) {
        self.tokens.get_or_init(|| {
            let texts = self.prompt.messages.iter().map(|message| match &message.body {
                Body::Empty => 0,
                Body::Text(text) => tokens::at_most(text),
                Body::Parts(parts) => {
                    let texts =
                        parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
                    texts.map(|text| TOKENS_PER_MESSAGE + tokens::at_most(text)).sum()
                }
            });
            let params =
                self.prompt.params.values().map(|param| tokens::at_most(&param.to_string()));
            let (bytes, most) = file_tokens::measured(self.prompt, self.context_window);
            let unread = self.unread.saturating_sub(bytes) + most;
            texts.map(|tokens| TOKENS_PER_MESSAGE + tokens).chain(params).sum::<u64>() + unread
        });
    }
}
