//! Check characters of identity numbers that mix letters and digits.

use crate::pii::digits::is_day;

/// The digits of a token as one number.
pub(super) fn digits(token: &[u8]) -> u64 {
    token.iter().filter(|b| b.is_ascii_digit()).fold(0, |n, b| n * 10 + u64::from(b - b'0'))
}

fn value(byte: u8) -> u32 {
    if byte.is_ascii_digit() { u32::from(byte - b'0') } else { u32::from(byte - b'A') + 10 }
}

/// Taiwan: the letter counts as two digits.
pub(super) fn taiwanese(t: &[u8]) -> bool {
    const ORDER: &[u8; 26] = b"ABCDEFGHJKLMNPQRSTUVXYWZIO";
    let Some(place) = ORDER.iter().position(|b| *b == t[0]) else { return false };
    let place = place as u32 + 10;
    let rest = t[1..].iter().zip([8, 7, 6, 5, 4, 3, 2, 1, 1]).map(|(&b, w)| value(b) * w);
    (place / 10 + place % 10 * 9 + rest.sum::<u32>()).is_multiple_of(10)
}

/// Ireland: a second letter counts nine times.
pub(super) fn irish(t: &[u8]) -> bool {
    let sum: u32 = t[..7].iter().zip([8, 7, 6, 5, 4, 3, 2]).map(|(&b, w)| value(b) * w).sum();
    let second = t.get(8).map_or(0, |b| u32::from(b - b'A') + 1);
    t[7] == b"WABCDEFGHIJKLMNOPQRSTUV"[((sum + second * 9) % 23) as usize]
}

/// Hong Kong, without its parentheses.
pub(super) fn hong_kong(t: &[u8]) -> bool {
    let sum: u32 =
        36 * 9 + t[..7].iter().zip([8, 7, 6, 5, 4, 3, 2]).map(|(&b, w)| value(b) * w).sum::<u32>();
    let check = if t[7] == b'A' { 10 } else { value(t[7]) };
    (sum + check).is_multiple_of(11)
}

/// Mexico: a birthday in the middle.
pub(super) fn rfc(t: &[u8]) -> bool {
    is_day(digits(&t[6..8]), digits(&t[8..10]))
}

/// India: base 36, every second character twice.
pub(super) fn gstin(t: &[u8]) -> bool {
    let sum: u32 = t[..14]
        .iter()
        .enumerate()
        .map(|(i, &b)| {
            let product = value(b) * (1 + i as u32 % 2);
            product / 36 + product % 36
        })
        .sum();
    (36 - sum % 36) % 36 == value(t[14])
}

/// Germany's pension insurance: area, birthday, initial, serial.
pub(super) fn german_pension(t: &[u8]) -> bool {
    let initial = u32::from(t[8] - b'A') + 1;
    let mut full = [0u32; 12];
    for (slot, &byte) in full.iter_mut().zip(&t[..8]) {
        *slot = value(byte);
    }
    full[8] = initial / 10;
    full[9] = initial % 10;
    full[10] = value(t[9]);
    full[11] = value(t[10]);
    let sum: u32 =
        full.iter().zip([2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1]).map(|(&d, w)| cross(d * w)).sum();
    let day = digits(&t[2..4]);
    let born = is_day(digits(&t[4..6]), if day > 50 { day - 50 } else { day });
    born && sum % 10 == value(t[11])
}

/// Germany's health insurance: the letter counts as two digits.
pub(super) fn german_health(t: &[u8]) -> bool {
    let letter = u32::from(t[0] - b'A') + 1;
    let rest = t[1..9].iter().map(|&b| value(b));
    let all = [letter / 10, letter % 10].into_iter().chain(rest);
    let sum: u32 = all.enumerate().map(|(i, d)| cross(d * (1 + i as u32 % 2))).sum();
    sum % 10 == value(t[9])
}

/// The American Medicare number leaves out letters that look like digits.
pub(super) fn mbi(t: &[u8]) -> bool {
    t[0] != b'0' && !t.iter().any(|b| b"SLOIBZ".contains(b))
}

fn cross(number: u32) -> u32 {
    number / 10 + number % 10
}

#[cfg(test)]
mod tests {
    use super::*;

    type Check = fn(&[u8]) -> bool;

    #[test]
    fn published_samples_pass_and_fail_with_another_digit() {
        let checks: [(Check, &str); 6] = [
            (taiwanese, "A123456789"),
            (irish, "1234567T"),
            (irish, "1234567FA"),
            (hong_kong, "A1234563"),
            (gstin, "27AAPFU0939F1ZV"),
            (german_health, "A123456780"),
        ];
        for (check, sample) in checks {
            assert!(check(sample.as_bytes()), "{sample}");
            let mut other = sample.as_bytes().to_vec();
            other[3] = if other[3] == b'9' { b'8' } else { other[3] + 1 };
            assert!(!check(&other), "{sample}");
        }
        assert!(german_pension(b"15070649C103"));
        assert!(mbi(b"1EG4TE5MK73"));
    }
}
