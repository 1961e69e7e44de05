//! Personal data as the rest of the crate sees it.

mod birthdays;
mod labels;
mod network;
mod persons;
mod tables;

use super::find;
use crate::scan::{Scan, Scope};
use crate::text::normalize::Normalized;

/// Kinds and texts of what is found.
pub(super) fn entities(source: &str) -> Vec<(&'static str, String)> {
    let normalized = Normalized::new(source);
    let found = find(
        &normalized.text,
        &Scan::new(&normalized.text, Scope::Leaks),
        100,
        &crate::pattern::watch::Watch::new(crate::pattern::watch::GiveUp::Never),
    );
    let original = |bytes| source[normalized.original(bytes)].to_owned();
    found.into_iter().map(|entity| (entity.kind, original(entity.bytes))).collect()
}

/// Identity numbers next to their names.
const IDENTITIES: [(&str, &str, &str); 15] = [
    ("my number 1234 5678 9018 please", "JP_MY_NUMBER", "1234 5678 9018"),
    ("OIB: 69435151530", "HR_OIB", "69435151530"),
    ("contribuinte 123456789", "PT_NIF", "123456789"),
    ("CNP 1800101221144", "RO_CNP", "1800101221144"),
    ("rodné číslo 710319/2745", "CZ_BIRTH_NUMBER", "710319/2745"),
    ("isikukood 37605030299", "EE_ISIKUKOOD", "37605030299"),
    ("CUIT 20-12345678-6", "AR_CUIT", "20-12345678-6"),
    ("СНИЛС 112-233-445 95", "RU_SNILS", "112-233-445 95"),
    ("RUT 12.345.678-5", "CL_RUT", "12.345.678-5"),
    ("HKID A123456(3)", "HK_ID", "A123456(3)"),
    ("PPS number 1234567T", "IE_PPS", "1234567T"),
    ("GSTIN 27AAPFU0939F1ZV", "IN_GSTIN", "27AAPFU0939F1ZV"),
    ("Medicare 1EG4-TE5-MK73", "US_MBI", "1EG4-TE5-MK73"),
    ("id card A123456789", "TW_ID", "A123456789"),
    ("Rentenversicherung 15070649C103", "DE_SOCIAL_SECURITY", "15070649C103"),
];

/// Texts that hold personal data each, of every kind.
pub(crate) fn samples() -> impl Iterator<Item = &'static str> {
    let others = [
        "write to jo.smith@mail.example.org today",
        "viết cho nguyễn.an@mail.example.org nhé",
        "my card is 4111-1111-1111-1111, thanks",
        "my card: 4111 1111\n1111 1111.",
        "41\u{200b}11 1111 1111 1111",
        "pay into GB82 WEST 1234 5698 7654 32 please",
        "IBAN DE89370400440532013000",
        "her ssn is 536-22-8741",
        "ring +44 20 7946 0958 after six",
        "it is 415 555 2671, a phone",
        "(020) 7946 0958 ext. 45",
        "the host 203.0.113.77 is down",
        "the NHS number is 943 476 5919",
        "943 476 5919, that is the NHS number",
        "national insurance AB 12 34 56 C",
        "passport number: K1234567",
        "K1234567 is the passport",
        "CPF 529.982.247-25",
        "wallet 1BoatSLRHtKNngkdXEeobR76b53LETtpyT",
        "she was born on 4 March 1981",
        "born in the spring, on March 4, 1981",
        "My name is Ada King Lovelace.",
        "ask Mr van Berg or Dr. Jean-Luc de la Tour",
        "send it to 221B Baker Street, Apt 5",
        "12, rue de la Paix",
        "Hauptstraße 12",
        "P.O. Box 4711",
        "account number 321-54-9876",
        "sort code 20-00-00",
        "the mac is aa:bb:cc:dd:ee:ff",
        "pay to asha.k@oksbi",
        "电话：138 0013 8000。",
        "паспорт 4510 123456 выдан",
        "出生日期：1985年3月14日",
        "nacida el 14 de marzo de 1985",
        "联系zhang.wei@qq.com谢谢",
        "my card 4111 - 1111 - 1111 - 1111, thanks",
        "pay by 6304 0000 0000 0000 018 then",
        "DNI 47.279.859-R or NIE X-6989172-R",
        "RUT 20204793-9",
        "{\"date_of_birth\": \"1985-03-14\"}",
        "{\"account_number\": \"20942740\"}",
        "sort code 20-00-00 account 12345678",
        "Lindenstr. 7",
        "4711 Maple Way, please",
        "Rua das Flores, 12",
        "ul. Polna 12",
        "Teléfono de contacto: 612345678",
        "416 60 039 office",
        "Tel.: 030 / 123 45 67",
        "Tel: 2123 4567 / 2123 4568",
        "1,Jane Roe,4111111111111111,12/27",
        "SSNs: 536-22-8741,400-12-3456",
        r"Hi\n4111 1111 1111 1111\nDE89370400440532013000",
        "SSN 536-22-\n8741",
        "DE89 3704 0044\r\n0532 0130 00",
        "415-555-2671, ext. 12",
        "415-555-2671/415-555-2672",
        "601 614 711 as her contact number",
        "662 024 808 is my number",
        "Contact: 09562068320",
        "ring me on (+44) 20 7946 0958",
        "тел. 8 525 835 9333",
        "T: 0343288212 | F: 0343288213",
        "Cell: 415/555-2354",
        "12/03/1985 is my birthday",
        "1991年1月22日生まれ",
        "22.01.1991 г.р.",
        "DOB: 12/03/1985, 04/05/1990",
        "name,ssn,city\nBob,536228741,Old York\nAl,219099998,New York\nEve,400123456,Bath",
        "id|name|dob\n1|Bob|1985-03-14\n2|Al|1990-05-04\n3|Eve|2001-12-24",
        "Driver licenses: N1234567\nO7654321 and P1357924",
        "Account numbers: 12345678, 23456789",
        "account 712818473 at Chase Bank",
        "T.C. Kimlik No: 17157126606",
        "My social insurance number is 188258339",
        "Partita IVA: IT00743110157",
        "Berliner Straße 12",
        "12 bis rue Victor Hugo",
        "ul. Jana Pawła II 10/12",
        "Full Name: Jane Doe",
        "Dear Dr. Prof. Huber",
        "Herr Mag. Karl Huber",
        "Frau Dipl.-Ing. Anna Müller",
        "Date of birth\n12/03/1985",
        "Passport Number\n488839667",
        "SSN 536-22-8741, DL: 123456789",
        "upgrade from 1.8.1.2 to 203.0.113.5",
        "driving licence MORGA 657054 SM9IJ",
        "nr konta 61 1090 1014 0000 0712 1981 2874",
        "536228741 is my SSN and 219099998 is hers",
    ];
    others.into_iter().chain(IDENTITIES.map(|identity| identity.0))
}

#[test]
fn identity_numbers_of_many_countries() {
    for (text, kind, value) in IDENTITIES {
        assert!(entities(text).contains(&(kind, value.to_owned())), "{text}: {:?}", entities(text));
    }
}

#[test]
fn the_same_digits_without_a_name_are_no_identity() {
    for text in [
        "order 69435151530 shipped",
        "part 123456789 in stock",
        "see A123456789 in the list",
        "build 37605030299",
        "1234567T",
        "ratio 12.345.678-6",
    ] {
        let found = entities(&format!("we note {text} today"));
        assert!(found.is_empty(), "{text}: {found:?}");
    }
}

#[test]
fn disguised_numbers_are_read_and_cover_what_was_written() {
    for text in [
        "4111\u{a0}1111\u{a0}1111\u{a0}1111",
        "4111\u{2011}1111\u{2011}1111\u{2011}1111",
        "41\u{200b}11 1111 1111 1111",
        "\u{664}\u{661}\u{661}\u{661} 1111 1111 1111",
        "\u{96a}\u{967}\u{967}\u{967} 1111 1111 1111",
        "\u{1d7d2}\u{1d7cf}\u{1d7cf}\u{1d7cf} 1111 1111 1111",
        "4111 1111\n1111 1111",
    ] {
        let source = format!("my card: {text}.");
        assert_eq!(entities(&source), [("PAYMENT_CARD", text.to_owned())]);
    }
    assert_eq!(entities("GB82 WEST 1234\n5698 7654 32")[0].0, "IBAN");
}

#[test]
fn numbers_in_columns_are_not_one_number() {
    assert!(entities("1234 4111\n1111 1111\n1111 5678").is_empty());
}

#[test]
fn what_a_label_announces_is_believed_although_its_check_fails() {
    for (text, kind, value) in [
        ("her credit card 4111 1111 1111 1112 was", "PAYMENT_CARD", "4111 1111 1111 1112"),
        ("IBAN 'DE89 3704 0044 0532 0130 01'", "IBAN", "DE89 3704 0044 0532 0130 01"),
        ("account number 321-54-9876", "BANK_ACCOUNT", "321-54-9876"),
        ("sort code 20-00-00", "ROUTING_NUMBER", "20-00-00"),
        ("IFSC HDFC0001234", "ROUTING_NUMBER", "HDFC0001234"),
    ] {
        assert_eq!(entities(text), [(kind, value.to_owned())], "{text}");
    }
    assert!(entities("row 4111 1111 1111 1112 of the table").is_empty());
    assert!(entities("Suite 512 48 3920 Maple Lane").iter().all(|(kind, _)| *kind != "US_SSN"));
}

#[test]
fn payment_addresses_and_wallets() {
    assert_eq!(entities("pay to asha.k@oksbi")[0], ("UPI_ID", "asha.k@oksbi".to_owned()));
    let tron = "TJCnKsPa7y5okkXvQAidZBzqx3QyQ6sxMW";
    assert_eq!(entities(tron)[0], ("CRYPTO_ADDRESS", tron.to_owned()));
    assert!(entities("TJCnKsPa7y5okkXvQAidZBzqx3QyQ6sxMX").is_empty());
}

#[test]
fn a_sin_of_handbooks_counts_where_it_is_called_one() {
    assert_eq!(entities("My SIN is 046 454 286."), [("CA_SIN", "046 454 286".to_owned())]);
    for text in ["046 454 286", "My SIN is 046 454 287."] {
        assert_eq!(entities(text), [], "{text}");
    }
}

#[test]
fn names_of_fields_are_read_as_the_words_they_are_made_of() {
    for (text, kind, value) in [
        (r#"{"date_of_birth":"1985-03-14"}"#, "DATE_OF_BIRTH", "1985-03-14"),
        (r#"{"dateOfBirth": "1985-03-14"}"#, "DATE_OF_BIRTH", "1985-03-14"),
        ("DATE_OF_BIRTH=14.03.1985", "DATE_OF_BIRTH", "14.03.1985"),
        (r#"{"account_number": "20942740"}"#, "BANK_ACCOUNT", "20942740"),
        ("bankAccountNumber: 20942740", "BANK_ACCOUNT", "20942740"),
        (r#"{"customerSsn":"536228741"}"#, "US_SSN", "536228741"),
        ("social_security_number: 536228741", "US_SSN", "536228741"),
        ("CUSTOMER_SSN=536228741", "US_SSN", "536228741"),
        ("| ssn | 536228741 |", "US_SSN", "536228741"),
        ("<ssn>536228741</ssn>", "US_SSN", "536228741"),
        ("sin_number = 130692544", "CA_SIN", "130692544"),
        ("home_phone: 4155552671", "PHONE_NUMBER", "4155552671"),
        (r#""contactNumber": 4155552671"#, "PHONE_NUMBER", "4155552671"),
        ("tax_id: 12-3456789", "TAX_ID", "12-3456789"),
        ("employer-identification: 12-3456789", "TAX_ID", "12-3456789"),
        (r#"{"national_id":"AB1234567"}"#, "NATIONAL_ID", "AB1234567"),
        (r#"{"driver_license": "D1234567"}"#, "DRIVER_LICENSE", "D1234567"),
        (r#"{"driverLicenseNumber": "D1234567"}"#, "DRIVER_LICENSE", "D1234567"),
        ("member_id: XYZ123456", "HEALTH_ID", "XYZ123456"),
        ("<passportNumber>K1234567</passportNumber>", "PASSPORT", "K1234567"),
        ("| passport | K1234567 |", "PASSPORT", "K1234567"),
        ("passport,K1234567", "PASSPORT", "K1234567"),
    ] {
        assert_eq!(entities(text), [(kind, value.to_owned())], "{text}");
    }
    // The name of the next field says nothing of the value before it.
    let next = r#"{"order": 219099998, "ssn": "536228741"}"#;
    assert_eq!(entities(next), [("US_SSN", "536228741".to_owned())]);
    let next = "order: 2190999981\nphone: 4155552671";
    assert_eq!(entities(next), [("PHONE_NUMBER", "4155552671".to_owned())]);
    let bank = r#"{"account": "12345678", "sort_code": "20-00-00"}"#;
    assert_eq!(entities(bank)[0], ("BANK_ACCOUNT", "12345678".to_owned()));
    for text in ["classname 536228741", "lessn_count 536228741", "microphones_total 536228741"] {
        assert_eq!(entities(text), [], "{text}");
    }
}

#[test]
fn what_only_looks_like_a_number_of_a_person_is_not() {
    for text in [
        "mobile version 12345678",
        "the fax machine has 1234567 pages",
        "office 2019 version 16.0.10396.20023",
        "tel aviv 1234567",
        "range 100-200-3000",
        "diff +12345678",
        "C++11 14 17 20",
        "see 9780.1234.5678",
        "[.213D.0020.0002]",
        "tin can 123456789",
        "aba 12345678",
        "fixed in aa0001271e",
        "fixed in bbaca8442a",
        "openssl 1.1.1.2",
        "Section 3.2.1.4",
        "clause 12.3.4.5",
        "libfoo.so.1.2.3.4",
        "foo-1.2.3.4",
        "Git 1.8.1.2 Release",
    ] {
        assert_eq!(entities(text), [], "{text}");
    }
    for (text, kind, value) in [
        ("mobile no. 12345678", "PHONE_NUMBER", "12345678"),
        ("tel: 7946095", "PHONE_NUMBER", "7946095"),
        ("call me at 5552671", "PHONE_NUMBER", "5552671"),
        ("phone 5552671 or 5552672", "PHONE_NUMBER", "5552671"),
        ("+442079460958", "PHONE_NUMBER", "+442079460958"),
        ("phone +12345678", "PHONE_NUMBER", "+12345678"),
        ("seen 213d.0020.0002 there", "MAC_ADDRESS", "213d.0020.0002"),
        ("my tin is 44058300487", "DE_TAX_ID", "44058300487"),
        ("314 85 6481", "US_SSN", "314 85 6481"),
        ("my social is 314 85 6481", "US_SSN", "314 85 6481"),
        ("charged 5%536-22-8741", "US_SSN", "536-22-8741"),
        ("a\n5.9.12.31 - - [10/Oct/2000:13:55:36] \"GET /", "IP_ADDRESS", "5.9.12.31"),
        ("12:01:22 5.9.12.31 GET /", "IP_ADDRESS", "5.9.12.31"),
        ("my ein is 12-3456789", "TAX_ID", "12-3456789"),
        ("My sin number is 266-584-770", "CA_SIN", "266-584-770"),
        ("my sin is 266 584 770", "CA_SIN", "266 584 770"),
        ("sin no 266584770", "CA_SIN", "266584770"),
        ("tin: 123456789", "TAX_ID", "123456789"),
        ("bank code 12345678", "ROUTING_NUMBER", "12345678"),
        ("the PAN bbaca8442a", "IN_PAN", "bbaca8442a"),
        ("blocked 10.0.0.1 and", "IP_ADDRESS", "10.0.0.1"),
        ("host-203.0.113.9 is down", "IP_ADDRESS", "203.0.113.9"),
        ("ping 1.1.1.1", "IP_ADDRESS", "1.1.1.1"),
        ("nginx 203.0.113.9", "IP_ADDRESS", "203.0.113.9"),
    ] {
        assert_eq!(entities(text)[0], (kind, value.to_owned()), "{text}");
    }
}

#[test]
fn addresses_end_where_the_sentence_goes_on() {
    for (text, value) in [
        ("联系zhang.wei@qq.com谢谢", "zhang.wei@qq.com"),
        ("メールはjane@x.orgです", "jane@x.org"),
        ("jane@x.org으로 보내", "jane@x.org"),
        ("อีเมลjane@x.orgครับ", "jane@x.org"),
        ("jane@x.org。谢谢", "jane@x.org"),
        ("张伟@例子.中国", "张伟@例子.中国"),
        ("jane@mail.中国", "jane@mail.中国"),
        (r"To:\njane@x.org", "jane@x.org"),
        ("mailto%3Ajane@x.org", "jane@x.org"),
        ("jane%2Bnews@x.org", "jane%2Bnews@x.org"),
        ("müller@straße.example", "müller@straße.example"),
    ] {
        assert_eq!(entities(text), [("EMAIL", value.to_owned())], "{text}");
    }
}

#[test]
fn cards_with_other_separators_and_lengths_are_whole() {
    for card in [
        "4111/1111/1111/1111",
        "4111_1111_1111_1111",
        "4111 - 1111 - 1111 - 1111",
        "4111  1111  1111  1111",
        "4111\u{b7}1111\u{b7}1111\u{b7}1111",
        "6234 5678 9012 3456 780",
        "6304-0000-0000-0000-018",
        "2200 7007 1234 5676",
        "9792-1234-5678-9018",
    ] {
        let found = entities(&format!("take {card} then"));
        assert_eq!(found, [("PAYMENT_CARD", card.to_owned())], "{card}");
    }
    for text in [
        "call me, it is 9111 1111 1111 1112 or",
        "row 2200700712345676",
        "2024_1231_2359_5900",
        "4111 1112  1113 1114",
        "17  4111  1111  1111  1111  20",
        "phone list 1234 5678 9012 3456",
        "phone list 17 1234 5678 9012 3456",
    ] {
        assert_eq!(entities(text), [], "{text}");
    }
    assert_eq!(entities("Telefone: (21) 98765-4321"), [("PHONE_NUMBER", "(21) 98765-4321".into())]);
}

#[test]
fn labels_in_other_languages() {
    for (text, kind, value) in [
        ("passeport n° 12AB34567", "PASSPORT", "12AB34567"),
        ("paspoort: NX1234567", "PASSPORT", "NX1234567"),
        ("护照号码：E12345678", "PASSPORT", "E12345678"),
        ("护照E12345678号", "PASSPORT", "E12345678"),
        ("パスポート TK1234567", "PASSPORT", "TK1234567"),
        ("паспорт 4510 123456", "PASSPORT", "4510 123456"),
        ("Паспорта серия и номер 4510 123456", "PASSPORT", "4510 123456"),
        ("pasaporte número XDB123456", "PASSPORT", "XDB123456"),
        ("permis de conduire n° 123456789012", "DRIVER_LICENSE", "123456789012"),
        ("CNH 12345678900", "DRIVER_LICENSE", "12345678900"),
        ("rijbewijs 5123456789", "DRIVER_LICENSE", "5123456789"),
        ("口座番号 1234567", "BANK_ACCOUNT", "1234567"),
        ("numéro de compte 12345678901", "BANK_ACCOUNT", "12345678901"),
        ("DNI 47.279.859-R", "ES_NIF", "47.279.859-R"),
        ("NIE X-6989172-R", "ES_NIE", "X-6989172-R"),
        ("RUT 20204793-9", "CL_RUT", "20204793-9"),
    ] {
        assert_eq!(entities(text), [(kind, value.to_owned())], "{text}");
    }
    let bank = entities("sort code 20-00-00 account 12345678");
    assert_eq!(bank[1], ("BANK_ACCOUNT", "12345678".to_owned()));
    for text in ["account 12345678 has been closed", "lot 20204793-9", "passport 2019 edition"] {
        assert_eq!(entities(text), [], "{text}");
    }
}

#[test]
fn streets_of_more_kinds_and_languages() {
    for text in [
        "4711 Maple Way",
        "12 Orchard Close",
        "1600 Amphitheatre Pkwy",
        "7 Elm Place",
        "Lindenallee 7",
        "Lindenstr. 7",
        "Marktplatz 3",
        "Herengracht 12",
        "Rua das Flores, 12",
        "ul. Polna 12",
    ] {
        assert_eq!(entities(&format!("send it to {text} today")), [("ADDRESS", text.to_owned())]);
    }
    for text in [
        "2 by the way",
        "5 steps to close 3 gaps",
        "for 3 loops",
        "Arbeitsplatz 12 ist frei",
        "Inc., 59 Temple Place, Suite 330",
    ] {
        assert_eq!(entities(text), [], "{text}");
    }
}
