//! Identity numbers made of digits only: one row per number, one function per check.

use crate::pii::context;
use crate::pii::context::Context as C;
use crate::pii::digits::{
    aadhaar, aba, abn, acn, any, belgian, bsn, checked_rrn, chinese, cnpj, cpf, day_first, fnr,
    german_tax, german_tax_sample, italian_vat, italian_vat_sample, itin, medicare, nhs, nir, npi,
    pesel, pnr, rrn, sample_sin, sin, south_african, ssn, swiss, tfn, thai, turkish,
};
use crate::pii::number::{MAX_DIGITS, MAX_GROUPS, Number, Separator};
use crate::pii::{Entity, Found, View, world};
use crate::text::checksum::{luhn, mod_11_10, number};

/// How one kind of number looks and how sure a match is.
struct Row {
    kind: &'static str,
    /// Lengths of the groups when it is written in groups.
    shapes: &'static [&'static [u8]],
    /// Separators it is written with; `*` allows different ones.
    separators: &'static [u8],
    /// Digits when it is written in one run; 0 when that says nothing.
    run: usize,
    check: fn(&[u8]) -> bool,
    context: C,
    /// Score of the grouped form alone.
    grouped: f64,
    /// Score of it with spaces between: as large counts and columns of a table are written, too.
    spaced: f64,
    /// Score of a run of digits alone.
    plain: f64,
    /// Score when it is all there is in the text: the surer its check, the higher.
    whole: f64,
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { kind: "US_SSN", shapes: &[&[3, 2, 4]], separators: b"-. ", run: 9, check: ssn, context: C::Ssn, grouped: 0.7, spaced: 0.7, plain: 0.0, whole: 0.0 },
    Row { kind: "US_ITIN", shapes: &[&[3, 2, 4], &[3, 6]], separators: b"- ", run: 9, check: itin, context: C::Itin, grouped: 0.72, spaced: 0.0, plain: 0.0, whole: 0.5 },
    Row { kind: "US_ITIN", shapes: &[&[5, 4]], separators: b"-", run: 0, check: itin, context: C::Itin, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.5 },
    Row { kind: "TAX_ID", shapes: &[&[2, 7]], separators: b"-", run: 0, check: any, context: C::TaxId, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "CA_SIN", shapes: &[&[3, 3, 3]], separators: b"- ", run: 9, check: sin, context: C::Sin, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.5 },
    Row { kind: "CA_SIN", shapes: &[&[3, 3, 3]], separators: b"- ", run: 9, check: sample_sin, context: C::Sin, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "AU_TFN", shapes: &[&[3, 3, 3]], separators: b" -", run: 9, check: tfn, context: C::Tfn, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.42 },
    Row { kind: "AU_ACN", shapes: &[&[3, 3, 3]], separators: b" ", run: 9, check: acn, context: C::Acn, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.41 },
    Row { kind: "NL_BSN", shapes: &[&[4, 2, 3], &[3, 3, 3]], separators: b". ", run: 9, check: bsn, context: C::Bsn, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "ROUTING_NUMBER", shapes: &[&[4, 4, 1]], separators: b"-", run: 9, check: aba, context: C::Routing, grouped: 0.6, spaced: 0.6, plain: 0.0, whole: 0.55 },
    Row { kind: "UK_NHS", shapes: &[&[3, 3, 4]], separators: b" -", run: 10, check: nhs, context: C::Nhs, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.62 },
    Row { kind: "US_NPI", shapes: &[&[4, 3, 3]], separators: b"- ", run: 10, check: npi, context: C::Npi, grouped: 0.6, spaced: 0.6, plain: 0.0, whole: 0.5 },
    Row { kind: "AU_MEDICARE", shapes: &[&[4, 5, 1]], separators: b" -", run: 10, check: medicare, context: C::Medicare, grouped: 0.7, spaced: 0.7, plain: 0.0, whole: 0.52 },
    Row { kind: "SE_PERSONNUMMER", shapes: &[&[8, 4], &[6, 4]], separators: b"-+", run: 12, check: pnr, context: C::Personnummer, grouped: 0.65, spaced: 0.65, plain: 0.0, whole: 0.7 },
    Row { kind: "SE_PERSONNUMMER", shapes: &[], separators: b"", run: 10, check: pnr, context: C::Personnummer, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.45 },
    Row { kind: "DK_CPR", shapes: &[&[6, 4]], separators: b"-", run: 10, check: day_first, context: C::Cpr, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "NO_FNR", shapes: &[&[6, 5]], separators: b" ", run: 11, check: fnr, context: C::Personnummer, grouped: 0.6, spaced: 0.6, plain: 0.0, whole: 0.68 },
    Row { kind: "IN_AADHAAR", shapes: &[&[4, 4, 4]], separators: b" -:", run: 12, check: aadhaar, context: C::Aadhaar, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.5 },
    Row { kind: "AU_ABN", shapes: &[&[2, 3, 3, 3]], separators: b" ", run: 11, check: abn, context: C::Abn, grouped: 0.7, spaced: 0.7, plain: 0.0, whole: 0.58 },
    Row { kind: "PL_PESEL", shapes: &[], separators: b"", run: 11, check: pesel, context: C::Pesel, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.65 },
    Row { kind: "DE_TAX_ID", shapes: &[&[2, 3, 3, 3]], separators: b" ", run: 11, check: german_tax, context: C::GermanTax, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.62 },
    Row { kind: "DE_TAX_ID", shapes: &[&[2, 3, 3, 3]], separators: b" ", run: 11, check: german_tax_sample, context: C::GermanTax, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "IT_VAT", shapes: &[], separators: b"", run: 11, check: italian_vat, context: C::Vat, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.5 },
    Row { kind: "IT_VAT", shapes: &[], separators: b"", run: 11, check: italian_vat_sample, context: C::Vat, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "BR_CPF", shapes: &[&[3, 3, 3, 2]], separators: b"*", run: 11, check: cpf, context: C::Cpf, grouped: 0.8, spaced: 0.8, plain: 0.0, whole: 0.6 },
    Row { kind: "BR_CNPJ", shapes: &[&[2, 3, 3, 4, 2]], separators: b"*", run: 14, check: cnpj, context: C::Cpf, grouped: 0.8, spaced: 0.8, plain: 0.0, whole: 0.5 },
    Row { kind: "BE_NATIONAL_NUMBER", shapes: &[&[2, 2, 2, 3, 2]], separators: b"*", run: 11, check: belgian, context: C::Belgian, grouped: 0.75, spaced: 0.75, plain: 0.0, whole: 0.66 },
    Row { kind: "TR_KIMLIK", shapes: &[], separators: b"", run: 11, check: turkish, context: C::Kimlik, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.59 },
    Row { kind: "KR_RRN", shapes: &[&[6, 7]], separators: b"-", run: 13, check: checked_rrn, context: C::Rrn, grouped: 0.65, spaced: 0.65, plain: 0.45, whole: 0.6 },
    Row { kind: "KR_RRN", shapes: &[&[6, 7]], separators: b"-", run: 13, check: rrn, context: C::Rrn, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.55 },
    Row { kind: "TH_TNIN", shapes: &[&[1, 4, 5, 2, 1]], separators: b"- ", run: 13, check: thai, context: C::ThaiId, grouped: 0.7, spaced: 0.7, plain: 0.0, whole: 0.55 },
    Row { kind: "ZA_ID", shapes: &[&[6, 4, 3]], separators: b" ", run: 13, check: south_african, context: C::SouthAfrican, grouped: 0.6, spaced: 0.6, plain: 0.0, whole: 0.5 },
    Row { kind: "CH_AHV", shapes: &[&[3, 4, 4, 2]], separators: b".", run: 13, check: swiss, context: C::Swiss, grouped: 0.85, spaced: 0.85, plain: 0.65, whole: 0.7 },
    Row { kind: "FR_NIR", shapes: &[&[1, 2, 2, 2, 3, 3, 2], &[13, 2]], separators: b" ", run: 15, check: nir, context: C::Nir, grouped: 0.8, spaced: 0.8, plain: 0.6, whole: 0.7 },
    Row { kind: "CN_ID", shapes: &[], separators: b"", run: 18, check: chinese, context: C::Chinese, grouped: 0.0, spaced: 0.0, plain: 0.7, whole: 0.8 },
    Row { kind: "JP_MY_NUMBER", shapes: &[&[4, 4, 4]], separators: b" -", run: 12, check: world::my_number, context: C::MyNumber, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "MY_NRIC", shapes: &[&[6, 2, 4]], separators: b"-", run: 12, check: world::malaysian, context: C::Nric, grouped: 0.6, spaced: 0.6, plain: 0.0, whole: 0.0 },
    Row { kind: "ID_NIK", shapes: &[], separators: b"", run: 16, check: world::indonesian, context: C::Nik, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "HR_OIB", shapes: &[], separators: b"", run: 11, check: mod_11_10, context: C::Oib, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "PT_NIF", shapes: &[&[3, 3, 3]], separators: b" ", run: 9, check: world::portuguese, context: C::PortugueseTax, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "GR_AFM", shapes: &[], separators: b"", run: 9, check: world::greek, context: C::Afm, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "RO_CNP", shapes: &[], separators: b"", run: 13, check: world::romanian, context: C::Cnp, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.5 },
    Row { kind: "BG_EGN", shapes: &[], separators: b"", run: 10, check: world::bulgarian, context: C::Egn, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "CZ_BIRTH_NUMBER", shapes: &[&[6, 4]], separators: b"/", run: 10, check: world::czech, context: C::BirthNumber, grouped: 0.65, spaced: 0.65, plain: 0.0, whole: 0.0 },
    Row { kind: "EE_ISIKUKOOD", shapes: &[], separators: b"", run: 11, check: world::baltic, context: C::Baltic, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "AT_SVNR", shapes: &[&[4, 6]], separators: b" ", run: 10, check: world::austrian, context: C::SocialInsurance, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "AR_CUIT", shapes: &[&[2, 8, 1]], separators: b"-", run: 11, check: world::argentine, context: C::Cuit, grouped: 0.7, spaced: 0.7, plain: 0.0, whole: 0.0 },
    Row { kind: "RU_SNILS", shapes: &[&[3, 3, 3, 2]], separators: b"*", run: 11, check: world::snils, context: C::Snils, grouped: 0.6, spaced: 0.6, plain: 0.0, whole: 0.0 },
    Row { kind: "RU_INN", shapes: &[], separators: b"", run: 12, check: world::inn, context: C::Inn, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "AE_EMIRATES_ID", shapes: &[&[3, 4, 7, 1]], separators: b"- ", run: 15, check: world::emirati, context: C::Emirati, grouped: 0.85, spaced: 0.85, plain: 0.6, whole: 0.7 },
    Row { kind: "SA_ID", shapes: &[], separators: b"", run: 10, check: world::saudi, context: C::Iqama, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "IL_ID", shapes: &[], separators: b"", run: 9, check: luhn, context: C::Teudat, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "PK_CNIC", shapes: &[&[5, 7, 1]], separators: b"-", run: 13, check: any, context: C::Cnic, grouped: 0.6, spaced: 0.6, plain: 0.0, whole: 0.0 },
    Row { kind: "NG_NIN", shapes: &[&[4, 3, 4]], separators: b"- ", run: 11, check: any, context: C::Nin, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
    Row { kind: "NZ_IRD", shapes: &[&[3, 3, 3], &[2, 3, 3]], separators: b"-", run: 9, check: world::ird, context: C::Ird, grouped: 0.0, spaced: 0.0, plain: 0.0, whole: 0.0 },
];

/// The rows, as bits, that a number of so many digits may belong to: written in one run, and in groups.
static ROWS_OF: [[u64; MAX_DIGITS + 1]; 2] = {
    let mut out = [[0; MAX_DIGITS + 1]; 2];
    let mut index = 0;
    while index < ROWS.len() {
        let row = &ROWS[index];
        out[0][row.run] |= 1 << index;
        let mut shape = 0;
        while shape < row.shapes.len() {
            let (mut group, mut digits) = (0, 0);
            while group < row.shapes[shape].len() {
                digits += row.shapes[shape][group] as usize;
                group += 1;
            }
            out[1][digits] |= 1 << index;
            shape += 1;
        }
        index += 1;
    }
    out
};

/// The groups of payment cards; the last one may have fewer digits.
const CARDS: [&[u8]; 3] = [&[4, 4, 4, 4], &[4, 4, 4, 4, 3], &[4, 6, 5]];
/// Stands for them among the rows.
const CARD: u64 = 1 << 63;

/// The rows, as bits, of which a group of so many digits may be the first, the second and so on: nearly all chains of
/// groups are given up by this.
pub(super) static ROWS_AT: [[u64; MAX_DIGITS + 1]; MAX_GROUPS] = {
    assert!(ROWS.len() < 63, "the last bit is for cards");
    let mut out = [[0; MAX_DIGITS + 1]; MAX_GROUPS];
    let mut index = 0;
    while index < ROWS.len() {
        let mut shape = 0;
        while shape < ROWS[index].shapes.len() {
            let mut group = 0;
            while group < ROWS[index].shapes[shape].len() {
                out[group][ROWS[index].shapes[shape][group] as usize] |= 1 << index;
                group += 1;
            }
            shape += 1;
        }
        index += 1;
    }
    let mut shape = 0;
    while shape < CARDS.len() {
        let mut group = 0;
        while group < CARDS[shape].len() {
            let mut digits = CARDS[shape][group] as usize;
            out[group][digits] |= CARD;
            while group > 1 && digits > 1 {
                digits -= 1;
                out[group][digits] |= CARD;
            }
            group += 1;
        }
        shape += 1;
    }
    out
};

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
        // The name that one country gives its number says more than one that is said everywhere.
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

fn near_card(view: &View<'_>, n: &Number<'_>) -> bool {
    context::near(view, C::Card, n.range.start, n.range.end)
}

/// Payment cards: issuer range, length, Luhn, and the way of grouping.
fn card(view: &View<'_>, n: &Number<'_>) -> Option<f64> {
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

/// `5492 5493 5494 5495`: as in tables of codes.
fn counts_up(digits: &[u8]) -> bool {
    let (groups, _) = digits.as_chunks::<4>();
    groups.windows(2).all(|pair| {
        let (one, next) = (number(&pair[0]), number(&pair[1]));
        (one + 1..one + 16).contains(&next)
    })
}
