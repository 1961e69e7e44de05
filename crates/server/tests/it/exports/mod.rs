//! `/projects/:project_id/exports` and `sluice export`.

mod files;
mod refusals;
mod support;
