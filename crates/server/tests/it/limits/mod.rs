//! Limits of a key, a project and the process.

mod memory;
mod quota_headers;
mod requests_and_spend;
