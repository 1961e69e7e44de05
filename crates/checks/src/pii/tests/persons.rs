//! Birthdays, names and streets.

use crate::pii::tests::entities;

#[test]
fn birthdays_as_forms_and_other_languages_write_them() {
    for (text, value) in [
        ("DOB: 12-MAR-1985", "12-MAR-1985"),
        ("DOB: 12/Mar/1985", "12/Mar/1985"),
        ("D.O.B.: 12/03/1985", "12/03/1985"),
        ("Date of birth\n12/03/1985", "12/03/1985"),
        ("Geburtsdatum (TT.MM.JJJJ): 12.03.1985", "12.03.1985"),
        ("DOB 19850312", "19850312"),
        ("geb. 12.03.1985", "12.03.1985"),
        ("Geburtstag: 12.03.1985", "12.03.1985"),
        ("Né(e) le 12/03/1985", "12/03/1985"),
        ("nació el 12/03/1985", "12/03/1985"),
        ("nato a Roma il 12/03/1985", "12/03/1985"),
        ("nasceu em 12/03/1985", "12/03/1985"),
        ("生日：1985-03-12", "1985-03-12"),
        ("BDAY=1985-03-12", "1985-03-12"),
        (r#"{"dob": {"value": "1985-03-12"}}"#, "1985-03-12"),
        (r#"{"birth": {"date": "1985-03-12"}}"#, "1985-03-12"),
        ("जन्म तिथि: 12/03/1985", "12/03/1985"),
        ("تاريخ الميلاد: 12/03/1985", "12/03/1985"),
    ] {
        assert_eq!(entities(text), [("DATE_OF_BIRTH", value.to_owned())], "{text}");
    }
    for text in [
        "Born to Run, released 25 August 1975",
        "birth certificate issued 12/03/2020",
        "Birth control refill 03/12/2024",
        "DOB 12/03/2185",
        r#"{"dob":null,"created":"2024-01-01"}"#,
    ] {
        assert_eq!(entities(text), [], "{text}");
    }
}

#[test]
fn names_are_whole_and_without_what_follows() {
    for (text, name) in [
        ("Sehr geehrter Herr Dr. Müller,", "Müller"),
        ("Sehr geehrte Frau Prof. Huber,", "Huber"),
        ("Dr. med. Anna Huber", "Anna Huber"),
        ("My name is Mary-Jane O'Neil.", "Mary-Jane O'Neil"),
        ("Mr. John Smith Account Manager", "John Smith"),
        ("Patient: Jane Doe", "Jane Doe"),
        ("Full Name: Jane Doe", "Jane Doe"),
        ("Estimada Sra. García,", "García"),
        ("Gentile Sig. Rossi,", "Rossi"),
        ("Mijn naam is Jan de Vries", "Jan de Vries"),
        ("Nazywam się Jan Kowalski", "Jan Kowalski"),
    ] {
        assert_eq!(entities(text), [("PERSON", name.to_owned())], "{text}");
    }
    for text in [
        "Frau Prof. Huber kommt",
        "MS Word Documents",
        "Full Name: Street Address",
        "Patient name: Jane",
        "Full name: First Last",
        "Full Name: Required Field",
        "Patient name: Not Provided",
        "Patient: Male Adult",
        "the full name of Jane Doe",
    ] {
        assert_eq!(entities(text), [], "{text}");
    }
}

#[test]
fn streets_of_two_words_and_houses_of_two_numbers() {
    for text in [
        "Berliner Straße 12",
        "Lange Straße 5",
        "C/ Mayor 12",
        "Piazza Duomo 1",
        "Corso Italia 5",
        "Via Roma 12",
        "via Roma, 12",
        "12 bis rue Victor Hugo",
        "ul. Marszałkowska 10/12",
        "ul. Jana Pawła II 5",
    ] {
        assert_eq!(entities(text), [("ADDRESS", text.to_owned())]);
    }
    for text in ["via PEP 660", "via Python 3"] {
        assert_eq!(entities(text), [], "{text}");
    }
}
