//! The phases of a request, in order: screen, choose, fund, call, record.
//!
//! Each phase is a type with private fields that only the phase before can make:
//! a provider can only be called with a [`Funded`], which only `fund` makes from a [`Routed`],
//! which only `choose` and `direct` make from a [`Screened`], which only `screen` makes.

mod affinity;
pub(crate) mod attributes;
pub(crate) mod auto_trace;
pub(crate) mod call;
pub(crate) mod call_outcome;
pub(crate) mod charge_bound;
pub(crate) mod choose;
pub(crate) mod context;
mod counted;
mod endpoint_attempts;
pub(crate) mod file_tokens;
pub(crate) mod fund;
pub(crate) mod in_flight;
pub(crate) mod monitored_stream;
pub(crate) mod operation;
pub(crate) mod passed_content;
mod pending_start;
pub(crate) mod present;
pub(crate) mod pricing_basis;
mod prompt_size;
pub(crate) mod record;
pub(crate) mod refusal;
mod reservation;
mod reserve;
pub(crate) mod rounds;
pub(crate) mod route;
pub(crate) mod screen;
mod session;
mod session_trace;
mod shadow;
pub(crate) mod stored_content;
pub(crate) mod stored_responses;
pub(crate) mod tokens;
pub(crate) mod upstream;
mod usage_cost;

pub use crate::pipeline::choose::Routed;
pub use crate::pipeline::fund::Funded;
pub use crate::pipeline::screen::Screened;
pub use crate::pipeline::upstream::Upstream;
