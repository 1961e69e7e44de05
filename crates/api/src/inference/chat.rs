//! Chat completions in the standard format.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use domain::conversation::{Body as Said, Message, Prompt, Role};
use domain::ids::{StepId, TraceId};
use domain::step::{ApiEndpoint, FinishReason};
use domain::time::Timestamp;
use domain::usage::Usage;
use gateway::{ChatAnswer, ChatReply, ChatRequest, Refusal};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::Body;
use crate::http::error::{Failure, Result};
use crate::http::trace_headers;
use crate::inference::canonical;
use crate::inference::chat_body::{ChatBody, ContentBody, MessageBody};
use crate::inference::finding::FindingBody;
use crate::inference::function_call;
use crate::inference::sse::{self, EventBody, Style};

/// A chat completion. Fields of the provider's own answer beyond these are passed on.
#[derive(Debug, Serialize, ToSchema)]
pub struct CompletionBody {
    id: String,
    /// Always `chat.completion`.
    object: &'static str,
    created: i64,
    model: String,
    #[schema(value_type = Vec<Object>)]
    choices: Value,
    #[schema(value_type = Object)]
    usage: Value,
    #[schema(value_type = i64)]
    step_id: StepId,
    #[schema(value_type = String)]
    trace_id: TraceId,
    /// Why the request was refused or the answer withheld.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
    /// The finding in the request, and its location, if safety refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cause: Option<FindingBody>,
}

/// Answer a conversation. Personal data is replaced before any provider sees it and put back in
/// the answer.
#[utoipa::path(post, path = "/api/v1/chat/completions", tag = "Executions",
    request_body = ChatBody,
    params(("X-Trace-Id" = Option<String>, Header, description = "The trace, where the body has none")),
    responses((status = 200, content(
        (CompletionBody = "application/json"), (EventBody = "text/event-stream")))))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    headers: HeaderMap,
    Body(body): Body<ChatBody>,
) -> Result<Response> {
    let header = trace_headers::trace_of(&headers);
    let streams = body.stream.unwrap_or(false);
    let with_usage =
        body.stream_options.as_ref().and_then(|options| options.include_usage).unwrap_or(false);
    let ask = ask(body, header)?;
    let now = app.gateway.now();
    // Boxed, here and at the other endpoints: the layers around a handler move its future several
    // times.
    if streams {
        let streamed = Box::pin(app.gateway.chat_stream(&caller, ask)).await?;
        let (trace, dropped) = trace_headers::notes_of(&streamed);
        let response = sse::respond(streamed, Style { with_role: true, with_usage }, now);
        return Ok(trace_headers::with_trace_headers(trace, &dropped, response));
    }
    Ok(match Box::pin(app.gateway.chat(&caller, ask)).await? {
        ChatAnswer::Reply(mut reply) => {
            let dropped = std::mem::take(&mut reply.dropped);
            trace_headers::with_trace_headers(reply.trace, &dropped, present(*reply))
        }
        ChatAnswer::Blocked(Refusal { reason, step, trace, cause }) => {
            let cause = FindingBody::of(cause);
            trace_headers::with_trace_headers(trace, &[], refused(reason, cause, step, trace, now))
        }
    })
}

fn ask(body: ChatBody, header: Option<String>) -> Result<ChatRequest> {
    if body.messages.is_empty() {
        return Err(gateway::Error::invalid("messages must not be empty").into());
    }
    let mut messages = body.messages.into_iter().map(message).collect::<Result<Vec<_>>>()?;
    function_call::modernise(&mut messages);
    let max_output_tokens = body.max_completion_tokens.or(body.max_tokens);
    if max_output_tokens == Some(0) {
        return Err(gateway::Error::invalid("max_tokens must be at least 1").into());
    }
    Ok(ChatRequest {
        api_endpoint: ApiEndpoint::Chat,
        trace_id: body.trace_id.or(header),
        model: body.model.filter(|model| !model.is_empty()),
        prompt: Prompt { messages, max_output_tokens, is_translated: false, params: body.params },
    })
}

pub(crate) fn message(mut body: MessageBody) -> Result<Message> {
    // Answers of the official clients are full of nulls, which providers refuse in requests.
    body.extra.retain(|_, value| !value.is_null());
    let role = Role::parse(&body.role).ok_or_else(|| {
        Failure::from(gateway::Error::invalid(format!(
            "messages: role must be system, developer, user, assistant or tool, not '{}'",
            body.role.chars().take(40).collect::<String>()
        )))
    })?;
    let said = match body.content {
        None => Said::Empty,
        Some(ContentBody::Text(text)) => Said::Text(text),
        Some(ContentBody::Parts(parts)) => Said::Parts(parts),
    };
    Ok(Message { role, body: said, extra: body.extra })
}

/// An answer; the provider's own if it is in this format, under our id, model and time.
fn present(reply: ChatReply) -> Response {
    if let Some(mut native) = reply.native {
        tell_finish(&mut native, reply.finish);
        native.insert("id".to_owned(), sse::completion_id(reply.step).into());
        native.insert("object".to_owned(), "chat.completion".into());
        native.insert("created".to_owned(), reply.created.unix_seconds().into());
        native.insert("model".to_owned(), reply.model.into());
        native.insert("step_id".to_owned(), json!(reply.step));
        native.insert("trace_id".to_owned(), json!(reply.trace));
        return Json(native).into_response();
    }
    let message = match &reply.blocked {
        None => json!({"role": "assistant", "content": reply.text}),
        Some(reason) => json!({"role": "assistant", "content": null, "refusal": reason}),
    };
    let finish = reply.finish.chat_word();
    Json(CompletionBody {
        id: sse::completion_id(reply.step),
        object: "chat.completion",
        created: reply.created.unix_seconds(),
        model: reply.model,
        choices: json!([{"index": 0, "message": message, "finish_reason": finish}]),
        usage: reply.usage.chat_form(),
        step_id: reply.step,
        trace_id: reply.trace,
        reason: reply.blocked,
        cause: None,
    })
    .into_response()
}

/// Writes into a chunk why choice 0 has ended: some servers write `stop` beside tool calls, or
/// nothing. The reason of the legacy form stays.
fn tell_finish(native: &mut Map<String, Value>, finish: FinishReason) {
    let Some(Value::Object(first)) = canonical::first_choice(native) else { return };
    let is_legacy = first.get("finish_reason").is_some_and(|word| word == "function_call");
    if !is_legacy {
        first.insert("finish_reason".to_owned(), finish.chat_word().into());
    }
}

/// A refusal as a valid completion.
fn refused(
    reason: String,
    cause: Option<FindingBody>,
    step: StepId,
    trace: TraceId,
    now: Timestamp,
) -> Response {
    let message = json!({"role": "assistant", "content": null, "refusal": reason});
    Json(CompletionBody {
        id: sse::completion_id(step),
        object: "chat.completion",
        created: now.unix_seconds(),
        model: String::new(),
        choices: json!([{"index": 0, "message": message, "finish_reason": "content_filter"}]),
        usage: Usage::default().chat_form(),
        step_id: step,
        trace_id: trace,
        reason: Some(reason),
        cause,
    })
    .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_choice_ends_as_its_stream_would() {
        let calls = json!({"content": null, "tool_calls": [{"id": "a"}]});
        for (word, finish, told) in [
            (json!("stop"), FinishReason::ToolCalls, "tool_calls"),
            (json!("stop"), FinishReason::Refusal, "stop"),
            (json!(null), FinishReason::Stop, "stop"),
            (json!("function_call"), FinishReason::ToolCalls, "function_call"),
        ] {
            let of = |index: u64| json!({"index": index, "message": calls, "finish_reason": word});
            let mut native = Map::from_iter([("choices".to_owned(), json!([of(1), of(0)]))]);
            tell_finish(&mut native, finish);
            assert_eq!(native["choices"][0], of(1), "the others have none that is known");
            assert_eq!(native["choices"][1]["finish_reason"], told);
        }
    }
}
