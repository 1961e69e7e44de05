//! The kinds of personal data that are known, by the names that findings and settings use.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use domain::safety::Safety;

use crate::pii::{identity_numbers, labelled, token};

/// The most kinds of personal data that settings name.
const MAX_KINDS: usize = 200;

/// Those that are in no table of rows.
const OTHERS: [&str; 12] = [
    "ADDRESS",
    "CL_RUT",
    "CRYPTO_ADDRESS",
    "DATE_OF_BIRTH",
    "EMAIL",
    "IBAN",
    "IP_ADDRESS",
    "MAC_ADDRESS",
    "PAYMENT_CARD",
    "PERSON",
    "PHONE_NUMBER",
    "UPI_ID",
];

/// All of them, sorted.
static KINDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let rows = identity_numbers::kinds().chain(token::kinds()).chain(labelled::kinds());
    rows.chain(OTHERS).collect::<BTreeSet<_>>().into_iter().collect()
});

/// Whether this type of data asks for more than the usual care.
pub(crate) fn is_high_sensitivity(kind: &str) -> bool {
    !matches!(
        kind,
        "EMAIL"
            | "PHONE_NUMBER"
            | "IP_ADDRESS"
            | "MAC_ADDRESS"
            | "PERSON"
            | "ADDRESS"
            | "DATE_OF_BIRTH"
            | "CRYPTO_ADDRESS"
            | "UPI_ID"
            | "AU_ABN"
            | "AU_ACN"
    )
}

/// Returns what is wrong with the kinds of personal data that settings name. Called when they are saved:
/// settings saved before continue to work, and a name that no kind has finds nothing.
pub fn wrong_kinds(safety: &Safety) -> Option<String> {
    let names = safety.pii_entities.as_deref().unwrap_or_default();
    if names.len() > MAX_KINDS {
        return Some(format!("settings.safety.pii.entities: at most {MAX_KINDS} are allowed"));
    }
    let own = || safety.recognizers.iter().map(|own| own.name.as_str());
    let index = names
        .iter()
        .position(|name| !own().chain(KINDS.iter().copied()).any(|kind| is_kind(name, kind)))?;
    let name: String = names[index].chars().take(40).collect();
    Some(format!(
        "settings.safety.pii.entities[{index}]: '{name}' is no kind of personal data; known are the names of \
         settings.safety.recognizers and {}",
        KINDS.join(", ")
    ))
}

/// The kinds of personal data that these settings find, those of the project's recognizers included.
pub fn found_kinds(safety: &Safety) -> Vec<&str> {
    let own = safety.recognizers.iter().map(|own| own.name.as_str());
    let chosen = safety.pii_entities.as_deref();
    let is_chosen =
        |kind: &&str| chosen.is_none_or(|names| names.iter().any(|name| is_kind(name, kind)));
    let all: BTreeSet<&str> = own.chain(KINDS.iter().copied()).collect();
    all.into_iter().filter(is_chosen).collect()
}

/// Names in settings may be written in any case, with the usual longer names for the commonest types.
pub(crate) fn is_kind(name: &str, kind: &str) -> bool {
    let name = name.trim();
    if name.eq_ignore_ascii_case(kind) {
        return true;
    }
    let name = name.to_ascii_uppercase().replace(['-', ' '], "_");
    let short = match name.as_str() {
        "EMAIL_ADDRESS" => "EMAIL",
        "PHONE" => "PHONE_NUMBER",
        "CREDIT_CARD" => "PAYMENT_CARD",
        "SSN" => "US_SSN",
        "IBAN_CODE" => "IBAN",
        "DOB" => "DATE_OF_BIRTH",
        "CRYPTO" => "CRYPTO_ADDRESS",
        other => other,
    };
    short == kind
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A kind that is found but not listed could not be asked for.
    #[test]
    fn every_kind_that_is_found_is_listed() {
        assert!(KINDS.is_sorted());
        let name = regex::Regex::new(r#""([A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9])""#).unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pii");
        let mut found = 0;
        for folder in [folder.join("phone"), folder] {
            for file in std::fs::read_dir(folder).unwrap() {
                let path = file.unwrap().path();
                if path.is_dir() || path.ends_with("kinds.rs") {
                    continue;
                }
                let code = std::fs::read_to_string(&path).unwrap();
                for kind in name.captures_iter(&code) {
                    assert!(KINDS.contains(&&kind[1]), "{}: {}", path.display(), &kind[1]);
                    found += 1;
                }
            }
        }
        assert!(found >= KINDS.len() - 5, "only those of one word are not seen: {found}");
    }
}
