//! The counters of a fleet: windows of requests, spend and reservations in Redis 7 or Valkey, so that any number
//! of gateways count as one.
//!
//! Every decision is one function of the server (`counters.lua`), atomic, one round trip, and bounded in time
//! ([`DECISION_TIMEOUT`]). All keys of a project have one hash tag, so they lie in one slot of a cluster.
//!
//! **Loss.** A project is built under an epoch: the run id of the server that it is built on, which is new after
//! every restart and failover, and a number that is new whenever that server has lost what its nodes share. A call
//! that names another epoch, or finds nothing, is answered [`Failure::Lost`]: then whoever met it closes the project
//! ([`Counters::join`], which names a generation), has every node add its own reservations
//! ([`Counters::rejoined`]), raises the spend from the ledger, and opens the project
//! ([`Counters::open_project`]). Until then nothing is spent; a generation that is lost meanwhile cannot be opened.
//!
//! **Settled calls** that the ledger may not have yet are added again with their cost, so that a loss between the two
//! frees nothing ([`Counters::stored`]).
//!
//! **What is in doubt.** A command that was not answered in time may still be executed, so those that take money
//! carry the time after which they have no effect. Every node keeps the reservations that it holds, and gives back
//! those of which it does not know whether they were made.

mod connect;
mod counters;
mod decide;
mod failures;
mod held;
mod keep;
mod library;
mod link;
mod near;
mod rebuild;
mod reply;
mod target;
mod topology;

pub use counters::{Counters, Settings};
pub use decide::{Admission, Bounds, Figures, Gate, HoldId, Request, Reserved, Settled, Spend};
pub use failures::{Booking, BookingAnswer, OwnFailures};
pub use rebuild::{Generation, KeyFigures, ProjectFigures};
pub use target::Target;

use std::time::Duration;

/// The longest that a decision may take.
pub const DECISION_TIMEOUT: Duration = Duration::from_millis(50);

/// Why counters give no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Redis cannot be reached, refuses, or takes too long.
    #[error("Redis cannot be asked: {0}")]
    Away(String),
    /// The counters of the project are lost, or were never built: they have to be built from the ledger.
    #[error("the counters of the project have to be built from the ledger")]
    Lost,
}

/// Why a gateway must not start with a Redis, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(pub String);
