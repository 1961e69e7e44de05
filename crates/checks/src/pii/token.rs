//! Identity numbers that mix letters and digits.

use std::ops::Range;

use crate::pii::context;
use crate::pii::digits::italian_vat_sample;
use crate::pii::found::{Entity, Found};
use crate::pii::letters::{self, digits};
use crate::pii::view::View;
use crate::text::spans::Span;
use crate::text::words::{LETTER, free_after, free_before, kind};
use crate::vocabulary::contexts::Context as C;

struct Row {
    kind: &'static str,
    /// `A` a letter, `9` a digit, `X` either, `U`, `Z`, `1` and `2` themselves.
    mask: &'static [u8],
    check: fn(&[u8]) -> bool,
    context: C,
    /// Score without context; 0 when it proves nothing.
    plain: f64,
    /// Score when it is all there is in the text.
    whole: f64,
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { kind: "IN_PAN", mask: b"AAAAA9999A", check: pan, context: C::Pan, plain: 0.6, whole: 0.7 },
    Row { kind: "IN_PAN", mask: b"AAAAA9999A", check: any, context: C::Pan, plain: 0.0, whole: 0.45 },
    Row { kind: "IT_FISCAL_CODE", mask: b"AAAAAAXXAXXAXXXA", check: fiscal_code, context: C::NationalId, plain: 0.8, whole: 0.85 },
    Row { kind: "ES_NIF", mask: b"99999999A", check: spanish, context: C::Dni, plain: 0.6, whole: 0.7 },
    Row { kind: "ES_NIF", mask: b"9999999A", check: spanish, context: C::Dni, plain: 0.0, whole: 0.6 },
    Row { kind: "ES_NIE", mask: b"A9999999A", check: foreign_spanish, context: C::Dni, plain: 0.65, whole: 0.7 },
    Row { kind: "SG_NRIC", mask: b"A9999999A", check: singapore, context: C::Nric, plain: 0.6, whole: 0.7 },
    Row { kind: "UK_NINO", mask: NINO, check: nino, context: C::Nino, plain: 0.6, whole: 0.7 },
    Row { kind: "FI_HETU", mask: b"999999A999X", check: finnish, context: C::Hetu, plain: 0.75, whole: 0.8 },
    Row { kind: "CN_ID", mask: b"99999999999999999A", check: chinese, context: C::NationalId, plain: 0.7, whole: 0.8 },
    Row { kind: "MX_CURP", mask: b"AAAA999999AAAAAAX9", check: curp, context: C::NationalId, plain: 0.75, whole: 0.8 },
    Row { kind: "DRIVER_LICENSE", mask: b"AAAAA999999XX9AA", check: any, context: C::Licence, plain: 0.6, whole: 0.7 },
    Row { kind: "DRIVER_LICENSE", mask: b"AA9999999A", check: italian_licence, context: C::Licence, plain: 0.5, whole: 0.6 },
    Row { kind: "IT_IDENTITY_CARD", mask: b"AA99999AA", check: any, context: C::NationalId, plain: 0.0, whole: 0.45 },
    Row { kind: "IT_IDENTITY_CARD", mask: b"9999999AA", check: any, context: C::NationalId, plain: 0.0, whole: 0.45 },
    Row { kind: "IT_IDENTITY_CARD", mask: b"AA9999999", check: any, context: C::ItalianCard, plain: 0.0, whole: 0.0 },
    Row { kind: "DRIVER_LICENSE", mask: b"U1XXXXXXXA", check: any, context: C::Licence, plain: 0.5, whole: 0.6 },
    Row { kind: "MEDICAL_LICENSE", mask: b"AA9999999", check: dea, context: C::Dea, plain: 0.0, whole: 0.6 },
    Row { kind: "TW_ID", mask: b"A199999999", check: letters::taiwanese, context: C::NationalId, plain: 0.0, whole: 0.6 },
    Row { kind: "TW_ID", mask: b"A299999999", check: letters::taiwanese, context: C::NationalId, plain: 0.0, whole: 0.6 },
    Row { kind: "IE_PPS", mask: b"9999999A", check: letters::irish, context: C::Pps, plain: 0.0, whole: 0.6 },
    Row { kind: "IE_PPS", mask: b"9999999AA", check: letters::irish, context: C::Pps, plain: 0.0, whole: 0.6 },
    Row { kind: "HK_ID", mask: b"A999999X", check: letters::hong_kong, context: C::Hkid, plain: 0.0, whole: 0.0 },
    Row { kind: "MX_RFC", mask: b"AAAA999999XXX", check: letters::rfc, context: C::Rfc, plain: 0.0, whole: 0.6 },
    Row { kind: "IN_GSTIN", mask: b"99AAAAA9999AXZX", check: letters::gstin, context: C::Gstin, plain: 0.7, whole: 0.8 },
    Row { kind: "IN_VOTER", mask: b"AAA9999999", check: any, context: C::Voter, plain: 0.0, whole: 0.0 },
    Row { kind: "DE_SOCIAL_SECURITY", mask: b"99999999A999", check: letters::german_pension, context: C::SocialInsurance, plain: 0.6, whole: 0.7 },
    Row { kind: "DE_HEALTH_INSURANCE", mask: b"A999999999", check: letters::german_health, context: C::Health, plain: 0.0, whole: 0.5 },
    Row { kind: "US_MBI", mask: b"9AX9AX9AA99", check: letters::mbi, context: C::Medicare, plain: 0.5, whole: 0.7 },
    Row { kind: "PASSPORT", mask: b"A99999999", check: any, context: C::Passport, plain: 0.0, whole: 0.45 },
    Row { kind: "PASSPORT", mask: b"A9999999", check: not_zero, context: C::Passport, plain: 0.0, whole: 0.45 },
    Row { kind: "PASSPORT", mask: b"AA9999999", check: any, context: C::Passport, plain: 0.0, whole: 0.45 },
];

/// The kinds of tokens that the rows have.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.kind)
}

/// Tries each token, and the few numbers written with separators.
pub(super) fn find(view: &View<'_>, found: &mut Found) {
    let mut compact = [0u8; 20];
    for range in view.tokens.iter().map(Span::range) {
        if range.len() == 7 && view.bytes.get(range.end) == Some(&b'(') {
            hong_kong(view, range.start, range.end, found);
        }
        if range.len() == 4 && view.bytes.get(range.end) == Some(&b'-') {
            medicare(view, range.start, found);
        }
        if (8..=18).contains(&range.len()) {
            compact[..range.len()].copy_from_slice(&view.bytes[range.clone()]);
            compact[..range.len()].make_ascii_uppercase();
            judge(view, &compact[..range.len()], range.start, range.end, found);
            italian_vat(view, &compact[..range.len()], &range, found);
        } else if range.len() <= 4 || range.len() == 7 {
            if !view.bytes[range.start].is_ascii_digit() {
                spaced(view, range.start, found);
            } else if behind_pair(view.bytes, range.start) {
                spaced(view, range.start - 3, found);
            }
        }
    }
    for range in view.groups.iter().map(Span::range) {
        match range.len() {
            7 | 8 => {
                dashed_letter(view, range.start, range.end, found);
                dashed_rut(view, range.start, range.end, found);
            }
            3 => chilean(view, range.start, range.end, found),
            6 => dashed_hetu(view, range.start, range.end, found),
            2 if behind_pair(view.bytes, range.start) => spaced(view, range.start - 3, found),
            _ => {}
        }
    }
}

fn judge(view: &View<'_>, token: &[u8], start: usize, end: usize, found: &mut Found) {
    for row in ROWS.iter().filter(|row| matches(row.mask, token) && (row.check)(token)) {
        let alone = if view.is_whole(&(start..end)) {
            row.whole.max(row.plain)
        } else if is_small_hex(&view.bytes[start..end]) {
            // The beginning of a checksum or of a commit has the form of many numbers.
            0.0
        } else {
            row.plain
        };
        let score = if context::near(view, row.context, start, end) { 0.85 } else { alone };
        if score > 0.0 {
            found.push(Entity::new(row.kind, start..end, score));
        }
    }
}

/// `IT30816210790`: an Italian number behind its country, next to its name.
fn italian_vat(view: &View<'_>, token: &[u8], range: &Range<usize>, found: &mut Found) {
    let Some(digits) = token.strip_prefix(b"IT").filter(|rest| rest.len() == 11) else { return };
    let is_one = || {
        let mut values = [0u8; 11];
        for (value, digit) in values.iter_mut().zip(digits) {
            *value = digit - b'0';
        }
        italian_vat_sample(&values)
    };
    if digits.iter().all(u8::is_ascii_digit)
        && is_one()
        && context::near(view, C::Vat, range.start, range.end)
    {
        found.push(Entity::new("IT_VAT", range.start + 2..range.end, 0.85));
    }
}

/// Whether a token may be written hexadecimally, in small letters.
fn is_small_hex(token: &[u8]) -> bool {
    token.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn matches(mask: &[u8], token: &[u8]) -> bool {
    mask.len() == token.len()
        && mask.iter().zip(token).all(|(m, b)| match m {
            b'A' => b.is_ascii_uppercase(),
            b'9' => b.is_ascii_digit(),
            b'U' | b'Z' | b'1' | b'2' => m == b,
            _ => b.is_ascii_alphanumeric(),
        })
}

/// `12345678-Z`: a Spanish number with its letter behind a dash.
fn dashed_letter(view: &View<'_>, start: usize, end: usize, found: &mut Found) {
    let rest = &view.bytes[end..];
    if rest.len() >= 2
        && rest[0] == b'-'
        && rest[1].is_ascii_alphabetic()
        && free_after(view.bytes, end + 2)
    {
        let mut token = [0u8; 10];
        // `X-1234567-Z`: of a foreigner.
        let lead = match start.checked_sub(2).map(|at| &view.bytes[at..start]) {
            Some([letter, b'-']) if free_before(view.bytes, start - 2) => {
                token[0] = letter.to_ascii_uppercase();
                usize::from(letter.is_ascii_alphabetic())
            }
            _ => 0,
        };
        let digits = lead + end - start;
        token[lead..digits].copy_from_slice(&view.bytes[start..end]);
        token[digits] = rest[1].to_ascii_uppercase();
        judge(view, &token[..=digits], start - 2 * lead, end + 2, found);
    }
}

/// `1EG4-TE5-MK73`: an American Medicare number as it is printed.
fn medicare(view: &View<'_>, start: usize, found: &mut Found) {
    let Some(printed) = view.bytes.get(start..start + 13) else { return };
    let mut token = [0u8; 11];
    let parts = [(0, 4, 0), (5, 8, 4), (9, 13, 7)];
    for (from, to, at) in parts {
        token[at..at + to - from].copy_from_slice(&printed[from..to]);
    }
    token.make_ascii_uppercase();
    let mask = b"9AX9AX9AA99";
    if printed[4] == b'-' && printed[8] == b'-' && matches(mask, &token) && letters::mbi(&token) {
        found.push(Entity::new("US_MBI", start..start + 13, 0.75));
    }
}

/// `A123456(3)`: a number of Hong Kong.
fn hong_kong(view: &View<'_>, start: usize, end: usize, found: &mut Found) {
    let Some([b'(', check, b')']) = view.bytes.get(end..end + 3) else { return };
    let mut token = [0u8; 8];
    token[..7].copy_from_slice(&view.bytes[start..end]);
    token[7] = *check;
    token.make_ascii_uppercase();
    if matches(b"A999999X", &token) && letters::hong_kong(&token) {
        found.push(Entity::new("HK_ID", start..end + 3, 0.75));
    }
}

/// `12.345.678-5`, `12.345.678-K`: a Chilean number, recognized by its dots and its check digit.
fn chilean(view: &View<'_>, start: usize, end: usize, found: &mut Found) {
    let bytes = view.bytes;
    let (Some(&b'-'), Some(&check)) = (bytes.get(end), bytes.get(end + 1)) else { return };
    // Three digits between dots, and up to two before them.
    let Some(lead) = start.checked_sub(5) else { return };
    let dotted = bytes[start - 1] == b'.'
        && bytes[lead] == b'.'
        && bytes[lead + 1..start - 1].iter().all(u8::is_ascii_digit);
    if !dotted || !free_after(bytes, end + 2) {
        return;
    }
    let begin =
        lead - bytes[..lead].iter().rev().take(2).take_while(|b| b.is_ascii_digit()).count();
    if begin == lead || !free_before(bytes, begin) {
        return;
    }
    if is_rut(&bytes[begin..end], check) {
        found.push(Entity::new("CL_RUT", begin..end + 2, 0.75));
    } else if lead - begin == 2 && check.is_ascii_alphabetic() {
        // A Spanish number is written with dots, too.
        let mut token = [0u8; 9];
        for (to, from) in token.iter_mut().zip(bytes[begin..end].iter().filter(|&&b| b != b'.')) {
            *to = *from;
        }
        token[8] = check.to_ascii_uppercase();
        judge(view, &token, begin, end + 2, found);
    }
}

/// `12345678-5`: a Chilean number without its dots, next to its name.
fn dashed_rut(view: &View<'_>, start: usize, end: usize, found: &mut Found) {
    let Some(&[b'-', check]) = view.bytes.get(end..end + 2) else { return };
    let range = start..end + 2;
    let known = view.is_whole(&range) || context::near(view, C::Rut, start, range.end);
    if known && free_after(view.bytes, range.end) && is_rut(&view.bytes[start..end], check) {
        found.push(Entity::new("CL_RUT", range, 0.85));
    }
}

/// Whether a check digit is that of a Chilean number.
fn is_rut(number: &[u8], check: u8) -> bool {
    let digits = number.iter().filter(|b| b.is_ascii_digit()).map(|b| b - b'0');
    let sum: u32 = digits.rev().zip([2, 3, 4, 5, 6, 7, 2, 3]).map(|(d, w)| u32::from(d) * w).sum();
    match (11 - sum % 11) % 11 {
        10 => check.eq_ignore_ascii_case(&b'K'),
        value => u32::from(check) == value + u32::from(b'0'),
    }
}

/// `010203-123A`: a Finnish number of the last century.
fn dashed_hetu(view: &View<'_>, start: usize, end: usize, found: &mut Found) {
    let stop = end + 5;
    if stop <= view.bytes.len()
        && matches!(view.bytes[end], b'-' | b'+')
        && free_after(view.bytes, stop)
        && free_before(view.bytes, start)
    {
        let mut token = view.bytes[start..stop].to_ascii_uppercase();
        token[6] = b'A';
        judge(view, &token, start, stop, found);
    }
}

/// Whether two letters and a space stand in front.
fn behind_pair(text: &[u8], at: usize) -> bool {
    let letter = |back: usize| kind(text, at.wrapping_sub(back)) & LETTER != 0;
    at > 2 && text[at - 1] == b' ' && letter(2) && letter(3) && !letter(4)
}

/// The form of a British number.
const NINO: &[u8; 9] = b"AA999999A";

/// `AB 12 34 56 C` and `AB 123456C`: a British number in groups.
fn spaced(view: &View<'_>, begin: usize, found: &mut Found) {
    if !free_before(view.bytes, begin) {
        return;
    }
    let (mut token, mut length, mut end) = ([0u8; 9], 0, begin);
    while length < 9 && end < view.bytes.len() {
        match view.bytes[end] {
            b if b.is_ascii_alphanumeric() => {
                token[length] = b.to_ascii_uppercase();
                if !matches(&NINO[length..=length], &token[length..=length]) {
                    return;
                }
                length += 1;
            }
            b' ' | b'-' if length > 0 => {}
            _ => return,
        }
        end += 1;
    }
    if length == 9 && end - begin > 9 && free_after(view.bytes, end) {
        judge(view, &token, begin, end, found);
    }
}

// === checks ===

fn any(_: &[u8]) -> bool {
    true
}

fn pan(t: &[u8]) -> bool {
    b"PCHFATBLJG".contains(&t[3])
}

fn not_zero(t: &[u8]) -> bool {
    t[1] != b'0'
}

fn spanish(t: &[u8]) -> bool {
    t.last() == Some(&b"TRWAGMYFPDXBNJZSQVHLCKE"[(digits(t) % 23) as usize])
}

fn foreign_spanish(t: &[u8]) -> bool {
    let Some(lead) = b"XYZ".iter().position(|b| *b == t[0]) else { return false };
    t[8] == b"TRWAGMYFPDXBNJZSQVHLCKE"[((digits(t) + lead as u64 * 10_000_000) % 23) as usize]
}

fn singapore(t: &[u8]) -> bool {
    let sum: u32 =
        t[1..8].iter().zip([2, 7, 6, 5, 4, 3, 2]).map(|(b, w)| u32::from(b - b'0') * w).sum();
    let (letters, add): (&[u8; 11], u32) = match t[0] {
        b'S' => (b"JZIHGFEDCBA", 0),
        b'T' => (b"JZIHGFEDCBA", 4),
        b'F' => (b"XWUTRQPNMLK", 0),
        b'G' => (b"XWUTRQPNMLK", 4),
        b'M' => (b"KLJNPQRTUWX", 3),
        _ => return false,
    };
    let at = (sum + add) % 11;
    t[8] == letters[(if t[0] == b'M' { 10 - at } else { at }) as usize]
}

fn nino(t: &[u8]) -> bool {
    let pair = &t[..2];
    !b"DFIQUV".contains(&t[0])
        && !b"DFIQUVO".contains(&t[1])
        && ![b"BG", b"GB", b"KN", b"NK", b"NT", b"TN", b"ZZ"].iter().any(|p| *p == pair)
        && (b'A'..=b'D').contains(&t[8])
}

fn finnish(t: &[u8]) -> bool {
    let number = digits(&t[..6]) * 1000 + digits(&t[7..10]);
    let (day, month) = (digits(&t[..2]), digits(&t[2..4]));
    b"ABCDEFYXWVU".contains(&t[6])
        && (1..=31).contains(&day)
        && (1..=12).contains(&month)
        && t[10] == b"0123456789ABCDEFHJKLMNPRSTUVWXY"[(number % 31) as usize]
}

fn fiscal_code(t: &[u8]) -> bool {
    const ODD: &[u8; 26] = &[
        1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24,
        23,
    ];
    let value = |b: u8| if b.is_ascii_digit() { b - b'0' } else { b - b'A' };
    let sum: u32 = t[..15]
        .iter()
        .enumerate()
        .map(|(i, &b)| u32::from(if i % 2 == 0 { ODD[value(b) as usize] } else { value(b) }))
        .sum();
    let checked = t[0].is_ascii_uppercase() && t[6].is_ascii_digit()
        || t.iter().any(|b| b"LMNPQRSTUV".contains(b));
    b"ABCDEHLMPRST".contains(&t[8]) && checked && u32::from(t[15] - b'A') == sum % 26
}

fn chinese(t: &[u8]) -> bool {
    let sum: u32 = t[..17]
        .iter()
        .zip([7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2])
        .map(|(b, w)| u32::from(b - b'0') * w)
        .sum();
    t[17] == b'X' && sum % 11 == 2
}

fn curp(t: &[u8]) -> bool {
    matches!(t[10], b'H' | b'M' | b'X') && (1..=12).contains(&digits(&t[6..8]))
}

fn italian_licence(t: &[u8]) -> bool {
    matches!(t[1], b'A' | b'V') || t[0] == b'U'
}

fn dea(t: &[u8]) -> bool {
    let d: Vec<u32> = t[2..].iter().map(|b| u32::from(b - b'0')).collect();
    b"ABCDEFGHJKLMPRSTUX".contains(&t[0])
        && (d[0] + d[2] + d[4] + 2 * (d[1] + d[3] + d[5])) % 10 == d[6]
}
