//! Conversations, in whichever format they came: personal data redacted on the way out and put back
//! on the way in.

use futures_util::future::BoxFuture;
use std::sync::Arc;

use domain::conversation::{Prompt, Reply};
use domain::ids::{StepId, TraceId};
use domain::json_text::{Edit, edited, member, quoted};
use domain::money::Usd;
use domain::original::WireFormat;
use domain::settings::Settings;
use domain::step::{ApiEndpoint, FinishReason};
use domain::time::Timestamp;
use domain::usage::Usage;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::inference::external_access;
use crate::pipeline::attributes::NamedInBody;
use crate::pipeline::auto_trace::{AutoTrace, AutoTracing, OpenedTrace, Unanswered, completed};
use crate::pipeline::choose::{Fallbacks, Routed};
use crate::pipeline::context::RequestContext;
use crate::pipeline::fund::Funded;
use crate::pipeline::refusal::{OrRefusal, Refusal};
use crate::pipeline::screen::{PiiRule, ScreeningRequest};
use crate::state::caller::Caller;
use crate::streaming::piece::{Mode, Piece, Streamed};
use crate::tools::function_tools;

/// Fields by which some servers of this format (routers of models, proxies, other gateways) let a
/// caller choose the model, the provider or the address. Here the project decides.
pub const CHOOSES_MODEL: [&str; 13] = [
    "models",
    "route",
    "provider",
    "transforms",
    "preset",
    "plugins",
    "providerOptions",
    "fallbacks",
    "custom_llm_provider",
    "api_base",
    "base_url",
    "api_key",
    "extra_body",
];

/// A conversation to be answered.
#[derive(Debug)]
pub struct ChatRequest {
    /// The endpoint it came in by.
    pub api_endpoint: ApiEndpoint,
    /// The trace, if the caller names one.
    pub trace_id: Option<String>,
    /// The model; without one the request is routed.
    pub model: Option<String>,
    /// The prompt.
    pub prompt: Prompt,
    /// The metadata of the request, if the parameters of its prompt have none.
    pub metadata: Option<Map<String, Value>>,
}

impl ChatRequest {
    /// The parts that name attributes.
    fn named(&self) -> NamedInBody<'_> {
        NamedInBody { metadata: self.metadata.as_ref(), ..NamedInBody::of(&self.prompt) }
    }
}

/// A whole answer.
#[derive(Debug)]
pub struct ChatReply {
    /// The step that records it.
    pub step: StepId,
    /// Its trace.
    pub trace: TraceId,
    /// The identifier of the model that answered.
    pub model: String,
    /// The time of the request.
    pub created: Timestamp,
    /// The answer's text.
    pub text: String,
    /// Why it stopped.
    pub finish: FinishReason,
    /// The usage: as the provider reported it, else as it was counted here.
    pub usage: Usage,
    /// The cost of the call.
    pub cost: Usd,
    /// The provider's own answer, if it is in the chat-completions format.
    pub native: Option<Map<String, Value>>,
    /// Why the answer was withheld, if it was.
    pub blocked: Option<String>,
    /// Parameters that the model does not have and that were left out, by name.
    pub dropped: Vec<String>,
    /// How the call went to its provider.
    pub mode: Mode,
    /// The provider's own answer as it came, in the format of the request.
    pub source: Option<String>,
}

/// The result of a chat request.
pub enum ChatAnswer {
    /// An answer.
    Reply(Box<ChatReply>),
    /// Refused by safety or routing, at no cost.
    Blocked(Refusal),
}

impl Gateway {
    /// Answers a conversation.
    pub fn chat<'a>(
        &'a self,
        caller: &'a Caller,
        mut request: ChatRequest,
        auto_tracing: AutoTracing,
    ) -> BoxFuture<'a, std::result::Result<ChatAnswer, Unanswered>> {
        Box::pin(async move {
            prepare(&mut request.prompt.params)?;
            check_external_access(&mut request.prompt, &caller.project.settings)?;
            self.find_stored(caller, &mut request).await?;
            let context = self
                .traced_context(
                    caller,
                    request.trace_id.as_deref(),
                    request.api_endpoint,
                    auto_tracing,
                    request.named(),
                )
                .await?;
            let opened = context.opened.clone();
            let answer =
                match self.chat_route(context, request.model.as_deref(), request.prompt).await {
                    Ok(Ok(routed)) => self
                        .chat_reply(*routed)
                        .await
                        .map(|reply| ChatAnswer::Reply(Box::new(reply))),
                    Ok(Err(refusal)) => Ok(ChatAnswer::Blocked(refusal)),
                    Err(error) => Err(error),
                };
            completed(opened, answer).await
        })
    }

    /// Answers a conversation in a stream.
    pub fn chat_stream<'a>(
        &'a self,
        caller: &'a Caller,
        mut request: ChatRequest,
        auto_tracing: AutoTracing,
    ) -> BoxFuture<'a, std::result::Result<Streamed, Unanswered>> {
        Box::pin(async move {
            prepare(&mut request.prompt.params)?;
            check_external_access(&mut request.prompt, &caller.project.settings)?;
            self.find_stored(caller, &mut request).await?;
            let context = self
                .traced_context(
                    caller,
                    request.trace_id.as_deref(),
                    request.api_endpoint,
                    auto_tracing,
                    request.named(),
                )
                .await?;
            let opened = context.opened.clone();
            let answer =
                match self.chat_route(context, request.model.as_deref(), request.prompt).await {
                    Ok(Ok(routed)) => self.relay(*routed).await,
                    Ok(Err(refusal)) => Ok(Streamed::Blocked(refusal)),
                    Err(error) => Err(error),
                };
            match (answer, opened) {
                (Ok(Streamed::Pieces(started, pieces)), Some(OpenedTrace::Own(auto_trace))) => {
                    Ok(Streamed::Pieces(started, completing(pieces, auto_trace)))
                }
                (answer, opened) => completed(opened, answer).await,
            }
        })
    }

    /// Redacts, then routes on the redacted text, or takes the model that was named.
    async fn chat_route(
        &self,
        context: RequestContext,
        model: Option<&str>,
        prompt: Prompt,
    ) -> Result<OrRefusal<Box<Routed>>> {
        let request = ScreeningRequest { prompt, pii: PiiRule::Redact };
        let Some(model) = model else { return self.route_with(&context, request).await };
        self.direct_with(&context, request, model, Fallbacks::Yes).await
    }

    /// Funds and calls, judges the answer, records.
    async fn chat_reply(&self, routed: Routed) -> Result<ChatReply> {
        let (mut flight, mut reply) = self.call(routed).await?;
        flight.outcome.note_reply(&reply);
        let blocked = flight.present(&mut reply).await?;
        let reported = reply.usage.filter(|usage| !usage.open.is_doubtful()).map(Usage::counts);
        let funded = flight.funded()?;
        let original = &funded.routed().screened().prompt().original;
        let format = original.as_ref().map(|original| original.format);
        let mut answer = unrecorded(funded, reply, blocked);
        let recorded = flight.finish().await?;
        (answer.usage, answer.cost) = (recorded.usage, recorded.cost);
        if reported != Some(answer.usage)
            && let Some(native) = &mut answer.native
        {
            native.insert("usage".to_owned(), answer.usage.chat_form());
        }
        if let Some(source) = &mut answer.source
            && format == Some(WireFormat::ChatCompletions)
            && let Ok(None | Some("null")) = member(source, "usage")
        {
            let usage = answer.usage.chat_form().to_string();
            if let Ok(counted) = edited(source, &[("usage", Edit::Set(&usage))]) {
                *source = counted;
            }
        }
        Ok(answer)
    }
}

/// An answer whose usage and cost are not counted yet.
fn unrecorded(funded: &Funded, reply: Reply, blocked: Option<String>) -> ChatReply {
    let model = &funded.model().identifier;
    let original = funded.routed().screened().prompt().original.as_ref();
    let format = original.map_or(WireFormat::ChatCompletions, |original| original.format);
    let source = reply.source.and_then(|source| named(source, format, model));
    ChatReply {
        step: funded.step(),
        trace: funded.routed().screened().context().trace.id(),
        model: model.clone(),
        created: funded.started_at(),
        text: reply.text,
        finish: reply.finish.unwrap_or(FinishReason::Stop),
        usage: Usage::default(),
        cost: Usd::ZERO,
        native: reply.native,
        blocked,
        dropped: reply.dropped,
        mode: Mode::of(reply.passes),
        source,
    }
}

/// A provider's own answer with the name by which the caller knows the model.
fn named(source: String, format: WireFormat, model: &str) -> Option<String> {
    let name = format.model_member();
    match member(&source, name) {
        Ok(Some(_)) => edited(&source, &[(name, Edit::Set(&quoted(model)))]).ok(),
        Ok(None) => Some(source),
        Err(_) => None,
    }
}

/// Completes the trace that was opened for a stream before its last pieces leave.
fn completing(
    pieces: BoxStream<'static, Vec<Piece>>,
    auto_trace: Arc<AutoTrace>,
) -> BoxStream<'static, Vec<Piece>> {
    let pieces = pieces.then(move |mut pieces| {
        let auto_trace = auto_trace.clone();
        async move {
            let ends = matches!(pieces.last(), Some(Piece::End { .. } | Piece::Broken(_)));
            if ends && let Err(error) = Box::pin(auto_trace.complete()).await {
                pieces.pop();
                pieces.push(Piece::Broken(error));
            }
            pieces
        }
    });
    pieces.boxed()
}

/// Brings tools into one form, leaves out parameters without a value, and refuses parameters that
/// would choose another model than the one that was checked, routed and funded.
pub(crate) fn prepare(params: &mut Map<String, Value>) -> Result<()> {
    // A client's null means "not given"; providers refuse it.
    params.retain(|_, value| !value.is_null());
    let faults: Vec<String> = CHOOSES_MODEL
        .iter()
        .filter(|name| params.contains_key(**name))
        .map(|name| format!("{name} is not supported: the project decides which model answers"))
        .collect();
    if !faults.is_empty() {
        return Err(Error::Invalid(faults));
    }
    if params.get("tools").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        params.shift_remove("tools");
    }
    let Some(tools) = params.get_mut("tools") else { return without_tools(params) };
    let Value::Array(tools) = tools else {
        return Err(Error::Malformed("tools must be an array".to_owned()));
    };
    function_tools::normalise(tools)
}

/// Refuses hosts and tools that a provider would call for the caller and that the project does not allow.
fn check_external_access(prompt: &mut Prompt, settings: &Settings) -> Result<()> {
    if prompt.original.is_some() {
        return external_access::check(prompt, settings);
    }
    check_tools(&prompt.params)
}

/// Refuses MCP servers among the tools.
pub(crate) fn check_tools(params: &Map<String, Value>) -> Result<()> {
    let tools = params.get("tools").and_then(Value::as_array);
    let mut kinds = tools.into_iter().flatten().map(|tool| tool.get("type"));
    match kinds.position(|kind| kind.is_some_and(|kind| kind == "mcp")) {
        None => Ok(()),
        Some(index) => Err(Error::invalid(format!(
            "tools[{index}]: MCP servers can be named on /executions only"
        ))),
    }
}

/// Removes the parameters of tool use, which providers refuse if there are no tools. Fails if
/// `tool_choice` asks for a tool.
fn without_tools(params: &mut Map<String, Value>) -> Result<()> {
    params.shift_remove("parallel_tool_calls");
    match params.get("tool_choice").map(Value::as_str) {
        None => Ok(()),
        Some(Some("auto" | "none")) => {
            params.shift_remove("tool_choice");
            Ok(())
        }
        Some(_) => Err(Error::invalid("tool_choice asks for a tool, and tools names none")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prepared(mut params: Value) -> Result<Value> {
        let params = params.as_object_mut().unwrap();
        prepare(params).map(|()| Value::Object(std::mem::take(params)))
    }

    #[test]
    fn what_says_nothing_is_left_out() {
        let tools = json!([{"type": "function", "function": {"name": "f"}}]);
        let chosen = json!({"tools": tools, "tool_choice": "auto", "parallel_tool_calls": false});
        assert_eq!(prepared(chosen.clone()).unwrap(), chosen);
        for (given, expected) in [
            (json!({"user": null, "tools": null, "seed": 1}), json!({"seed": 1})),
            (json!({"tools": []}), json!({})),
            (json!({"tools": [], "tool_choice": "auto", "parallel_tool_calls": true}), json!({})),
            (json!({"tool_choice": "none"}), json!({})),
            (json!({"models": null}), json!({})),
        ] {
            assert_eq!(prepared(given.clone()).unwrap(), expected, "{given}");
        }
    }

    #[test]
    fn a_choice_needs_tools() {
        for choice in [json!("required"), json!({"type": "function", "function": {"name": "f"}})] {
            let error = prepared(json!({"tool_choice": choice, "tools": []})).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{choice}: {error}");
        }
        assert!(matches!(prepared(json!({"tools": "f"})), Err(Error::Malformed(_))));
    }
}
