//! Findings that ask for a person, and the verdicts on them.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::LINK;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use dashboard::Text;
use domain::ids::{ServiceTokenId, StepId, TraceId, UserId};
use domain::review::{JudgedFinding, Review, Verdict};
use domain::shown_content::ShownContent;
use domain::step::{Security, Step};
use domain::time::Timestamp;
use gateway::{Error, ExpectedVerdict, Judged, MOST_REVIEWS, ReviewContent, VerdictNote};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::evidence::excerpts::{Excerpts, excerpts};
use crate::http::auth::ByMember;
use crate::http::body::FlatBody;
use crate::http::error::Result;
use crate::http::extract::{Segments, given};
use crate::http::query::query_value;

/// The steps of a page, if no number is asked for.
pub(crate) const USUAL_REVIEWS: usize = 20;
/// The most findings of a step that are listed.
const MOST_FINDINGS: usize = 50;

/// The word for a step that nobody has judged.
pub(crate) const UNJUDGED: &str = "unjudged";

/// The texts of a step in which something was found.
#[derive(Debug)]
pub(crate) enum ReviewTexts {
    /// Excerpts around the findings.
    Shown(Excerpts),
    /// No content is stored, or not any more.
    NotStored,
    /// The content is too large for a list.
    TooLarge,
    /// The content cannot be opened.
    Damaged,
}

/// A step of the queue as it is shown.
#[derive(Debug)]
pub(crate) struct ShownReview {
    /// The step, without its findings.
    pub(crate) step: Step,
    /// The first of its findings, as they are stored with it.
    pub(crate) first: Vec<Value>,
    /// How many there are.
    pub(crate) findings: usize,
    /// Its texts.
    pub(crate) texts: ReviewTexts,
}

/// A step of the queue as it is shown. Its findings may be large: the first are kept.
pub(crate) fn shown_review(step: &Step, content: ReviewContent<'_>) -> ShownReview {
    let texts = match content {
        ReviewContent::Stored(json) => {
            ReviewTexts::Shown(excerpts(step, ShownContent::read(json).as_ref()))
        }
        ReviewContent::None => ReviewTexts::NotStored,
        ReviewContent::TooLarge => ReviewTexts::TooLarge,
        ReviewContent::Damaged => ReviewTexts::Damaged,
    };
    let findings = step.security.findings.as_ref().and_then(Value::as_array);
    let findings = findings.map(Vec::as_slice).unwrap_or_default();
    let security = Security { findings: None, ..step.security };
    ShownReview {
        step: Step { security, ..step.clone() },
        first: findings.iter().take(MOST_FINDINGS).cloned().collect(),
        findings: findings.len(),
        texts,
    }
}

/// A step that asks for a review.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReviewBody {
    #[schema(value_type = i64)]
    step_id: StepId,
    #[schema(value_type = String)]
    trace_id: TraceId,
    /// `run`, `check` and so on.
    r#type: &'static str,
    /// The endpoint that it came in by.
    endpoint: &'static str,
    /// The model, if one was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    model: Option<String>,
    /// 0 to 1.
    risk_score: f64,
    /// Its findings as in the detail of its trace, the first 50.
    #[schema(value_type = Vec<Object>)]
    findings: Vec<Value>,
    /// `stored`; `none` if no content is stored, or not any more; `too_large` if it is left to the detail of its
    /// trace; `damaged` if it cannot be opened.
    content: &'static str,
    /// Excerpts of the texts in which something was found, as they are stored: with placeholders for what was
    /// redacted. Empty without content.
    texts: Vec<ReviewText>,
    /// How many findings are in none of these texts: those in tools, arguments, files and earlier messages, and
    /// those in an answer that was withheld.
    findings_elsewhere: usize,
    /// When it ended.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// An excerpt of a text.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReviewText {
    /// The role of the message, `input` or `output`.
    name: String,
    /// Its stretches, one behind the other.
    parts: Vec<ReviewTextPart>,
}

/// A stretch of a text.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReviewTextPart {
    text: String,
    /// The category and type of what was found in it, as in `pii: EMAIL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    finding: Option<String>,
}

impl From<Text> for ReviewText {
    fn from(text: Text) -> Self {
        let parts = text.marks.into_iter();
        let parts =
            parts.map(|mark| ReviewTextPart { text: mark.text, finding: mark.finding }).collect();
        Self { name: text.name, parts }
    }
}

impl From<ShownReview> for ReviewBody {
    fn from(shown: ShownReview) -> Self {
        let ShownReview { step, first, findings, texts } = shown;
        let none = Excerpts { texts: Vec::new(), findings_elsewhere: findings };
        let (content, shown) = match texts {
            ReviewTexts::Shown(shown) => ("stored", shown),
            ReviewTexts::NotStored => ("none", none),
            ReviewTexts::TooLarge => ("too_large", none),
            ReviewTexts::Damaged => ("damaged", none),
        };
        Self {
            step_id: step.id,
            trace_id: step.trace,
            r#type: step.kind.as_str(),
            endpoint: step.api_endpoint.as_str(),
            risk_score: step.security.risk_score,
            findings: first,
            model: step.call.map(|call| call.model),
            content,
            texts: shown.texts.into_iter().map(Into::into).collect(),
            findings_elsewhere: shown.findings_elsewhere,
            created_at: step.finished_at,
        }
    }
}

/// A verdict of a person.
#[derive(Deserialize, ToSchema)]
pub struct VerdictRequest {
    /// `confirmed` or `false_positive`.
    verdict: String,
    /// A remark, at most 1,000 characters. It takes the place of an earlier one; null leaves none. Without this
    /// field an earlier one stays.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    note: Option<Option<String>>,
    /// `unjudged`, or the `created_at` of the verdict that this one is to replace. If another one stands, nothing
    /// is changed, and the answer is 409 with that one. Without this field any is replaced.
    #[serde(default)]
    expects: Option<String>,
}

/// A verdict that was not stored: another one than was expected stands.
#[derive(Debug, Serialize, ToSchema)]
pub struct VerdictConflict {
    /// A description of the error.
    error: &'static str,
    /// The verdict that stands; null if nobody has judged the step.
    stands: Option<VerdictBody>,
}

/// The description of a verdict that was not stored.
const JUDGED_MEANWHILE: &str =
    "Nothing was changed: the step has another verdict than was expected";

/// A verdict as it is stored.
#[derive(Debug, Serialize, ToSchema)]
pub struct VerdictBody {
    #[schema(value_type = i64)]
    step_id: StepId,
    /// `confirmed` or `false_positive`.
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    note: Option<String>,
    /// The user who judged; null if a program did.
    #[schema(value_type = Option<i64>)]
    user_id: Option<UserId>,
    /// The service token of the program that judged; null if a user did.
    #[schema(value_type = Option<String>)]
    service_token_id: Option<ServiceTokenId>,
    risk_score: f64,
    /// The findings as they were judged, the strongest of each type.
    findings: Vec<JudgedFindingBody>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// A finding that was judged.
#[derive(Debug, Serialize, ToSchema)]
pub struct JudgedFindingBody {
    /// `pii`, `injection`, `secret` or `policy`.
    category: &'static str,
    r#type: String,
    /// 0 to 1.
    score: f64,
}

impl From<JudgedFinding> for JudgedFindingBody {
    fn from(found: JudgedFinding) -> Self {
        Self { category: found.category.as_str(), r#type: found.kind, score: found.score }
    }
}

impl From<Review> for VerdictBody {
    fn from(review: Review) -> Self {
        Self {
            step_id: review.step,
            verdict: review.verdict.as_str(),
            note: review.note,
            user_id: review.judge.user(),
            service_token_id: review.judge.service_token(),
            risk_score: review.risk_score,
            findings: review.findings.into_iter().map(Into::into).collect(),
            created_at: review.at,
        }
    }
}

/// The place and the size of a page of the queue, as a query has them.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the description of the query, which is read by hand")]
pub struct ReviewParams {
    /// Only steps that ended before the one with this id.
    before: Option<i64>,
    /// From 1 to 50; 20 by default.
    #[param(minimum = 1, maximum = 50)]
    limit: Option<i64>,
}

/// Reads the verdict of a request or a form.
pub(crate) fn read_verdict(word: &str) -> std::result::Result<Verdict, Error> {
    let verdict = Verdict::parse(word);
    verdict.ok_or_else(|| Error::invalid("verdict must be confirmed or false_positive"))
}

/// Reads the verdict that a request or a form expects to replace.
pub(crate) fn read_expected(word: &str) -> std::result::Result<ExpectedVerdict, Error> {
    if word == UNJUDGED {
        return Ok(ExpectedVerdict::Unjudged);
    }
    let at = Timestamp::parse(word).map(ExpectedVerdict::Of);
    at.ok_or_else(|| Error::invalid("expects must be unjudged or the created_at of a verdict"))
}

/// Reads the step before which a page begins.
pub(crate) fn read_before(before: Option<&str>) -> std::result::Result<Option<StepId>, Error> {
    let fault = || Error::Malformed("before must be the id of a step".to_owned());
    before.map(|text| text.parse().map_err(|_| fault())).transpose()
}

fn read_limit(limit: Option<&str>) -> std::result::Result<usize, Error> {
    let fault = || Error::Malformed(format!("limit must be a number from 1 to {MOST_REVIEWS}"));
    let Some(limit) = limit else { return Ok(USUAL_REVIEWS) };
    let limit = limit.parse().ok().filter(|limit: &usize| *limit >= 1);
    Ok(limit.ok_or_else(fault)?.min(MOST_REVIEWS))
}

/// The steps of a project that ask for a review and that nobody has judged, newest first. `Link` leads to the
/// next page, if there is one.
#[utoipa::path(get, path = "/api/v1/projects/{project_id}/reviews", tag = "Safety",
    params(("project_id" = i64, Path), ReviewParams),
    responses((status = 200, body = Vec<ReviewBody>)))]
pub async fn list(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
    request: Request,
) -> Result<(HeaderMap, Json<Vec<ReviewBody>>)> {
    let project = path.project("project_id")?;
    let before = read_before(query_value(&request, "before").as_deref())?;
    let limit = read_limit(query_value(&request, "limit").as_deref())?;
    let queue = app.gateway.review_queue(&member, project, before, limit, shown_review).await?;
    let mut headers = HeaderMap::new();
    if let Some(next) = queue.next {
        let link = format!(
            "</api/v1/projects/{project}/reviews?limit={limit}&before={next}>; rel=\"next\""
        );
        headers.extend(HeaderValue::from_str(&link).ok().map(|link| (LINK, link)));
    }
    Ok((headers, Json(queue.items.into_iter().map(Into::into).collect())))
}

/// Judge the findings of a step that asks for a review (not viewers). A verdict can be changed.
#[utoipa::path(put, path = "/api/v1/projects/{project_id}/reviews/{step_id}", tag = "Safety",
    params(("project_id" = i64, Path), ("step_id" = i64, Path)), request_body = VerdictRequest,
    responses((status = 200, body = VerdictBody), (status = 409, body = VerdictConflict)))]
pub async fn judge(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
    FlatBody(request): FlatBody<VerdictRequest>,
) -> Result<Response> {
    let (project, step) = (path.project("project_id")?, path.step()?);
    let verdict = read_verdict(&request.verdict)?;
    let expected = request.expects.as_deref().map(read_expected).transpose()?;
    let note = request.note.map_or(VerdictNote::Kept, VerdictNote::Replaced);
    let judged =
        app.gateway.judge_findings(&member, project, step, verdict, note, expected).await?;
    Ok(match judged {
        Judged::Stored(review) => Json(VerdictBody::from(review)).into_response(),
        Judged::Refused(stands) => {
            let stands = stands.map(VerdictBody::from);
            let body = VerdictConflict { error: JUDGED_MEANWHILE, stands };
            (StatusCode::CONFLICT, Json(body)).into_response()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_bounded() {
        for (given, limit) in
            [(None, Some(20)), (Some("1"), Some(1)), (Some("999"), Some(50)), (Some("0"), None)]
        {
            assert_eq!(read_limit(given).ok(), limit, "{given:?}");
        }
        assert!(read_limit(Some("x")).is_err() && read_before(Some("x")).is_err());
        assert_eq!(read_before(Some("5")).unwrap(), Some(StepId(5)));
        assert_eq!(domain::review::LONGEST_NOTE, 1_000, "as the description has it");
    }
}
