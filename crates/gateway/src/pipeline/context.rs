//! The request that a step belongs to.

use std::sync::{Arc, OnceLock};

use domain::conversation::Prompt;
use domain::ids::StepId;
use domain::step::ApiEndpoint;

use crate::pipeline::auto_trace::AutoTrace;
use crate::pipeline::session;
use crate::state::caller::Caller;
use crate::state::known_traces::TraceHandle;
use crate::state::session::SessionId;
use crate::tools::mcp::round::Round;

/// The caller of a request, and the trace and step that it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    pub(crate) caller: Caller,
    pub(crate) trace: Arc<TraceHandle>,
    pub(crate) parent: Option<StepId>,
    pub(crate) api_endpoint: ApiEndpoint,
    /// The trace, if it was opened for this request alone: it is completed when the last part that
    /// works on the call drops it.
    pub(crate) auto_trace: Option<Arc<AutoTrace>>,
    /// Which tools of MCP servers are offered, and in which round.
    pub(crate) mcp: Option<Round>,
    /// The session, once somebody has asked for it.
    session: OnceLock<SessionId>,
}

impl RequestContext {
    pub(crate) fn new(
        caller: Caller,
        trace: Arc<TraceHandle>,
        parent: Option<StepId>,
        api_endpoint: ApiEndpoint,
    ) -> Self {
        let (auto_trace, mcp, session) = (None, None, OnceLock::new());
        Self { caller, trace, parent, api_endpoint, auto_trace, mcp, session }
    }

    /// The session that the request belongs to, by its prompt as it came from the caller. It is
    /// found when it is first asked for: of most requests nobody asks for it.
    pub(crate) fn session(&self, prompt: &Prompt) -> SessionId {
        let find = || session::find(&self.caller, &self.trace, self.api_endpoint, prompt);
        *self.session.get_or_init(find)
    }
}
