//! Chains of groups of digits, each tried as an identity number, a card or a phone number.

use crate::pii::found::Found;
use crate::pii::identity_numbers::ROWS_AT;
use crate::pii::number::{MAX_DIGITS, MAX_GAP, MAX_GROUPS, MIN_DIGITS, Number, Separator, is_wide};
use crate::pii::view::View;
use crate::pii::{ids, phone};

/// Tries every chain of groups as an identity number, a card or a phone number.
pub(super) fn find(view: &View<'_>, found: &mut Found, limit: usize) {
    for (first, group) in view.groups.iter().enumerate() {
        // Most numbers are short and stand alone: refused before anything is gathered.
        let near = view.groups.get(first + 1).is_some_and(|n| n.start() - group.end() <= MAX_GAP);
        if group.len() < MIN_DIGITS && !near {
            continue;
        }
        if found.len() > limit * 4 {
            return;
        }
        chains_from(view, first, found);
        phone::find(view, first, found);
    }
}

fn chains_from(view: &View<'_>, first: usize, found: &mut Found) {
    let (mut digits, mut lens) = ([0u8; MAX_DIGITS], [0u8; MAX_GROUPS]);
    let (mut count, mut shapes) = (0, u64::MAX);
    let (mut separator, mut broken) = (Separator::None, false);
    let start = view.groups[first].start();
    for (index, group) in view.groups[first..].iter().take(MAX_GROUPS).enumerate() {
        if index > 0 {
            let gap = &view.bytes[view.groups[first + index - 1].end()..group.start()];
            match *gap {
                [byte @ (b' ' | b'-' | b'.' | b'/' | b':' | b'+')] => {
                    separator = match separator {
                        Separator::None => Separator::One(byte),
                        Separator::One(first) if first != byte => Separator::Mixed,
                        same => same,
                    };
                }
                [b'\n'] | [b'\r' | b' ' | b'-', b'\n'] | [b'-', b'\r', b'\n'] if !broken => {
                    broken = true;
                }
                _ if is_wide(gap) && lens[0] == 4 && matches!(lens[index - 1], 4 | 6) => {
                    separator = Separator::Wide;
                }
                _ => return,
            }
        }
        if count + group.len() > MAX_DIGITS {
            return;
        }
        for &byte in &view.bytes[group.range()] {
            digits[count] = byte - b'0';
            count += 1;
        }
        lens[index] = group.len() as u8;
        shapes &= ROWS_AT[index][group.len()];
        if index > 0 && shapes == 0 {
            return;
        }
        if count >= MIN_DIGITS && (separator != Separator::None || !broken) {
            let number = Number {
                digits: &digits[..count],
                lens: &lens[..=index],
                shapes,
                separator,
                range: start..group.end(),
                broken,
            };
            ids::find(view, &number, found);
        }
    }
}
