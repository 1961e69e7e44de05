//! A trace with its steps, which are read while they are sent.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use dashboard::{
    Bar, Choice, Count, Duration, Money, Page as _, Section, StepView, TRACE_END, Text, Texts,
    Tile, TraceHead,
};
use domain::shown_content::ShownContent;
use domain::step::{Step, StepStatus};
use domain::time::millis;
use gateway::{DetailText, TraceDetail};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::visit::Visit;
use crate::console::{language, playground};
use crate::evidence::marked_texts::{LONGEST_TEXT, texts, unmarked};
use crate::http::extract::Segments;

/// The steps that are drawn in time.
const MOST_BARS: usize = 200;

/// The page.
pub(super) async fn show(State(app): State<App>, visit: Visit, path: Segments) -> Result<Response> {
    let project = visit.shown_project()?;
    let (detail, steps) =
        app.gateway.trace_for_member(visit.member(), project, path.text("id")?).await?;
    let frame = visit.frame(Section::Traces, visit.t.trace.title, Some(project));
    let models = app.gateway.list_models(visit.member(), project)?.into_iter();
    let mut head = head(frame, &detail, &steps);
    head.keys = playground::keys(&app, &visit, project);
    head.models = models.map(|view| Choice::of(view.model.identifier.clone())).collect();
    drop(steps);
    let text = DetailText {
        head: head.head().into_bytes(),
        between: b"",
        end: TRACE_END.as_bytes(),
        step: write_step,
    };
    let pieces = app.gateway.write_detail(detail.steps, text);
    Ok(([(CONTENT_TYPE, "text/html; charset=utf-8")], Body::from_stream(pieces)).into_response())
}

fn head(frame: dashboard::Frame, detail: &TraceDetail, steps: &[Step]) -> TraceHead {
    let t = frame.t;
    let (trace, figures) = (&detail.trace, &detail.figures);
    let assessment = trace.assessment.as_ref();
    let tile = |label, value: String, note: String| Tile { label, value, change: None, note };
    let mut tiles = vec![
        tile(t.trace.cost, Money(detail.total_cost).to_string(), String::new()),
        tile(t.trace.duration, Duration(figures.total_latency_ms).to_string(), String::new()),
        tile(
            t.trace.steps,
            Count(i64::try_from(figures.step_count).unwrap_or(i64::MAX)).to_string(),
            t.trace.median(Duration(figures.latency_p50)),
        ),
    ];
    if let Some(revenue) = trace.revenue {
        let margin = Money(revenue - detail.total_cost);
        tiles.push(tile(t.trace.margin, margin.to_string(), t.trace.of(Money(revenue))));
    }
    if let Some(score) = figures.shadow_score {
        tiles.push(tile(t.trace.shadow_model, format!("{score:.2}"), t.trace.alike.to_owned()));
    }
    let named = [
        (figures.pii_detected, t.words.personal_data),
        (figures.injection_attempt, t.words.injection),
        (figures.secret_leaked, t.words.secret),
    ];
    TraceHead {
        frame,
        id: trace.id.to_string(),
        status: trace.status.as_str(),
        opened: trace.created_at,
        grade: assessment.map(|assessment| assessment.grades.overall.as_str()),
        reasons: assessment
            .map(|assessment| assessment.reasons.iter().map(|why| why.reason.clone()).collect())
            .unwrap_or_default(),
        findings: found(named),
        tiles,
        bars: bars(steps),
        more_bars: steps.len().saturating_sub(MOST_BARS),
        metadata: trace.metadata.as_ref().and_then(|json| serde_json::to_string_pretty(json).ok()),
        keys: Vec::new(),
        models: Vec::new(),
    }
}

fn found(named: [(bool, &'static str); 3]) -> Vec<&'static str> {
    named.into_iter().filter(|(is_found, _)| *is_found).map(|(_, name)| name).collect()
}

fn bars(steps: &[Step]) -> Vec<Bar> {
    let steps = steps.get(..MOST_BARS).unwrap_or(steps);
    let Some(begin) = steps.iter().map(|step| step.started_at).min() else { return Vec::new() };
    let end = steps.iter().map(|step| step.finished_at).max().unwrap_or(begin);
    let whole = (end.since(begin)).max(1) as f64;
    let place = |micros: i64| micros as f64 / whole * 1_000.0;
    let bar = |step: &Step| Bar {
        id: step.id.0,
        kind: step.kind.as_str(),
        has_failed: step.status == StepStatus::Failed,
        label: label(step),
        duration: Duration(millis(step.latency())),
        cost: step.call.as_ref().map(|call| Money(call.cost)),
        span: (place(step.started_at.since(begin)), place(step.latency())),
    };
    steps.iter().map(bar).collect()
}

/// The model of a step, or the endpoint it came in by.
fn label(step: &Step) -> String {
    let model = step.call.as_ref().map(|call| call.model.clone());
    model.unwrap_or_else(|| step.api_endpoint.as_str().to_owned())
}

/// Writes a step with its content, which is a [`domain::step::Content`] as JSON.
#[expect(clippy::unnecessary_wraps, reason = "a detail's steps may be written by what can fail")]
fn write_step(step: Step, content: Option<&[u8]>, into: &mut Vec<u8>) -> serde_json::Result<()> {
    // A step is written by a plain function, which has no frame.
    let t = language::texts();
    let texts = match content.map(ShownContent::read) {
        Some(Some(content)) => {
            let marked = texts(t, &step, &content, LONGEST_TEXT).into_iter();
            marked.map(|marked| marked.text).collect()
        }
        Some(None) => vec![unmarked(t.step.content, t.step.too_deep)],
        None => Vec::new(),
    };
    into.extend_from_slice(view(t, step, texts).html().as_bytes());
    Ok(())
}

fn view(t: &'static Texts, step: Step, texts: Vec<Text>) -> StepView {
    let security = &step.security;
    let named = [
        (security.pii, t.words.personal_data),
        (security.injection, t.words.injection),
        (security.secret, t.words.secret),
    ];
    let mut fields = vec![t.step.duration(Duration(millis(step.latency())))];
    if let Some(call) = &step.call {
        let usage = &call.usage;
        fields.push(t.step.cost(Money(call.cost)));
        let tokens = |count: u64| Count(i64::try_from(count).unwrap_or(i64::MAX));
        fields.push(t.step.prompt_tokens(tokens(usage.prompt)));
        fields.push(t.step.completion_tokens(tokens(usage.completion)));
        if let Some(first) = call.first_token {
            fields.push(t.step.first_token_after(Duration(millis(first))));
        }
        if call.attempts > 1 {
            fields.push(t.step.attempts(call.attempts));
        }
        if call.shadow {
            fields.push(t.step.shadow_of(step.parent.map_or(0, |parent| parent.0)));
        }
    }
    if let Some(routing) = &step.routing
        && let Some(tier) = routing.tier
    {
        fields.push(t.step.tier(tier.as_str()));
    }
    if security.risk_score > 0.0 {
        fields.push(t.step.risk_score(format_args!("{:.2}", security.risk_score)));
    }
    StepView {
        t,
        id: step.id.0,
        kind: step.kind.as_str(),
        status: step.status.as_str(),
        label: label(&step),
        started: step.started_at,
        findings: found(named),
        fields,
        texts,
        reason: step.reason.or(step.error),
    }
}
