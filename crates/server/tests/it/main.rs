//! Black-box tests: they start the built binary and speak HTTP to it, as its users do.
//!
//! Every walk runs on SQLite, and on PostgreSQL where `SLUICE_TEST_PG` holds the URL of a server
//! on which databases may be made. What needs a server that is not there is left out, unless
//! `SLUICE_TEST_ALL` is set: then it fails.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "in a test a panic is the report, and what was skipped has to be told"
)]
#![expect(clippy::disallowed_methods, reason = "a test's tasks end with its runtime")]

mod answers;
mod arguments;
mod attachments;
mod auth;
mod circuits;
mod claims;
mod configuration;
mod control;
mod crash;
mod crowd;
mod details;
mod device;
mod doors;
mod echoes;
mod endpoints;
mod errors;
mod flowing;
mod formats;
mod harness;
mod limits;
mod listing;
mod manual;
mod matrix;
mod mcp;
mod mcp_server;
mod mcp_sessions;
mod memory;
mod messages;
mod models;
mod own_trace;
mod privacy;
mod process;
mod providers;
mod readme;
mod refusals;
mod responses;
mod safety;
mod sim_tests;
mod starts;
mod streams;
mod sweep;
mod telling;
mod tools;
mod usage;
mod walk;
