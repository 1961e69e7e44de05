//! Which label a value belongs to.

use crate::pii::tests::entities;

/// A text and all that is found in it.
type Row = (&'static str, &'static [(&'static str, &'static str)]);

#[track_caller]
fn assert_found(rows: &[Row]) {
    for &(text, expected) in rows {
        let found = entities(text);
        let found: Vec<_> = found.iter().map(|(kind, value)| (*kind, &**value)).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn the_nearest_label_names_a_value() {
    assert_found(&[
        (
            "SSN 536-22-8741, DL: 123456789",
            &[("US_SSN", "536-22-8741"), ("DRIVER_LICENSE", "123456789")],
        ),
        (
            "DL: 123456789, SSN 536-22-8741",
            &[("DRIVER_LICENSE", "123456789"), ("US_SSN", "536-22-8741")],
        ),
        (
            "SSN: 536-22-8741\nPassport No: 488839667",
            &[("US_SSN", "536-22-8741"), ("PASSPORT", "488839667")],
        ),
        (
            r#"{"ssn":"536228741","account_number":"123456789"}"#,
            &[("US_SSN", "536228741"), ("BANK_ACCOUNT", "123456789")],
        ),
        ("SSN:\nPassport No: 488839667", &[("PASSPORT", "488839667")]),
        ("SSN: 536-22-8741 Employee No: 204518832", &[("US_SSN", "536-22-8741")]),
        ("<ssn>536228741</ssn><id>123456789</id>", &[("US_SSN", "536228741")]),
        ("Phone: (415) 555-2671   Cost center: 4100220033", &[("PHONE_NUMBER", "(415) 555-2671")]),
        ("Tel. +49 30 1234567, Kundennummer 10023456789", &[("PHONE_NUMBER", "+49 30 1234567")]),
        (r#"{"phone":null,"createdAt":1716900000123}"#, &[]),
    ]);
}

#[test]
fn a_label_names_all_of_a_list_and_what_is_in_its_brackets() {
    let both = &[("US_SSN", "536228741"), ("US_SSN", "219099998")];
    assert_found(&[
        ("SSNs: 536228741 and 219099998", both),
        ("SSNs:\n- 536228741\n- 219099998", both),
        (r#"{"ssns":["536228741","219099998"]}"#, both),
        ("536228741 is my SSN and 219099998 is hers", both),
        (
            r#"{"phones":[{"type":"home","number":"4155552671"}]}"#,
            &[("PHONE_NUMBER", "4155552671")],
        ),
        (
            r#"{"phoneNumbers":[{"value":"4155552671","type":"work"}]}"#,
            &[("PHONE_NUMBER", "4155552671")],
        ),
        (
            "SSN changed from 041848794 to 342988337",
            &[("US_SSN", "041848794"), ("US_SSN", "342988337")],
        ),
        ("SSNs: 041848794|342988337", &[("US_SSN", "041848794"), ("US_SSN", "342988337")]),
        ("SSN for employee 10023456 is 536228741", &[("US_SSN", "536228741")]),
        ("SSN / Tax ID: 536228741", &[("US_SSN", "536228741")]),
        ("SSN or passport: 536228741", &[("US_SSN", "536228741")]),
        ("NHS number / National ID: 7172092465", &[("UK_NHS", "7172092465")]),
        ("ssn:\n  type: us\n  value: 536228741", &[("US_SSN", "536228741")]),
        ("SSN, DOB: 536228741", &[("US_SSN", "536228741")]),
        (r#"{"phones":[{"createdAt":"1716900000"}]}"#, &[]),
        ("phone:\n  home: 4155552671", &[("PHONE_NUMBER", "4155552671")]),
        ("social security number (since 12/03/1985): 536228741", &[("US_SSN", "536228741")]),
        ("Medicare card: 2123 45670 1", &[("AU_MEDICARE", "2123 45670 1")]),
    ]);
}

#[test]
fn values_stand_under_their_labels_and_in_groups() {
    for (text, kind, value) in [
        ("Passport Number\n488839667", "PASSPORT", "488839667"),
        ("Name\r\nAccount Number\r\n12345678\r\n", "BANK_ACCOUNT", "12345678"),
        ("Driver's License\nD1234567", "DRIVER_LICENSE", "D1234567"),
        ("Account: 1234 5678 9012", "BANK_ACCOUNT", "1234 5678 9012"),
        ("Account: 1234 5678 12/24", "BANK_ACCOUNT", "1234 5678"),
        ("driver license S123 4567 8901", "DRIVER_LICENSE", "S123 4567 8901"),
        ("DL MH12 20110012345", "DRIVER_LICENSE", "MH12 20110012345"),
        ("driving licence MORGA 657054 SM9IJ", "DRIVER_LICENSE", "MORGA 657054 SM9IJ"),
        ("license #D1234567", "DRIVER_LICENSE", "D1234567"),
        ("passport: USA 488839667", "PASSPORT", "488839667"),
        ("Passport: AB 1234567", "PASSPORT", "AB 1234567"),
        ("passport no. (US): 488839667", "PASSPORT", "488839667"),
        (
            "nr konta 61 1090 1014 0000 0712 1981 2874",
            "BANK_ACCOUNT",
            "61 1090 1014 0000 0712 1981 2874",
        ),
        ("Reisepass: C3JKLMN47", "PASSPORT", "C3JKLMN47"),
        ("Passnummer: C01X00T47", "PASSPORT", "C01X00T47"),
        ("passaporte n. FA123456", "PASSPORT", "FA123456"),
        ("Personalausweis L01X00T47", "NATIONAL_ID", "L01X00T47"),
        ("carte nationale d'identité n° 12AB34567", "NATIONAL_ID", "12AB34567"),
        ("cédula: 1712345678", "NATIONAL_ID", "1712345678"),
        ("dowód osobisty: ABC123456", "NATIONAL_ID", "ABC123456"),
        ("Cartão de cidadão: 12345678", "NATIONAL_ID", "12345678"),
        ("Konto-Nr. 20942740", "BANK_ACCOUNT", "20942740"),
        ("Konto: 1234567890", "BANK_ACCOUNT", "1234567890"),
        ("cuenta corriente 12345678901", "BANK_ACCOUNT", "12345678901"),
        ("银行卡号 12345678901", "BANK_ACCOUNT", "12345678901"),
        ("my license is D1234567", "DRIVER_LICENSE", "D1234567"),
        ("License No: D1234567", "DRIVER_LICENSE", "D1234567"),
        ("sin: 130692544", "CA_SIN", "130692544"),
    ] {
        assert_eq!(entities(text), [(kind, value.to_owned())], "{text}");
    }
}

#[test]
fn licences_drivers_and_accounts_of_software_are_nobodys() {
    for text in [
        "MIT license 2019-2023",
        "License: Unicode-DFS-2016",
        "badge/license-mit-118811",
        "Update driver: KB5031455",
        "printer driver 20240115",
        "driver license 20240115",
        "driver 10482 arrived late",
        "patente EP1234567",
        "passport 2019-2024 statistics",
        "passport 4510 2019 edition",
        "account name: 123456",
        "account now 1234567 points",
        "deposit to 100000 accounts",
        "my account is 123456 dollars short",
        "Account: USD 500000",
        "Das ist ein 12-3456789",
        "él es sin 130692544",
    ] {
        assert_eq!(entities(text), [], "{text}");
    }
}

#[test]
fn lists_go_on_behind_a_label_of_letters_and_of_groups() {
    let accounts = &[("BANK_ACCOUNT", "12345678"), ("BANK_ACCOUNT", "23456789")];
    let npis = &[("US_NPI", "2264245574"), ("US_NPI", "1277214452")];
    assert_found(&[
        ("Account numbers: 12345678, 23456789", accounts),
        ("acct no: 12345678; 23456789", accounts),
        ("Account numbers:\n- 12345678\n- 23456789", accounts),
        (
            "Driver licenses: N1234567\nO7654321 and P1357924",
            &[
                ("DRIVER_LICENSE", "N1234567"),
                ("DRIVER_LICENSE", "O7654321"),
                ("DRIVER_LICENSE", "P1357924"),
            ],
        ),
        (
            "Passports: 519447829 / C94794648",
            &[("PASSPORT", "519447829"), ("PASSPORT", "C94794648")],
        ),
        ("NPIs: 2264245574, 1277214452", npis),
        ("NPIs 2264245574\n1277214452", npis),
        ("TFNs: 454 525 358", &[("AU_TFN", "454 525 358")]),
        ("Account: 12345678, 2500 units", &accounts[..1]),
        ("Account: 12345678\nOrder: 23456789", &accounts[..1]),
        ("Account: 12345678, order 23456789", &accounts[..1]),
        ("Account: 12345678. 23456789 is something", &accounts[..1]),
        ("Account: 12345678, 23456789 dollars", &accounts[..1]),
        ("Account: 12345678, 23456789: paid", &accounts[..1]),
        ("npis 2264245574", &[]),
    ]);
}

#[test]
fn a_number_is_what_its_own_name_says_and_not_what_a_wider_one_does() {
    assert_found(&[
        ("Aadhaar card number is 564585675197", &[("IN_AADHAAR", "564585675197")]),
        ("my card 6799990100000000019", &[("PAYMENT_CARD", "6799990100000000019")]),
        ("my card 4111111111111111", &[("PAYMENT_CARD", "4111111111111111")]),
        ("My social insurance number is 188258339", &[("CA_SIN", "188258339")]),
        ("My social 536-22-8741", &[("US_SSN", "536-22-8741")]),
        ("Saudi ID number 1000000008", &[("SA_ID", "1000000008")]),
        ("T.C. Kimlik No: 17157126606", &[("TR_KIMLIK", "17157126606")]),
        ("TCKN: 17157126606", &[("TR_KIMLIK", "17157126606")]),
        ("Partita IVA: IT00743110157", &[("IT_VAT", "00743110157")]),
        ("part IT00743110157", &[]),
        ("carta d'identità n. AO3873732", &[("IT_IDENTITY_CARD", "AO3873732")]),
        ("Dupont & Cie 123456789", &[]),
        ("CIE: CY32054UL", &[("IT_IDENTITY_CARD", "CY32054UL")]),
        ("national id AO3873732", &[("NATIONAL_ID", "AO3873732")]),
        ("S.I.N. 188258339", &[("CA_SIN", "188258339")]),
        ("my license is 71 031 827", &[("DRIVER_LICENSE", "71 031 827")]),
        ("passport number 12 345 678", &[("PASSPORT", "12 345 678")]),
        ("passport number 12 12 2018", &[]),
        ("the balance on my account 668926973093", &[("BANK_ACCOUNT", "668926973093")]),
        ("account 712818473 at Chase Bank", &[("BANK_ACCOUNT", "712818473")]),
        ("user account 12345678", &[]),
        ("the balance of account AB12345678", &[]),
        ("the bank of user account 12345678", &[]),
        ("account 12345678 was locked", &[]),
    ]);
}

#[test]
fn eleven_digits_alone_pass_a_strict_check() {
    assert_found(&[
        ("86095742719", &[("DE_TAX_ID", "86095742719")]),
        ("44058300487", &[]),
        ("00743110157", &[("IT_VAT", "00743110157")]),
        ("46411175105", &[]),
        ("17157126606", &[("TR_KIMLIK", "17157126606")]),
        ("my tin is 44058300487", &[("DE_TAX_ID", "44058300487")]),
    ]);
}

#[test]
fn lists_stand_behind_plurals_and_conjunctions() {
    assert_found(&[
        ("Passport number 123456789, 4155552671", &[("PASSPORT", "123456789")]),
        ("Account number: 12345678\n20240115", &[("BANK_ACCOUNT", "12345678")]),
        ("account number 12345678 and 250000 in savings", &[("BANK_ACCOUNT", "12345678")]),
        (
            "account number 12345678 and 23456789",
            &[("BANK_ACCOUNT", "12345678"), ("BANK_ACCOUNT", "23456789")],
        ),
        (
            "passport numbers KZH735448 and C0VVZ87W6",
            &[("PASSPORT", "KZH735448"), ("PASSPORT", "C0VVZ87W6")],
        ),
        ("Our AWS account 123456789012 has a zero balance", &[]),
        ("G/L account 1400000 balance is 12", &[]),
        ("account 1200000 (bank)", &[]),
    ]);
}
