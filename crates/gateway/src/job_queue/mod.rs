//! Jobs that a request starts and that continue after it: a queue in the database, and one runner a kind on
//! each node.
//!
//! A job belongs to one node while it runs, and waits again when that stops or is gone. A kind of job is a
//! type that implements [`job_handler::JobHandler`]; it does its job in parts, and finds in the database
//! those that an earlier node completed.

pub(crate) mod content_memory;
pub(crate) mod job_handler;
mod list;
pub(crate) mod queued;
pub(crate) mod runner;
pub(crate) mod running;
