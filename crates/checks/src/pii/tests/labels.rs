//! Which label a value belongs to.

use super::entities;

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
        ("phone:\n  home: 4155552671", &[("PHONE_NUMBER", "4155552671")]),
        ("social security number (since 12/03/1985): 536228741", &[("US_SSN", "536228741")]),
        ("Medicare card: 2123 45670 1", &[("AU_MEDICARE", "2123 45670 1")]),
    ]);
}
