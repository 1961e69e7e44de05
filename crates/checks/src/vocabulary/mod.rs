//! The tables of the detectors: words, names, formats and marks that the scan looks for.

pub(crate) mod contexts;
pub(crate) mod credential_rules;
pub(crate) mod dummy_values;
pub(crate) mod formats;
pub(crate) mod injection;
pub(crate) mod injection_languages;
pub(crate) mod secret_names;
