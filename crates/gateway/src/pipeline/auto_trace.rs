//! Traces of calls that name none: one that is opened for the call and completed with it, or that of
//! the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::ids::TraceId;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::request_id;
use crate::state::caller::Caller;
use crate::state::session_traces::RunningCall;

/// The trace of a call that names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoTracing {
    /// One of its own, if the project's settings say `auto_trace`.
    BySettings,
    /// That of its session; one of its own if it shows none.
    BySession,
}

/// Why a call got no answer.
#[derive(Debug)]
pub struct Unanswered {
    /// The error.
    pub error: Error,
    /// The trace that the gateway has chosen for the call, if it has: the caller learns of it only from
    /// here.
    pub trace: Option<TraceId>,
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Self {
        Self { error, trace: None }
    }
}

/// The hold of a call on its trace, if it names none.
#[derive(Clone, Debug)]
pub(crate) enum OpenedTrace {
    /// Opened for this call alone, and completed with it.
    Own(Arc<AutoTrace>),
    /// Shared with the calls of its session, and completed when that is idle.
    OfSession(Arc<RunningCall>),
}

impl OpenedTrace {
    fn id(&self) -> TraceId {
        match self {
            Self::Own(auto_trace) => auto_trace.id(),
            Self::OfSession(call) => call.trace(),
        }
    }
}

/// Adds to an error the trace that the gateway has chosen for the call.
pub(crate) fn unanswered(
    opened: Option<&OpenedTrace>,
) -> impl Fn(Error) -> Unanswered + Copy + use<> {
    let trace = opened.map(OpenedTrace::id);
    move |error| Unanswered { error, trace }
}

/// The result of a call that is over; a trace that was opened for it alone is completed first.
pub(crate) async fn completed<T>(
    opened: Option<OpenedTrace>,
    answer: Result<T>,
) -> std::result::Result<T, Unanswered> {
    let unanswered = unanswered(opened.as_ref());
    if let Some(OpenedTrace::Own(auto_trace)) = &opened {
        Box::pin(auto_trace.complete()).await.map_err(unanswered)?;
    }
    answer.map_err(unanswered)
}

/// A trace that was opened for one call. All parts that work on the call hold it. When the last of
/// them drops it without having completed it, because the caller hung up, a task of the gateway's
/// completes it: by then the call is recorded.
#[derive(Debug)]
pub(crate) struct AutoTrace {
    gateway: Gateway,
    caller: Caller,
    id: TraceId,
    is_completed: AtomicBool,
}

impl AutoTrace {
    /// Opens a trace for one call.
    pub(crate) async fn open(gateway: &Gateway, caller: &Caller) -> Result<Arc<Self>> {
        let trace = gateway.open_trace(caller, None, None).await?;
        Ok(Arc::new(Self {
            gateway: gateway.clone(),
            caller: caller.clone(),
            id: trace.id,
            is_completed: AtomicBool::new(false),
        }))
    }

    pub(crate) fn id(&self) -> TraceId {
        self.id
    }

    /// Completes and grades it.
    pub(crate) async fn complete(&self) -> Result<()> {
        self.gateway.complete_trace(&self.caller, &self.id.to_string()).await?;
        self.is_completed.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for AutoTrace {
    fn drop(&mut self) {
        if self.is_completed.load(Ordering::Acquire) {
            return;
        }
        let (gateway, caller, id) = (self.gateway.clone(), self.caller.clone(), self.id);
        self.gateway.tasks.spawn(request_id::carried(async move {
            if let Err(error) = gateway.complete_trace(&caller, &id.to_string()).await {
                tracing::error!(%error, trace = %id, "a trace of one call was not completed");
            }
        }));
    }
}
