//! The end of traces whose session is idle.

use std::time::Duration;

use domain::ids::TraceId;
use domain::time::{MINUTE, Timestamp};
use domain::trace::TraceStatus;

use crate::bounded_read::bounded;
use crate::error::Result;
use crate::gateway::Gateway;
use crate::jobs::job::{Job, log_failure};
use crate::state::registry::ProjectState;

/// The traces that one query finds.
const TRACES_AT_ONCE: usize = 100;
/// The traces that one transaction completes.
const COMPLETED_AT_ONCE: usize = 50;
/// The most queries of one project in one run: the rest waits for the next run.
const MOST_QUERIES: usize = 1_000;

/// Completes traces of sessions without a call for as long as their project allows. The database has
/// the last activity that is known of each, so a restart forgets none; that it is later than known
/// shows when a trace seems to be idle.
pub(super) struct SessionTraces;

/// Notes the calls that run in traces of sessions as activity, so that no other node takes their sessions
/// for idle: several times in the shortest idle time.
pub(super) struct SessionActivity;

impl Job for SessionActivity {
    const NAME: &'static str = "activity of sessions";

    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_secs(20)
    }

    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        let now = gateway.clock.now();
        let running = gateway.session_traces.running();
        let running: Vec<_> = running.into_iter().map(|trace| (trace, now)).collect();
        Ok(gateway.store.note_session_activity(&running).await?)
    }
}

impl Job for SessionTraces {
    const NAME: &'static str = "traces of sessions";

    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_mins(1)
    }

    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        SessionActivity.run(gateway).await?;
        let now = gateway.clock.now();
        for project in gateway.registry.projects() {
            log_failure(Self::NAME, complete_idle(gateway, &project, now).await);
        }
        Ok(())
    }
}

/// Completes the idle traces of a project.
async fn complete_idle(gateway: &Gateway, project: &ProjectState, now: Timestamp) -> Result<()> {
    let minutes = i64::try_from(project.settings.session_idle_minutes()).unwrap_or(i64::MAX);
    let since = now.minus_micros(minutes.saturating_mul(MINUTE));
    for _ in 0..MOST_QUERIES {
        let found = gateway.store.idle_session_traces(project.id(), since, TRACES_AT_ONCE as i64);
        let found = bounded(found).await?;
        let mut active: Vec<(TraceId, Timestamp)> = Vec::new();
        let mut over = Vec::new();
        for idle in &found {
            match idle.last.filter(|&last| last >= since) {
                Some(last) => active.push((idle.trace, last)),
                // A call may have begun since the run did.
                None if gateway.session_traces.is_running(idle.trace) => {
                    active.push((idle.trace, now));
                }
                None => over.push(idle.trace),
            }
        }
        gateway.store.note_session_activity(&active).await?;
        // A call that another node has let in meanwhile is noted, and keeps its trace.
        let claimed = gateway.store.claim_session_traces(&over, since, now).await?;
        for some in claimed.chunks(COMPLETED_AT_ONCE) {
            complete(gateway, project, some).await;
        }
        if found.len() < TRACES_AT_ONCE || gateway.stopping.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// Completes traces together. If that fails, each is completed for itself: the others are not to wait
/// behind one that cannot be. One that fails is claimed again once it has been idle for as long again.
async fn complete(gateway: &Gateway, project: &ProjectState, traces: &[TraceId]) {
    if complete_all(gateway, project, traces).await.is_ok() {
        return;
    }
    for trace in traces {
        log_failure(SessionTraces::NAME, complete_all(gateway, project, &[*trace]).await);
    }
}

async fn complete_all(gateway: &Gateway, project: &ProjectState, ids: &[TraceId]) -> Result<()> {
    let mut pending = Vec::with_capacity(ids.len());
    for id in ids {
        let found = bounded(gateway.store.trace(project.id(), *id)).await?;
        // Its caller may have completed it.
        pending.extend(found.filter(|found| found.status == TraceStatus::Pending));
    }
    gateway.complete_pending(project, &pending).await
}

#[cfg(test)]
mod tests {
    use domain::conversation::Prompt;
    use domain::step::ApiEndpoint;
    use serde_json::json;

    use super::*;
    use crate::pipeline::attributes::NamedInBody;
    use crate::pipeline::auto_trace::AutoTracing;
    use crate::pipeline::context::RequestContext;
    use crate::testing::Fresh;

    const IDLE: u64 = 5;

    fn noon() -> Timestamp {
        Timestamp::parse("2026-11-15T12:00:00Z").unwrap()
    }

    async fn fresh() -> Fresh {
        Fresh::at(noon(), json!({"sessions": {"idle_minutes": IDLE}})).await
    }

    async fn context(fresh: &Fresh, question: &str) -> RequestContext {
        let prompt = Prompt::question(question.to_owned());
        let (endpoint, by_session) = (ApiEndpoint::Chat, AutoTracing::BySession);
        let context = fresh.gateway.traced_context(
            &fresh.caller,
            None,
            endpoint,
            by_session,
            NamedInBody::of(&prompt),
        );
        context.await.unwrap()
    }

    /// The status of a trace once the job has run at a time after noon.
    async fn status_at(fresh: &Fresh, trace: TraceId, seconds: u64) -> TraceStatus {
        fresh.gateway.clock.set(noon().plus(Duration::from_secs(seconds)));
        SessionTraces.run(&fresh.gateway).await.unwrap();
        let project = fresh.caller.project.id();
        fresh.gateway.store.trace(project, trace).await.unwrap().unwrap().status
    }

    #[tokio::test]
    async fn a_trace_is_completed_once_its_session_is_idle() {
        let fresh = fresh().await;
        let trace = context(&fresh, "Hello.").await.trace.id();
        assert_eq!(status_at(&fresh, trace, 240).await, TraceStatus::Pending);
        fresh.in_flight(&trace.to_string()).await.finish().await.unwrap();
        assert_eq!(status_at(&fresh, trace, 400).await, TraceStatus::Pending, "a call at 240 s");
        assert_eq!(status_at(&fresh, trace, 539).await, TraceStatus::Pending);
        assert_eq!(status_at(&fresh, trace, 541).await, TraceStatus::Completed);
        let project = fresh.caller.project.id();
        let graded = fresh.gateway.store.trace(project, trace).await.unwrap().unwrap();
        assert!(graded.assessment.is_some(), "it is graded");
        assert_ne!(context(&fresh, "Hello.").await.trace.id(), trace);
    }

    #[tokio::test]
    async fn a_call_that_runs_is_activity() {
        let fresh = fresh().await;
        let running = context(&fresh, "Hello.").await;
        let trace = running.trace.id();
        let held = running.clone();
        drop(running);
        assert_eq!(status_at(&fresh, trace, 3600).await, TraceStatus::Pending);
        drop(held);
        assert_eq!(status_at(&fresh, trace, 3600 + 299).await, TraceStatus::Pending);
        assert_eq!(status_at(&fresh, trace, 3600 + 301).await, TraceStatus::Completed);
    }

    #[tokio::test]
    async fn other_traces_are_left_alone() {
        let fresh = fresh().await;
        let plain = fresh.trace().await.parse().unwrap();
        assert_eq!(status_at(&fresh, plain, 3600).await, TraceStatus::Pending);
    }

    #[tokio::test]
    async fn a_run_completes_more_than_one_query_finds() {
        let fresh = fresh().await;
        let mut last = None;
        for number in 0..=TRACES_AT_ONCE {
            last = Some(context(&fresh, &format!("Question {number}?")).await.trace.id());
        }
        assert_eq!(status_at(&fresh, last.unwrap(), 301).await, TraceStatus::Completed);
        let status = Some(TraceStatus::Pending);
        let pending = store::TraceFilter { status, ..store::TraceFilter::default() };
        let left = fresh.gateway.store.count_traces(fresh.caller.project.id(), &pending);
        assert_eq!(left.await.unwrap(), Some(0));
    }
}
