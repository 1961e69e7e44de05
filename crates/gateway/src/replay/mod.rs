//! Replays: the calls of a recorded trace, repeated with other models, and how they compare.
//!
//! A request makes a job ([`ask`]), a node runs it ([`run`]): each completed call of the source goes through
//! screening, funding, the provider and the record once more, into a trace of its own for each model.

mod answers;
pub(crate) mod ask;
mod calls;
mod comparison;
mod made_steps;
pub(crate) mod overrides;
mod plan;
pub(crate) mod recorded;
pub(crate) mod result;
pub(crate) mod run;
