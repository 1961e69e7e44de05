//! Phone numbers as people write them, and what is written like them.

use super::super::tests::entities;

/// The phone numbers in a text.
fn phones(text: &str) -> Vec<String> {
    let found = entities(text).into_iter();
    found.filter(|entity| entity.0 == "PHONE_NUMBER").map(|entity| entity.1).collect()
}

#[test]
fn numbers_stand_in_lists_and_tables() {
    for (text, numbers) in [
        ("1001,415-555-2671,12 Main", &["415-555-2671"][..]),
        ("id,phone,age\n1001,+14155552671,34", &["+14155552671"]),
        ("id,name,phone\n1,Bob,9876543210\n2,Al,9876543211\n", &["9876543210", "9876543211"]),
        ("phone,order,x\nnone,9876543210,y\n", &[]),
        ("415-555-2671/415-555-2672", &["415-555-2671", "415-555-2672"]),
        ("notes.txt:12:415-555-2671", &["415-555-2671"]),
        ("Tel: 6123 4567, 6234 5678", &["6123 4567", "6234 5678"]),
        ("Tel: 2123 4567 / 2123 4568", &["2123 4567", "2123 4568"]),
        ("+65 6123 4567 / +65 6234 5678", &["+65 6123 4567", "+65 6234 5678"]),
        ("Hi\\n415-555-2671\\nJane", &["415-555-2671"]),
        ("a\\nphone: 4155552671", &["4155552671"]),
        ("\x1b[31m415-555-2671\x1b[0m", &["415-555-2671"]),
        ("London SE10 9NF\nTel 020 7946 0958", &["020 7946 0958"]),
        ("Derby DE21 4AB\n07700 900123", &["07700 900123"]),
        ("Order SO12345 call 415-555-2671 today", &["415-555-2671"]),
        ("USt-ID DE123456789 Telefon 030 12345678", &["030 12345678"]),
        ("call 415-555-\n2671", &["415-555-\n2671"]),
    ] {
        assert_eq!(phones(text), numbers, "{text}");
    }
}

#[test]
fn a_number_begins_and_ends_where_its_digits_do() {
    for (text, number) in [
        ("Jane (415-555-2671)", "415-555-2671"),
        ("phone%3D+14155552671", "+14155552671"),
        (r"tel\u003a+14155552671", "+14155552671"),
        ("Mobile+49 171 5551234", "+49 171 5551234"),
        ("1) 415-555-2671", "415-555-2671"),
        ("1. 415-555-2671", "415-555-2671"),
        ("Room 12 415-555-2671", "415-555-2671"),
        ("(415) 555-2671", "(415) 555-2671"),
        ("+49 30 1234567 2024", "+49 30 1234567"),
        ("tel: 415 555 2671 415 is the area", "415 555 2671"),
        ("Call 0800 1234 5678 2024", "0800 1234 5678"),
        ("415-555-2671, ext. 12", "415-555-2671, ext. 12"),
        ("fax 415-555-2671/2672", "415-555-2671"),
    ] {
        assert_eq!(phones(text), [number], "{text}");
    }
}

#[test]
fn numbers_of_many_countries() {
    for (text, number) in [
        ("Tel.: 030 / 123 45 67", "030 / 123 45 67"),
        ("Telefon: 06131 / 12 34 56", "06131 / 12 34 56"),
        ("Tel: 0711/123456-0", "0711/123456-0"),
        ("0049 30 1234567", "0049 30 1234567"),
        ("телефон 8 (495) 123-45-67", "8 (495) 123-45-67"),
        ("Teléfono de contacto: 612345678", "612345678"),
        ("telefon komórkowy: 601234567", "601234567"),
        ("telefone de contato: 912345678", "912345678"),
        ("Telefon/Mobil: 12345678", "12345678"),
        ("Phone (w): 5551234", "5551234"),
        (r#""phone1":"612345678""#, "612345678"),
        (r#""phone_primary": "612345678""#, "612345678"),
        ("phone is currently 5551234", "5551234"),
        ("416 60 039 office", "416 60 039"),
        ("mobiel: 0612345678", "0612345678"),
        ("Mi celular es 3105551234", "3105551234"),
        ("Tfno. 91 123 45 67", "91 123 45 67"),
        ("tlf: 612 34 56 78", "612 34 56 78"),
        ("telemóvel 912 345 678", "912 345 678"),
        ("Meine Handynummer ist 017612345678", "017612345678"),
        ("Rufnummer 0301234567", "0301234567"),
        ("mon numéro est le 0612345678", "0612345678"),
        ("komórka: 601234567", "601234567"),
        ("puhelin 0401234567", "0401234567"),
        ("тел. 8-916-123-45-67", "8-916-123-45-67"),
        ("моб. 89161234567", "89161234567"),
        ("Ph No. 9876543210", "9876543210"),
        ("contact no 9876543210", "9876543210"),
        ("llámame al 612345678", "612345678"),
        ("chiamami al 333 123 4567", "333 123 4567"),
        ("Bel me op 06 12345678", "06 12345678"),
        ("zadzwoń pod 601 234 567", "601 234 567"),
        ("연락처: 01012345678", "01012345678"),
        ("微信同号13912345678", "13912345678"),
        ("फ़ोन नंबर 9876543210", "9876543210"),
        ("هاتف: 0501234567", "0501234567"),
    ] {
        assert_eq!(phones(text), [number], "{text}");
    }
}

#[test]
fn fields_and_sentences_name_a_number() {
    for (text, number) in [
        (r#"{"cell":"9876543210"}"#, "9876543210"),
        ("cell=9876543210", "9876543210"),
        ("| cell | 9876543210 |", "9876543210"),
        ("desk\t9876543210", "9876543210"),
        ("my cell 9876543210", "9876543210"),
        ("my new phone number will be 9876543210", "9876543210"),
        ("my phone number has changed to 9876543210", "9876543210"),
        ("Phone of Jane Doe is 9876543210", "9876543210"),
        ("you can reach me after 5pm at 9876543210", "9876543210"),
        ("please call me urgently 9876543210", "9876543210"),
        ("The mobile number I gave you is 138 2333 2459", "138 2333 2459"),
        ("mobile (Vodafone) 9876543210", "9876543210"),
        ("Mobile on file: 9876543210", "9876543210"),
        ("Reach me tomorrow at 138 2333 2459", "138 2333 2459"),
        ("name,phone\nBob,4155552671", "4155552671"),
        ("name\tphone\nBob\t138 2333 2459", "138 2333 2459"),
        ("| name | phone |\n|---|---|\n| Bob | 4155552671 |", "4155552671"),
        ("Telefono cliente:\n3471234567", "3471234567"),
        ("Phone of client:\t9876543210", "9876543210"),
    ] {
        assert_eq!(phones(text), [number], "{text}");
    }
}

#[test]
fn digits_near_a_telephone_may_count_something_else() {
    for text in [
        "Can you call me? My order number is 4029318475.",
        r#"{"phone":null,"createdAt":1716900000123}"#,
        r#"{"phone_verified_at":1716900000}"#,
        r#"{"device":"iPhone","ts":1716900000000}"#,
        "ISBN 9780306406157 phone book",
        "API call 483920185 failed",
        "function call 1234567",
        "mobil 1234567 km",
        "The phone network handled 1382332459 calls",
        "Please call the handler with 123456789",
        "kom 12345678",
        "ph 1234567",
        "Mobile sales have grown to 138 2333 2459",
        "Office 365 order 100-2345678",
        "the office spent 1 250 000 dollars",
        "Mobile users: 12 345 678",
        "phone revenue 1.234.567 EUR",
        "Phone (415) 555-2671x, San Francisco, CA 94105-8001",
        "Telefonzeiten 09.00-12.00",
        "telefonisch: 20240531",
        "registered number 01234567",
        "registered 1200000 users",
        "gtk+2.0 (2.24.33-2",
        "PH\t+143512+1205804",
        "mode 0010000 of a phone",
        "US\t+404251-0740023\tAmerica/New_York",
        "ES\t+4024-00341\tEurope/Madrid",
        "until +9999-12-31",
        "grew by +25 000 000",
        "+20 -30 1000",
        "DFARS 252.227-7014",
        "02 01 01 00  00",
        "bus 01 02 03 04 05",
        "02 04 06 08 10 12",
        "HR12 001 0051 8630 0016 A",
    ] {
        assert_eq!(phones(text), [""; 0], "{text}");
    }
}

#[test]
fn names_of_other_things_take_the_numbers_right_behind_them() {
    for text in [
        "Order no. 061-3316765",
        "Order 052-0731-5567",
        "Part number 066-72644-83 in stock",
        "P/N: 037-6294075",
        "Invoice 020-7946-0958",
        "Aktenzeichen 041/2780489",
        "Bestell-Nr.: 0925 827503",
        "Artikelnummer 0906/238241",
        "n° de commande : 061 3316765",
        "NDC 08571-9174-91, lot VD311964",
        "serial: 0453 240 730",
        "заказ № 061 331 6765",
        "Цена 8 900 100 20 30",
        "your order no.: 061-3316765",
        "订单号：061-3316765",
        "doi:10.1016/j.cell.2018.07.863",
        "cellular assays; Cell. 2018.05.015",
    ] {
        assert_eq!(phones(text), [""; 0], "{text}");
    }
    for (text, number) in [
        ("020 7946 0958", "020 7946 0958"),
        ("Order by phone: 020 7946 0958", "020 7946 0958"),
        ("your order? 020 7946 0958", "020 7946 0958"),
        ("Invoice queries\n020 7946 0958", "020 7946 0958"),
        ("order no. 4711, 020 7946 0958", "020 7946 0958"),
        ("my cell. 415 555 2671", "415 555 2671"),
        ("Questions about your order: 020 7946 0958", "020 7946 0958"),
        ("Rückfragen zur Rechnung: 030 1234567", "030 1234567"),
        ("To order: 01632 960001", "01632 960001"),
        ("Phone for order: 01632 960001", "01632 960001"),
    ] {
        assert_eq!(phones(text), [number], "{text}");
    }
}

#[test]
fn labels_and_sentences_of_more_kinds_lead_to_a_number() {
    for (text, number) in [
        ("Contact: 09562068320", "09562068320"),
        ("T: 0343288212 | F: 0343288213", "0343288212"),
        ("Text 4155552731 when you arrive", "4155552731"),
        ("ring 0412212077 after six", "0412212077"),
        ("give us a ring on 01414960766", "01414960766"),
        ("She gave 601 614 711 as her contact number.", "601 614 711"),
        ("662 024 808 is my number", "662 024 808"),
        ("can be reached at 630 229 563", "630 229 563"),
        ("tel. kom. 721 820 833", "721 820 833"),
        ("mój numer to 601071363", "601071363"),
        ("Portable : 0277042269", "0277042269"),
        ("joindre au 0634822275", "0634822275"),
        ("il mio numero è 3224183955", "3224183955"),
        ("mi número es el 612 34 56 99", "612 34 56 99"),
        ("mijn nummer is 06-08966416", "06-08966416"),
        ("Ring til mig på 1120 4531", "1120 4531"),
        ("No. HP 0812-1042-1327", "0812-1042-1327"),
        ("звоните 8-916-097-04-90", "8-916-097-04-90"),
        ("请拨打15792839037", "15792839037"),
        ("手機號碼 06 5919953", "06 5919953"),
        ("טלפון: 023573290", "023573290"),
        ("SĐT: 02 3842 4266", "02 3842 4266"),
        ("โทร 074-122810", "074-122810"),
        ("Τηλ. 2109126017", "2109126017"),
        ("Cell: 415/555-2354", "415/555-2354"),
    ] {
        assert_eq!(phones(text).first().map(String::as_str), Some(number), "{text}");
    }
    for text in [
        "contact 12345678 (ticket)",
        r#"{"contact": 12345678}"#,
        "text 1234567 characters",
        "text 1234567890 characters",
        "the text 1234567890 is",
        "example text:\n0123456789",
        "mi número de pedido es 123456789",
        "boxing ring 412212077",
        "if t: 1234567890",
        "Seattle, WA 98101-1234",
    ] {
        assert_eq!(phones(text), [""; 0], "{text}");
    }
}

#[test]
fn prefixes_in_parentheses_and_a_russian_trunk_are_of_the_number() {
    for (text, number) in [
        ("ring me on (+44) 20 7946 0958", "(+44) 20 7946 0958"),
        ("puh. (+358) 715422522", "(+358) 715422522"),
        ("my number is +91 (22) 2927 6366", "+91 (22) 2927 6366"),
        ("+55 18 2044-1090", "+55 18 2044-1090"),
        ("(8 (495) 962-58-24)", "8 (495) 962-58-24"),
        ("(+44 20 7946 0958)", "+44 20 7946 0958"),
        ("тел. 8 525 835 9333", "8 525 835 9333"),
        ("8 957 084 12 48", "8 957 084 12 48"),
        ("8(495)962-58-24", "8(495)962-58-24"),
    ] {
        assert_eq!(phones(text), [number], "{text}");
    }
    for text in ["+31 12 2024 1015", "on +22 12 1985", "8 120 640 12 48"] {
        assert_eq!(phones(text), [""; 0], "{text}");
    }
}

#[test]
fn a_word_that_says_less_hides_none_before_it() {
    for (text, number) in [
        ("Teléfono de contacto: 91234567", "91234567"),
        ("Telefone para contato: 33334444", "33334444"),
        ("Telefon Kontakt: 5551234", "5551234"),
        ("Phone contact: 5551234", "5551234"),
        ("Phone / text: 4155552671", "4155552671"),
        ("Mobile HP: 81234567", "81234567"),
        ("Call her number 5551234", "5551234"),
        ("she can be reached at 5551234", "5551234"),
        ("zadzwoń pod numer 601234567", "601234567"),
        ("T: 4155552671", "4155552671"),
        ("HP: 081234567890", "081234567890"),
    ] {
        assert_eq!(phones(text), [number], "{text}");
    }
    for text in [
        "P: 0.000123456",
        "F: 12.345678",
        "P: 52.520008, 13.404954",
        "M: 1 234 567 890",
        "T: 298 300 310",
        "P: 987654321",
        "Drucker HP 123456789",
        "HP: 1500 2000 2500",
        "limit reached at 123456789",
        "Checkpoint reached at 1048576",
        "KRS pod numerem 0000123456",
        "เบอร์บัญชี 1234567890",
        "联系方式 QQ 123456789",
        "手機型號 12345678",
    ] {
        assert_eq!(phones(text), [""; 0], "{text}");
    }
}
