//! Token counts of one model call.

use serde::{Deserialize, Serialize};

/// Tokens as the provider reported them, or as they were counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// All prompt tokens, cache reads and writes included.
    pub prompt: u64,
    /// Of those, read from the provider's cache.
    pub cached: u64,
    /// Of those, written to the provider's cache.
    pub cache_write: u64,
    /// All completion tokens, reasoning included.
    pub completion: u64,
    /// Of those, spent on reasoning.
    pub reasoning: u64,
}
