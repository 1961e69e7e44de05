//! `/projects/:project_id/models` and `/models`.

mod endpoints;
mod listing;
pub mod registry;
