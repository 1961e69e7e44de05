//! `settings.shadow_model`: another model is asked for the same, and nobody notices.

mod bounds;
mod calls;
mod support;
