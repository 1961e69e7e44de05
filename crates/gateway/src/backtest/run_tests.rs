//! Whole runs: what they read beside the steps, and the memory that they take.

use domain::ids::{StepId, TraceId};
use domain::model::Provider;
use domain::money::Usd;
use domain::step::{ApiEndpoint, Call, Step};
use domain::time::{MINUTE, SECOND};
use serde_json::json;

use super::judge_tests::call;
use super::plain_tests::{add_models, now, run};
use crate::testing::{Fresh, pdf};

/// A completed call of the project that ended just before now.
fn step(id: i64, fresh: &Fresh, trace: TraceId, of: Option<Call>) -> Step {
    let of = of.unwrap_or_else(|| Call::of("small".to_owned(), Provider::Openai));
    Step {
        id: StepId(id),
        trace,
        project: fresh.caller.project.id(),
        key: Some(fresh.caller.key.key.id),
        started_at: now().minus_micros(2 * SECOND),
        finished_at: now().minus_micros(SECOND),
        ..call(ApiEndpoint::Executions, of)
    }
}

/// A budget counts what the month of the window had spent before it, and nothing of the month before.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_counts_the_month_from_its_start() {
    let days = |days: i64| days * 24 * 60;
    let at = |minutes: i64| now().minus_micros(minutes * MINUTE);
    let fresh = Fresh::at(at(days(25)), json!({})).await;
    add_models(&fresh).await;
    let trace: TraceId = fresh.trace().await.parse().unwrap();
    let sealing = &fresh.caller.project.sealing;
    // The window is of ten hours, on the 21st.
    let calls = [(days(25), 100_000), (11 * 60, 5_000), (30, 500), (20, 500), (10, 500)];
    for (index, (minutes, thousandths)) in calls.into_iter().enumerate() {
        let cost = Usd(thousandths * 1_000_000);
        let call = Call { cost, ..Call::of("small".to_owned(), Provider::Openai) };
        let finished_at = at(minutes);
        fresh.gateway.clock.set(finished_at);
        let step = step(1_000_000 + index as i64, &fresh, trace, Some(call));
        let step = Step { started_at: finished_at.minus_micros(SECOND), finished_at, ..step };
        let content = json!({"input": "Hello.", "output": "Yes."}).to_string();
        let content = Some((content.as_bytes(), sealing));
        fresh.gateway.store.writer().step(step, content).await.unwrap();
    }
    fresh.gateway.clock.set(now());
    for (budget, refused) in [(5, 3), (6, 1), (7, 0)] {
        let report = run(&fresh, &json!({"monthly_budget": budget})).await.report.unwrap();
        let steps: u64 = report.refused.values().map(|refused| refused.steps).sum();
        assert_eq!((report.steps.judged, steps), (3, refused), "a budget of {budget}");
    }
}

/// Its memory is that of a request of its size: once for its bytes, and more for its values.
#[tokio::test(flavor = "multi_thread")]
async fn a_content_is_judged_in_the_memory_of_a_request() {
    let fresh = Fresh::at(now(), json!({})).await;
    add_models(&fresh).await;
    let trace: TraceId = fresh.trace().await.parse().unwrap();
    // Six bytes for each of its own, of 64 MiB.
    let file = json!([{"role": "user", "content": [pdf(5 << 20)]}]);
    let content = json!({"input": file, "output": "Yes."}).to_string();
    let content = Some((content.as_bytes(), &fresh.caller.project.sealing));
    fresh.gateway.store.writer().step(step(1_000_000, &fresh, trace, None), content).await.unwrap();
    let steps = run(&fresh, &json!({})).await.report.unwrap().steps;
    assert_eq!((steps.judged, steps.unreadable), (1, 0));
}
