//! Values in the columns of tables.

use crate::pii::tests::entities;

#[test]
fn a_heading_names_the_cells_of_its_column() {
    for (text, kind, values) in [
        (
            "id,first_name,ssn,city\n1,Natalie,347829753,South Tonya\n2,Kyle,481580648,Jamesport\n3,Al,288050742,Bath",
            "US_SSN",
            &["347829753", "481580648", "288050742"][..],
        ),
        (
            "name|city|customer_dob\nBob|New York|1985-03-14\nAl|Old York|1990-05-04",
            "DATE_OF_BIRTH",
            &["1985-03-14", "1990-05-04"],
        ),
        (
            "Name;Geburtsdatum;Ort\n\"Huber; Karl\";14.03.1985;Wien\nMüller Anna;04.05.1990;Graz",
            "DATE_OF_BIRTH",
            &["14.03.1985", "04.05.1990"],
        ),
        (
            "| name | passport number |\n|---|---|\n| Bob Brown | N59566718 |\n| Al Green | P99032527 |",
            "PASSPORT",
            &["N59566718", "P99032527"],
        ),
        (
            "name\taccount_number\tcity of the branch\nLawrence Bartholomew\t1891427619\tLake\nAl\t4492607829\tX",
            "BANK_ACCOUNT",
            &["1891427619", "4492607829"],
        ),
        (
            "phone,name,\n4155552671,Bob Brown of Old York,\n9876543210,Al Green of New York,\n",
            "PHONE_NUMBER",
            &["4155552671", "9876543210"],
        ),
    ] {
        let found = entities(text).into_iter().filter(|entity| entity.0 == kind);
        assert_eq!(found.map(|entity| entity.1).collect::<Vec<_>>(), values, "{text}");
    }
}

#[test]
fn a_heading_names_nothing_in_other_columns_nor_behind_the_table() {
    let far = "x".repeat(500);
    for text in [
        "name,account_number,order\nLawrence Bartholomew Montgomery,none,1891427619\n",
        "name,date_of_birth,hired\nLawrence Bartholomew Montgomery the Second,,1985-03-14\n",
        "passport, visa, and a lot of other papers that one has to bring\nwith them N59566718, P99032527",
        "name,passport_country\nLawrence Bartholomew Montgomery of Old York and New York at the sea,N59566718",
        "name,account_name,city\nLawrence Bartholomew Montgomery,1891427619,Bath",
        &format!("name,passport\n{far},none\nBob,N59566718"),
        "name,passport\nBob,none\n\nThe orders of Lawrence Bartholomew Montgomery of Old York\nBob,N59566718",
    ] {
        assert_eq!(entities(text), [], "{text}");
    }
}
