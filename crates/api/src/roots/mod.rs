//! Roots that speak a vendor's API and nothing else: its paths, bodies, errors, statuses and headers,
//! over the use cases and formats of the interface. A call that names no trace gets one of its own.

pub(crate) mod anthropic;
pub(crate) mod openai;
