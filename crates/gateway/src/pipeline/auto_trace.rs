//! Traces that the gateway opens for one call, and completes when the call is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::ids::TraceId;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::request_id;
use crate::state::caller::Caller;

/// Whether a call that names no trace gets one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoTracing {
    /// If the project's settings say `auto_trace`.
    BySettings,
    /// Always.
    Always,
}

/// Why a call got no answer.
#[derive(Debug)]
pub struct Unanswered {
    /// The error.
    pub error: Error,
    /// The trace that was opened for the call, if one was: the caller learns of it only from here.
    pub trace: Option<TraceId>,
}

impl From<Error> for Unanswered {
    fn from(error: Error) -> Self {
        Self { error, trace: None }
    }
}

/// Adds to an error the trace that was opened for the call.
pub(crate) fn unanswered(
    auto_trace: Option<&AutoTrace>,
) -> impl Fn(Error) -> Unanswered + Copy + use<> {
    let trace = auto_trace.map(AutoTrace::id);
    move |error| Unanswered { error, trace }
}

/// The result of a call that is over; the trace that was opened for it is completed first.
pub(crate) async fn completed<T>(
    auto_trace: Option<Arc<AutoTrace>>,
    answer: Result<T>,
) -> std::result::Result<T, Unanswered> {
    let unanswered = unanswered(auto_trace.as_deref());
    if let Some(auto_trace) = &auto_trace {
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
