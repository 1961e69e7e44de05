//! `/projects/:project_id/exports` and `sluice export`.

mod command;
mod faults;
mod files;
mod kill;
mod refusals;
mod support;
