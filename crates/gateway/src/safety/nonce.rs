//! The random part of placeholders.

use crate::error::Result;

/// An unpredictable random number.
pub(crate) fn nonce() -> Result<u64> {
    Ok(u64::from_be_bytes(store::random::<8>()?))
}
