//! Admission: whether a request may come in, and the record of those that may not.

pub(crate) mod admit;
pub(crate) mod perimeter_audit;
pub(crate) mod shared;
