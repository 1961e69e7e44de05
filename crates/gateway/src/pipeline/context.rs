//! The request that a step belongs to.

use std::sync::{Arc, Mutex, OnceLock};

use checks::Placeholders;
use domain::attributes::Attributes;
use domain::conversation::Prompt;
use domain::ids::StepId;
use domain::step::ApiEndpoint;
use domain::trace_context::{CallerTrace, TraceContext};

use crate::pipeline::auto_trace::OpenedTrace;
use crate::pipeline::session;
use crate::request_id;
use crate::state::caller::Caller;
use crate::state::known_traces::TraceHandle;
use crate::state::session::SessionId;
use crate::tools::mcp::round::{Round, Server};

/// A recorded call that is made again.
#[derive(Debug)]
pub(crate) struct RecordedCall {
    /// The step that records it.
    pub(crate) step: StepId,
    /// The placeholders in its prompt, which goes out as it went then.
    pub(crate) placeholders: Placeholders,
    /// The MCP servers that had listed some of its tools.
    pub(crate) servers: Vec<Server>,
    /// The step of the call that is made now, once a start or a step on disk names it.
    pub(crate) made: MadeStep,
}

/// The step of a call, if it has one by now.
pub(crate) type MadeStep = Arc<Mutex<Option<StepId>>>;

/// The caller of a request, and the trace and step that it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    pub(crate) caller: Caller,
    pub(crate) trace: Arc<TraceHandle>,
    pub(crate) parent: Option<StepId>,
    /// The place of the request in the caller's own trace.
    pub(crate) caller_trace: Option<Arc<CallerTrace>>,
    pub(crate) api_endpoint: ApiEndpoint,
    /// Whom it is for, if it has named anything.
    pub(crate) attributes: Option<Arc<Attributes>>,
    /// The hold on the trace of a request that names none.
    pub(crate) opened: Option<OpenedTrace>,
    /// Whether it asks a shadow model: the parent is the step beside it.
    pub(crate) is_shadow: bool,
    /// Which tools of MCP servers are offered, and in which round.
    pub(crate) mcp: Option<Round>,
    /// The call that is made again, if it is a replay's.
    pub(crate) recorded: Option<Arc<RecordedCall>>,
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
        let caller_trace = request_id::caller_trace();
        let (opened, mcp, recorded, session) = (None, None, None, OnceLock::new());
        let (is_shadow, attributes) = (false, None);
        Self {
            caller,
            trace,
            parent,
            caller_trace,
            api_endpoint,
            attributes,
            opened,
            is_shadow,
            mcp,
            recorded,
            session,
        }
    }

    /// The context of a shadow call beside a step of this request. It holds no trace open, and its tools
    /// are run by nobody.
    pub(super) fn of_shadow(&self, step: StepId) -> Self {
        Self { parent: Some(step), opened: None, is_shadow: true, mcp: None, ..self.clone() }
    }

    /// The session that the request belongs to, by its prompt as it came from the caller. It is
    /// found when it is first asked for: of most requests nobody asks for it.
    pub(crate) fn session(&self, prompt: &Prompt) -> SessionId {
        let find = || session::find(&self.caller, &self.trace, self.api_endpoint, prompt);
        *self.session.get_or_init(find)
    }

    /// Sets the session, which was found before the trace.
    pub(super) fn set_session(&mut self, session: SessionId) {
        self.session = OnceLock::from(session);
    }

    /// The step of another trace that its call repeats.
    pub(crate) fn source(&self) -> Option<StepId> {
        self.recorded.as_ref().map(|recorded| recorded.step)
    }

    /// The MCP servers that have listed some of its tools, if any have: now, or when its call was made that is
    /// made again.
    pub(super) fn servers(&self) -> Option<&[Server]> {
        let recorded = self.recorded.as_ref().map(|recorded| &*recorded.servers);
        let recorded = recorded.filter(|servers| !servers.is_empty());
        self.mcp.as_ref().map(Round::servers).or(recorded)
    }

    /// The place of the request in the caller's own trace, as its steps keep it.
    pub(crate) fn trace_context(&self) -> Option<TraceContext> {
        self.caller_trace.as_ref().map(|trace| trace.context)
    }
}
