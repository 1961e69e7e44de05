//! Black-box tests: they start the built binary and call it over HTTP, as its users do.
//!
//! A folder is a resource of the API or a promise, a file in it an endpoint or one promise.
//!
//! Most tests run on SQLite, and on PostgreSQL where `SLUICE_TEST_PG` holds the URL of a server
//! on which databases may be made. A test that needs a server that is not there is left out,
//! unless `SLUICE_TEST_ALL` is set: then it fails.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "in a test a panic is the report, and skipped tests have to be named"
)]
#![expect(clippy::disallowed_methods, reason = "a test's tasks end with its runtime")]

mod agent_setup;
mod assistants;
mod attributes;
mod audit_events;
mod backtests;
mod chat_completions;
mod console;
mod cost;
mod crash;
mod docs;
mod embeddings;
mod executions;
mod exports;
mod fleet;
mod harness;
mod http;
mod idempotency;
mod images;
mod insights;
mod jobs;
mod keys;
mod limits;
mod load;
mod mcp;
mod messages;
mod models;
mod nodes;
mod people;
mod privacy;
mod projects;
mod providers;
mod replay;
mod responses;
mod roots;
mod routing;
mod safety;
mod scripted_agents;
mod session;
mod shadow;
mod sign_on;
mod startup;
mod stats;
mod telemetry;
mod traces;
