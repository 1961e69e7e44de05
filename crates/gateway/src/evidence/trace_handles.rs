//! The traces that requests name, by what is cached of them and by the database.

use std::sync::Arc;

use domain::ids::{ProjectId, TraceId};
use domain::trace::{Trace, TraceStatus};

use crate::bounded_read::bounded;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::state::caller::Caller;
use crate::state::known_traces::TraceHandle;
use crate::state::registry::ProjectState;

impl Gateway {
    /// Has the request path find a trace that was opened.
    pub(crate) fn remember_trace(&self, trace: &Trace) -> Arc<TraceHandle> {
        let handle = Arc::new(TraceHandle::of(trace).asked_at(trace.created_at));
        self.traces.known.insert(trace.id, handle.clone());
        handle
    }

    /// The trace that a request names: it must be the caller's own and known, whatever its status.
    pub(crate) async fn find_trace(&self, caller: &Caller, id: &str) -> Result<Arc<TraceHandle>> {
        let id: TraceId = id.parse().map_err(|_| Error::trace_not_found())?;
        let handle = self.trace_handle(caller.project.id(), id).await?;
        handle.ok_or_else(Error::trace_not_found)
    }

    /// The handle of a trace of a project, whatever its status; `None` if there is no such trace.
    pub(crate) async fn trace_handle(
        &self,
        project: ProjectId,
        id: TraceId,
    ) -> Result<Option<Arc<TraceHandle>>> {
        if let Some(handle) = self.traces.known.get(&id) {
            let is_its = handle.project == project && self.is_there(&handle).await?;
            return Ok(Some(handle).filter(|_| is_its));
        }
        if self.traces.unknown.contains(&(project, id)) {
            return Ok(None);
        }
        let asked = self.clock.now();
        let Some(trace) = bounded(self.store.trace(project, id)).await? else {
            self.traces.unknown.insert((project, id), ());
            return Ok(None);
        };
        let handle = Arc::new(TraceHandle::of(&trace).asked_at(asked));
        // Two requests may have looked it up: both must see one status.
        Ok(Some(self.traces.known.get_or_insert(id, || handle)))
    }

    /// Has a handle know the status of its trace, which another node may have changed, unless that was asked for a
    /// moment ago. One of many requests asks, and the others wait for its answer. False if the trace is gone.
    async fn is_there(&self, handle: &TraceHandle) -> Result<bool> {
        let came = self.clock.now();
        if !self.traces.is_stale(handle, came) {
            return Ok(true);
        }
        // The wait and the question together are bounded.
        bounded(async {
            let _asking = handle.asking.lock().await;
            if handle.is_gone() {
                return Ok::<_, store::Error>(false);
            }
            let now = self.clock.now();
            if !self.traces.is_stale_for(handle, came, now) {
                return Ok(true);
            }
            let Some(status) = self.store.trace_status(handle.project, handle.id).await? else {
                handle.note_gone();
                self.traces.known.remove(&handle.id);
                return Ok(false);
            };
            handle.found(status, now);
            Ok(true)
        })
        .await
    }

    /// The trace that an execution names: found, and open.
    pub(crate) async fn find_open_trace(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Arc<TraceHandle>> {
        caller.project.check_active()?;
        let handle = self.find_trace(caller, id).await?;
        if !handle.has(TraceStatus::Pending) {
            return Err(Error::invalid("Trace is not pending"));
        }
        Ok(handle)
    }

    /// The current handle of a trace: the one that a call began with may be another by its end.
    pub(crate) async fn handle_now(
        &self,
        project: &ProjectState,
        handle: &Arc<TraceHandle>,
    ) -> Result<Arc<TraceHandle>> {
        if let Some(known) = self.traces.known.get(&handle.id) {
            // The step of the call is stored: it does not fail because nobody knows of its trace.
            if let Err(error) = self.is_there(&known).await {
                let trace = known.id();
                tracing::warn!(error = error.cause(), %trace, "a late step may not be graded");
            }
            return Ok(known);
        }
        let found = bounded(self.store.trace(project.id(), handle.id)).await?;
        let Some(found) = found else { return Ok(handle.clone()) };
        Ok(self.traces.known.get_or_insert(handle.id, || Arc::new(TraceHandle::of(&found))))
    }
}

#[cfg(test)]
mod tests {
    use domain::time::Timestamp;
    use serde_json::json;
    use store::AgentFigures;

    use super::*;
    use crate::state::known_traces::{KnownTraces, PENDING_FOR};
    use crate::testing::Fresh;

    #[tokio::test]
    async fn a_trace_that_another_node_has_completed_is_pending_here_for_half_a_second() {
        let began = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        let mut fresh = Fresh::idle_at(began, json!({})).await;
        let inner = Arc::get_mut(&mut fresh.gateway.0).unwrap();
        inner.traces = KnownTraces::new(true, true);
        let (gateway, caller) = (&fresh.gateway, &fresh.caller);
        let trace = fresh.trace().await;
        let id: TraceId = trace.parse().unwrap();
        let assessment = gateway.assess(&caller.project, &[]).await.unwrap();
        let agent =
            AgentFigures { chain_depth: 0, stall_probability: 0.0, tool_fidelity: 0.0, latency: 0 };
        // As another node does it.
        let complete = async || {
            let mut tx = gateway.store.begin().await.unwrap();
            tx.complete_trace(id, gateway.clock.now(), &assessment, agent).await.unwrap();
            tx.commit().await.unwrap();
        };
        let is_open = async |micros: i64| {
            gateway.clock.set(Timestamp(began.0 + micros));
            gateway.find_open_trace(caller, &trace).await.is_ok()
        };
        assert!(is_open(PENDING_FOR).await, "it is asked for again, and still pending");
        complete().await;
        assert!(is_open(2 * PENDING_FOR - 1).await, "that was asked for a moment ago");
        assert!(!is_open(2 * PENDING_FOR).await);
        assert!(!is_open(0).await, "the end is final");
        let handle = gateway.find_trace(caller, &trace).await.unwrap();
        assert!(handle.is_completed(), "a step that comes late is graded");
    }

    #[tokio::test]
    async fn one_asks_for_the_status_and_the_others_wait_for_its_answer() {
        let began = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        let mut fresh = Fresh::idle_at(began, json!({})).await;
        let inner = Arc::get_mut(&mut fresh.gateway.0).unwrap();
        inner.traces = KnownTraces::new(true, true);
        let (gateway, caller) = (&fresh.gateway, &fresh.caller);
        for (is_gone, status) in [
            (false, TraceStatus::Pending),
            (false, TraceStatus::Completed),
            (true, TraceStatus::Pending),
        ] {
            gateway.clock.set(began);
            let trace = fresh.trace().await;
            let handle = gateway.find_trace(caller, &trace).await.unwrap();
            let asking = handle.asking.lock().await;
            let now = Timestamp(began.0 + PENDING_FOR);
            gateway.clock.set(now);
            let waiting = gateway.find_open_trace(caller, &trace);
            tokio::pin!(waiting);
            tokio::select! {
                biased;
                found = &mut waiting => panic!("it does not wait: {found:?}"),
                () = std::future::ready(()) => {}
            }
            // The request that asks reads this. The database has the trace, and as pending.
            if is_gone {
                handle.note_gone();
            } else {
                handle.found(status, now);
            }
            // The answer took as long as one counts: it counts for whoever waited for it.
            let later = Timestamp(now.0 + PENDING_FOR);
            gateway.clock.set(later);
            drop(asking);
            let is_open = !is_gone && status == TraceStatus::Pending;
            assert_eq!(waiting.await.is_ok(), is_open, "{is_gone} {status:?}");
            assert_eq!(gateway.traces.is_stale(&handle, later), status == TraceStatus::Pending);
        }
    }
}
