//! Limits of a key, a project and the process.

mod memory;
mod requests_and_spend;
