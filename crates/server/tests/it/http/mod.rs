//! The HTTP of every route: heads, bodies, errors.

mod bodies;
pub mod errors;
