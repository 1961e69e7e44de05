//! The phases of a request, in order: screen, choose, fund, call, record.
//!
//! Each phase is a type with private fields that only the phase before can make:
//! a provider can only be called with a [`Funded`], which only `fund` makes from a [`Routed`],
//! which only `choose` makes from a [`Screened`], which only `screen` makes.

pub(crate) mod auto_trace;
pub(crate) mod call;
mod charge;
pub(crate) mod choose;
pub(crate) mod ended;
pub(crate) mod fund;
mod mode;
mod places;
pub(crate) mod record;
mod reserve;
pub(crate) mod screen;
mod spent;
mod starts;
pub(crate) mod stored;
pub(crate) mod tokens;
pub(crate) mod upstream;
pub(crate) mod watched;

pub use crate::pipeline::choose::Routed;
pub use crate::pipeline::fund::Funded;
pub use crate::pipeline::screen::Screened;
pub use crate::pipeline::upstream::Upstream;

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
