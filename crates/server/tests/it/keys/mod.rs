//! `/keys`.

pub mod authentication;
mod lifecycle;
mod restrictions;
mod self_service;
