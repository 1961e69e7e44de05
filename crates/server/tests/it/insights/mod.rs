//! `/api/v1/projects/:project_id/insights`.

mod rules;
mod states;
mod support;

pub use support::refreshed;
