//! The API that an endpoint speaks.

/// The API that an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Our own, below `/api/v1`: answers have fields beside those of the format.
    Sluice,
    /// A vendor's, below a root of its own: its bodies, errors, statuses and headers, and no others.
    Vendor,
}
