//! Cards, accounts and identity numbers where they stand, and numbers that are none.

use super::super::tests::entities;

#[test]
fn numbers_stand_in_lists_and_tables() {
    for (text, kind, values) in [
        ("1,Jane Roe,4111111111111111,12/27", "PAYMENT_CARD", &["4111111111111111"][..]),
        (
            r#"{"cards":[4111111111111111,5500000000000004]}"#,
            "PAYMENT_CARD",
            &["4111111111111111", "5500000000000004"],
        ),
        ("4111111111111111:123", "PAYMENT_CARD", &["4111111111111111"]),
        ("4111111111111111/12/27", "PAYMENT_CARD", &["4111111111111111"]),
        ("card 4111111111111111,exp", "PAYMENT_CARD", &["4111111111111111"]),
        ("John Doe,536-22-8741,1985-03-14", "US_SSN", &["536-22-8741"]),
        ("536-22-8741:John", "US_SSN", &["536-22-8741"]),
        (
            "SSNs: 536-22-8741,219-09-9998,400-12-3456",
            "US_SSN",
            &["536-22-8741", "219-09-9998", "400-12-3456"],
        ),
        (r"Hi\r\n4111 1111 1111 1111", "PAYMENT_CARD", &["4111 1111 1111 1111"]),
        (r"\n536-22-8741\n", "US_SSN", &["536-22-8741"]),
        (r"a\nDE89370400440532013000", "IBAN", &["DE89370400440532013000"]),
        ("id%3D4111111111111111", "PAYMENT_CARD", &["4111111111111111"]),
        ("\x1b[1;31m536-22-8741", "US_SSN", &["536-22-8741"]),
        ("card 4111-1111-\n1111-1111", "PAYMENT_CARD", &["4111-1111-\n1111-1111"]),
        ("card 4111\t1111\t1111\t1111", "PAYMENT_CARD", &["4111\t1111\t1111\t1111"]),
        ("SSN 536-22-\n8741", "US_SSN", &["536-22-\n8741"]),
        ("DE89 3704 0044\r\n0532 0130 00", "IBAN", &["DE89 3704 0044\r\n0532 0130 00"]),
        ("DE89  3704  0044  0532  0130  00", "IBAN", &["DE89  3704  0044  0532  0130  00"]),
        ("银行卡6212345678901234569", "PAYMENT_CARD", &["6212345678901234569"]),
        ("CPR 070761-4285", "DK_CPR", &["070761-4285"]),
        ("CPR 010140-1004", "DK_CPR", &["010140-1004"]),
    ] {
        let found = entities(text).into_iter().filter(|entity| entity.0 == kind);
        assert_eq!(found.map(|entity| entity.1).collect::<Vec<_>>(), values, "{text}");
    }
}

#[test]
fn what_only_adds_up_is_no_identity() {
    for text in [
        "total 767 227 784 km",
        "part 130-692-544 is here",
        "GDP 25 462 700 000",
        "serial 2187-8017-5981",
        "640 48 1024",
        "at 202401181454",
        "build 20230823-2582",
        "ref 230823-2583",
        "ref 220104-1944685",
        "Los Angeles, CA 90012-3456",
        "0.4111111111111111",
        "5491 5492 5493 5494 5495 5496 5497",
        "1;1;2;3",
        "weights 0,4111111111111111 and",
    ] {
        assert_eq!(entities(text), [], "{text}");
    }
    for text in ["401-555-2137", "943-476-5919"] {
        assert_eq!(entities(text), [("PHONE_NUMBER", text.to_owned())]);
    }
    assert_eq!(entities("tel 11 91278-8430"), [("PHONE_NUMBER", "11 91278-8430".to_owned())]);
    assert_eq!(entities("NHS 943-476-5919")[0].0, "UK_NHS");
}

#[test]
fn what_is_built_like_an_account_hides_nothing_beside_it() {
    let found = entities("12 Main St Apt SE10 use 4111 1111 1111 1111");
    assert_eq!(
        found.iter().map(|entity| entity.0).collect::<Vec<_>>(),
        ["ADDRESS", "PAYMENT_CARD"]
    );
    let found = entities("flight SE1234 seat 12A passport 533380006");
    assert_eq!(found, [("PASSPORT", "533380006".to_owned())]);
    assert_eq!(entities("ref DE89 3704 0044 0532 0130 01 of 2024"), []);
}
