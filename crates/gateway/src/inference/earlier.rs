//! An answer that was given before, and the conversation that it answered, from its step: clients of
//! formats with ids for answers continue by these instead of sending the conversation again.

use domain::conversation::{Body, INSTRUCTIONS, Message, Role};
use domain::ids::StepId;
use domain::step::{Content, StepKind, StepStatus};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::bounded_read::bounded;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::inference::follow_up::{conversation, restored_answer};
use crate::inference::recorded::AnswerPart;
use crate::safety::prompt_strings::raw_size;
use crate::state::caller::Caller;

/// An answer of before.
#[derive(Debug)]
pub struct EarlierAnswer {
    /// The conversation that it answered, in the caller's own words, without the instructions of its
    /// request.
    pub messages: Vec<Message>,
    /// The answer's message.
    pub answer: Message,
}

impl Gateway {
    /// The answer of a step of the caller's project; `None` if there is no such step, if it has not
    /// answered, or if its content is not stored. A conversation that has become longer than a request
    /// may be is refused.
    pub fn earlier_answer<'a>(
        &'a self,
        caller: &'a Caller,
        step: StepId,
    ) -> BoxFuture<'a, Result<Option<EarlierAnswer>>> {
        Box::pin(async move {
            if !self.has_answered(caller, step).await? {
                return Ok(None);
            }
            let content = self.recorded_part::<Content>(caller, step).await?;
            let read = content.and_then(conversation);
            let most = self.config.max_body_bytes;
            if read.as_ref().is_some_and(|(prompt, _)| raw_size(prompt) > most) {
                return Err(Error::invalid(format!(
                    "the conversation before response {step} is longer than the {most} bytes of a \
                     request: send the part of it that matters in input"
                )));
            }
            Ok(read.and_then(|(prompt, answer)| {
                let mut messages = prompt.messages;
                messages.retain(|message| !message.extra.contains_key(INSTRUCTIONS));
                Some(EarlierAnswer { messages, answer: message(answer)? })
            }))
        })
    }

    /// The answer of such a step without the conversation before it.
    pub fn earlier_output<'a>(
        &'a self,
        caller: &'a Caller,
        step: StepId,
    ) -> BoxFuture<'a, Result<Option<Message>>> {
        Box::pin(async move {
            if !self.has_answered(caller, step).await? {
                return Ok(None);
            }
            let part = self.recorded_part::<AnswerPart>(caller, step).await?;
            Ok(part.and_then(|part| message(restored_answer(part.output?, part.placeholders)?)))
        })
    }

    async fn has_answered(&self, caller: &Caller, step: StepId) -> Result<bool> {
        let found = bounded(self.store.step_of_project(step, caller.project.id())).await?;
        Ok(found
            .is_some_and(|step| step.kind == StepKind::Run && step.status == StepStatus::Completed))
    }
}

/// The message of a stored answer: a text, or the whole message of one that calls tools.
fn message(answer: Value) -> Option<Message> {
    match answer {
        Value::String(text) => {
            Some(Message { role: Role::Assistant, body: Body::Text(text), extra: Map::new() })
        }
        answer => Message::read(answer),
    }
}
