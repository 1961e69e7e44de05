//! Providers: failures, formats, circuit breakers.

mod circuit_breaker;
pub mod failures;
mod model_refusals;
mod sim_tests;
