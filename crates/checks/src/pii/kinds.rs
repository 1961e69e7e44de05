//! The kinds of personal data that are known, by the names that findings and settings use.

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
        for folder in [folder.join("context"), folder] {
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
