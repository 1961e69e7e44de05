//! How phone numbers are written: one row a form, and what is written like none.

use crate::pii::context;
use crate::pii::phone::announced::{self, Shape};
use crate::pii::phone::otherwise;
use crate::pii::view::View;
use crate::text::spans::Span;
use crate::vocabulary::contexts::Context;

/// A phone number has at least this many digits.
pub(super) const MIN_DIGITS: usize = 7;

/// A number as it is written.
pub(super) struct Written<'a> {
    pub(super) digits: &'a [u8],
    /// How many digits each group has.
    pub(super) lens: &'a [usize],
    /// Whether a plus sign leads it.
    pub(super) plus: bool,
    /// Whether its first group stands in parentheses.
    pub(super) paren: bool,
    /// The signs between its groups, each as its [`sign`].
    pub(super) signs: u8,
    /// The positions of its groups.
    pub(super) groups: &'a [Span],
    pub(super) bytes: &'a [u8],
}

/// A separator, as a bit.
pub(super) fn sign(separator: u8) -> u8 {
    match separator {
        b'-' => 1,
        b'.' => 1 << 1,
        b'/' => 1 << 2,
        b'(' => 1 << 3,
        b')' => 1 << 4,
        _ => 0,
    }
}

/// One form, and how sure a number of that form is.
struct Form {
    is: fn(&Written<'_>) -> bool,
    alone: f64,
    /// With a word for a telephone near it.
    near: f64,
}

/// Score of a number of no form that a word leads up to.
const ANNOUNCED: f64 = 0.57;
/// A form with a lower score than this yields to the name of another thing right in front.
const TELLING: f64 = 0.6;
/// More digits in no form are no number.
const MOST_DIGITS: usize = 13;

#[rustfmt::skip]
const FORMS: &[Form] = &[
    Form { is: |w| w.is_american() && w.is_assigned(), alone: 0.65, near: 0.7 },
    Form { is: |w| w.is_american() && w.own()[0] >= 2, alone: 0.55, near: 0.65 },
    Form { is: |w| w.is_american(), alone: 0.0, near: 0.65 },
    Form { is: |w| w.lens == [3, 3, 4] && w.is_assigned() && w.digits[1] != 9 && !w.has(b'/'), alone: 0.45, near: 0.7 },
    Form { is: |w| w.has_area(), alone: 0.6, near: 0.6 },
    Form { is: |w| w.is_russian(), alone: 0.65, near: 0.7 },
    Form { is: |w| w.is_russian_spaced() && matches!(w.digits[1], 3 | 4 | 8 | 9), alone: 0.45, near: 0.7 },
    Form { is: |w| w.is_russian_spaced() || w.is_russian_short(), alone: 0.0, near: 0.7 },
    Form { is: |w| w.is_french(), alone: 0.65, near: 0.65 },
    Form { is: |w| w.has_trunk(), alone: 0.45, near: 0.57 },
    Form { is: |w| w.lens.len() == 1 && w.digits[0] == 0 && w.digits.len() >= 9, alone: 0.0, near: 0.57 },
];

impl Written<'_> {
    /// How sure it is that this is a phone number; 0 when it proves nothing.
    pub(super) fn score(&self, view: &View<'_>, start: usize, end: usize) -> f64 {
        let count = self.digits.len();
        if count < MIN_DIGITS || self.digits.iter().all(|d| *d == self.digits[0]) {
            return 0.0;
        }
        let near = || {
            let words = [Context::Phone, Context::Called];
            words.iter().any(|&context| context::near(view, context, start, end))
        };
        let told = |usual, formed| {
            let telling = formed && !self.is_amount() || usual && self.is_mobile();
            announced::is_announced(view, start, end, Shape { usual, telling })
        };
        if self.plus {
            return if self.is_international(near) { 0.8 } else { 0.0 };
        }
        if self.is_abroad() {
            return 0.7;
        }
        if self.is_something_else() {
            return 0.0;
        }
        let (mut alone, mut beside) = (0.0, 0.0);
        for form in FORMS.iter().filter(|form| (form.is)(self)) {
            alone = form.alone.max(alone);
            beside = form.near.max(beside);
        }
        if beside == 0.0 {
            let usual = (self.lens.len() > 1 || count >= 9) && !self.digits.ends_with(&[0, 0, 0]);
            return if count <= MOST_DIGITS && told(usual, false) { ANNOUNCED } else { 0.0 };
        }
        if alone < TELLING && otherwise::names(&view.text[..start]) {
            return 0.0;
        }
        if beside > alone && (near() || told(true, true)) { beside } else { alone }
    }

    /// Ten digits as in North America or India, eleven as in China, or some behind a trunk's zero: `4155552671`,
    /// `987 654 3210`, `13912345678`, `0812-1042-1327`.
    fn is_mobile(&self) -> bool {
        let grouped = matches!(self.lens, [10 | 11] | [3, 7] | [3, 3 | 4, 4] | [5, 5]);
        let of_ten = self.digits.len() == 10 && self.digits[0] >= 2 && self.digits[3] >= 2;
        let of_eleven = self.digits.len() == 11 && self.digits[0] == 1 && self.digits[1] >= 3;
        let of_trunk = self.digits[0] == 0 && (9..=12).contains(&self.digits.len());
        grouped && (of_ten || of_eleven) || of_trunk && !self.is_amount()
    }

    /// `0.000123456`, `12.345678`, `298 300 310`, and `0000123456`, which is none but written to a length.
    fn is_amount(&self) -> bool {
        let decimal = self.lens.len() == 2 && self.has(b'.') && self.lens[0] < 3;
        let thousands = self.lens.len() > 1
            && self.digits[0] != 0
            && self.lens[0] <= 3
            && self.lens[1..].iter().all(|len| *len == 3);
        decimal || thousands || self.digits.starts_with(&[0, 0])
    }

    /// Returns the text between each two groups.
    fn gaps(&self) -> impl Iterator<Item = &[u8]> {
        self.groups.windows(2).map(|pair| &self.bytes[pair[0].end()..pair[1].start()])
    }

    fn has(&self, separator: u8) -> bool {
        self.signs & sign(separator) != 0
    }

    /// The ten digits of a number of North America, without the prefix.
    fn own(&self) -> &[u8] {
        &self.digits[self.digits.len().saturating_sub(10)..]
    }

    /// `415-555-2671`, `(415) 555-2671`, `1-415-555-2671`, `001.415.555.2671`.
    fn is_american(&self) -> bool {
        if !self.lens.ends_with(&[3, 3, 4]) {
            return false;
        }
        let lead = &self.digits[..self.digits.len() - 10];
        let mut gaps = self.gaps().skip(self.lens.len().saturating_sub(3));
        let (first, last) = (gaps.next().unwrap_or_default(), gaps.next().unwrap_or_default());
        // `1) 415-555-2671` begins with the mark of a list.
        let has_lead = || !self.gaps().next().is_some_and(|gap| gap.contains(&b')'));
        let prefixed = || matches!(lead, [0 | 1] | [0, 0, 1]) && has_lead();
        (self.lens.len() == 3 || self.lens.len() == 4 && prefixed())
            && (first.contains(&b')')
                || matches!(
                    (first.trim_ascii(), last.trim_ascii()),
                    (b"-" | b"", b"-") | (b".", b".")
                ))
            && !self.has(b'/')
    }

    /// Whether the plan of North America has such an area and such an exchange.
    fn is_assigned(&self) -> bool {
        self.own()[0] >= 2 && self.own()[3] >= 2
    }

    /// `(020) 7946 0958`
    fn has_area(&self) -> bool {
        self.paren
            && (8..=12).contains(&self.digits.len())
            && self.lens.len() >= 2
            && self.lens[0] <= 5
    }

    /// `8 (495) 123-45-67`
    fn is_russian(&self) -> bool {
        self.lens.starts_with(&[1, 3])
            && self.digits.len() == 11
            && matches!(self.digits[0], 7 | 8)
            && matches!(self.gaps().next(), Some(b" (" | b"("))
            && self.has(b')')
    }

    /// `8 916 123 45 67`, `8-916-123-45-67`
    fn is_russian_spaced(&self) -> bool {
        self.lens == [1, 3, 3, 2, 2] && self.digits[0] == 8 && self.is_uniform() && !self.has(b'.')
    }

    /// `8 916 123 4567`: elsewhere the 8 may be anything.
    fn is_russian_short(&self) -> bool {
        self.lens == [1, 3, 3, 4] && self.digits[0] == 8 && self.is_uniform() && !self.has(b'.')
    }

    /// `01 23 45 67 89`
    fn is_french(&self) -> bool {
        let step = |at: usize| {
            let pair = |at: usize| i16::from(self.digits[2 * at] * 10 + self.digits[2 * at + 1]);
            pair(at) - pair(at - 1)
        };
        self.lens == [2; 5]
            && self.digits[0] == 0
            && self.digits[1] != 0
            && self.is_uniform()
            && !(2..5).all(|at| step(at) == step(1))
            && !self.goes_on()
    }

    /// `020 7946 0958`, `030 / 123 45 67`
    fn has_trunk(&self) -> bool {
        self.digits[0] == 0
            && self.digits[1] != 0
            && self.lens.len() >= 2
            && (3..=5).contains(&self.lens[0])
            && (10..=11).contains(&self.digits.len())
            && !self.has(b'.')
    }

    /// Whether the same stands between all groups.
    fn is_uniform(&self) -> bool {
        let mut gaps = self.gaps();
        let first = gaps.next();
        gaps.all(|gap| Some(gap) == first)
    }

    /// Whether a pair of hexadecimal digits stands on either side, as in a dump of bytes.
    fn goes_on(&self) -> bool {
        let (start, end) = (self.groups[0].start(), self.groups[self.groups.len() - 1].end());
        let is_byte = |pair: &[u8]| pair.iter().all(u8::is_ascii_hexdigit);
        let before = self.bytes[..start].trim_ascii_end();
        let behind = self.bytes[end..].trim_ascii_start();
        let ends = matches!(before, [a, b] | [.., b' ' | b':', a, b] if is_byte(&[*a, *b]));
        let begins = matches!(behind, [a, b] | [a, b, b' ' | b'\n', ..] if is_byte(&[*a, *b]));
        ends && start - before.len() <= 2 || begins && self.bytes.len() - end - behind.len() <= 2
    }

    /// Behind a plus sign: all digits, of a country there is.
    fn is_international(&self, near: impl Fn() -> bool) -> bool {
        let count = self.digits.len();
        // A line of a patch begins with `+`, too: who writes all digits in one run writes all of them.
        let least = if self.lens.len() > 1 { 8 } else { 10 };
        let whole = (least..=15).contains(&count) && (self.digits[0] != 1 || count == 11);
        // `+25 000 000`
        let amount = self.is_thousands() && (count < 10 || self.digits.ends_with(&[0, 0, 0]));
        is_country(self.digits)
            && !is_date(self.lens, self.digits)
            && !self.is_place()
            && (whole && !amount || (8..=15).contains(&count) && near())
    }

    /// `+404251-0740023`, `+4024-00341`: degrees, minutes and seconds.
    fn is_place(&self) -> bool {
        let (latitude, longitude) = self.digits.split_at(self.lens[0]);
        matches!(self.lens, [4, 5] | [6, 7])
            && self.has(b'-')
            && latitude[2] < 6
            && longitude[0] <= 1
            && longitude[3] < 6
    }

    /// `0049 30 1234567`: `00` for the plus sign.
    fn is_abroad(&self) -> bool {
        let [0, 0, rest @ ..] = self.digits else { return false };
        (3..=5).contains(&self.lens[0])
            && self.lens.len() > 1
            && (11..=14).contains(&rest.len())
            && (rest[0] != 1 || rest.len() == 11)
            && is_country(rest)
            && !self.has(b'.')
            && !self.has(b'/')
    }

    /// Dates, amounts, books, moments, versions, and what two numbers are in.
    fn is_something_else(&self) -> bool {
        let (lens, digits) = (self.lens, self.digits);
        let dots = self.has(b'.');
        let is_slash_odd = || {
            let slash = self.gaps().position(|gap| gap.contains(&b'/'));
            slash.is_some_and(|at| at > 0 || lens.len() > 2 && digits[0] != 0 && lens != [3, 3, 4])
        };
        let is_moment = lens == [13] && digits[0] == 1;
        // `2018.07.863`, as articles are numbered.
        let is_issue = || dots && lens[0] == 4 && matches!(digits[..2], [1, 9] | [2, 0]);
        is_date(lens, digits)
            || dots && (lens[1..].contains(&1) || self.has(b'-'))
            || is_issue()
            || self.is_thousands() && (lens[0] == 1 || dots)
            || digits.len() == 13 && digits.starts_with(&[9, 7]) && digits[2] >= 8
            || self.has(b'/') && is_slash_odd()
            || is_moment
    }

    /// `12 345 678`, `1.234.567`
    fn is_thousands(&self) -> bool {
        let rest = &self.lens[1..];
        self.lens[0] <= 3
            && !rest.is_empty()
            && rest.iter().all(|&l| l == 3)
            && !self.paren
            && !self.has(b'-')
    }
}

/// Whether digits begin with the code of a country.
fn is_country(digits: &[u8]) -> bool {
    #[rustfmt::skip]
    const OF_TWO: &[u8] = &[
        20, 27, 30, 31, 32, 33, 34, 36, 39, 40, 41, 43, 44, 45, 46, 47, 48, 49, 51, 52, 53, 54, 55,
        56, 57, 58, 60, 61, 62, 63, 64, 65, 66, 81, 82, 84, 86, 90, 91, 92, 93, 94, 95, 98,
    ];
    /// The first two digits of those of three.
    #[rustfmt::skip]
    const OF_THREE: &[u8] = &[
        21, 22, 23, 24, 25, 26, 29, 35, 37, 38, 42, 50, 59, 67, 68, 69, 80, 85, 87, 88, 96, 97, 99,
    ];
    let two = digits[0] * 10 + digits[1];
    matches!(digits[0], 1 | 7)
        || OF_TWO.contains(&two)
        || OF_THREE.contains(&two) && !digits.starts_with(&[9, 9, 9])
}

/// `2024-05-31`, `20240531`, `31.05.2024`, and dates followed by an hour.
fn is_date(lens: &[usize], digits: &[u8]) -> bool {
    let year = |at: usize| matches!(digits.get(at..at + 2), Some([1, 9] | [2, 0]));
    let pair = |at: usize| digits[at] * 10 + digits[at + 1];
    let month_and_day =
        |month: usize, day: usize| (1..=12).contains(&pair(month)) && (1..=31).contains(&pair(day));
    (lens.starts_with(&[4, 2, 2]) || lens == [8]) && year(0) && month_and_day(4, 6)
        || lens.starts_with(&[2, 2, 4]) && year(4) && (month_and_day(2, 0) || month_and_day(0, 2))
        || lens == [4, 4] && year(0) && year(4)
}
