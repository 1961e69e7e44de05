//! A credential that was found.

use std::ops::Range;

/// A credential, before overlaps are resolved.
#[derive(Clone, Debug)]
pub(crate) struct Secret {
    /// The kind: the name of a format, `private_key`, `password`, ...
    pub(crate) kind: &'static str,
    /// The range in the bytes of the text given.
    pub(crate) bytes: Range<usize>,
    /// How live it looks, 0 to 1.
    pub(crate) score: f64,
}
