//! One format: its beginning, the characters that follow, and what they must be like.

/// Which characters follow the beginning.
#[derive(Clone, Copy)]
pub(crate) enum Charset {
    /// Letters and digits.
    Alnum,
    /// Lower-case letters and digits.
    Lower,
    /// Upper-case letters and digits.
    Upper,
    /// Hexadecimal digits and dashes between them.
    Hex,
    /// Letters, digits, `-` and `_`.
    Url,
    /// Letters, digits, `-`, `_` and `. : = !`.
    Dotted,
    /// Letters, digits and `+ / = - _ ,`.
    Base64,
    /// Characters allowed in the path of a URL.
    Path,
    /// Letters, digits and nearly all signs that need no quotes: `- _ . : = ! $ ~ + / %`.
    Signs,
    /// The characters that Django draws its keys from.
    Django,
}

/// The requirement on the characters behind the beginning, besides their set and their number.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    /// Nothing: no other text begins like this.
    Plain,
    /// To look random: the beginning may stand before ordinary words.
    Random,
    /// Nothing, not even that it is no dummy value: the provider's values are as short and as free as that.
    Free,
    /// The provider's documented form.
    Checked(fn(&str) -> bool),
}

/// One format.
pub(crate) struct Format {
    /// The name a finding carries.
    pub(crate) kind: &'static str,
    /// How it begins, in exactly this case.
    pub(crate) prefix: &'static str,
    /// The characters that follow.
    pub(crate) rest: Charset,
    /// Fewest and most characters of the rest.
    pub(crate) length: (usize, usize),
    /// The further requirement on the rest.
    pub(crate) body: Body,
}

impl Format {
    /// Whether a match leaves no doubt that the text has the very form of this credential, whatever it is filled with.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self.body, Body::Checked(_))
            || self.length.0 == self.length.1 && !matches!(self.body, Body::Random)
    }

    /// Whether it may begin by chance in the middle of base64.
    pub(crate) fn is_base64(&self) -> bool {
        self.prefix.len() <= 5
            && self.prefix.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/".contains(&b))
    }
}

/// The sets that each byte belongs to, as bits.
static SETS: [u16; 256] = {
    let mut out = [0; 256];
    let mut set = 0;
    while set < Charset::COUNT {
        let charset = Charset::ALL[set];
        let mut byte = 0;
        while byte < out.len() {
            out[byte] |= (charset.holds(byte as u8) as u16) << set;
            byte += 1;
        }
        set += 1;
    }
    out
};

impl Charset {
    /// All of them, in the order of their numbers.
    const ALL: [Self; Self::COUNT] = [
        Self::Alnum,
        Self::Lower,
        Self::Upper,
        Self::Hex,
        Self::Url,
        Self::Dotted,
        Self::Base64,
        Self::Path,
        Self::Signs,
        Self::Django,
    ];
    /// How many there are.
    pub(crate) const COUNT: usize = 10;

    /// Whether a byte belongs to it.
    pub(crate) fn has(self, byte: u8) -> bool {
        SETS[byte as usize] >> self as usize & 1 == 1
    }

    const fn holds(self, byte: u8) -> bool {
        let signs: &[u8] = match self {
            Self::Alnum => b"",
            Self::Lower => return byte.is_ascii_lowercase() || byte.is_ascii_digit(),
            Self::Upper => return byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hex => return byte.is_ascii_hexdigit() || byte == b'-',
            Self::Url => b"-_",
            Self::Dotted => b"-_.:=!",
            Self::Base64 => b"+/=-_,",
            Self::Path => b"/-_@.",
            Self::Signs => b"-_.:=!$~+/%",
            Self::Django => b"!@#$%^&*(-_=+)",
        };
        let mut at = 0;
        while at < signs.len() {
            if signs[at] == byte {
                return true;
            }
            at += 1;
        }
        byte.is_ascii_alphanumeric()
    }
}

pub(super) const fn row(
    kind: &'static str,
    prefix: &'static str,
    rest: Charset,
    length: (usize, usize),
    body: Body,
) -> Format {
    Format { kind, prefix, rest, length, body }
}

/// A beginning that nothing else has.
pub(super) const fn f(
    kind: &'static str,
    prefix: &'static str,
    rest: Charset,
    min: usize,
    max: usize,
) -> Format {
    row(kind, prefix, rest, (min, max), Body::Plain)
}

/// A beginning that ordinary words may follow.
pub(super) const fn r(
    kind: &'static str,
    prefix: &'static str,
    rest: Charset,
    min: usize,
    max: usize,
) -> Format {
    row(kind, prefix, rest, (min, max), Body::Random)
}

/// A beginning before values so free that they look like dummy values.
pub(super) const fn free(
    kind: &'static str,
    prefix: &'static str,
    rest: Charset,
    min: usize,
    max: usize,
) -> Format {
    row(kind, prefix, rest, (min, max), Body::Free)
}

/// A beginning before a rest of known structure.
pub(super) const fn c(
    kind: &'static str,
    prefix: &'static str,
    rest: Charset,
    min: usize,
    max: usize,
    check: fn(&str) -> bool,
) -> Format {
    row(kind, prefix, rest, (min, max), Body::Checked(check))
}
