//! A trace with its steps, and a step of it with its texts.
//!
//! A page shows a bounded number of bytes of texts, so that it is small whatever the trace holds: the rest is on
//! pages of its own.

use std::fmt::Display;
use std::ops::Range;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use dashboard::{
    Bar, Bytes, Choice, Count, Duration, Frame, Money, Page as _, Section, StepPage, StepPages,
    StepView, Text, TextLink, Texts, Tile, TracePage,
};
use domain::ids::{ProjectId, StepId};
use domain::shown_content::ShownContent;
use domain::step::{Step, StepStatus};
use domain::tier::Tier;
use domain::time::millis;
use domain::trace::AgentWork;
use futures_util::TryStreamExt as _;
use gateway::{DetailText, Error, StepList, TraceDetail, WriteStep};
use serde_json::Value;

use crate::app::App;
use crate::console::failure::Result;
use crate::console::visit::{Form, Visit};
use crate::console::{choices, playground, replay_form};
use crate::evidence::marked_texts::{texts, unmarked};
use crate::http::error::Failure;
use crate::http::extract::Segments;

/// The steps of a page.
const STEPS_OF_PAGE: usize = 10;
/// The steps that are drawn in time.
const MOST_BARS: usize = 100;
/// The texts of a step among others, the latest.
const MOST_TEXTS: usize = 6;
/// The bytes of the texts of a page.
const TEXTS_OF_PAGE: usize = 14 * 1024;
/// The bytes of a part of a text.
const PART: usize = 20 * 1024;
/// The most bytes of metadata.
const LONGEST_METADATA: usize = 2 * 1024;
/// The most bytes of the reason of a step.
const LONGEST_REASON: usize = 512;
/// The most reasons for a grade.
const MOST_REASONS: usize = 20;

/// The page of a trace. `step` names the first of its steps that is shown.
pub(super) async fn show(State(app): State<App>, visit: Visit, path: Segments) -> Result<Response> {
    let project = visit.shown_project()?;
    shown(&app, &visit, project, path.text("id")?, None).await
}

/// The page of a trace, with a form for a replay that was refused if there is one.
pub(super) async fn shown(
    app: &App,
    visit: &Visit,
    project: ProjectId,
    id: &str,
    refused: Option<(&Form, Failure)>,
) -> Result<Response> {
    let (detail, steps) = app.gateway.trace_for_member(visit.member(), project, id).await?;
    let begin = match visit.get("step") {
        None => 0,
        Some(step) => match index_of(&steps, step) {
            Some(at) => at,
            None => {
                // Only so many steps are listed: the last page is nearest to one of the others.
                let step = step.parse().map(StepId).map_err(|_| Error::NotFound)?;
                app.gateway.step_of_trace(visit.member(), project, id, step).await?;
                steps.len().saturating_sub(STEPS_OF_PAGE)
            }
        },
    };
    let shown = begin..steps.len().min(begin + STEPS_OF_PAGE);
    let frame = visit.frame(Section::Traces, visit.t.trace.title, Some(project));
    let models = app.gateway.list_models(visit.member(), project)?;
    let identifiers = models.iter().map(|view| view.model.identifier.as_str());
    let (chosen, key): (Vec<&str>, _) = match &refused {
        Some((form, _)) => (form.all("model").collect(), form.get("key")),
        None => (visit.all("model").collect(), visit.get("key")),
    };
    let mut page = head(frame, &detail, &steps, shown.clone());
    page.keys = playground::keys(app, visit, project, key);
    page.models = choices::bounded(Choice::all_of(identifiers, chosen));
    page.has_more_models = models.len() > page.models.len();
    let status = match refused {
        Some((form, failure)) => replay_form::show_refused(&mut page, form, failure),
        None => StatusCode::OK,
    };
    drop(steps);
    let share = TEXTS_OF_PAGE / shown.len().max(1);
    let writer = writer(&page.frame, &page.id, Shown::Latest { bytes: share });
    let written = written(app, detail.steps.part(shown), writer).await?;
    Ok((status, html(page.with_steps(&written))).into_response())
}

/// The page of a step. `text` and `begin` name a part of one of its texts.
pub(super) async fn step(State(app): State<App>, visit: Visit, path: Segments) -> Result<Response> {
    let project = visit.shown_project()?;
    let (trace, id) = (path.text("id")?, path.step()?);
    let detail = app.gateway.step_of_trace(visit.member(), project, trace, id).await?;
    let trace = detail.step.trace.to_string();
    let title = visit.t.step.number(id);
    let frame = visit.frame(Section::Traces, title, Some(project));
    let beside = |step: Option<StepId>| step.map(|step| step_href(&frame, &trace, &step));
    let number = |name: &str| visit.get(name).map(|text| text.parse().map_err(|_| Error::NotFound));
    let part = match number("text").transpose()? {
        Some(text) => Shown::Part { text, begin: number("begin").transpose()?.unwrap_or(0) },
        None => Shown::All,
    };
    let page = StepPage {
        id: id.0,
        trace_href: frame.href(&format!("/traces/{trace}?step={id}")),
        before: beside(detail.before),
        next: beside(detail.next),
        trace,
        frame,
    };
    let writer = writer(&page.frame, &page.trace, part);
    let written = written(&app, detail.list, writer).await?;
    Ok(html(page.with_steps(&written)))
}

/// The place of a step in the list of those of its trace.
fn index_of(steps: &[Step], id: &str) -> Option<usize> {
    steps.iter().position(|step| step.id.to_string() == id)
}

/// The address of the page of a step.
pub(super) fn step_href(frame: &Frame, trace: &impl Display, step: &impl Display) -> String {
    frame.href(&format!("/traces/{trace}/steps/{step}"))
}

/// Writes steps. All of them are read before the page is sent: it is small, and a failure has a page of its own.
async fn written(
    app: &App,
    steps: StepList,
    step: WriteStep,
) -> std::result::Result<Vec<u8>, Error> {
    let text = DetailText { head: Vec::new(), between: b"", end: b"", step };
    app.gateway.write_detail(steps, text).try_concat().await
}

fn html(page: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

fn head(frame: Frame, detail: &TraceDetail, steps: &[Step], shown: Range<usize>) -> TracePage {
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
    // Those that were counted: of steps that are gone, and with another gap between steps than today's.
    let work = trace.work.unwrap_or(AgentWork {
        stall_probability: figures.stall_probability,
        tool_fidelity: figures.tool_fidelity_score,
    });
    let named = [
        (figures.pii_detected, t.words.personal_data),
        (figures.injection_attempt, t.words.injection),
        (figures.secret_leaked, t.words.secret),
        (work.is_stalled(), t.trace.likely_stalled),
        (work.invents_calls(), t.trace.invented_calls),
    ];
    let id = trace.id.to_string();
    let reasons = assessment.map(|assessment| &*assessment.reasons).unwrap_or_default();
    let bars = bars(&frame, &id, steps, &shown);
    TracePage {
        pages: pages(&frame, &id, steps, &shown),
        more_bars: steps.len() - shown.start - bars.len(),
        bars,
        frame,
        id,
        status: trace.status.as_str(),
        opened: trace.created_at,
        grade: assessment.map(|assessment| assessment.grades.overall.as_str()),
        reasons: reasons.iter().take(MOST_REASONS).map(|why| why.reason.clone()).collect(),
        more_reasons: reasons.len().saturating_sub(MOST_REASONS),
        findings: found(named),
        tiles,
        metadata: trace.metadata.as_ref().and_then(metadata),
        keys: Vec::new(),
        models: Vec::new(),
        has_more_models: false,
        other_model: String::new(),
    }
}

fn found<const N: usize>(named: [(bool, &'static str); N]) -> Vec<&'static str> {
    named.into_iter().filter(|(is_found, _)| *is_found).map(|(_, name)| name).collect()
}

/// The beginning of metadata, and the size of all of it if that is more.
fn metadata(json: &Value) -> Option<(String, Option<Bytes>)> {
    let mut text = serde_json::to_string_pretty(json).ok()?;
    let size = text.len();
    text.truncate(text.floor_char_boundary(LONGEST_METADATA));
    let whole = (text.len() < size).then_some(Bytes(size));
    Some((text, whole))
}

/// The addresses of the steps beside those that are shown.
fn pages(frame: &Frame, trace: &str, steps: &[Step], shown: &Range<usize>) -> StepPages {
    let page = |begin: usize| {
        let step = steps.get(begin)?.id;
        Some(frame.href(&format!("/traces/{trace}?step={step}")) + "#steps")
    };
    let before = (shown.start > 0).then(|| shown.start.saturating_sub(STEPS_OF_PAGE));
    StepPages {
        first: shown.start + 1,
        last: shown.end,
        count: steps.len(),
        before: before.and_then(page),
        next: page(shown.end),
    }
}

/// The steps in time, from the first that is shown on.
fn bars(frame: &Frame, trace: &str, steps: &[Step], shown: &Range<usize>) -> Vec<Bar> {
    let on_page = shown.len();
    let steps = &steps[shown.start..steps.len().min(shown.start + MOST_BARS)];
    let Some(begin) = steps.iter().map(|step| step.started_at).min() else { return Vec::new() };
    let end = steps.iter().map(|step| step.finished_at).max().unwrap_or(begin);
    let whole = (end.since(begin)).max(1) as f64;
    let place = |micros: i64| micros as f64 / whole * 1_000.0;
    let bar = |(index, step): (usize, &Step)| Bar {
        href: if index < on_page {
            format!("#step-{}", step.id)
        } else {
            step_href(frame, &trace, &step.id)
        },
        kind: step.kind.as_str(),
        has_failed: step.status == StepStatus::Failed,
        label: label(step),
        duration: Duration(millis(step.latency())),
        tokens: step
            .call
            .as_ref()
            .map(|call| Count::from(call.usage.prompt + call.usage.completion)),
        cost: step.call.as_ref().map(|call| Money(call.cost)),
        tier: tier(step),
        findings: findings(frame.t, step),
        span: (place(step.started_at.since(begin)), place(step.latency())),
    };
    steps.iter().enumerate().map(bar).collect()
}

/// The tier that a step was routed to.
fn tier(step: &Step) -> Option<&'static str> {
    step.routing.as_ref().and_then(|routing| routing.tier).map(Tier::as_str)
}

/// The findings of a step, in words.
fn findings(t: &Texts, step: &Step) -> Vec<&'static str> {
    let security = &step.security;
    found([
        (security.pii, t.words.personal_data),
        (security.injection, t.words.injection),
        (security.secret, t.words.secret),
    ])
}

/// The model of a step, or the endpoint it came in by.
fn label(step: &Step) -> String {
    let model = step.call.as_ref().map(|call| call.model.clone());
    model.unwrap_or_else(|| step.api_endpoint.as_str().to_owned())
}

/// The texts of a step that a page shows.
#[derive(Clone, Copy, Debug)]
enum Shown {
    /// The latest ones, so many bytes of them in all.
    Latest { bytes: usize },
    /// All of them, shortened to what a page may have.
    All,
    /// A part of one of them, which begins at a byte.
    Part { text: usize, begin: usize },
}

/// The writer of the steps of a page. Its content is a [`domain::step::Content`] as JSON.
fn writer(frame: &Frame, trace: &str, shown: Shown) -> WriteStep {
    let (frame, trace) = (frame.clone(), trace.to_owned());
    Box::new(move |step, content, into| {
        let t = frame.t;
        let href = step_href(&frame, &trace, &step.id);
        let longest = match shown {
            Shown::Latest { bytes } => bytes,
            Shown::All => TEXTS_OF_PAGE,
            Shown::Part { begin, .. } => begin.saturating_add(PART),
        };
        let all: Vec<Text> = match content.map(ShownContent::read) {
            Some(Some(content)) => {
                texts(t, &step, &content, longest).into_iter().map(|marked| marked.text).collect()
            }
            Some(None) => vec![unmarked(t.step.content, t.step.too_deep)],
            None => Vec::new(),
        };
        let (left_out, texts) = match shown {
            Shown::Latest { bytes } => {
                let left_out = all.len().saturating_sub(MOST_TEXTS);
                (left_out, shortened(t, &href, all, left_out, bytes))
            }
            Shown::All => (0, shortened(t, &href, all, 0, TEXTS_OF_PAGE)),
            Shown::Part { text, begin } => {
                let part = all.into_iter().nth(text);
                (0, part.map(|part| of_part(t, &href, part, text, begin)).into_iter().collect())
            }
        };
        into.extend_from_slice(view(t, step, href, left_out, texts).html().as_bytes());
        Ok(())
    })
}

/// The texts without the first ones, with so many bytes in all: short ones keep all of theirs. Each that is
/// shortened has a link to all of it.
fn shortened(
    t: &Texts,
    step: &str,
    mut texts: Vec<Text>,
    left_out: usize,
    bytes: usize,
) -> Vec<Text> {
    texts.drain(..left_out);
    let mut sizes: Vec<usize> = texts.iter().map(Text::size).collect();
    sizes.sort_unstable();
    let (mut left, mut longest) = (bytes, usize::MAX);
    for (index, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - index);
        if *size > share {
            longest = share;
            break;
        }
        left -= size;
    }
    for (index, text) in texts.iter_mut().enumerate() {
        text.shorten(longest);
        if text.whole.is_some() {
            let href = part_href(step, left_out + index, 0);
            text.links.push(TextLink { href, label: t.step.all_of_it });
        }
    }
    texts
}

/// A part of a text, with links to those beside it.
fn of_part(t: &Texts, step: &str, mut text: Text, index: usize, begin: usize) -> Text {
    let has_more = text.whole.is_some();
    text.skip(begin);
    let mut link = |begin: usize, label| {
        text.links.push(TextLink { href: part_href(step, index, begin), label });
    };
    if begin > 0 {
        link(begin.saturating_sub(PART), t.step.part_before);
    }
    if has_more {
        link(begin + PART, t.step.next_part);
    }
    text
}

/// The address of a part of a text of a step.
fn part_href(step: &str, text: usize, begin: usize) -> String {
    let separator = if step.contains('?') { '&' } else { '?' };
    let begin = if begin > 0 { format!("&begin={begin}") } else { String::new() };
    format!("{step}{separator}text={text}{begin}")
}

fn view(
    t: &'static Texts,
    step: Step,
    href: String,
    left_out: usize,
    texts: Vec<Text>,
) -> StepView {
    let security = &step.security;
    let mut fields = vec![t.step.duration(Duration(millis(step.latency())))];
    if let Some(call) = &step.call {
        let usage = &call.usage;
        fields.push(t.step.cost(Money(call.cost)));
        fields.push(t.step.prompt_tokens(Count::from(usage.prompt)));
        fields.push(t.step.completion_tokens(Count::from(usage.completion)));
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
    if let Some(tier) = tier(&step) {
        fields.push(t.step.tier(tier));
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
        findings: findings(t, &step),
        fields,
        left_out,
        texts,
        reason: step.reason.or(step.error).map(|reason| beginning(&reason, LONGEST_REASON)),
        href,
    }
}

/// The beginning of a text.
pub(super) fn beginning(text: &str, longest: usize) -> String {
    let end = text.floor_char_boundary(longest);
    let more = if end < text.len() { "…" } else { "" };
    format!("{}{more}", &text[..end])
}

#[cfg(test)]
mod tests {
    use dashboard::{ENGLISH, FindingMark};

    use super::*;

    #[test]
    fn short_texts_keep_all_of_theirs_and_long_ones_share_the_rest() {
        let text = |size: usize| Text {
            marks: vec![FindingMark { text: "x".repeat(size), finding: None }],
            ..Text::default()
        };
        let sizes = |given: &[usize], left_out, bytes| -> Vec<usize> {
            let texts = given.iter().map(|size| text(*size)).collect();
            let shown = shortened(&ENGLISH, "/s?project=1", texts, left_out, bytes);
            shown.iter().map(Text::size).collect()
        };
        assert_eq!(sizes(&[10, 500, 20, 900], 0, 230), [10, 100, 20, 100]);
        assert_eq!(sizes(&[10, 500, 20, 900], 0, 2_000), [10, 500, 20, 900]);
        assert_eq!(sizes(&[900, 30], 1, 20), [20]);
        assert_eq!(sizes(&[], 0, 20), [0; 0]);
        let cut = shortened(&ENGLISH, "/s?project=1", vec![text(5), text(50)], 1, 20);
        assert_eq!(cut[0].links[0].href, "/s?project=1&text=1");
        let part = of_part(&ENGLISH, "/s", text(2 * PART + 5), 3, PART);
        let links: Vec<&str> = part.links.iter().map(|link| &*link.href).collect();
        assert_eq!(links, ["/s?text=3"], "it ends there");
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        assert_eq!(beginning("äöü", 3), "ä…");
        assert_eq!(beginning("äöü", 6), "äöü");
    }
}
