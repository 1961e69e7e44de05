//! Assistants: turns of a conversation.

use axum::Json;
use axum::extract::State;
use domain::conversation::Prompt;
use domain::ids::StepId;
use gateway::{AssistantRequest, Assisted};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::Body;
use crate::http::error::Result;
use crate::inference::chat::message;
use crate::inference::chat_body::MessageBody;

/// One turn of a conversation.
#[derive(Deserialize, ToSchema)]
pub struct AssistantBody {
    /// An open trace of this key's project: the thread.
    trace_id: String,
    /// The whole conversation so far, oldest first.
    messages: Vec<MessageBody>,
    /// The identifier of a registered model; without one the turn is routed.
    #[serde(default)]
    model: Option<String>,
    /// The step of the turn before.
    #[serde(default)]
    parent_step_id: Option<i64>,
}

/// An answer, or why there is none.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum TurnBody {
    /// An answer.
    Text {
        /// The model's text.
        output: String,
        /// The identifier of the model that answered.
        model: String,
        /// The step that records it.
        #[schema(value_type = i64)]
        step_id: StepId,
        /// The number of this turn within its trace, from 1 on.
        thread_turn: u64,
    },
    /// Refused by safety or routing, at no cost.
    Blocked {
        /// The reason.
        reason: String,
        /// The step that records it.
        #[schema(value_type = i64)]
        step_id: StepId,
    },
}

/// Answer the next turn of a conversation.
#[utoipa::path(post, path = "/api/v1/assistants", tag = "Executions", request_body = AssistantBody,
    responses((status = 200, body = TurnBody)))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    Body(body): Body<AssistantBody>,
) -> Result<Json<TurnBody>> {
    if body.messages.is_empty() {
        return Err(gateway::Error::invalid("messages must not be empty").into());
    }
    let messages = body.messages.into_iter().map(message).collect::<Result<Vec<_>>>()?;
    let request = AssistantRequest {
        trace_id: body.trace_id,
        model: body.model.filter(|model| !model.is_empty()),
        prompt: Prompt { messages, ..Prompt::default() },
        parent: body.parent_step_id,
    };
    Ok(Json(match app.gateway.assist(&caller, request).await? {
        Assisted::Text { done, turn } => TurnBody::Text {
            output: done.output,
            model: done.model,
            step_id: done.step,
            thread_turn: turn,
        },
        Assisted::Blocked(refusal) => {
            TurnBody::Blocked { reason: refusal.reason, step_id: refusal.step }
        }
    }))
}
