//! Tries a number as every kind of identity number, and as a payment card.

use crate::pii::card::{card, near_card};
use crate::pii::context;
use crate::pii::found::{Entity, Found};
use crate::pii::identity_numbers::{CARD, ROWS, ROWS_OF};
use crate::pii::number::{Number, Separator};
use crate::pii::view::View;
use crate::text::checksum::number;
use crate::vocabulary::contexts::Context as C;

/// Tries a number as every kind of identity number, and as a payment card.
pub(super) fn find(view: &View<'_>, n: &Number<'_>, found: &mut Found) {
    let single = n.lens.len() == 1;
    let mut rows = ROWS_OF[usize::from(!single)][n.digits.len()];
    if !single {
        rows &= n.shapes;
    }
    let may_be_card = (12..=19).contains(&n.digits.len()) && (single || n.shapes & CARD != 0);
    if rows == 0 && !may_be_card
        || n.digits.iter().all(|d| *d == n.digits[0])
        || n.is_continued(view.bytes)
    {
        return;
    }
    let alone = || n.separator != Separator::Wide || !in_columns(view.bytes, &n.range);
    let may_be_card = || may_be_card && alone() && (!n.broken || near_card(view, n));
    if let Some(score) = card(view, n).filter(|_| may_be_card()) {
        found.push(Entity::new("PAYMENT_CARD", n.range.clone(), score));
    }
    if n.separator == Separator::Wide || behind_area(view.bytes, n.range.start) {
        return;
    }
    let whole = view.is_whole(&n.range);
    let at_sign = |at: Option<usize>| {
        at.and_then(|i| view.bytes.get(i)).is_some_and(|b| matches!(b, b'@' | b'#' | b'+' | b'='))
    };
    if at_sign(Some(n.range.end)) || view.bytes.get(n.range.start.wrapping_sub(1)) == Some(&b'+') {
        return;
    }
    if !single && runs_on(view.bytes, n) {
        return;
    }
    while rows != 0 {
        let row = &ROWS[rows.trailing_zeros() as usize];
        rows &= rows - 1;
        let shaped = single || row.shapes.contains(&n.lens) && fits(row.separators, n.separator);
        if !shaped || !(row.check)(n.digits) {
            continue;
        }
        let spaced = n.separator == Separator::One(b' ');
        let grouped = if spaced && !whole { row.spaced } else { row.grouped };
        let alone = match (whole, single) {
            (true, _) => row.whole.max(if single { row.plain } else { grouped }),
            (false, true) => row.plain,
            (false, false) => grouped,
        };
        let near = |context| context::near(view, context, n.range.start, n.range.end);
        // Over the end of a line groups of digits are often several numbers, and so are "640 48 1024" and
        // "Suite 512 48 3920 Maple Lane"; a date with a time is none of a person.
        let street = || context::near(view, C::Street, n.range.start, n.range.end);
        let counts = || n.separator == Separator::One(b' ') && n.lens == [3, 2, 4];
        // If the number is the whole text, only sizes count against it, which are multiples of eight.
        let sizes = || if whole { is_size(n) } else { !is_padded(n) || street() };
        let loose = n.broken || is_moment(n, whole) || counts() && sizes();
        // The name that one country gives its number is stronger than one that is used everywhere.
        let score = if near(row.context) {
            0.85
        } else if row.context.general().is_some_and(near) {
            0.84
        } else if loose {
            0.0
        } else {
            alone
        };
        if score > 0.0 {
            found.push(Entity::new(row.kind, n.range.clone(), score));
        }
    }
}

/// Whether more numbers stand on either side, as in a table.
fn in_columns(bytes: &[u8], range: &std::ops::Range<usize>) -> bool {
    let is_joint = |b: &&u8| b" -_/|,".contains(*b);
    let behind = bytes[range.end..].iter().take(8).find(|b| !is_joint(b));
    let before = bytes[..range.start].iter().rev().take(8).find(|b| !is_joint(b));
    behind.is_some_and(u8::is_ascii_digit) || before.is_some_and(u8::is_ascii_digit)
}

/// Whether a number stands behind the area code of a telephone: `(21) 98765-4321`.
fn behind_area(bytes: &[u8], start: usize) -> bool {
    let before = bytes[..start].strip_suffix(b" ").unwrap_or(&bytes[..start]);
    matches!(before, [.., digit, b')'] if digit.is_ascii_digit())
}

/// Whether more digits follow or precede behind the same separator: a part of something longer.
fn runs_on(bytes: &[u8], n: &Number<'_>) -> bool {
    let digit = |i: Option<usize>| i.and_then(|i| bytes.get(i)).is_some_and(u8::is_ascii_digit);
    let (start, end) = (n.range.start, n.range.end);
    let joins = |at: Option<usize>| {
        at.and_then(|i| bytes.get(i)).is_some_and(|&b| n.separator == Separator::One(b))
    };
    let after = joins(Some(end)) && digit(Some(end + 1));
    let before = joins(start.checked_sub(1)) && digit(start.checked_sub(2));
    after || before
}

/// `202401181454`, `20240118-2582`: a date of this century with a time of the day or, but for the value of a field, the
/// number of a build.
fn is_moment(n: &Number<'_>, whole: bool) -> bool {
    let is_time = || number(&n.digits[8..10]) < 24 && n.digits[10] < 6;
    n.digits.len() == 12 && n.digits[0] == 2 && (n.lens == [8, 4] && !whole || is_time())
}

/// `640 48 1024`
fn is_size(n: &Number<'_>) -> bool {
    [0..3, 3..5, 5..9].into_iter().all(|group| number(&n.digits[group]).is_multiple_of(8))
}

/// Whether one of three groups begins with 0, as no count does.
fn is_padded(n: &Number<'_>) -> bool {
    n.digits[0] == 0 || n.digits[3] == 0 || n.digits[5] == 0
}

fn fits(separators: &[u8], separator: Separator) -> bool {
    separators == b"*" || matches!(separator, Separator::One(byte) if separators.contains(&byte))
}
