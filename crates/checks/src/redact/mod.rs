//! Placeholders in the place of findings, in words, JSON and files, and their originals put back.

pub(crate) mod file;
pub(crate) mod json_text;
pub(crate) mod look_alikes;
pub(crate) mod reading;
pub(crate) mod redactor;
pub(crate) mod restore;
