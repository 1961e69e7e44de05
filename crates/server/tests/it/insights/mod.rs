//! `/api/v1/projects/:project_id/insights`.

mod page;
mod rules;
mod states;
mod support;

pub use support::refreshed;
