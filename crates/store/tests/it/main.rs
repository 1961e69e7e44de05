//! The store's contract, run on SQLite always and on PostgreSQL where `SLUICE_TEST_PG` names a
//! server in which databases may be made.

mod accounts;
mod recovery;
mod registry;
mod schema;
mod steps;
mod support;
