//! The moment up to which the spend of keys was taken from the database.

use std::sync::atomic::AtomicI64;

/// The time up to which the hours of keys hold the spend in the database.
#[derive(Debug, Default)]
pub(crate) struct Recounted(pub(crate) AtomicI64);
