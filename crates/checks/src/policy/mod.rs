//! A project's settings, compiled, and what is judged by them.

pub(crate) mod compiled;
mod conclusion;
mod detection;
pub(crate) mod encoded;
mod joined;
mod judging;
mod offsets;
mod risk;
pub(crate) mod saving;
