//! Refusals: requests that safety or routing has stopped.

use domain::conversation::Prompt;
use domain::ids::{StepId, TraceId};
use domain::step::{Routing, Security};

use crate::safety::location::Located;

/// A request that safety or routing has refused, or an answer that safety has withheld.
#[derive(Debug)]
pub struct Refusal {
    /// Why.
    pub reason: String,
    /// The step that records it.
    pub step: StepId,
    /// Its trace.
    pub trace: TraceId,
    /// The finding in the request, and its location, if safety refused it.
    pub cause: Option<Box<Located>>,
}

/// A request that goes on as `T`, or its refusal, which is recorded.
pub(crate) type OrRefusal<T> = std::result::Result<T, Refusal>;

/// A refusal before it is recorded.
pub(crate) struct UnrecordedRefusal {
    /// The prompt, as it may be stored.
    pub(crate) prompt: Prompt,
    pub(crate) reason: String,
    /// The kind of reason as one of a few words, for metrics.
    pub(crate) category: &'static str,
    pub(crate) security: Security,
    pub(crate) routing: Option<Routing>,
    /// The finding that weighed most, if safety refused it.
    pub(crate) cause: Option<Box<Located>>,
}
