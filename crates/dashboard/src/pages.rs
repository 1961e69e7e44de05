//! The pages, one a file.

pub(crate) mod audit;
pub(crate) mod failure;
pub(crate) mod insights;
pub(crate) mod keys;
pub(crate) mod models;
pub(crate) mod overview;
pub(crate) mod people;
pub(crate) mod safety;
pub(crate) mod sign_in;
pub(crate) mod sign_on;
pub(crate) mod trace;
pub(crate) mod traces;
