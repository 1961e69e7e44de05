//! A test call of a model: a real one with a few tokens, which tells what is wrong with it.

use axum::body::to_bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dashboard::{CALL_PROMPT, Duration, ModelPage, Money, TestCall};
use domain::ids::{KeyId, ProjectId};
use domain::step::{Step, StepStatus};
use domain::time::millis;
use gateway::{Error, Spends};
use serde_json::{Map, Value};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::once::{self, Sent};
use crate::console::trace::beginning;
use crate::console::visit::{Form, Visit};
use crate::console::{choices, model, page};
use crate::http::error::Failure;
use crate::http::extract::Segments;
use crate::http::idempotency::{HangUp, REPLAYED};
use crate::http::trace_headers::TRACE_ID;
use crate::inference::chat_body::{ChatBody, ContentBody, MessageBody};

/// The most completion tokens.
const MOST_TOKENS: u64 = 16;
/// The most bytes of a reply.
const LARGEST_REPLY: usize = 1024 * 1024;
/// The most steps that are read of the trace of a call: one for each model that stands in.
const MOST_STEPS: i64 = 50;
/// The most bytes of the words of a reply.
const LONGEST_WORDS: usize = 2 * 1024;

/// Calls a model, which the chosen key pays for, and shows its page with the outcome.
pub(super) async fn call(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
    form: Form,
) -> Result<Response> {
    let project = visit.shown_project()?;
    let sent = form.get("key");
    let mut shown = model::model(&app, &visit, project, path.model()?, sent)?;
    let key: KeyId = sent.and_then(|id| id.parse().ok()).ok_or(Error::NotFound)?;
    // Without any key there is no form.
    if !shown.keys.is_empty() {
        shown.keys = choices::with_gone(shown.keys, sent);
    }
    let once = form.get(once::FIELD);
    let reply = match answered(&app, &visit, project, (key, once), &shown.identifier).await {
        Ok(reply) => reply,
        Err(failure) => failure.into_response(),
    };
    shown.called = Some(outcome(&app, &visit, &shown, project, reply).await);
    Ok(page(&shown))
}

/// The reply to a call, through the gate of every call with the key.
async fn answered(
    app: &App,
    visit: &Visit,
    project: ProjectId,
    (key, once): (KeyId, Option<&str>),
    identifier: &str,
) -> std::result::Result<Response, Failure> {
    let caller = app.gateway.gate_member(visit.member(), key, Spends::Yes).await?;
    if caller.project.id() != project {
        return Err(Error::NotFound.into());
    }
    // A trace of its own: calls of one session share one.
    let caller = caller.in_session(&format!("test {} {identifier}", app.gateway.now().0));
    let prompt = MessageBody {
        role: "user".to_owned(),
        content: Some(ContentBody::Text(CALL_PROMPT.to_owned())),
        extra: Map::new(),
    };
    let body = ChatBody {
        model: Some(identifier.to_owned()),
        messages: vec![prompt],
        max_tokens: Some(MOST_TOKENS),
        ..ChatBody::default()
    };
    let sent = Sent {
        value: once,
        path: "/models/call",
        content: identifier.to_owned(),
        // A second click takes the place of the first, which a browser gives up.
        hang_up: HangUp::GoesOn,
    };
    once::called(app, visit, caller, sent, body).await
}

/// The outcome of a reply, with the record of its step.
async fn outcome(
    app: &App,
    visit: &Visit,
    shown: &ModelPage,
    project: ProjectId,
    reply: Response,
) -> TestCall {
    let status = reply.status();
    let trace = reply.headers().get(TRACE_ID).and_then(|id| id.to_str().ok());
    let trace = trace.map(str::to_owned);
    let is_repeated = reply.headers().contains_key(REPLAYED);
    let body = to_bytes(reply.into_body(), LARGEST_REPLY).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let steps = match &trace {
        Some(trace) => {
            let member = visit.member();
            let found = app.gateway.first_steps_of_trace(member, project, trace, MOST_STEPS).await;
            found.unwrap_or_default()
        }
        None => Vec::new(),
    };
    // Fallbacks and shadow models have steps of the same trace.
    let step = steps.iter().find(|step| is_of(step, &shown.identifier));
    let step = step.or_else(|| steps.iter().find(|step| step.call.is_none()));
    let fault = match step {
        // The words of a reply are the last model's.
        Some(step) if step.call.is_some() && step.status != StepStatus::Completed => {
            let stood_in = |step: &Step| step.call.is_some() && !is_of(step, &shown.identifier);
            let has_fallback = status.is_success() || steps.iter().any(stood_in);
            has_fallback.then(|| visit.t.model.fallback_called.to_owned())
        }
        Some(_) => refusal(&body),
        None => steps.iter().find_map(|step| {
            let other = step.call.as_ref()?;
            Some(visit.t.model.stood_in(&other.model))
        }),
    };
    let is_answered = status.is_success() && fault.is_none();
    let words = fault.or_else(|| words(&body)).unwrap_or_default();
    TestCall {
        is_answered,
        is_repeated,
        status: status.as_u16(),
        words: beginning(&words, LONGEST_WORDS),
        fields: step.map(fields).unwrap_or_default(),
        href: trace.map(|trace| shown.frame.href(&format!("/traces/{trace}"))),
    }
}

fn is_of(step: &Step, identifier: &str) -> bool {
    step.call.as_ref().is_some_and(|call| call.model == identifier)
}

/// The words of an answer, or of a failure.
fn words(body: &Value) -> Option<String> {
    let error = &body["error"];
    let fault = error["message"].as_str().or_else(|| error.as_str());
    let content = body["choices"][0]["message"]["content"].as_str();
    content.or(fault).map(str::to_owned)
}

/// The reason of a call that was stopped before a model saw it.
fn refusal(body: &Value) -> Option<String> {
    body["choices"][0]["message"]["refusal"].as_str().map(str::to_owned)
}

fn fields(step: &Step) -> Vec<String> {
    let cost = step.call.as_ref().map(|call| Money(call.cost).to_string());
    let latency = Duration(millis(step.latency())).to_string();
    [Some(latency), cost].into_iter().flatten().collect()
}
