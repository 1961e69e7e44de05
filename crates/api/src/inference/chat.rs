//! Chat completions in the standard format.

use axum::Json;
use axum::body::Body as Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use domain::conversation::{Body as Content, Message, Prompt, Role};
use domain::ids::{StepId, TraceId};
use domain::original::Original;
use domain::step::{ApiEndpoint, FinishReason};
use domain::time::Timestamp;
use domain::usage::Usage;
use futures_util::stream::BoxStream;
use gateway::{ChatReply, ChatRequest, Piece, Refusal, Started};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::Body;
use crate::http::dialect::Dialect;
use crate::http::error::{Failure, Result};
use crate::inference::canonical;
use crate::inference::chat_body::{ChatBody, ContentBody, MessageBody};
use crate::inference::chat_passing;
use crate::inference::finding::FindingBody;
use crate::inference::format::{self, Format, ParsedRequest};
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
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = true)]
    step_id: Option<StepId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = true)]
    trace_id: Option<TraceId>,
    /// Why the request was refused or the answer withheld.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
    /// The finding in the request, and its location, if safety refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cause: Option<FindingBody>,
}

impl CompletionBody {
    /// A vendor's answers have no fields of ours.
    fn in_dialect(self, dialect: Dialect) -> Self {
        match dialect {
            Dialect::Sluice => self,
            Dialect::Vendor => {
                Self { step_id: None, trace_id: None, reason: None, cause: None, ..self }
            }
        }
    }
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
    format::answer::<ChatCompletions>(&app, &caller, &headers, body, Dialect::Sluice).await
}

/// The canonical format.
pub(crate) struct ChatCompletions;

/// The form of a chat completion that a request asks for.
#[derive(Debug)]
pub(crate) struct ChatOptions {
    /// Whether a last chunk reports the usage.
    with_usage: bool,
}

impl Format for ChatCompletions {
    type Body = ChatBody;
    type Options = ChatOptions;

    fn read(body: ChatBody, trace: Option<String>) -> Result<ParsedRequest<ChatOptions>> {
        parse(body, trace)
    }

    fn read_passing(
        body: ChatBody,
        trace: Option<String>,
        original: Original,
    ) -> Result<ParsedRequest<ChatOptions>> {
        let original = chat_passing::original(&body, original);
        let mut parsed = parse(body, trace)?;
        parsed.request.prompt.original = Some(Box::new(original));
        Ok(parsed)
    }

    fn write_answer(reply: ChatReply, _options: ChatOptions, dialect: Dialect) -> Response {
        if let Some(source) = reply.source {
            return ([(CONTENT_TYPE, "application/json")], source).into_response();
        }
        whole(reply, dialect)
    }

    fn write_events(
        started: &Started,
        pieces: BoxStream<'static, Vec<Piece>>,
        options: ChatOptions,
        dialect: Dialect,
    ) -> Bytes {
        let ChatOptions { with_usage } = options;
        sse::body(started, pieces, Style { with_role: true, with_usage, dialect })
    }

    fn write_refusal(
        refusal: Refusal,
        now: Timestamp,
        _options: ChatOptions,
        dialect: Dialect,
    ) -> Response {
        Json(refused(refusal, now).in_dialect(dialect)).into_response()
    }

    fn write_refusal_events(
        refusal: Refusal,
        now: Timestamp,
        _options: ChatOptions,
        dialect: Dialect,
    ) -> Bytes {
        sse::refused(refusal, now, dialect).into()
    }
}

fn parse(body: ChatBody, trace: Option<String>) -> Result<ParsedRequest<ChatOptions>> {
    if body.messages.is_empty() {
        return Err(gateway::Error::invalid("messages must not be empty").into());
    }
    let mut messages = body.messages.into_iter().map(message).collect::<Result<Vec<_>>>()?;
    function_call::modernise(&mut messages);
    let max_output_tokens = body.max_completion_tokens.or(body.max_tokens);
    if max_output_tokens == Some(0) {
        return Err(gateway::Error::invalid("max_tokens must be at least 1").into());
    }
    let request = ChatRequest {
        api_endpoint: ApiEndpoint::Chat,
        trace_id: body.trace_id.or(trace),
        model: body.model.filter(|model| !model.is_empty()),
        prompt: Prompt { messages, max_output_tokens, params: body.params, ..Prompt::default() },
        metadata: None,
    };
    let with_usage = body.stream_options.and_then(|options| options.include_usage);
    Ok(ParsedRequest {
        request,
        streams: body.stream.unwrap_or(false),
        names: None,
        dropped: Vec::new(),
        options: ChatOptions { with_usage: with_usage.unwrap_or(false) },
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
    let content = match body.content {
        None => Content::Empty,
        Some(ContentBody::Text(text)) => Content::Text(text),
        Some(ContentBody::Parts(parts)) => Content::Parts(parts),
    };
    Ok(Message { role, body: content, extra: body.extra })
}

/// An answer; the provider's own if it is in this format, under our id, model and time.
fn whole(reply: ChatReply, dialect: Dialect) -> Response {
    if let Some(mut native) = reply.native {
        write_finish(&mut native, reply.finish);
        native.insert("id".to_owned(), sse::completion_id(reply.step).into());
        native.insert("object".to_owned(), "chat.completion".into());
        native.insert("created".to_owned(), reply.created.unix_seconds().into());
        native.insert("model".to_owned(), reply.model.into());
        if dialect == Dialect::Sluice {
            native.insert("step_id".to_owned(), json!(reply.step));
            native.insert("trace_id".to_owned(), json!(reply.trace));
        }
        return Json(native).into_response();
    }
    let message = match &reply.blocked {
        None => json!({"role": "assistant", "content": reply.text}),
        Some(reason) => json!({"role": "assistant", "content": null, "refusal": reason}),
    };
    let finish = reply.finish.chat_word();
    let body = CompletionBody {
        id: sse::completion_id(reply.step),
        object: "chat.completion",
        created: reply.created.unix_seconds(),
        model: reply.model,
        choices: json!([{"index": 0, "message": message, "finish_reason": finish}]),
        usage: reply.usage.chat_form(),
        step_id: Some(reply.step),
        trace_id: Some(reply.trace),
        reason: reply.blocked,
        cause: None,
    };
    Json(body.in_dialect(dialect)).into_response()
}

/// Writes into a chunk why choice 0 has ended: some servers write `stop` beside tool calls, or
/// nothing. The reason of the legacy form stays.
fn write_finish(native: &mut Map<String, Value>, finish: FinishReason) {
    let Some(Value::Object(first)) = canonical::first_choice(native) else { return };
    let is_legacy = first.get("finish_reason").is_some_and(|word| word == "function_call");
    if !is_legacy {
        first.insert("finish_reason".to_owned(), finish.chat_word().into());
    }
}

/// A refusal as a valid completion.
fn refused(refusal: Refusal, now: Timestamp) -> CompletionBody {
    let Refusal { reason, step, trace, cause } = refusal;
    let message = json!({"role": "assistant", "content": null, "refusal": reason});
    CompletionBody {
        id: sse::completion_id(step),
        object: "chat.completion",
        created: now.unix_seconds(),
        model: String::new(),
        choices: json!([{"index": 0, "message": message, "finish_reason": "content_filter"}]),
        usage: Usage::default().chat_form(),
        step_id: Some(step),
        trace_id: Some(trace),
        reason: Some(reason),
        cause: FindingBody::of(cause),
    }
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
            write_finish(&mut native, finish);
            assert_eq!(native["choices"][0], of(1), "the others have none that is known");
            assert_eq!(native["choices"][1]["finish_reason"], told);
        }
    }
}
