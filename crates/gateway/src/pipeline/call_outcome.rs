//! The state of a call while it runs, and its outcome.

use domain::conversation::Reply;
use domain::ids::{StepId, TraceId};
use domain::money::Usd;
use domain::step::{AnswerShape, FinishReason, Security, StepStatus};
use domain::stored_responses::StoredResponse;
use domain::time::Timestamp;
use domain::usage::Usage;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::safety::answer_strings::tool_message;

/// The outcome of a call, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct CallOutcome {
    pub(crate) status: StepStatus,
    pub(crate) error: Option<String>,
    /// The status with which the provider failed or refused, if it answered one.
    pub(crate) failure_status: Option<u16>,
    /// The model's text, as the provider sent it.
    pub(crate) text: String,
    /// Bytes of the answer beside the text: tool calls, reasoning, further choices.
    pub(crate) beside: usize,
    /// The text to store instead, if the output check changed it; for a stream that is judged on
    /// its way, the part that has left so far.
    pub(crate) instead: Option<String>,
    /// The refusal in its own field, as it leaves; for a stream that is judged on its way, the part
    /// that has left so far.
    pub(crate) refusal: String,
    /// The answer beside the text: the whole message, if it asks for tools, as it leaves.
    pub(crate) message: Option<Value>,
    /// Whether the request went to the provider as it came.
    pub(crate) passes: bool,
    /// The parts of such an answer that have no canonical form, as they came.
    pub(crate) passed: Vec<Box<RawValue>>,
    pub(crate) finish: Option<FinishReason>,
    pub(crate) usage: Option<Usage>,
    /// The provider's count of the prompt, if it has not sent the rest.
    pub(crate) prompt_usage: Option<Usage>,
    pub(crate) upstream_model: Option<String>,
    pub(crate) first_token: Option<i64>,
    pub(crate) attempts: i64,
    /// The number of attempts before the last that broke off after they were sent: they may have
    /// been charged.
    pub(crate) broken_off: u64,
    /// The time of the request, while a provider writes an answer that comes as a whole.
    pub(crate) unseen_since: Option<Timestamp>,
    /// How alike the answer and that of the call beside it are, if this is a shadow call.
    pub(crate) similarity: Option<f64>,
    /// The number of images made.
    pub(crate) images: Option<u64>,
    /// The findings of the output check.
    pub(crate) output: Security,
    /// The answer as the provider stores it.
    pub(crate) stored: Option<StoredResponse>,
    /// The account that stores it, by its fingerprint, if the request asks for that.
    pub(crate) account: Option<i64>,
}

impl Default for CallOutcome {
    fn default() -> Self {
        Self {
            status: StepStatus::Completed,
            error: None,
            failure_status: None,
            text: String::new(),
            beside: 0,
            instead: None,
            refusal: String::new(),
            message: None,
            passes: false,
            passed: Vec::new(),
            finish: None,
            usage: None,
            prompt_usage: None,
            upstream_model: None,
            first_token: None,
            attempts: 1,
            broken_off: 0,
            unseen_since: None,
            similarity: None,
            images: None,
            output: Security::default(),
            stored: None,
            account: None,
        }
    }
}

impl CallOutcome {
    /// Notes a whole answer.
    pub(crate) fn note_reply(&mut self, reply: &Reply) {
        self.passes = reply.passes;
        self.text.clone_from(&reply.text);
        self.finish = reply.finish;
        self.usage = reply.usage;
        self.upstream_model.clone_from(&reply.upstream_model);
        self.message = tool_message(reply).cloned();
        self.stored.clone_from(&reply.stored);
    }

    /// The words of the model that are stored: the refusal, if there is nothing else.
    pub(crate) fn stored_text(&self) -> &str {
        let text = self.instead.as_ref().unwrap_or(&self.text);
        if text.is_empty() { &self.refusal } else { text }
    }

    /// The shape of the model's words, as the provider sent them; `None` if there are none, or not to
    /// their end.
    pub(crate) fn shape(&self) -> Option<AnswerShape> {
        let refuses = !self.refusal.is_empty() || self.finish == Some(FinishReason::Refusal);
        let text = if self.text.is_empty() { &self.refusal } else { &self.text };
        let is_answer = self.status == StepStatus::Completed && (refuses || !text.is_empty());
        is_answer.then(|| grading::answer_shape(text, refuses))
    }

    /// Notes the usage that an error reports. Usage that was reported before, or text that was
    /// received, is not lowered.
    pub(crate) fn note_usage(&mut self, used: Usage) {
        if used.completion > 0 || self.text.is_empty() {
            let known = self.usage.filter(|known| known.completion > used.completion);
            self.usage = Some(known.unwrap_or(used));
        } else {
            self.prompt_usage.get_or_insert(used);
        }
    }
}

/// The records of a call that its caller may ask for.
#[derive(Clone, Copy, Debug)]
pub struct CallRecord {
    /// The step that records it.
    pub step: StepId,
    /// Its trace.
    pub trace: TraceId,
    /// Its cost.
    pub cost: Usd,
}

/// The result of a call that is recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recorded {
    /// The step of the tools that the model has asked for, if it has.
    pub(crate) tools_step: Option<StepId>,
    /// The number of the turn in its trace, if it is an answer of assistants.
    pub(crate) turn: Option<u64>,
    /// The usage: as the provider reported it, else as it was counted here.
    pub(crate) usage: Usage,
    /// Its cost.
    pub(crate) cost: Usd,
}
