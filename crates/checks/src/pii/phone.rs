//! Phone numbers: international ones by their prefix, national ones by their form or the words around them.

mod announced;
mod forms;
mod otherwise;
#[cfg(test)]
mod tests;

use crate::pii::found::{Entity, Found};
use crate::pii::number::MAX_GAP;
use crate::pii::view::View;
use crate::text::spans::Span;
use crate::text::words::behind_escape;
use forms::{MIN_DIGITS, Written};

/// And at most this many.
const MAX_DIGITS: usize = 16;
/// In at most this many groups.
const MAX_GROUPS: usize = 8;

/// Separators between the groups of a phone number, parentheses included; a line may end behind a dash.
fn is_gap(gap: &[u8]) -> bool {
    matches!(gap, b"-\n" | b"-\r\n")
        || !gap.is_empty()
        && gap.len() <= MAX_GAP
        && gap.iter().all(|b| matches!(b, b' ' | b'-' | b'.' | b'/' | b'(' | b')'))
        // Columns, numbers below zero, and the mark of a list.
        && !matches!(gap, b"   " | b" -" | b". ")
}

/// Reads the longest phone number that begins with a group.
pub(super) fn find(view: &View<'_>, first: usize, found: &mut Found) {
    let bytes = view.bytes;
    if !may_begin(bytes, &view.groups[first..]) {
        return;
    }
    let group = &view.groups[first];
    let before = |n: usize| group.start().checked_sub(n).map_or(0, |i| bytes[i]);
    let behind_digit = before(2).is_ascii_digit();
    // A group in the middle of a number is not its beginning.
    if matches!(before(1), b'-' | b'.' | b')') && behind_digit || before(1) == b'$' {
        return;
    }
    let joined_before = behind_digit && matches!(before(1), b'/' | b':');
    let plus = match before(1) {
        b'+' => is_prefix(bytes, group.start() - 1),
        b'(' => before(2) == b'+' && is_prefix(bytes, group.start() - 2),
        _ => false,
    };
    if before(1) == b'+' && !plus {
        return;
    }
    // Most numbers need a word to be recognized.
    let may_tell = plus
        || bytes[group.start()] == b'0'
        || matches!(group.len(), 1 | 3)
        || before(1) == b'('
        || !view.scan.contexts.is_empty();
    if !may_tell || is_card_like(view, first) {
        return;
    }
    let mut best = None;
    let (mut digits, mut lens) = ([0u8; MAX_DIGITS], [0usize; MAX_GROUPS]);
    let (mut count, mut signs) = (0, 0);
    for (index, next) in view.groups[first..].iter().enumerate().take(MAX_GROUPS) {
        if index > 0 {
            let gap = &bytes[view.groups[first + index - 1].end()..next.start()];
            // A slash stands behind the area alone, else between two numbers.
            let parts =
                gap.contains(&b'/') && !(plus || index == 1 && (digits[0] == 0 || gap == b"/"));
            if !is_gap(gap) || parts || gap == b" " && is_full(&lens[..index], count) {
                break;
            }
            signs |= gap.iter().fold(0, |signs, &byte| signs | forms::sign(byte));
        }
        let into_card = index > 0 && is_card_like(view, first + index);
        if into_card || count + next.len() > MAX_DIGITS {
            break;
        }
        for (digit, byte) in digits[count..].iter_mut().zip(&bytes[next.range()]) {
            *digit = byte - b'0';
        }
        count += next.len();
        lens[index] = next.len();
        let (end, extended) = extension(bytes, next.end());
        // Those of a list have four digits at their end: others with more behind `/` or `:` are dates and moments.
        let joined = joined_before || joins(bytes, end);
        if ends_badly(bytes, end) || joined && !lens[..=index].ends_with(&[3, 3, 4]) {
            continue;
        }
        // One that closes behind the number is not of the number.
        let opens = |at: usize| at > 0 && bytes[at - 1] == b'(' && closes(&bytes[at..next.end()]);
        let paren = opens(group.start());
        let mut start = group.start() - usize::from(paren);
        if plus {
            start = group.start() - 1 - usize::from(before(1) == b'(');
            // `(+44) 20 7946 0958`
            start -= usize::from(opens(start));
        }
        let written = Written {
            digits: &digits[..count],
            lens: &lens[..=index],
            plus,
            paren,
            signs,
            groups: &view.groups[first..=first + index],
            bytes,
        };
        let score = written.score(view, start, end);
        if score > 0.0 {
            best = Some(Entity::new("PHONE_NUMBER", start..end, score));
        }
        if extended {
            break;
        }
    }
    found.extend(best);
}

/// Whether a parenthesis closes that was opened in front.
fn closes(inside: &[u8]) -> bool {
    let mut depth = 1;
    inside.iter().any(|b| {
        depth += i32::from(*b == b'(') - i32::from(*b == b')');
        depth == 0
    })
}

/// Whether a plus sign stands for a prefix, and not for a version or a language: `gtk+2.0`, `C++11`.
fn is_prefix(bytes: &[u8], plus: usize) -> bool {
    let Some(&before) = plus.checked_sub(1).map(|at| &bytes[at]) else { return true };
    // `\n`, `%3D` and `\u003a` are no letters for a reader.
    let is_escaped = || {
        let from = plus.saturating_sub(6);
        (from..plus).any(|at| behind_escape(&bytes[..plus], at) == Some(plus))
    };
    // So many digits are of no version: somebody left the space out.
    let is_word = || {
        let letters =
            bytes[..plus].iter().rev().take(8).take_while(|b| b.is_ascii_alphabetic()).count();
        letters >= 3
            && bytes[plus + 1..]
                .iter()
                .take(24)
                .take_while(|b| b.is_ascii_digit() || **b == b' ')
                .count()
                >= 10
    };
    before != b'+' && !before.is_ascii_alphanumeric() || is_escaped() || is_word()
}

/// Whether so many digits are a whole number: what stands behind a space is another one.
fn is_full(lens: &[usize], count: usize) -> bool {
    count >= 12
        || count >= 10 && lens.ends_with(&[3, 3, 4])
        || count >= 10 && lens.last() >= Some(&6)
}

/// Whether a group is one of four of four digits each: a card's, even where its check digit is wrong.
fn is_card_like(view: &View<'_>, first: usize) -> bool {
    let groups = &view.groups;
    let gap = |at: usize| &view.bytes[groups[at - 1].end()..groups[at].start()];
    let follows = |at: usize| {
        groups[at].len() == 4
            && groups[at - 1].len() == 4
            && groups[at].start() - groups[at - 1].end() <= MAX_GAP
            && !gap(at).iter().any(|b| matches!(b, b',' | b'\n'))
            && gap(at) != b" / "
    };
    let ahead = (first + 1..groups.len()).take(3).take_while(|&at| follows(at)).count();
    let behind = (1..=first).rev().take(3).take_while(|&at| follows(at)).count();
    let begin = first - behind;
    let before = groups[begin].start().checked_sub(1).map(|at| view.bytes[at]);
    // No card begins with 0.
    ahead + behind >= 3 && view.bytes[groups[begin].start()] != b'0' && before != Some(b'+')
}

/// Whether enough digits follow each other: nearly all numbers in a text are too short, and alone.
fn may_begin(bytes: &[u8], groups: &[Span]) -> bool {
    let mut count = groups[0].len();
    for pair in groups.windows(2).take(MAX_GROUPS - 1) {
        if count >= MIN_DIGITS || !is_gap(&bytes[pair[0].end()..pair[1].start()]) {
            break;
        }
        count += pair[1].len();
    }
    count >= MIN_DIGITS
}

/// An extension right behind: `x123`, ` ext. 45`.
fn extension(bytes: &[u8], end: usize) -> (usize, bool) {
    let rest = &bytes[end..bytes.len().min(end + 14)];
    let first = rest.iter().find(|&&b| !matches!(b, b' ' | b','));
    if !matches!(first, Some(b'x' | b'X' | b'e' | b'E')) {
        return (end, false);
    }
    for lead in
        [&b"x"[..], b" x", b" x ", b", ext. ", b", ext ", b" ext. ", b" ext ", b" ext.", b"ext"]
    {
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
        || matches!(at(end), b'-' | b'.') && at(end + 1).is_ascii_digit()
}

/// Whether digits follow behind what also stands between the numbers of a list: `415-555-2671/415-555-2672`.
fn joins(bytes: &[u8], end: usize) -> bool {
    matches!(bytes.get(end), Some(b'/' | b':'))
        && bytes.get(end + 1).is_some_and(u8::is_ascii_digit)
}
