//! Roots that speak a vendor's API and nothing else: its paths, bodies, errors, statuses and headers,
//! over the use cases and formats of the interface. A call that names no trace belongs to that
//! of its session.

pub(crate) mod anthropic;
pub(crate) mod openai;
