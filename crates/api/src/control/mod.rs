//! TODO control

pub(crate) mod audit;
pub(crate) mod keys;
pub(crate) mod models;
pub(crate) mod projects;
pub(crate) mod safety;
pub(crate) mod session;
