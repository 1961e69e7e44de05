//! `/projects/:project_id/models` and `/models`.

mod aliases;
mod endpoints;
mod listing;
pub mod registry;
