//! Attributes of calls as a project stores them.

use std::borrow::Cow;

use aws_lc_rs::hmac;
use domain::attributes::{AttributeName, Attributes};

use crate::error::{Error, Result};
use crate::state::registry::ProjectState;

/// Begins a value that is a hash.
const HASHED: &str = "h:";
/// The hex digits of a hash: 128 bits.
const DIGITS: usize = 32;

impl ProjectState {
    /// The value of an attribute as it is stored: as it was given, or its keyed hash if the settings ask for
    /// that. What is a hash already stays.
    pub(crate) fn stored_value<'v>(&self, name: &AttributeName, value: &'v str) -> Cow<'v, str> {
        if !self.settings.attributes.hash.contains(name) || is_hash(value) {
            return Cow::Borrowed(value);
        }
        // The name is part of it: the same value of another attribute has another hash.
        let mut context = hmac::Context::with_key(&self.print_key);
        let name = name.to_string();
        for part in [b"attribute".as_slice(), name.as_bytes(), value.as_bytes()] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let tag = context.sign();
        let digits = tag.as_ref().iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}"));
        Cow::Owned(HASHED.chars().map(String::from).chain(digits).collect())
    }

    /// Attributes as they are stored.
    pub(crate) fn stored_attributes(&self, mut attributes: Attributes) -> Attributes {
        for name in &self.settings.attributes.hash {
            attributes.replace(name, |value| self.stored_value(name, value).into_owned());
        }
        attributes
    }

    /// Refuses a call that lacks attributes which the settings require.
    pub(crate) fn check_attributes(&self, attributes: Option<&Attributes>) -> Result<()> {
        let is_missing = |name: &&AttributeName| attributes.and_then(|all| all.get(name)).is_none();
        let required = &self.settings.attributes.required;
        let missing: Vec<String> =
            required.iter().filter(is_missing).map(AttributeName::to_string).collect();
        match missing.as_slice() {
            [] => Ok(()),
            [one] => Err(Error::invalid(format!("Missing required attribute: {one}"))),
            all => Err(Error::invalid(format!("Missing required attributes: {}", all.join(", ")))),
        }
    }
}

fn is_hash(value: &str) -> bool {
    value.strip_prefix(HASHED).is_some_and(|digits| {
        digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}
