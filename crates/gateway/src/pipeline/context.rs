//! The request that a step belongs to.

use std::sync::Arc;

use domain::ids::StepId;
use domain::step::Door;

use crate::pipeline::auto_trace::OwnTrace;
use crate::state::caller::Caller;
use crate::state::known_traces::TraceHandle;
use crate::tools::mcp::round::Round;

/// Whose request it is, and where it belongs.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) caller: Caller,
    pub(crate) trace: Arc<TraceHandle>,
    pub(crate) parent: Option<StepId>,
    pub(crate) door: Door,
    /// The trace, where it was opened for this request alone: it is completed when the last who works
    /// on the call lets go.
    pub(crate) own: Option<Arc<OwnTrace>>,
    /// Which tools of MCP servers are offered, and in which round.
    pub(crate) mcp: Option<Round>,
}
