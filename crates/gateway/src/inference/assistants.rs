//! Assistants: turns of a conversation, numbered within their trace.

use domain::conversation::Prompt;
use domain::step::ApiEndpoint;
use futures_util::future::BoxFuture;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::inference::executions::{Executed, Outcome};
use crate::pipeline::choose::Fallbacks;
use crate::pipeline::refusal::Refusal;
use crate::pipeline::screen::{PiiRule, ScreeningRequest};
use crate::state::caller::Caller;

/// One turn of a conversation.
#[derive(Debug)]
pub struct AssistantRequest {
    /// The trace: the thread.
    pub trace_id: String,
    /// The model; without one the request is routed.
    pub model: Option<String>,
    /// The whole conversation so far.
    pub prompt: Prompt,
    /// The step of the turn before.
    pub parent: Option<i64>,
}

/// The result of a turn.
#[derive(Debug)]
pub enum Assisted {
    /// An answer.
    Text {
        /// The answer and its model.
        done: Executed,
        /// The number of this turn within its trace, from 1 on.
        turn: u64,
    },
    /// Refused by safety or routing.
    Blocked(Refusal),
}

impl Gateway {
    /// Answers a turn. Personal data is treated as in executions if the turn is routed, and as in
    /// runs if the caller names the model.
    pub fn assist<'a>(
        &'a self,
        caller: &'a Caller,
        request: AssistantRequest,
    ) -> BoxFuture<'a, Result<Assisted>> {
        Box::pin(async move {
            let AssistantRequest { trace_id, model, prompt, parent } = request;
            let context =
                self.request_context(caller, &trace_id, parent, ApiEndpoint::Assistants).await?;
            let routed = match model {
                None => {
                    let request = ScreeningRequest { prompt, pii: PiiRule::Route };
                    self.route_with(&context, request).await?
                }
                Some(model) => {
                    let request = ScreeningRequest { prompt, pii: PiiRule::Settings };
                    self.direct_with(&context, request, &model, Fallbacks::Yes).await?
                }
            };
            let routed = match routed {
                Ok(routed) => routed,
                Err(refusal) => return Ok(Assisted::Blocked(refusal)),
            };
            let (flight, outcome) = self.call_and_judge(*routed).await?;
            let recorded = flight.finish().await?;
            Ok(match outcome {
                Outcome::Text(done) => Assisted::Text {
                    done,
                    // Its project was deleted meanwhile.
                    turn: recorded.turn.ok_or_else(Error::trace_not_found)?,
                },
                Outcome::Blocked(refusal) => Assisted::Blocked(refusal),
                Outcome::Tools { .. } => {
                    return Err(Error::Internal(
                        "tools were called that nobody offered".to_owned(),
                    ));
                }
            })
        })
    }
}
