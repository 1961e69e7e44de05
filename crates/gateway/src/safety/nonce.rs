//! The random part of placeholders.

use crate::error::Result;

/// A number that nobody can guess.
pub(crate) fn nonce() -> Result<u64> {
    Ok(u64::from_be_bytes(store::random::<8>()?))
}
