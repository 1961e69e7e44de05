//! The documents: their commands and examples are run.

pub mod provider_examples;
mod readme;
