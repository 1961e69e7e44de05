//! The store's contract, run on SQLite always and on PostgreSQL if `SLUICE_TEST_PG` names a server
//! in which databases may be made.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod accounts;
mod answers;
mod audit;
mod claims;
mod ended;
mod exports;
mod found;
mod groups;
mod idempotency;
mod insights;
mod jobs;
mod looked_up_groups;
mod migration_rules;
mod partition_changes;
mod partition_drops;
mod partition_faults;
mod partition_guards;
mod partition_keeps;
mod partition_sums;
mod recovery;
mod registry;
mod retention;
mod reviews;
mod schema;
mod search;
mod second_factors;
mod session_traces;
mod spans;
mod steps;
mod stored_responses;
mod support;
mod tool_times;
mod trace_totals;
mod turns;
mod upgrades;
