//! The playground: real calls by a signed-in member, paid by one of their keys.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use dashboard::{Choice, Money, PlaygroundPage, Section};
use domain::ids::{KeyId, ProjectId};
use domain::tier::Tier;
use domain::time::millis;
use gateway::{Error, Gateway, KeyView, Spends};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::once::{self, Sent};
use crate::console::visit::Visit;
use crate::console::{choices, page};
use crate::http::body::read_json;
use crate::http::error::Failure;
use crate::http::idempotency::HangUp;
use crate::inference::chat_body::{ChatBody, ContentBody, MessageBody};

/// The most bytes of a question.
const LARGEST_QUESTION: usize = 1024 * 1024;

/// The page.
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let models = app.gateway.list_models(visit.member(), project)?;
    let identifiers = || models.iter().map(|view| view.model.identifier.as_str());
    Ok(page(&PlaygroundPage {
        once: Gateway::one_time_value()?,
        keys: keys(&app, &visit, project, visit.get("key")),
        sides: [visit.get("model"), visit.get("beside")]
            .map(|chosen| choices::bounded(Choice::all_of(identifiers(), chosen))),
        has_more_models: models.len() > choices::MOST,
        frame: visit.frame(Section::Playground, visit.t.playground.title, Some(project)),
    }))
}

/// The keys of a project that the user may call with, the latest first, and the chosen one.
pub(super) fn keys(
    app: &App,
    visit: &Visit,
    project: ProjectId,
    chosen: Option<&str>,
) -> Vec<Choice> {
    let may_call = |view: &KeyView| {
        view.key.project == project && app.gateway.may_call_with(visit.member(), &view.key)
    };
    let keys = app.gateway.list_keys(visit.member()).into_iter().filter(may_call);
    let choice = |view: KeyView| Choice {
        value: view.key.id.to_string(),
        label: format!("{} ({})", view.key.name, view.key.masked),
        is_chosen: chosen == Some(&view.key.id.to_string()),
    };
    let mut keys: Vec<Choice> = keys.map(choice).collect();
    keys.reverse();
    choices::bounded(keys)
}

/// A question to one model.
#[derive(Debug, Deserialize)]
struct Question {
    /// The key that pays.
    key: String,
    /// The model; none is chosen by routing.
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    system: Option<String>,
    prompt: String,
    /// The one-time value of the form, and the side that asks.
    #[serde(default)]
    once: Option<String>,
}

/// Answers a question as a stream of chat completion chunks.
pub(super) async fn answer(State(app): State<App>, visit: Visit, request: Request) -> Response {
    answered(&app, &visit, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answered(
    app: &App,
    visit: &Visit,
    request: Request,
) -> std::result::Result<Response, Failure> {
    let question: Question = read_json(request, app, LARGEST_QUESTION).await?;
    let key: KeyId = question.key.parse().map_err(|_| Error::NotFound)?;
    let caller = app.gateway.gate_member(visit.member(), key, Spends::Yes).await?;
    let content = json!([question.model, question.system, question.prompt]).to_string();
    // A trace of its own: calls of one session share one.
    let model = question.model.as_deref().unwrap_or_default();
    let caller = caller.in_session(&format!("playground {} {model}", app.gateway.now().0));
    let message = |role: &str, text: String| MessageBody {
        role: role.to_owned(),
        content: Some(ContentBody::Text(text)),
        extra: Map::new(),
    };
    let system = question.system.filter(|text| !text.trim().is_empty());
    let system = system.map(|text| message("system", text));
    let body = ChatBody {
        model: question.model.filter(|model| !model.is_empty()),
        messages: system.into_iter().chain([message("user", question.prompt)]).collect(),
        stream: Some(true),
        ..ChatBody::default()
    };
    let sent = Sent {
        value: question.once.as_deref(),
        path: "/playground/answer",
        content,
        // An answer that is stopped costs no more.
        hang_up: HangUp::Ends,
    };
    once::called(app, visit, caller, sent, body).await
}

/// The record of an answer.
#[derive(Debug, Serialize)]
struct RecordBody {
    model: Option<String>,
    tier: Option<&'static str>,
    cost: Option<String>,
    latency_ms: f64,
    tokens: Option<Value>,
    status: &'static str,
    reason: Option<String>,
}

/// The cost and the time of an answer that has ended.
pub(super) async fn record(State(app): State<App>, visit: Visit) -> Response {
    recorded(&app, &visit)
        .await
        .map_or_else(IntoResponse::into_response, IntoResponse::into_response)
}

async fn recorded(
    app: &App,
    visit: &Visit,
) -> std::result::Result<axum::Json<RecordBody>, Failure> {
    let project = visit.project()?.ok_or(Error::NotFound)?;
    let trace = visit.get("trace").unwrap_or_default();
    let step = visit.get("step").unwrap_or_default().parse().map_err(|_| Error::NotFound)?;
    let step = app.gateway.step_of_trace(visit.member(), project, trace, step).await?.step;
    let call = step.call.as_ref();
    Ok(axum::Json(RecordBody {
        model: call.map(|call| call.model.clone()),
        tier: step.routing.as_ref().and_then(|routing| routing.tier).map(Tier::as_str),
        cost: call.map(|call| Money(call.cost).to_string()),
        latency_ms: millis(step.latency()),
        tokens: call
            .map(|call| json!({"prompt": call.usage.prompt, "completion": call.usage.completion})),
        status: step.status.as_str(),
        reason: step.reason.or(step.error),
    }))
}
