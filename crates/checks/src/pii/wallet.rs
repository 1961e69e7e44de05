//! Addresses of crypto wallets.

use super::context::{self, Context};
use super::{Entity, View};
use crate::checksum;

/// Tries each long token.
pub(super) fn find(view: &View<'_>, found: &mut Vec<Entity>) {
    for range in view.tokens.iter().filter(|r| (26..=90).contains(&r.len())) {
        let token = &view.bytes[range.clone()];
        let base58 =
            token.len() <= 35 && matches!(token[0], b'1' | b'3') && checksum::base58check(token);
        let bech32 = || {
            token[..3].eq_ignore_ascii_case(b"bc1")
                && checksum::bech32(b"bc", &token[3..].to_ascii_lowercase())
        };
        let score = if base58 || bech32() {
            0.95
        } else if token.len() == 42
            && token[..2] == *b"0x"
            && token[2..].iter().all(u8::is_ascii_hexdigit)
        {
            let mixed = token[2..].iter().any(u8::is_ascii_uppercase)
                && token[2..].iter().any(u8::is_ascii_lowercase);
            if mixed || context::near(view.scan, Context::Wallet, range.start, range.end) {
                0.8
            } else {
                0.45
            }
        } else {
            continue;
        };
        found.push(Entity::new("CRYPTO_ADDRESS", range.clone(), score));
    }
}
