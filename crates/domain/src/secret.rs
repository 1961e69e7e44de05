//! A text that must not be seen: it cannot be printed, logged or serialised.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

/// A credential. `Debug` shows a mask, `Display` and `Serialize` do not exist; the memory is
/// wiped when it is dropped.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes a credential in.
    pub fn new(text: String) -> Self {
        Self(SecretString::from(text))
    }

    /// The credential itself, for the code that sends, seals or hashes it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}
