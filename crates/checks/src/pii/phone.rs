//! Phone numbers: international ones by their prefix, national ones by their shape or the words around them.

use std::ops::Range;

use super::context::{self, Context};
use super::number::MAX_GAP;
use super::{Entity, View};

/// A phone number has at least this many digits.
const MIN_DIGITS: usize = 7;
/// And at most this many.
const MAX_DIGITS: usize = 16;
/// How far behind its word a short one may stand.
const REACH: usize = 34;
/// In at most this many groups.
const MAX_GROUPS: usize = 8;

/// Separators between the groups of a phone number, parentheses included.
fn is_gap(gap: &[u8]) -> bool {
    !gap.is_empty()
        && gap.len() <= MAX_GAP
        && gap.iter().all(|b| matches!(b, b' ' | b'-' | b'.' | b'/' | b'(' | b')'))
        && gap != b"   "
}

/// Reads the longest phone number that begins with a group.
pub(super) fn find(view: &View<'_>, first: usize, found: &mut Vec<Entity>) {
    let bytes = view.bytes;
    if !may_begin(bytes, &view.groups[first..]) {
        return;
    }
    let group = &view.groups[first];
    let before = |n: usize| group.start.checked_sub(n).map_or(0, |i| bytes[i]);
    // A group in the middle of a number is not its beginning.
    if matches!(before(1), b'-' | b'.' | b'/' | b':' | b',' | b')') && before(2).is_ascii_digit()
        || before(1) == b'$'
        || is_card_like(view, first)
    {
        return;
    }
    let plus = before(1) == b'+' || before(1) == b'(' && before(2) == b'+';
    let paren = before(1) == b'(';
    // Nor is a number behind the name of a language.
    let plus = plus && before(2) != b'+';
    let start = group.start
        - usize::from(before(1) == b'+')
        - usize::from(paren)
        - usize::from(paren && plus);
    let mut best = None;
    let (mut digits, mut lens) = ([0u8; MAX_DIGITS], [0usize; MAX_GROUPS]);
    let mut count = 0;
    for (index, next) in view.groups[first..].iter().enumerate().take(MAX_GROUPS) {
        if index > 0 && !is_gap(&bytes[view.groups[first + index - 1].end..next.start]) {
            break;
        }
        let into_card = index > 0 && is_card_like(view, first + index);
        if into_card || count + next.len() > MAX_DIGITS {
            break;
        }
        for (digit, byte) in digits[count..].iter_mut().zip(&bytes[next.clone()]) {
            *digit = byte - b'0';
        }
        count += next.len();
        lens[index] = next.len();
        let (end, extended) = extension(bytes, next.end);
        if ends_badly(bytes, end) {
            continue;
        }
        let (digits, lens) = (&digits[..count], &lens[..=index]);
        let text = &bytes[start..next.end];
        let score = judge(view, &Shape { digits, lens, plus, paren, text }, start, end);
        if score > 0.0 {
            best = Some(Entity::new("PHONE_NUMBER", start..end, score));
        }
        if extended {
            break;
        }
    }
    found.extend(best);
}

/// Whether a group is one of four of four digits each: a card's, even where its check digit is wrong.
fn is_card_like(view: &View<'_>, first: usize) -> bool {
    let groups = &view.groups;
    let follows = |at: usize| {
        groups[at].len() == 4
            && groups[at - 1].len() == 4
            && groups[at].start - groups[at - 1].end <= MAX_GAP
    };
    let ahead = (first + 1..groups.len()).take(3).take_while(|&at| follows(at)).count();
    let behind = (1..=first).rev().take(3).take_while(|&at| follows(at)).count();
    ahead + behind >= 3
}

/// Whether enough digits follow each other: nearly all numbers in a text are too short, and alone.
fn may_begin(bytes: &[u8], groups: &[Range<usize>]) -> bool {
    let mut count = groups[0].len();
    for pair in groups.windows(2).take(MAX_GROUPS - 1) {
        if count >= MIN_DIGITS || !is_gap(&bytes[pair[0].end..pair[1].start]) {
            break;
        }
        count += pair[1].len();
    }
    count >= MIN_DIGITS
}

struct Shape<'a> {
    digits: &'a [u8],
    lens: &'a [usize],
    plus: bool,
    paren: bool,
    text: &'a [u8],
}

fn judge(view: &View<'_>, shape: &Shape<'_>, start: usize, end: usize) -> f64 {
    let Shape { digits, lens, plus, paren, text } = *shape;
    let count = digits.len();
    if count < MIN_DIGITS || digits.iter().all(|d| *d == digits[0]) {
        return 0.0;
    }
    let called = || {
        let words = [Context::Phone, Context::Called];
        words.iter().any(|&context| context::near(view, context, start, end))
    };
    if plus {
        // A line of a patch begins with `+`, too: who writes all digits in one run writes all of them.
        let least = if lens.len() > 1 { 8 } else { 10 };
        let whole = (least..=15).contains(&count) && (digits[0] != 1 || count == 11);
        let may = digits[0] != 0 && (whole || (8..=15).contains(&count) && called());
        return if may { 0.8 } else { 0.0 };
    }
    let spaced = |b: u8| text.contains(&b);
    if text.contains(&b'.') && lens[1..].contains(&1) {
        return 0.0;
    }
    let american = lens.ends_with(&[3, 3, 4])
        && (lens.len() == 3 || lens.len() == 4 && matches!(digits[0], 0 | 1));
    if american
        && (10..=13).contains(&count)
        && (spaced(b'-') || spaced(b'.') || paren)
        && !spaced(b'/')
        && (digits[count - 10] >= 2 || called())
    {
        return 0.65;
    }
    if paren
        && (8..=12).contains(&count)
        && lens.len() >= 2
        && lens[0] <= 5
        && text[1..].contains(&b')')
    {
        return 0.6;
    }
    let french =
        lens.len() == 5 && lens.iter().all(|&l| l == 2) && digits[0] == 0 && digits[1] != 0;
    if french {
        return 0.65;
    }
    if is_date(lens, digits) || spaced(b'/') && lens.len() > 2 {
        return 0.0;
    }
    if american && count == 10 && digits[0] >= 2 && digits[3] >= 2 && digits[1] != 9 {
        return if called() { 0.7 } else { 0.45 };
    }
    // So few digits in one run may count anything: only what the word itself leads up to.
    let short = lens.len() == 1 && count < 10;
    if (7..=13).contains(&count) && called() && (!short || announced(view, start)) {
        return 0.57;
    }
    let trunk =
        digits[0] == 0 && digits[1] != 0 && lens.len() >= 2 && lens[0] >= 3 && !spaced(b'.');
    if trunk && (10..=11).contains(&count) { 0.45 } else { 0.0 }
}

/// Whether only small words stand between a word for a telephone and a number.
fn announced(view: &View<'_>, start: usize) -> bool {
    #[rustfmt::skip]
    const SMALL: &[&str] = &[
        "number", "numbers", "no", "nr", "num", "nummer", "numero", "número", "numéro", "n", "is",
        "was", "at", "on", "to", "or", "and", "me", "us", "my", "his", "her", "the", "line", "phone",
        "mobile", "cell", "fax", "home", "work", "office", "es", "est", "ist", "unter", "é", "o", "s",
        "e", "direct", "tel", "telephone",
    ];
    let lead = [Context::Phone, Context::Called]
        .iter()
        .filter_map(|&context| context::last(view.scan, context, start, REACH))
        .max();
    lead.is_some_and(|end| {
        view.text[end..start]
            .trim_start_matches(|c: char| c.is_ascii_lowercase())
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .all(|word| {
                SMALL.iter().any(|small| word.eq_ignore_ascii_case(small))
                    || word.len() >= MIN_DIGITS && word.bytes().all(|b| b.is_ascii_digit())
            })
    })
}

/// `2024-05-31`, `31.05.2024`, and dates followed by an hour.
fn is_date(lens: &[usize], digits: &[u8]) -> bool {
    let year = |at: usize| {
        digits.get(at).is_some_and(|d| matches!(d, 1 | 2))
            && matches!(digits.get(at + 1), Some(9 | 0))
    };
    lens.starts_with(&[4, 2, 2]) && year(0)
        || lens.starts_with(&[2, 2, 4]) && year(4)
        || lens == [4, 4] && year(0) && year(4)
}

/// An extension right behind: `x123`, ` ext. 45`.
fn extension(bytes: &[u8], end: usize) -> (usize, bool) {
    let rest = &bytes[end..bytes.len().min(end + 14)];
    let first = rest.iter().find(|&&b| b != b' ');
    if !matches!(first, Some(b'x' | b'X' | b'e' | b'E')) {
        return (end, false);
    }
    for lead in [&b"x"[..], b" x", b" ext. ", b" ext ", b" ext.", b"ext"] {
        if rest.len() > lead.len() && rest[..lead.len()].eq_ignore_ascii_case(lead) {
            let digits = rest[lead.len()..].iter().take_while(|b| b.is_ascii_digit()).count();
            if (1..=6).contains(&digits) {
                return (end + lead.len() + digits, true);
            }
        }
    }
    (end, false)
}

fn ends_badly(bytes: &[u8], end: usize) -> bool {
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    at(end).is_ascii_alphanumeric()
        || at(end) == b'_'
        || at(end) == b'%'
        || matches!(at(end), b':' | b'/' | b'-' | b'.' | b',') && at(end + 1).is_ascii_digit()
}
