//! `/keys`.

pub mod authentication;
mod lifecycle;
mod restrictions;
