//! The request that a step belongs to.

use std::sync::Arc;

use domain::ids::StepId;
use domain::step::ApiEndpoint;
use domain::trace_context::{CallerTrace, TraceContext};

use crate::pipeline::auto_trace::AutoTrace;
use crate::state::caller::Caller;
use crate::state::known_traces::TraceHandle;
use crate::tools::mcp::round::Round;

/// The caller of a request, and the trace and step that it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    pub(crate) caller: Caller,
    pub(crate) trace: Arc<TraceHandle>,
    pub(crate) parent: Option<StepId>,
    /// The place of the request in the caller's own trace.
    pub(crate) caller_trace: Option<Arc<CallerTrace>>,
    pub(crate) api_endpoint: ApiEndpoint,
    /// The trace, if it was opened for this request alone: it is completed when the last part that
    /// works on the call drops it.
    pub(crate) auto_trace: Option<Arc<AutoTrace>>,
    /// Which tools of MCP servers are offered, and in which round.
    pub(crate) mcp: Option<Round>,
}

impl RequestContext {
    /// The place of the request in the caller's own trace, as its steps keep it.
    pub(crate) fn trace_context(&self) -> Option<TraceContext> {
        self.caller_trace.as_ref().map(|trace| trace.context)
    }
}
