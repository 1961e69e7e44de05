//! The moment up to which the spend of keys was taken from the database.

use std::sync::atomic::AtomicI64;

/// Until when the hours of keys are known to hold what the database holds.
#[derive(Debug, Default)]
pub(crate) struct Recounted(pub(crate) AtomicI64);
