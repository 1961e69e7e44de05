//! Safety settings, tried out.

use axum::Json;
use axum::extract::{Request, State};
use domain::conversation::{Body, Message, Role};
use gateway::{Direction, Error, SafetyTrial, SafetyVerdict, SlowRule};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByMember;
use crate::http::body::read_json;
use crate::http::error::Result;
use crate::http::extract::Segments;
use crate::inference::chat::message;
use crate::inference::chat_body::MessageBody;
use crate::inference::finding::FindingBody;

/// The most bytes of a request: enough for a trial with settings that are not saved.
const LARGEST: usize = 1 << 20;

/// The content to judge: `text` or `messages`, with at most 65,536 bytes of text in all.
#[derive(Deserialize, ToSchema)]
pub struct SafetyTestRequest {
    /// A text.
    #[serde(default)]
    text: Option<String>,
    /// A conversation, as in chat completions.
    #[serde(default)]
    messages: Option<Vec<MessageBody>>,
    /// The tools that are offered with it, in any form that executions take.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// Whether it goes to a model or comes from one; `input` by default.
    #[serde(default)]
    #[schema(value_type = Option<DirectionBody>)]
    direction: Option<String>,
    /// A section of settings that is not saved: merged over the project's `settings.safety` for this
    /// trial.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    settings: Option<Map<String, Value>>,
}

/// The direction of a text.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes what is read by hand")]
enum DirectionBody {
    Input,
    Output,
}

/// The verdict.
#[derive(Debug, Serialize, ToSchema)]
pub struct SafetyTestBody {
    /// Whether it would be passed on.
    allowed: bool,
    /// The reason if it would not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
    /// 0 to 1.
    risk_score: f64,
    /// Whether a person should look at it.
    review: bool,
    /// All findings.
    findings: Vec<FindingBody>,
    /// The index of the finding that causes the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cause: Option<usize>,
    /// The text, or the messages, with placeholders: an input as chat completions send it to a provider,
    /// an output as `settings.safety.output` lets it leave.
    #[schema(value_type = Value)]
    redacted: Value,
    /// The rules and recognizers that were given up because they took too long, or because the two seconds of a trial were
    /// over. They count as no match here.
    slow_rules: Vec<SlowRuleBody>,
}

/// A rule or a recognizer that was given up.
#[derive(Debug, Serialize, ToSchema)]
pub struct SlowRuleBody {
    /// The list of `settings.safety` that it is in: `rules` or `recognizers`.
    list: &'static str,
    /// Its index in that list, from 0.
    index: usize,
    /// Its name.
    name: String,
    /// The reason why it was given up.
    reason: &'static str,
}

impl From<SlowRule> for SlowRuleBody {
    fn from(slow: SlowRule) -> Self {
        let SlowRule { list, index, name, reason } = slow;
        Self { list, index, name, reason }
    }
}

/// Try out the safety settings of a project, saved or not (not for viewers). Nothing is called, spent or
/// recorded. It takes at most two seconds, ends when the caller leaves, and runs once at a time for a
/// project.
#[utoipa::path(post, path = "/api/v1/projects/{id}/safety/test", tag = "Safety",
    params(("id" = i64, Path)), request_body = SafetyTestRequest,
    responses((status = 200, body = SafetyTestBody)))]
pub async fn test(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
    request: Request,
) -> Result<Json<SafetyTestBody>> {
    let id = path.project("id")?;
    let body: SafetyTestRequest = read_json(request, &app, LARGEST).await?;
    let is_text = body.text.is_some();
    let verdict = app.gateway.try_safety(&member, id, trial(body)?).await?;
    Ok(Json(present(verdict, is_text)))
}

fn trial(body: SafetyTestRequest) -> Result<SafetyTrial> {
    let direction = match body.direction.as_deref() {
        None | Some("input") => Direction::Input,
        Some("output") => Direction::Output,
        Some(_) => return Err(Error::invalid("direction must be input or output").into()),
    };
    let messages = match (body.text, body.messages) {
        (Some(text), None) => {
            let role = match direction {
                Direction::Input => Role::User,
                Direction::Output => Role::Assistant,
            };
            vec![Message { role, body: Body::Text(text), extra: Map::new() }]
        }
        (None, Some(messages)) => messages.into_iter().map(message).collect::<Result<Vec<_>>>()?,
        (None, None) => {
            return Err(Error::Malformed("Missing required parameter: text".to_owned()).into());
        }
        (Some(_), Some(_)) => {
            return Err(Error::Malformed("text and messages exclude each other".to_owned()).into());
        }
    };
    let tools = body.tools.unwrap_or_default();
    Ok(SafetyTrial { messages, tools, direction, settings: body.settings })
}

fn present(verdict: SafetyVerdict, is_text: bool) -> SafetyTestBody {
    let redacted = match verdict.redacted.first().map(|message| &message.body) {
        Some(Body::Text(text)) if is_text => text.as_str().into(),
        _ => json!(verdict.redacted),
    };
    SafetyTestBody {
        allowed: verdict.reason.is_none(),
        reason: verdict.reason,
        risk_score: verdict.risk_score,
        review: verdict.review,
        findings: verdict.findings.into_iter().map(Into::into).collect(),
        cause: verdict.cause,
        redacted,
        slow_rules: verdict.slow_rules.into_iter().map(Into::into).collect(),
    }
}
