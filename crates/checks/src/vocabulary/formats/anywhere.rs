//! Formats that are found in the middle of words too: those whose beginning, length or check value no other text has.

use std::sync::LazyLock;

use crate::vocabulary::formats::all;
use crate::vocabulary::formats::format::{Body, Format};

/// The bits of the filter; a power of two. It stays in the fastest cache.
const FILTER: usize = 1 << 15;
/// How many bytes of a beginning the filter knows; what is shorter may be followed by any letter or digit.
const HEAD: usize = 3;

/// Short beginnings before what is proof enough: a check value, a signature, parts of known lengths, or a length.
#[rustfmt::skip]
const SIGNED: &[&str] = &[
    "openai_api_key", "sendgrid_api_key", "airtable_token", "salesforce_token", "k3s_token", "bitcoin_private_key",
    "nostr_private_key",
];
#[rustfmt::skip]
const LONG: &[&str] = &[
    "huggingface_token", "replicate_token", "sluice_api_key", "github_token", "github_oauth_token", "github_user_token",
    "github_app_token", "github_refresh_token", "slack_token", "databricks_token",
];

/// Beginnings that also end words and names, and also stand before hashes and identifiers.
#[rustfmt::skip]
const COMMON: &[&str] = &[
    "live_", "test_", "live_pub_", "test_pub_", "cal_live_", "key-", "api-", "sdk-", "mob-", "api_", "secret-", "secret_",
    "secret-live-", "secret-test-", "esecret_", "console-", "private_", "service:", "user:gh.", "pubkey-", "dose", "ico-",
    "tines_", "looker_", "pina_", "alg_", "exp1_", "pul-", "dsk-", "spu-", "rnd_", "inc_", "dsp_", "sgd_", "napi_", "spat_",
    "unkey_", "nfc_", "STS.", "API-", "KEY0", "1000.",
];

impl Format {
    /// Whether it is found behind a letter, a digit or `_` too.
    pub(crate) fn stands_anywhere(&self) -> bool {
        let (prefix, (least, most)) = (self.prefix.len(), self.length);
        let is_fixed = least == most && least >= 16;
        // A short beginning needs a length that no word has, and ordinary words may follow the random ones'.
        let enough = match self.body {
            Body::Free => false,
            Body::Random => prefix >= 6,
            Body::Plain | Body::Checked(_) => {
                prefix >= 6 || prefix >= 4 && (is_fixed || least >= 60)
            }
        };
        let is_long = least >= 20 || is_fixed || prefix + least >= 20 && prefix >= 8;
        self.is_signed()
            || LONG.contains(&self.kind)
            || enough && is_long && !COMMON.contains(&self.prefix)
    }

    /// Whether what follows its beginning leaves no doubt, however short that is.
    pub(crate) fn is_signed(&self) -> bool {
        SIGNED.contains(&self.kind)
    }

    /// Whether a value is what the beginning needs behind it in the middle of a word: that of Sluice's own keys is two
    /// letters that words end with.
    pub(crate) fn is_own(&self, value: &str) -> bool {
        let is_own = || {
            value.split_once('.').is_some_and(|(id, secret)| {
                id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()) && secret.len() == 43
            })
        };
        self.kind != "sluice_api_key" || is_own()
    }

    /// Whether its values may end in the CRC-32 of what stands before.
    pub(crate) fn is_counted(&self) -> bool {
        self.kind.starts_with("github") && self.prefix.len() == 4 || self.prefix == "npm_"
    }
}

/// Leads from a place to the formats that begin there, whatever stands in front.
pub(crate) struct Beginnings {
    /// A bit for each [`HEAD`] that some beginning has.
    filter: Box<[u64; FILTER / 64]>,
    /// By their beginning, with their place in [`all`].
    formats: Vec<(&'static [u8], u16)>,
}

/// Those of all formats that stand anywhere.
pub(crate) static BEGINNINGS: LazyLock<Beginnings> = LazyLock::new(Beginnings::new);

impl Beginnings {
    fn new() -> Self {
        let anywhere = all().enumerate().filter(|(_, format)| format.stands_anywhere());
        let mut formats: Vec<(&[u8], u16)> =
            anywhere.map(|(index, format)| (format.prefix.as_bytes(), index as u16)).collect();
        formats.sort_unstable();
        // The others that begin alike are read with the first.
        formats.dedup_by_key(|(prefix, _)| *prefix);
        let mut filter = Box::new([0; FILTER / 64]);
        let mut set = |head: [u8; HEAD]| {
            let bit = bit(head);
            filter[bit / 64] |= 1 << (bit % 64);
        };
        for &(prefix, _) in &formats {
            match *prefix {
                [a, b, c, ..] => set([a, b, c]),
                [a, b] => (b'0'..=b'z').for_each(|c| set([a, b, c])),
                _ => {}
            }
        }
        Self { filter, formats }
    }

    /// Calls back for each format that may begin at a place between `from` and `to`, in order.
    pub(crate) fn find(
        &self,
        text: &[u8],
        from: usize,
        to: usize,
        mut found: impl FnMut(usize, u16),
    ) {
        let reach = &text[from.min(text.len())..text.len().min(to + HEAD - 1)];
        for (offset, head) in reach.windows(HEAD).enumerate() {
            let bit = bit([head[0], head[1], head[2]]);
            if self.filter[bit / 64] >> (bit % 64) & 1 == 1 {
                self.at(text, from + offset, &mut found);
            }
        }
    }

    #[inline(never)]
    fn at(&self, text: &[u8], at: usize, found: &mut impl FnMut(usize, u16)) {
        let rest = &text[at..];
        let lead = &rest[..2];
        let first = self.formats.partition_point(|(prefix, _)| &prefix[..2] < lead);
        let same = self.formats[first..].iter().take_while(|(prefix, _)| prefix[..2] == *lead);
        for &(_, index) in same.filter(|(prefix, _)| rest.starts_with(prefix)) {
            found(at, index);
        }
    }
}

#[inline]
fn bit(head: [u8; HEAD]) -> usize {
    let number = u32::from_le_bytes([head[0], head[1], head[2], 0]);
    number.wrapping_mul(0x9e37_79b1) as usize >> (32 - FILTER.trailing_zeros())
}
