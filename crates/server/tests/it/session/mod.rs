//! `/session`.

mod busy_database;
mod cookies;
mod cross_site;
mod list;
mod organization;
pub mod passkeys;
mod perimeter;
pub mod roles;
pub mod second_factor;
mod sign_in;
