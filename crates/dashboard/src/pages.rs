//! The pages, one a file.

pub(crate) mod account;
pub(crate) mod audit;
pub(crate) mod chart;
pub(crate) mod choice;
pub(crate) mod failure;
pub(crate) mod insights;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod model;
pub(crate) mod models;
pub(crate) mod overview;
pub(crate) mod people;
pub(crate) mod playground;
pub(crate) mod refused;
pub(crate) mod replay;
pub(crate) mod reviews;
pub(crate) mod routing;
pub(crate) mod safety;
pub(crate) mod settings;
pub(crate) mod sign_in;
pub(crate) mod sign_on;
pub(crate) mod tokens;
pub(crate) mod trace;
pub(crate) mod traces;
