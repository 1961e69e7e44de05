//! The choice of models and endpoints.

mod sessions;
