//! Check digits of identity numbers that are looked for only next to a word that names them, or in a shape of their own.

use crate::pii::digits::is_day;
use crate::text::checksum::{luhn, number, weighted};

/// Japan: the last digit checks eleven others.
pub(super) fn my_number(d: &[u8]) -> bool {
    let rest = weighted(d, &[6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11;
    (if rest <= 1 { 0 } else { 11 - rest }) == u32::from(d[11])
}

/// Malaysia: a birthday and a state.
pub(super) fn malaysian(d: &[u8]) -> bool {
    is_day(number(&d[2..4]), number(&d[4..6]))
        && matches!(number(&d[6..8]), 1..=16 | 21..=68 | 71 | 72 | 74..=79 | 82..=93 | 98 | 99)
}

/// Indonesia: a district, and a birthday to which women add forty.
pub(super) fn indonesian(d: &[u8]) -> bool {
    let day = number(&d[6..8]);
    matches!(number(&d[..2]), 11..=99)
        && is_day(number(&d[8..10]), if day > 40 { day - 40 } else { day })
}

/// Portugal.
pub(super) fn portuguese(d: &[u8]) -> bool {
    let rest = weighted(d, &[9, 8, 7, 6, 5, 4, 3, 2]) % 11;
    matches!(d[0], 1..=3 | 5 | 6 | 8 | 9)
        && (if rest < 2 { 0 } else { 11 - rest }) == u32::from(d[8])
}

/// Greece.
pub(super) fn greek(d: &[u8]) -> bool {
    weighted(d, &[256, 128, 64, 32, 16, 8, 4, 2]) % 11 % 10 == u32::from(d[8])
}

/// Romania: sex, birthday, county.
pub(super) fn romanian(d: &[u8]) -> bool {
    let rest = weighted(d, &[2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9]) % 11;
    let county = matches!(number(&d[7..9]), 1..=52 | 70);
    let born = is_day(number(&d[3..5]), number(&d[5..7]));
    d[0] != 0 && county && born && (if rest == 10 { 1 } else { rest }) == u32::from(d[12])
}

/// Bulgaria: a birthday whose month tells the century.
pub(super) fn bulgarian(d: &[u8]) -> bool {
    let rest = weighted(d, &[2, 4, 8, 5, 10, 9, 7, 3, 6]) % 11;
    is_day(number(&d[2..4]) % 20, number(&d[4..6])) && rest % 10 == u32::from(d[9])
}

/// Czechia and Slovakia: a birthday to whose month women add fifty.
pub(super) fn czech(d: &[u8]) -> bool {
    let month = match number(&d[2..4]) {
        month @ 71..=82 => month - 70,
        month @ 51..=62 => month - 50,
        month @ 21..=32 => month - 20,
        month => month,
    };
    is_day(month, number(&d[4..6])) && number(d).is_multiple_of(11)
}

/// Estonia and Lithuania: century and sex, birthday, two rounds of weights.
pub(super) fn baltic(d: &[u8]) -> bool {
    let first = weighted(d, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 1]) % 11;
    let second = weighted(d, &[3, 4, 5, 6, 7, 8, 9, 1, 2, 3]) % 11;
    let check = if first < 10 { first } else { second % 10 };
    (1..=8).contains(&d[0])
        && is_day(number(&d[3..5]), number(&d[5..7]))
        && check == u32::from(d[10])
}

/// Austria: a serial number with a check digit, then a birthday.
pub(super) fn austrian(d: &[u8]) -> bool {
    let sum = weighted(&d[..3], &[3, 7, 9]) + weighted(&d[4..], &[5, 8, 4, 2, 1, 6]);
    is_day(number(&d[6..8]), number(&d[4..6])) && sum % 11 == u32::from(d[3])
}

/// Argentina.
pub(super) fn argentine(d: &[u8]) -> bool {
    let check = 11 - weighted(d, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11;
    matches!(number(&d[..2]), 20 | 23 | 24 | 25 | 26 | 27 | 30 | 33 | 34)
        && (if check == 11 { 0 } else { check }) == u32::from(d[10])
}

/// Russia's pension insurance.
pub(super) fn snils(d: &[u8]) -> bool {
    let sum = weighted(d, &[9, 8, 7, 6, 5, 4, 3, 2, 1]) % 101 % 100;
    u64::from(sum) == number(&d[9..])
}

/// Russia's tax number of a person.
pub(super) fn inn(d: &[u8]) -> bool {
    weighted(d, &[7, 2, 4, 10, 3, 5, 9, 4, 6, 8]) % 11 % 10 == u32::from(d[10])
        && weighted(d, &[3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8]) % 11 % 10 == u32::from(d[11])
}

/// United Arab Emirates: the country's number, a year of birth.
pub(super) fn emirati(d: &[u8]) -> bool {
    number(&d[..3]) == 784 && (1900..=2100).contains(&number(&d[3..7])) && luhn(d)
}

/// Saudi Arabia: 1 for citizens, 2 for residents.
pub(super) fn saudi(d: &[u8]) -> bool {
    matches!(d[0], 1 | 2) && luhn(d)
}

/// New Zealand's tax number, written with nine digits.
pub(super) fn ird(d: &[u8]) -> bool {
    let mut full = [0u8; 9];
    full[9 - d.len()..].copy_from_slice(d);
    let check = |weights: &[u32; 8]| (11 - weighted(&full, weights) % 11) % 11;
    let (first, second) = (check(&[3, 2, 7, 6, 5, 4, 3, 2]), check(&[7, 4, 3, 2, 5, 2, 7, 6]));
    (10_000_000..=150_000_000).contains(&number(d))
        && (if first == 10 { second } else { first }) == u32::from(full[8])
}

#[cfg(test)]
mod tests {
    use super::*;

    type Check = fn(&[u8]) -> bool;

    fn digits(text: &str) -> Vec<u8> {
        text.bytes().filter(u8::is_ascii_digit).map(|b| b - b'0').collect()
    }

    #[test]
    fn published_samples_pass_and_fail_with_another_last_digit() {
        let checks: [(Check, &str); 12] = [
            (my_number, "1234 5678 9018"),
            (portuguese, "123456789"),
            (greek, "094259216"),
            (romanian, "1800101221144"),
            (bulgarian, "7523169263"),
            (czech, "7103192745"),
            (baltic, "37605030299"),
            (austrian, "1237 010180"),
            (argentine, "20-12345678-6"),
            (snils, "112-233-445 95"),
            (inn, "500100732259"),
            (ird, "49-091-850"),
        ];
        for (check, sample) in checks {
            let mut d = digits(sample);
            assert!(check(&d), "{sample}");
            let last = d.len() - 1;
            d[last] = (d[last] + 1) % 10;
            assert!(!check(&d), "{sample}");
        }
    }
}
