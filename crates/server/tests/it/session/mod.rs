//! `/session`.

mod cross_site;
pub mod roles;
mod sign_in;
