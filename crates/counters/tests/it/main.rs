//! The counters against real servers: one alone, and a cluster of three masters.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "in a test a panic is the report, and skipped tests and seeds have to be named"
)]

#[macro_use]
mod on_all;

mod absence;
mod expiry;
mod failures;
mod loss;
mod near;
mod rights;
mod servers;
mod simulation;
mod start;
mod suite;
mod tls;
mod world;
