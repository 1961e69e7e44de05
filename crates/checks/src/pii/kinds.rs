//! The kinds of personal data that are known, by the names that findings and settings use.

use domain::safety::Safety;

/// The most kinds of personal data that settings name.
const MAX_KINDS: usize = 200;

/// All of them, sorted.
pub(crate) const KINDS: [&str; 86] = [
    "ADDRESS",
    "AE_EMIRATES_ID",
    "AR_CUIT",
    "AT_SVNR",
    "AU_ABN",
    "AU_ACN",
    "AU_MEDICARE",
    "AU_TFN",
    "BANK_ACCOUNT",
    "BE_NATIONAL_NUMBER",
    "BG_EGN",
    "BR_CNPJ",
    "BR_CPF",
    "CA_SIN",
    "CH_AHV",
    "CL_RUT",
    "CN_ID",
    "CRYPTO_ADDRESS",
    "CZ_BIRTH_NUMBER",
    "DATE_OF_BIRTH",
    "DE_HEALTH_INSURANCE",
    "DE_SOCIAL_SECURITY",
    "DE_TAX_ID",
    "DK_CPR",
    "DRIVER_LICENSE",
    "EE_ISIKUKOOD",
    "EMAIL",
    "ES_NIE",
    "ES_NIF",
    "FI_HETU",
    "FR_NIR",
    "GR_AFM",
    "HEALTH_ID",
    "HK_ID",
    "HR_OIB",
    "IBAN",
    "ID_NIK",
    "IE_PPS",
    "IL_ID",
    "IN_AADHAAR",
    "IN_GSTIN",
    "IN_PAN",
    "IN_VOTER",
    "IP_ADDRESS",
    "IT_FISCAL_CODE",
    "IT_IDENTITY_CARD",
    "IT_VAT",
    "JP_MY_NUMBER",
    "KR_RRN",
    "MAC_ADDRESS",
    "MEDICAL_LICENSE",
    "MX_CURP",
    "MX_RFC",
    "MY_NRIC",
    "NATIONAL_ID",
    "NG_NIN",
    "NL_BSN",
    "NO_FNR",
    "NZ_IRD",
    "PASSPORT",
    "PAYMENT_CARD",
    "PERSON",
    "PHONE_NUMBER",
    "PK_CNIC",
    "PL_PESEL",
    "PT_NIF",
    "ROUTING_NUMBER",
    "RO_CNP",
    "RU_INN",
    "RU_SNILS",
    "SA_ID",
    "SE_PERSONNUMMER",
    "SG_NRIC",
    "TAX_ID",
    "TH_TNIN",
    "TR_KIMLIK",
    "TW_ID",
    "UK_NHS",
    "UK_NINO",
    "UPI_ID",
    "US_ITIN",
    "US_MBI",
    "US_NPI",
    "US_SSN",
    "VOTER_ID",
    "ZA_ID",
];

/// Returns what is wrong with the kinds of personal data that settings name. Called when they are saved:
/// settings saved before continue to work, and a name that no kind has finds nothing.
pub fn wrong_kinds(safety: &Safety) -> Option<String> {
    let names = safety.pii_entities.as_deref().unwrap_or_default();
    if names.len() > MAX_KINDS {
        return Some(format!("settings.safety.pii.entities: at most {MAX_KINDS} are allowed"));
    }
    let own = || safety.recognizers.iter().map(|own| own.name.as_str());
    let index =
        names.iter().position(|name| !own().chain(KINDS).any(|kind| is_kind(name, kind)))?;
    let name: String = names[index].chars().take(40).collect();
    Some(format!(
        "settings.safety.pii.entities[{index}]: '{name}' is no kind of personal data; known are the names of \
         settings.safety.recognizers and {}",
        KINDS.join(", ")
    ))
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
