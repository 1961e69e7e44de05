//! What is known of a call while it runs, and in the end.

use domain::ids::StepId;
use domain::step::{FinishReason, Security, StepStatus};
use domain::time::Timestamp;
use domain::usage::Usage;
use serde_json::Value;

/// How a call ended, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct CallOutcome {
    pub(crate) status: StepStatus,
    pub(crate) error: Option<String>,
    /// What the model said, as the provider sent it.
    pub(crate) text: String,
    /// Bytes of what it said beside the text: tool calls, reasoning, further choices.
    pub(crate) beside: usize,
    /// What is stored in place of the text, where the output check changed it: of a stream that is
    /// judged on its way, what has left so far.
    pub(crate) instead: Option<String>,
    /// What it refuses with in a place of its own, as it leaves: of a stream that is judged on its way,
    /// what has left so far.
    pub(crate) refusal: String,
    /// What it said beside text: the whole message, where it asked for tools, as it leaves.
    pub(crate) message: Option<Value>,
    pub(crate) finish: Option<FinishReason>,
    pub(crate) usage: Option<Usage>,
    /// What the provider has counted the prompt as, where it has not come to the rest.
    pub(crate) prompt_usage: Option<Usage>,
    pub(crate) upstream_model: Option<String>,
    pub(crate) first_token: Option<i64>,
    pub(crate) attempts: i64,
    /// Those before the last that broke off after they were sent: they may have been charged.
    pub(crate) broken_off: u64,
    /// While a provider writes an answer that comes as a whole: when it was asked.
    pub(crate) unseen_since: Option<Timestamp>,
    /// How many images were made.
    pub(crate) images: Option<u64>,
    /// What the check of the output has found.
    pub(crate) output: Security,
}

impl Default for CallOutcome {
    fn default() -> Self {
        Self {
            status: StepStatus::Completed,
            error: None,
            text: String::new(),
            beside: 0,
            instead: None,
            refusal: String::new(),
            message: None,
            finish: None,
            usage: None,
            prompt_usage: None,
            upstream_model: None,
            first_token: None,
            attempts: 1,
            broken_off: 0,
            unseen_since: None,
            images: None,
            output: Security::default(),
        }
    }
}

impl CallOutcome {
    /// What is stored of what the model has said in words: why it refuses, where that is all.
    pub(crate) fn said(&self) -> &str {
        let text = self.instead.as_ref().unwrap_or(&self.text);
        if text.is_empty() { &self.refusal } else { text }
    }

    /// Notes what an error tells of the tokens that were used. What was told before it, or was heard, is
    /// not less for that.
    pub(crate) fn note_usage(&mut self, used: Usage) {
        if used.completion > 0 || self.text.is_empty() {
            let known = self.usage.filter(|known| known.completion > used.completion);
            self.usage = Some(known.unwrap_or(used));
        } else {
            self.prompt_usage.get_or_insert(used);
        }
    }
}

/// What has become of a call that is recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recorded {
    /// The step of the tools that the model has asked for, if it has.
    pub(crate) asked: Option<StepId>,
    /// Which turn of its trace it is, where it is an answer of assistants.
    pub(crate) turn: Option<u64>,
    /// What was used: as the provider has told, else as it was counted here.
    pub(crate) usage: Usage,
}
