//! `/keys`.

pub mod authentication;
mod lifecycle;
