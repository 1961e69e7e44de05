//! Providers: failures, formats, circuit breakers.

mod circuit_breaker;
mod embeddings_and_images;
pub mod failures;
mod model_refusals;
mod sim_tests;
