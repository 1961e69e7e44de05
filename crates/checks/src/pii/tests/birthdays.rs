//! Dates of birth.

use crate::pii::tests::entities;

#[test]
fn birthdays_in_other_languages() {
    for (text, value) in [
        ("出生日期：1985年3月14日", "1985年3月14日"),
        ("出生日期1985-03-14", "1985-03-14"),
        ("生年月日: 1985/03/14", "1985/03/14"),
        ("생년월일 1985년 3월 14일", "1985년 3월 14일"),
        ("Дата рождения: 14 марта 1985", "14 марта 1985"),
        ("data urodzenia: 14.03.1985", "14.03.1985"),
        ("geboortedatum 14 maart 1985", "14 maart 1985"),
        ("data de nascimento: 14 de março de 1985", "14 de março de 1985"),
        ("født 14. mars 1985", "14. mars 1985"),
        ("nacida el 14 de marzo de 1985", "14 de marzo de 1985"),
        ("née le 14 février 1985", "14 février 1985"),
        ("né le 1er août 1985", "1er août 1985"),
        ("nato il 14 luglio 1985", "14 luglio 1985"),
        ("née à Lyon le 12/03/1985", "12/03/1985"),
        ("nato/a a Torino il 26/03/1999", "26/03/1999"),
        ("ur. 22.01.1991 r.", "22.01.1991"),
        ("22.01.1991 г.р.", "22.01.1991"),
        ("1991年1月22日生まれ", "1991年1月22日"),
        ("12/03/1985 is my birthday", "12/03/1985"),
        ("14.03.1985 (date of birth)", "14.03.1985"),
        ("DOB: 22JAN1991", "22JAN1991"),
        ("född den 26/3 1965", "26/3 1965"),
        ("datum narození: 14.03.1985", "14.03.1985"),
        ("Születési dátum: 1985.03.14", "1985.03.14"),
        ("ngày sinh: 14/03/1985", "14/03/1985"),
        ("ημερομηνία γέννησης: 14/03/1985", "14/03/1985"),
        ("дата народження: 14.03.1985", "14.03.1985"),
        ("22.01.1991 г. р., Москва", "22.01.1991"),
        ("วันเกิด 2020-03-12", "2020-03-12"),
        ("sinh ngày 12/03/1985", "12/03/1985"),
        ("Nguyễn Văn An sinh ngày 12/03/1985", "12/03/1985"),
        ("hän on syntynyt 12.3.1985", "12.3.1985"),
        ("her birthday's March 14, 1985", "March 14, 1985"),
    ] {
        assert_eq!(entities(text), [("DATE_OF_BIRTH", value.to_owned())], "{text}");
    }
    for text in [
        "会议于1985年3月14日举行",
        "née en 1980",
        "issued 22JAN2020",
        "published 12/03/1985. My birthday is soon",
        "joined 12/03/2020 (birthday: none)",
        "12/03/2020 is the release",
        "née Dupont, mariée le 12/03/1985",
        "2024年1月2日出生率下降",
        "12.03.2020 г. рассмотрено",
        "подписан 18.04.2021 г. руководителем",
        "В г. Рига 18.04.2021",
        "เกิดข้อผิดพลาด 2020-03-12",
        "phát sinh ngày 12/03/2024",
        "Vệ sinh ngày 12/03/2024",
        "vahinko on syntynyt 12.3.2020",
        "2020-03-04 is the birthday of Rust",
        "2024-05-04 is the birth rate",
    ] {
        assert_eq!(entities(text), [], "{text}");
    }
    let both = [("DATE_OF_BIRTH", "12/03/1985".into()), ("DATE_OF_BIRTH", "04/05/1990".into())];
    assert_eq!(entities("DOBs: 12/03/1985, 04/05/1990"), both);
    assert_eq!(entities("born 12/03/1985 and 04/05/1990"), both);
    assert_eq!(entities("dates of birth: 12/03/1985, 04/05/1990"), both);
    for text in [
        "DOB: 12/03/1985\n2024-05-04 Admission",
        "DOB 12/03/1985, 14/05/2024",
        "geb. 12/03/1985, 14.05.2024 Aufnahme",
        "DOB,Visit\n12/03/1985,2024-05-04\n",
    ] {
        assert_eq!(entities(text), both[..1], "{text}");
    }
    assert_eq!(entities("born 12/03/1985, 04/05/1990 married"), both[..1]);
    assert_eq!(entities("born 12/03/1985, 04/05/1990: died"), both[..1]);
    assert_eq!(entities("DOB: 12/03/1985, hired 04/05/1990"), both[..1]);
}
