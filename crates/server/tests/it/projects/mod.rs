//! `/projects`.

mod lifecycle;
