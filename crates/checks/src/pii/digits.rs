//! Check-digit rules of identity numbers, one function a number.

use crate::text::checksum::{luhn, mod_11_10, number, verhoeff, weighted};

pub(super) fn any(_: &[u8]) -> bool {
    true
}

pub(super) fn ssn(d: &[u8]) -> bool {
    let (area, group, serial) = (number(&d[..3]), number(&d[3..5]), number(&d[5..]));
    let sample = matches!((area, group, serial), (78, 5, 1120) | (219, 9, 9999));
    area != 0 && area != 666 && area < 900 && group != 0 && serial != 0 && !sample
}

pub(super) fn itin(d: &[u8]) -> bool {
    d[0] == 9 && matches!(number(&d[3..5]), 50..=65 | 70..=88 | 90..=92 | 94..=99)
}

pub(super) fn sin(d: &[u8]) -> bool {
    !matches!(d[0], 0 | 8) && luhn(d)
}

/// A SIN that is nobody's: forms and handbooks show ones that begin with 0.
pub(super) fn sample_sin(d: &[u8]) -> bool {
    d[0] == 0 && luhn(d)
}

pub(super) fn tfn(d: &[u8]) -> bool {
    weighted(d, &[1, 4, 3, 7, 5, 8, 6, 9, 10]).is_multiple_of(11)
}

pub(super) fn acn(d: &[u8]) -> bool {
    (10 - weighted(d, &[8, 7, 6, 5, 4, 3, 2, 1]) % 10) % 10 == u32::from(d[8])
}

pub(super) fn bsn(d: &[u8]) -> bool {
    let sum = weighted(&d[..8], &[9, 8, 7, 6, 5, 4, 3, 2]);
    sum >= u32::from(d[8]) && (sum - u32::from(d[8])).is_multiple_of(11)
}

pub(super) fn aba(d: &[u8]) -> bool {
    matches!(number(&d[..2]), 1..=12 | 21..=32 | 61..=72 | 80)
        && weighted(d, &[3, 7, 1, 3, 7, 1, 3, 7, 1]).is_multiple_of(10)
}

pub(super) fn nhs(d: &[u8]) -> bool {
    (11 - weighted(d, &[10, 9, 8, 7, 6, 5, 4, 3, 2]) % 11) % 11 == u32::from(d[9])
}

pub(super) fn npi(d: &[u8]) -> bool {
    let mut full = vec![8, 0, 8, 4, 0];
    full.extend_from_slice(d);
    matches!(d[0], 1 | 2) && luhn(&full)
}

pub(super) fn medicare(d: &[u8]) -> bool {
    matches!(d[0], 2..=6) && weighted(d, &[1, 3, 7, 9, 1, 3, 7, 9]) % 10 == u32::from(d[8])
}

pub(super) fn is_day(month: u64, day: u64) -> bool {
    let last = match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=last).contains(&day)
}

pub(super) fn day_first(d: &[u8]) -> bool {
    is_day(number(&d[2..4]), number(&d[..2]))
}

pub(super) fn pnr(d: &[u8]) -> bool {
    let short = &d[d.len() - 10..];
    let century = d.len() == 10 || matches!(number(&d[..2]), 18..=20);
    let day = number(&short[4..6]);
    century && is_day(number(&short[2..4]), if day > 60 { day - 60 } else { day }) && luhn(short)
}

pub(super) fn fnr(d: &[u8]) -> bool {
    let first = (11 - weighted(d, &[3, 7, 6, 1, 8, 9, 4, 5, 2]) % 11) % 11;
    let second = (11 - weighted(d, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2]) % 11) % 11;
    day_first(d) && first == u32::from(d[9]) && second == u32::from(d[10])
}

pub(super) fn aadhaar(d: &[u8]) -> bool {
    d[0] >= 2 && verhoeff(d)
}

pub(super) fn abn(d: &[u8]) -> bool {
    let mut shifted = [0u8; 11];
    shifted.copy_from_slice(d);
    d[0] > 0 && {
        shifted[0] -= 1;
        weighted(&shifted, &[10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19]).is_multiple_of(89)
    }
}

pub(super) fn pesel(d: &[u8]) -> bool {
    // The month encodes the century; nobody was born after 2100.
    let century = matches!(number(&d[2..4]), 1..=12 | 21..=32 | 81..=92);
    century
        && is_day(number(&d[2..4]) % 20, number(&d[4..6]))
        && weighted(d, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]).is_multiple_of(10)
}

/// Germany: of the first ten digits one stands there twice or three times, all others once at most.
pub(super) fn german_tax(d: &[u8]) -> bool {
    let mut times = [0; 10];
    for &digit in &d[..10] {
        times[usize::from(digit)] += 1;
    }
    let repeated = || times.iter().filter(|&&times| times > 1);
    german_tax_sample(d) && repeated().count() == 1 && repeated().all(|&times| times <= 3)
}

/// One that nobody has: its check digit alone is right.
pub(super) fn german_tax_sample(d: &[u8]) -> bool {
    d[0] != 0 && mod_11_10(d)
}

/// Italy: behind the number, the office that gave it out.
pub(super) fn italian_vat(d: &[u8]) -> bool {
    matches!(number(&d[7..10]), 1..=100 | 120 | 121 | 888 | 999) && italian_vat_sample(d)
}

/// One of no office.
pub(super) fn italian_vat_sample(d: &[u8]) -> bool {
    number(&d[..7]) > 0 && luhn(d)
}

pub(super) fn cpf(d: &[u8]) -> bool {
    let check = |n: usize| {
        let rest = (0..n).map(|i| u32::from(d[i]) * (n + 1 - i) as u32).sum::<u32>() * 10 % 11;
        rest % 10 == u32::from(d[n])
    };
    check(9) && check(10)
}

pub(super) fn cnpj(d: &[u8]) -> bool {
    let check = |weights: &[u32]| {
        let rest = weighted(d, weights) % 11;
        (if rest < 2 { 0 } else { 11 - rest }) == u32::from(d[weights.len()])
    };
    check(&[5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2]) && check(&[6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2])
}

/// Belgium: a birthday, of which nothing but the year may be known; foreigners add 20 or 40 to the month.
pub(super) fn belgian(d: &[u8]) -> bool {
    if number(&d[2..4]) > 52 || number(&d[2..4]) % 20 > 12 || number(&d[4..6]) > 31 {
        return false;
    }
    let (body, check) = (number(&d[..9]), number(&d[9..]));
    97 - body % 97 == check || 97 - (2_000_000_000 + body) % 97 == check
}

pub(super) fn turkish(d: &[u8]) -> bool {
    let odd: u32 = (0..9).step_by(2).map(|i| u32::from(d[i])).sum();
    let even: u32 = (1..8).step_by(2).map(|i| u32::from(d[i])).sum();
    let all: u32 = d[..10].iter().map(|&x| u32::from(x)).sum();
    d[0] != 0 && (odd * 7 + 100 - even) % 10 == u32::from(d[9]) && all % 10 == u32::from(d[10])
}

pub(super) fn rrn(d: &[u8]) -> bool {
    is_day(number(&d[2..4]), number(&d[4..6])) && (1..=4).contains(&d[6])
}

/// One from before October 2020: those since then have no check digit.
pub(super) fn checked_rrn(d: &[u8]) -> bool {
    let sum = weighted(&d[..12], &[2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5]);
    rrn(d) && (11 - sum % 11) % 10 == u32::from(d[12])
}

pub(super) fn thai(d: &[u8]) -> bool {
    let sum = weighted(&d[..12], &[13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2]);
    // The provinces, as they are numbered.
    let province = matches!(number(&d[1..3]), 10..=27 | 30..=50 | 51 | 53..=57 | 60..=67 | 70..=77 | 80..=86 | 90..=96);
    (1..=8).contains(&d[0]) && province && (11 - sum % 11) % 10 == u32::from(d[12])
}

pub(super) fn south_african(d: &[u8]) -> bool {
    is_day(number(&d[2..4]), number(&d[4..6])) && d[10] <= 2 && luhn(d)
}

pub(super) fn swiss(d: &[u8]) -> bool {
    let sum = weighted(&d[..12], &[1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3]);
    number(&d[..3]) == 756 && (10 - sum % 10) % 10 == u32::from(d[12])
}

pub(super) fn nir(d: &[u8]) -> bool {
    matches!(d[0], 1 | 2)
        && matches!(number(&d[3..5]), 1..=12 | 20..=42 | 50..=99)
        && 97 - number(&d[..13]) % 97 == number(&d[13..])
}

pub(super) fn chinese(d: &[u8]) -> bool {
    let sum = weighted(&d[..17], &[7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2]);
    matches!(number(&d[6..8]), 18..=20)
        && is_day(number(&d[10..12]), number(&d[12..14]))
        && (12 - sum % 11) % 11 == u32::from(d[17])
}
