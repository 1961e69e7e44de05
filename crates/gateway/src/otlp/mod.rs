//! Records as OpenTelemetry has them: steps and traces as spans, calls of models as metrics, in the
//! names of its conventions for generative AI. Pure but for the queue; `jobs/telemetry_export.rs` sends.

mod compression;
pub(crate) mod content;
pub(crate) mod metrics;
mod names;
pub(crate) mod queue;
pub(crate) mod spans;
pub(crate) mod wire;
