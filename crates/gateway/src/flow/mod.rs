//! The phases of a request, in order: screen, choose, fund, call, record.
//!
//! Each phase is a type with private fields that only the phase before can make:
//! a provider can only be called with a [`Funded`], which only `fund` makes from a [`Routed`],
//! which only `choose` makes from a [`Screened`], which only `screen` makes.

mod call;
mod charge;
mod choose;
mod ended;
mod fund;
mod inspect;
mod located;
mod mode;
mod places;
mod record;
mod reserve;
mod screen;
mod spent;
mod starts;
mod stored;
mod strings;
mod watched;

pub use call::Upstream;
pub(crate) use call::{meaning, neutral};
pub use choose::Routed;
pub use fund::Funded;
pub use located::Located;
pub use screen::Screened;
pub(crate) use starts::Starts;

pub(crate) use choose::{Choice, Fallbacks};
pub(crate) use ended::Ended;
pub(crate) use fund::InFlight;
pub(crate) use inspect::{inspect, try_inspect, try_output};
pub(crate) use located::{cause, locate};
pub(crate) use record::{BlockedBy, RanTool};
pub(crate) use screen::{Ask, PiiRule, Replaces, Screening, Stopped, redact, security};
pub(crate) use stored::Output;
pub(crate) use strings::{is_text, judged_length, raw_size};
pub(crate) use watched::Watched;

use std::sync::Arc;

use domain::ids::StepId;
use domain::step::Door;

use crate::admit::Caller;
use crate::mcp::Round;
use crate::own_trace::OwnTrace;
use crate::traces::TraceHandle;

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
