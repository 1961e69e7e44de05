//! Start, stop, configuration and the command line.

mod configuration;
mod data_folder;
mod database_claim;
pub mod process;
