//! Jobs that a request has asked for, and that go on after it: a queue in the database, and one runner a
//! kind on each node.
//!
//! A job belongs to one node while it runs, and waits again when that stops or is gone. A kind of job is a
//! type that implements [`job_handler::Work`]; it does its job in parts, and finds out from what is stored
//! which of them an earlier node has done.

pub(crate) mod job_handler;
pub(crate) mod runner;
pub(crate) mod running;
