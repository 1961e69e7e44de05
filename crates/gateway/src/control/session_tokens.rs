//! Tokens of sessions, and what stands beside them in a browser.

use aws_lc_rs::digest;
use subtle::ConstantTimeEq as _;

use crate::admission::admit::hash_secret;
use crate::error::Result;
use crate::gateway::Gateway;

/// The beginning of tokens that browsers have to show together with what belongs to them. Those that began before
/// there was such a thing, or without TLS, go on without.
const WITH_OWN: &str = "o";
/// The digits of a token.
const DIGITS: usize = 64;

impl Gateway {
    /// A new token. It has something beside it if browsers come by TLS.
    pub(crate) fn new_session_token(&self) -> Result<String> {
        let digits = hex(&store::random::<{ DIGITS / 2 }>()?);
        let scheme = self.public_url().and_then(|url| url.split_once("://"));
        let is_https = scheme.is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("https"));
        Ok(if is_https { format!("{WITH_OWN}{digits}") } else { digits })
    }

    /// What belongs to a token: a browser keeps it where no other host can have set it.
    pub fn own_of(&self, token: &str) -> String {
        hex(&hash_secret(self.registry.pepper(), &format!("own session:{token}")))
    }

    /// Whether something belongs to a token.
    pub fn is_own(&self, token: &str, own: &str) -> bool {
        self.own_of(token).as_bytes().ct_eq(own.as_bytes()).into()
    }
}

/// Whether a text can be a token with which a browser has to show what belongs to it.
pub fn has_own(text: &str) -> bool {
    text.starts_with(WITH_OWN) && is_token(text)
}

/// Whether a text can be a token: anything else was not made here.
pub(crate) fn is_token(text: &str) -> bool {
    let digits = text.strip_prefix(WITH_OWN).unwrap_or(text);
    digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The hash of a token, which is stored in its place.
pub(crate) fn hash_token(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    hash
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
