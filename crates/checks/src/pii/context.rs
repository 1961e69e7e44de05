//! Words that say what the number next to them is.

use super::View;
use crate::scan::Scan;
use crate::words::is_name;

mod words;

pub(crate) use words::WORDS;

/// What a word near a value says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    Phone,
    /// What is only said of a telephone: "call me".
    Called,
    Card,
    Ssn,
    Itin,
    TaxId,
    Sin,
    Nhs,
    Nino,
    Passport,
    Licence,
    Account,
    /// An account, perhaps of a bank.
    PlainAccount,
    Routing,
    Iban,
    Aadhaar,
    Pan,
    Tfn,
    Abn,
    Acn,
    Medicare,
    Pesel,
    GermanTax,
    Bsn,
    Nir,
    Cpf,
    Rrn,
    Personnummer,
    Cpr,
    Hetu,
    ThaiId,
    Npi,
    Vat,
    NationalId,
    Dea,
    Nric,
    Dni,
    Health,
    Birth,
    Version,
    Wallet,
    Name,
    Street,
    Hardware,
    Ifsc,
    SortCode,
    MyNumber,
    Nik,
    Oib,
    PortugueseTax,
    Afm,
    Cnp,
    Egn,
    BirthNumber,
    Baltic,
    SocialInsurance,
    Cuit,
    Snils,
    Inn,
    Iqama,
    Teudat,
    Cnic,
    Nin,
    Ird,
    Pps,
    Hkid,
    Rut,
    Rfc,
    Gstin,
    Voter,
}

impl Context {
    /// Whether names of fields are made of such words. Those of sentences and addresses are not.
    pub(crate) fn names_field(self) -> bool {
        !matches!(self, Self::Called | Self::Name | Self::Street | Self::Version)
    }
}

/// Whether a word of this meaning stands near a value, before or after; but not as the name of the next value.
pub(super) fn near(view: &View<'_>, context: Context, start: usize, end: usize) -> bool {
    around(view.scan, start, 64, end + 28)
        .any(|hit| hit.2 == context && (hit.1 <= start || !names_next(view.bytes, hit.1)))
}

/// Whether a word of these meanings stands near a value, also as the name of another value.
pub(super) fn beside(view: &View<'_>, contexts: &[Context], start: usize, end: usize) -> bool {
    around(view.scan, start, 64, end + 28).any(|hit| contexts.contains(&hit.2))
}

/// Whether a word ends the name of a field: `"ssn": `, `ssn=`.
fn names_next(bytes: &[u8], end: usize) -> bool {
    let length = bytes[end..].iter().take(24).take_while(|&&b| is_name(b)).count();
    let rest = &bytes[end + length..];
    let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
    matches!(rest, [b':' | b'=', ..] | [b' ', b':' | b'=', ..])
}

/// The closest word of this meaning that leads up to a value.
pub(crate) fn leads(scan: &Scan, context: Context, start: usize, reach: usize) -> bool {
    around(scan, start, reach + 24, start)
        .any(|&(_, end, c)| c == context && end <= start && start - end <= reach)
}

fn around(
    scan: &Scan,
    start: usize,
    before: usize,
    until: usize,
) -> impl Iterator<Item = &(usize, usize, Context)> {
    let from = start.saturating_sub(before);
    // Hits are ordered by their end.
    let first = scan.contexts.partition_point(|hit| hit.1 < from);
    scan.contexts[first..]
        .iter()
        .take_while(move |hit| hit.1 <= until + 24)
        .filter(move |hit| hit.0 <= until)
}
