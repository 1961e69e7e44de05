//! Payment cards.

use crate::pii::context;
use crate::pii::number::{Number, Separator};
use crate::pii::view::View;
use crate::text::checksum::{luhn, number};
use crate::vocabulary::contexts::Context as C;

/// Payment cards: issuer range, length, Luhn, and the way of grouping.
pub(super) fn card(view: &View<'_>, n: &Number<'_>) -> Option<f64> {
    let d = n.digits;
    // The cheap questions first: a table of numbers asks them of each and of each chain.
    let grouped = match n.lens {
        [_] => true,
        [4, 4, 4, 1..=4] | [4, 4, 4, 4, 1..=3] | [4, 6, 4 | 5] => {
            matches!(n.separator, Separator::One(b' ' | b'-' | b'.' | b'/') | Separator::Wide)
        }
        _ => false,
    };
    if !grouped || !(12..=19).contains(&d.len()) {
        return None;
    }
    let (two, four) = (number(&d[..2]), number(&d[..4]));
    let issued = match d.len() {
        13 => d[0] == 4,
        14 => {
            two == 36
                || two == 38
                || two == 39
                || (300..=305).contains(&(four / 10))
                || four == 3095
        }
        15 => {
            two == 34 || two == 37 || four == 2014 || four == 2149 || four == 1800 || four == 2131
        }
        16 => {
            d[0] == 4
                || (51..=55).contains(&two)
                || (2221..=2720).contains(&four)
                || four == 6011
                || two == 65
                || (644..=649).contains(&(four / 10))
                || two == 62
                || (3528..=3589).contains(&four)
                || two == 50
                || (56..=69).contains(&two)
                || (8100..=8171).contains(&four)
                || (300..=305).contains(&(four / 10))
                || n.lens.len() > 1 && matches!(four, 2200..=2204 | 9792)
        }
        12 | 17..=19 => {
            d[0] == 4 && d.len() == 19 || two == 62 || two == 50 || (56..=69).contains(&two)
        }
        _ => false,
    };
    let near = near_card(view, n);
    // Next to the word "card", a number of the right length and check digit needs no known issuer.
    if !(issued || near) {
        return None;
    }
    if !luhn(d) {
        // With a slip of the pen it is still what the words right before it say.
        let named = n.lens == [4, 4, 4, 4] && context::leads(view.scan, C::Card, n.range.start, 12);
        return (issued && named).then_some(0.5);
    }
    if n.lens == [4, 4, 4, 4] && counts_up(d) {
        return None;
    }
    let usual = matches!(d.len(), 14..=16);
    Some(match (near, usual, n.lens.len() > 1) {
        (true, true, _) if issued => 0.95,
        // An identity number next to its own name is no card for the word: "Aadhaar card 2345 6789 0124".
        (true, ..) | (false, true, false) => 0.8,
        (false, true, true) => 0.9,
        // Surer than a part of it.
        (false, false, true) if d.len() == 19 => 0.92,
        (false, false, _) => {
            if view.is_whole(&n.range) {
                0.6
            } else {
                return None;
            }
        }
    })
}

pub(super) fn near_card(view: &View<'_>, n: &Number<'_>) -> bool {
    context::near(view, C::Card, n.range.start, n.range.end)
}

/// `5492 5493 5494 5495`: as in tables of codes.
fn counts_up(digits: &[u8]) -> bool {
    let (groups, _) = digits.as_chunks::<4>();
    groups.windows(2).all(|pair| {
        let (one, next) = (number(&pair[0]), number(&pair[1]));
        (one + 1..one + 16).contains(&next)
    })
}
