//! Addresses of crypto wallets.

use crate::pii::context;
use crate::pii::found::{Entity, Found};
use crate::pii::view::View;
use crate::text::checksum;
use crate::text::spans::Span;
use crate::vocabulary::contexts::Context;

/// Prefixes of the addresses of segregated witnesses and of chains of that kind.
const PREFIXES: [&[u8]; 5] = [b"bc", b"tb", b"ltc", b"cosmos", b"osmo"];

/// Tries each long token.
pub(super) fn find(view: &View<'_>, found: &mut Found) {
    for range in view.tokens.iter().map(Span::range).filter(|r| (26..=90).contains(&r.len())) {
        let token = &view.bytes[range.clone()];
        // Bitcoin and what descends from it, Tron: the first character distinguishes them.
        let base58 =
            token.len() <= 35 && b"13LMDXTA9".contains(&token[0]) && checksum::base58check(token);
        let bech32 = || {
            PREFIXES.iter().any(|prefix| {
                token[..prefix.len()].eq_ignore_ascii_case(prefix)
                    && token[prefix.len()] == b'1'
                    && checksum::bech32(prefix, &token[prefix.len() + 1..].to_ascii_lowercase())
            })
        };
        let score = if base58 || bech32() {
            0.95
        } else if token.len() == 42
            && token[..2] == *b"0x"
            && token[2..].iter().all(u8::is_ascii_hexdigit)
        {
            let mixed = token[2..].iter().any(u8::is_ascii_uppercase)
                && token[2..].iter().any(u8::is_ascii_lowercase);
            if mixed || context::near(view, Context::Wallet, range.start, range.end) {
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
