//! Periodic jobs.

mod sweep;
