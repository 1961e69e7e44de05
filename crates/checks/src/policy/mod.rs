//! A project's settings, compiled, and what is judged by them.

pub(crate) mod compiled;
pub(crate) mod joined;
pub(crate) mod offsets;
pub(crate) mod risk;
pub(crate) mod saving;
