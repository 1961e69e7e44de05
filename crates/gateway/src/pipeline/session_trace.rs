//! The trace that the calls of a session share, on the vendor roots: opened when a call needs one, and
//! completed by `jobs/session_traces.rs` once the session has been idle.

use std::sync::Arc;
use std::time::Duration;

use domain::attributes::AttributeName;
use domain::ids::TraceId;
use domain::step::ApiEndpoint;
use domain::time::MINUTE;
use domain::trace::TraceStatus;
use serde_json::Map;

use crate::bounded_read::bounded;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::auto_trace::OpenedTrace;
use crate::pipeline::context::RequestContext;
use crate::pipeline::session::ShownSession;
use crate::state::caller::Caller;
use crate::state::known_traces::TraceHandle;

/// The longest wait for another call that opens a trace.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// A trace is sought and opened this often at most: other nodes may open and complete one meanwhile.
const ATTEMPTS: usize = 3;
/// A call is noted as activity of its session if the last one was noted longer ago than this part of the
/// idle time.
const NOTED_PARTS: i64 = 4;

impl Gateway {
    /// The context of a call on the trace of its session.
    pub(super) async fn session_context(
        &self,
        caller: &Caller,
        session: ShownSession,
        api_endpoint: ApiEndpoint,
    ) -> Result<RequestContext> {
        caller.project.check_active()?;
        let trace = match self.known_session_trace(caller, &session).await? {
            Some(trace) => trace,
            // Boxed: it is rare, and every call would carry it.
            None => Box::pin(self.find_or_open_session_trace(caller, &session)).await?,
        };
        let call = self.session_traces.enter(session.id, trace.id(), self.clock.now());
        let mut context = RequestContext::new(caller.clone(), trace, None, api_endpoint);
        context.set_session(session.id);
        context.opened = Some(OpenedTrace::OfSession(call));
        Ok(context)
    }

    /// The trace of a session without a query, if it is known and takes another call.
    async fn known_session_trace(
        &self,
        caller: &Caller,
        session: &ShownSession,
    ) -> Result<Option<Arc<TraceHandle>>> {
        let Some(trace) = self.session_traces.get(session.id, self.clock.now()) else {
            return Ok(None);
        };
        let handle = self.trace_handle(caller.project.id(), trace).await?;
        let Some(handle) = handle.filter(|handle| handle.has(TraceStatus::Pending)) else {
            return Ok(None);
        };
        // Most calls follow so soon that no node takes their session for idle.
        let now = self.clock.now();
        let idle = caller.project.settings.session_idle_minutes();
        let micros = i64::try_from(idle).unwrap_or(i64::MAX).saturating_mul(MINUTE);
        let is_noted = self.session_traces.noted(session.id, trace, now)
            >= now.minus_micros(micros / NOTED_PARTS);
        let takes_it = is_noted || self.note_session_call(session, trace).await?;
        Ok(takes_it.then_some(handle))
    }

    /// Notes that a call begins in the trace of its session. False if another node has ended it.
    async fn note_session_call(&self, session: &ShownSession, trace: TraceId) -> Result<bool> {
        let now = self.clock.now();
        let takes_it = bounded(self.store.note_session_call(trace, now)).await?;
        if takes_it {
            self.session_traces.note(session.id, trace, now);
        }
        Ok(takes_it)
    }

    /// The trace of a session that another node, or this one before a restart, has opened; else a new
    /// one.
    async fn find_or_open_session_trace(
        &self,
        caller: &Caller,
        session: &ShownSession,
    ) -> Result<Arc<TraceHandle>> {
        let busy = || Error::Unavailable("a trace could not be opened".to_owned());
        let turn = self.session_traces.turn(session.id).map(tokio::sync::Mutex::lock);
        let turn = turn.ok_or_else(busy)?;
        let _turn = tokio::time::timeout(TURN_TIMEOUT, turn).await.map_err(|_| busy())?;
        // The call before this one may have opened it.
        if let Some(handle) = self.known_session_trace(caller, session).await? {
            return Ok(handle);
        }
        let (project, hash) = (caller.project.id(), session.id.bytes());
        for _ in 0..ATTEMPTS {
            if let Some(found) = bounded(self.store.session_trace(project, hash)).await? {
                let now = self.clock.now();
                if self.session_traces.takes_another(session.id, found, now)
                    && let Some(handle) = self.trace_handle(project, found).await?
                    && handle.has(TraceStatus::Pending)
                    && self.note_session_call(session, found).await?
                {
                    return Ok(handle);
                }
                bounded(self.store.release_session_trace(found)).await?;
            }
            let name = session.name.clone();
            let stored = |name: String| {
                caller.project.stored_value(&AttributeName::Session, &name).into_owned()
            };
            let name = name.map(stored);
            let metadata = name.map(|name| Map::from_iter([("session".to_owned(), name.into())]));
            let trace = self.new_trace(caller, metadata)?;
            match self.store.writer().session_trace(trace.clone(), hash).await {
                Ok(()) => {
                    self.session_traces.note(session.id, trace.id, trace.created_at);
                    return Ok(self.remember_trace(&trace));
                }
                // Another node was faster.
                Err(store::Error::Taken) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(busy())
    }
}

#[cfg(test)]
#[path = "session_trace_tests.rs"]
mod tests;
