//! The HTTP of every route: heads, bodies, errors.

mod errors;
