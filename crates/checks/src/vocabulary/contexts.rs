//! The words that name the value next to them.

use Context as C;

/// The meaning that a word gives to a value near it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context {
    Phone,
    /// A phrase used only of a telephone: "call me".
    Called,
    /// A phrase that may be used of a telephone: "text 4155552671".
    Likely,
    Card,
    Ssn,
    Itin,
    TaxId,
    Sin,
    Nhs,
    Nino,
    Passport,
    Licence,
    Account,
    /// An account, perhaps of a bank.
    PlainAccount,
    Routing,
    Iban,
    Aadhaar,
    Pan,
    Tfn,
    Abn,
    Acn,
    Medicare,
    Pesel,
    GermanTax,
    Bsn,
    Nir,
    Cpf,
    Rrn,
    Personnummer,
    Cpr,
    Hetu,
    ThaiId,
    Npi,
    Vat,
    NationalId,
    Dea,
    Nric,
    Dni,
    Health,
    Birth,
    Version,
    Wallet,
    Name,
    Street,
    Hardware,
    Ifsc,
    SortCode,
    MyNumber,
    Nik,
    Oib,
    PortugueseTax,
    Afm,
    Cnp,
    Egn,
    BirthNumber,
    Baltic,
    SocialInsurance,
    Cuit,
    Snils,
    Inn,
    Iqama,
    Teudat,
    Cnic,
    Nin,
    Ird,
    Pps,
    Hkid,
    Rut,
    Rfc,
    Gstin,
    Voter,
    Belgian,
    Kimlik,
    SouthAfrican,
    Swiss,
    Chinese,
    Emirati,
    ItalianCard,
}

impl Context {
    /// Whether names of fields are made of such words. Those of sentences and addresses are not.
    pub(crate) fn names_field(self) -> bool {
        !matches!(self, Self::Called | Self::Likely | Self::Name | Self::Street | Self::Version)
    }
}

impl Context {
    /// Returns the general name that a number of one country has besides its own.
    pub(crate) fn general(self) -> Option<Self> {
        let is_general = matches!(
            self,
            Self::Belgian
                | Self::Kimlik
                | Self::SouthAfrican
                | Self::Swiss
                | Self::Chinese
                | Self::Emirati
                | Self::ThaiId
        );
        is_general.then_some(Self::NationalId)
    }
}

/// `~` in front: may stand inside a word; `$` behind: the word ends there; `!` behind: so it does, and it is a common word
/// of some language, which counts in capitals or as a label (`sin: `) only.
#[rustfmt::skip]
pub(crate) const WORDS: &[(Context, &[&str])] = &[
    (C::Phone, PHONE),
    (C::Called, CALLED),
    (C::Likely, LIKELY),
    (C::Card, &[
        "card", "visa$", "mastercard", "amex", "american express", "discover$", "diners",
        "maestro", "pan!", "carte", "tarjeta", "karte", "cc$", "cartão", "卡号", "银行卡", "信用卡", "カード",
    ]),
    (C::Ssn, &[
        "ssn", "s.s.n", "social security", "soc sec", "ss#", "social:", "my social$", "social is",
    ]),
    (C::Itin, &["itin$", "individual taxpayer", "taxpayer id", "tax id"]),
    (C::TaxId, &[
        "tax id", "taxpayer id", "tin!", "ein!", "employer identification", "tax identification",
        "fein$", "tax number",
    ]),
    (C::Sin, &["sin!", "s.i.n", "social insurance", "nas!", "assurance sociale"]),
    (C::Nhs, &["nhs", "national health"]),
    (C::Nino, &["nino$", "national insurance", "ni number"]),
    (C::Passport, &[
        "passport", "passeport", "reisepass", "pasaporte", "passaporto", "travel document",
        "passaporte", "passnummer", "passnr", "paspoort", "paszport", "pașaport", "pasaport",
        "パスポート", "旅券", "护照", "護照", "여권", "паспорт", "Паспорт", "ПАСПОРТ", "جواز السفر",
        "διαβατήρι", "Διαβατήρι",
    ]),
    (C::Licence, &[
        "driver licen", "driver's licen", "drivers licen", "drivers' licen", "driver lic.",
        "driver id", "driver number", "driving licen", "licence no", "license no", "licence num",
        "license num", "licence #", "license #", "license id", "my licen", "your licen",
        "his licen", "her licen", "their licen", "dl$", "d.l. n", "cdl$", "operator licen",
        "operator's licen", "permis de conduire", "führerschein", "fuehrerschein",
        "patente di guida", "patente n", "patente:", "licencia de conducir", "dvla",
        "permit number", "carnet de conducir", "permiso de conducir", "licencia de manejo",
        "carteira de motorista", "carta de condução", "cnh$", "rijbewijs", "prawo jazdy",
        "prawa jazdy", "körkort", "førerkort", "kørekort", "ajokortti", "водительск", "Водительск",
        "驾驶证", "驾照", "駕照", "運転免許", "免許証", "운전면허",
    ]),
    (C::Account, &[
        "account no$", "account no.", "account nu", "account nr", "account n°", "account #",
        "account:", "acct", "a/c", "bank account", "checking account", "savings account",
        "account with number", "account details", "kontonummer", "account ending",
        "numéro de compte", "número de cuenta", "cuenta bancaria", "compte bancaire",
        "numero di conto", "conta bancária", "número da conta", "rekeningnummer", "konto:", "kto:",
        "kto.", "kto-nr", "konto-nr", "konto nr", "n° de compte", "nº de cuenta", "acc no$",
        "acc. n", "conto corrente", "clabe$", "رقم الحساب", "cuenta corriente", "cuenta n",
        "conta corrente", "conta:", "numer rachunku", "nr rachunku", "收款账号", "银行账户", "银行卡号",
        "numer konta", "nr konta", "kontonr", "номер счета", "номер счёта", "口座番号", "银行账号", "銀行帳號",
        "계좌번호",
    ]),
    (C::PlainAccount, &["account$", "acc$", "konto$", "kto$"]),
    (C::Routing, &["routing", "aba$", "rtn$"]),
    (C::Ifsc, &["ifsc"]),
    (C::SortCode, &[
        "sort code", "sortcode", "bsb$", "transit number", "bank code", "bankleitzahl", "blz$",
    ]),
    (C::Iban, &["iban"]),
    (C::Aadhaar, &["aadhaar", "aadhar", "uidai", "आधार"]),
    (C::Pan, &["pan!", "permanent account"]),
    (C::Tfn, &["tfn$", "t.f.n", "tax file"]),
    (C::Abn, &["abn$", "a.b.n", "australian business"]),
    (C::Acn, &["acn$", "australian company"]),
    (C::Medicare, &["medicare"]),
    (C::Pesel, &["pesel"]),
    (C::GermanTax, &["steuer", "tax id", "idnr$", "tin!"]),
    (C::Bsn, &["bsn$", "burgerservice", "sofi"]),
    (C::Nir, &["sécurité sociale", "securite sociale", "nir$", "insee"]),
    (C::Cpf, &["cpf$", "cnpj$", "cadastro"]),
    (C::Rrn, &["rrn$", "korean", "resident registration", "주민"]),
    (C::Personnummer, &[
        "personnummer", "personnr", "pers.nr", "pers.nr.", "pnr", "swedish", "samordningsnummer",
        "fødselsnummer", "fodselsnummer",
    ]),
    (C::Cpr, &["cpr$", "danish"]),
    (C::Hetu, &["hetu", "henkilötunnus", "finnish"]),
    (C::ThaiId, &["thai", "tnin", "บัตรประชาชน", "ประจำตัวประชาชน"]),
    (C::Npi, &["npi$", "provider identifier", "national provider"]),
    (C::Vat, &["vat$", "vat n", "iva$", "p.iva", "partita", "piva", "ust-id", "umsatzsteuer"]),
    (C::NationalId, &[
        "national id", "identity number", "id number", "personalausweis", "ausweisnummer",
        "carte nationale d'identité", "carte d'identité", "carta d'identità", "cédula", "dowód",
        "dowodu", "cartão de cidadão", "bilhete de identidade", "identity card", "id card",
        "identification number", "citizen", "kimlik", "身份证", "ahv$", "avs$", "ausweis-nr",
        "ausweis nr", "ausweisnr", "perso-nr", "personr$", "carta di identità", "carta d'identita",
        "carta di identita", "cie!", "carte d'identite", "身份證", "身分证", "rijksregister", "rsa id",
        "voter id", "matricula",
    ]),
    (C::Belgian, &["rijksregister", "registre national", "numéro national", "niss$", "insz$"]),
    (C::Kimlik, &["kimlik", "tckn", "tc no$", "t.c. no$"]),
    (C::SouthAfrican, &["rsa id", "south african id", "sa id$"]),
    (C::Swiss, &["ahv$", "avs$"]),
    (C::Chinese, &["身份证", "身分证", "身份證"]),
    (C::Emirati, &["emirates id"]),
    (C::ItalianCard, &[
        "carta d'identità", "carta d'identita", "carta di identità", "carta di identita", "cie!",
    ]),
    (C::Dea, &["dea$", "dea n", "medical licen", "prescriber"]),
    (C::Nric, &["nric", "fin$", "singapore", "mykad"]),
    (C::Dni, &["dni$", "nif$", "nie$", "documento nacional"]),
    (C::Health, &[
        "medical record", "mrn$", "patient id", "health insurance", "health card", "member id",
        "policy number", "insurance id", "krankenversicher",
    ]),
    (C::Birth, &[
        "born", "dob$", "d.o.b", "d.o.b.", "birth", "dateofbirth", "geboren", "geburtsdatum",
        "geburtstag", "geb.", "bday$", "née le", "né le", "né(e) le", "nació", "nasceu", "nato a",
        "nata a", "nacimiento", "nascita", "naissance", "nacido", "nacida", "nascimento", "nascid",
        "geboortedatum", "urodzenia", "urodzon", "født", "fødsel", "födelsedatum", "född",
        "syntymä", "doğum", "дата рождения", "Дата рождения", "родился", "родилась", "出生", "生日",
        "जन्म", "ميلاد", "生年月日", "生まれ", "생년월일", "생일", "nato il", "nata il", "nato/a", "nata/o",
        "né à", "née à", "née$", "né(e)", "nac.", "nasc.", "ur.", "narozen", "narodený",
        "narodená", "narodenia", "rođen", "născut", "nașterii", "nasterii", "született",
        "születés", "szül.", "hän on syntynyt", "Hän on syntynyt", "olen syntynyt", "γεννήθηκε", "Γεννήθηκε", "γέννησης", "Γέννησης",
        "народи", "Народи", "народж", "Народж", "г.р$", "г. р$", "года рождения", "роден", "lahir$",
        "ngày sinh", "Ngày sinh", "sinh ngày", "נולד", "לידה", "วันเกิด", "เกิดวันที่", "เกิดเมื่อ",
    ]),
    (C::Version, &[
        "version", "release", "versión", "versione", "versie", "versão", "wersja", "версия", "版本",
        "バージョン", "버전",
    ]),
    (C::Wallet, &["bitcoin", "btc$", "wallet", "eth$", "ethereum", "crypto"]),
    (C::Name, &[
        "my name is", "mr$", "mrs$", "ms$", "miss$", "dr$", "prof$", "je m'appelle", "ich heiße",
        "ich heisse", "me llamo", "mi chiamo", "herr$", "frau$", "monsieur$", "madame$",
        "mi nombre es", "meu nome é", "mein name ist", "mijn naam is", "nazywam się", "jag heter",
        "sra$", "sig.", "sig.ra", "full name", "patient name", "patient:", "customer name",
        "employee name",
    ]),
    (C::Street, &[
        "street", "avenue", "road$", "lane$", "drive$", "boulevard", "ave$", "blvd", "~straße",
        "~strasse", "court$", "rd$", "st$", "rue$", "calle$", "p.o. box", "po box", "via$",
        "terrace$", "crescent$", "highway$", "parkway$", "pkwy$", "way$", "close$", "loop$",
        "place$", "rua$", "avenida", "ul.", "~str.", "~allee", "~platz", "~straat", "~gracht",
        "c/$", "piazza", "corso$",
    ]),
    (C::MyNumber, &["my number", "マイナンバー", "個人番号"]),
    (C::Nik, &["nik$", "ktp$", "nomor induk"]),
    (C::Oib, &["oib$", "osobni identifikacijski"]),
    (C::PortugueseTax, &["nif$", "contribuinte"]),
    (C::Afm, &["afm$", "αφμ", "ΑΦΜ", "α.φ.μ"]),
    (C::Cnp, &["cnp$", "cod numeric"]),
    (C::Egn, &["egn$", "егн"]),
    (C::BirthNumber, &["rodné číslo", "rodne cislo", "rč$"]),
    (C::Baltic, &["isikukood", "asmens kodas", "personal code"]),
    (C::SocialInsurance, &["sozialversicherung", "svnr$", "sv-nummer", "rentenversicherung"]),
    (C::Cuit, &["cuit$", "cuil$"]),
    (C::Snils, &["snils", "снилс"]),
    (C::Inn, &["inn$", "инн"]),
    (C::Iqama, &["iqama", "saudi id", "رقم الهوية"]),
    (C::Teudat, &["teudat", "israeli id", "תעודת זהות"]),
    (C::Cnic, &["cnic$", "nadra"]),
    (C::Nin, &["nin$", "national identification number"]),
    (C::Ird, &["ird$", "inland revenue"]),
    (C::Pps, &["pps$", "ppsn$", "personal public service"]),
    (C::Hkid, &["hkid", "hong kong id"]),
    (C::Rut, &["rut$", "rol único", "rol unico"]),
    (C::Rfc, &["rfc$", "registro federal"]),
    (C::Gstin, &["gstin", "gst n", "gst number"]),
    (C::Voter, &["voter", "epic n"]),
    (C::Hardware, &["mac$", "physical address", "hardware address", "ethernet", "bssid"]),
];

/// Names of telephones and of their numbers.
#[rustfmt::skip]
const PHONE: &[&str] = &[
    "phone", "telephone", "telefon", "teléfono", "téléphone", "tel$", "tél$", "tél.", "ph!", "ph.no", "ph. no", "mobile",
    "mobil$", "mobiln", "mobilt", "mobilf", "mobiel", "mobitel", "cellphone", "fax$", "~whatsapp", "wa.me", "wa:", "sms$",
    "mob$", "móvil", "celular", "cellulare", "cel!", "cell!", "desk!", "hotline", "telefone", "telefoon", "telemóvel",
    "tlf$", "tfno$", "handynummer", "handy-n", "rufnummer", "numéro est", "komórk", "kom!", "puhelin", "puh$", "telp$", "telepon",
    "telpon", "contact number", "contact no", 
    "τηλέφωνο", "Τηλέφωνο", "τηλ.", "Τηλ.", "Τηλ:", "κινητό", "Κινητό", "телефон", "Телефон", "тел.", "Тел.",
    "моб.", "Моб.", "電話", "携帯", "电话", "手机", "手機", "微信", "전화", "휴대폰", "연락처", "联系方式", "मोबाइल", "फ़ोन", "फोन",
    "هاتف", "جوال", "موبايل", "טלפון", "נייד", "פלאפון", "โทร", "เบอร์ติดต่อ", "มือถือ", "điện thoại", "Điện thoại", "di động",
    "sđt", "sĐt",
];

/// Phrases used only of a telephone.
#[rustfmt::skip]
const CALLED: &[&str] = &[
    "call$", "call me", "call us", "call him", "call her", "you can call", "can call$", "call on$", "call at$",
    "answering at", "reach me", "reach you", "reach him", "reach her", "be reached at", "be reached on", "contacted at", "contacted on", "reachable at",
    "reachable on", "reachable under", "dial$", "text me", "office$", "handy$", "my number", 
    "ring me", "ring mig", "ring on$", "bell on$", "cell.", "cell is", "cell n", "my cell",
    "his cell", "her cell", 
    "llámame", "llame al", "llama al", "llamar al", "chiamami", "chiami al", "chiamare il",
    "chiamare al", "bel me", "bel mij", "bel naar", "bereikbaar op",
    "zadzwoń", "dzwonić", "dzwoń", "ruf mich", "rufen sie", "erreichbar unter", 
    "joindre au", "appeler au", "appelez", "rappeler au", "ligue para", "liga no", "liga para", "me liga$",
    "ring til", "nås på", "soita$", "soittaa", "volejte", "zavolejte", "volajte",
    "nazovite", "sunați la", "sunati la", "hívjon", "hubungi", "звоните", "Звоните", "позвоните",
    "Позвоните", "дзвоніть", "Дзвоніть", "拨打", "撥打", "致电", "致電", 
];

/// Phrases used of many things, and of a telephone right in front of a number that looks like one. A letter with a
/// colon, as on cards, counts only as a capital at the beginning of a line.
#[rustfmt::skip]
const LIKELY: &[&str] = &[
    "contact!", "contact info!", "contact details!", "contacto!", "contato!", "contatto!", "kontakt!", "hp!", "portable!", "caller id$", "text$", "ring$", "bel$",
    "his number", "her number", "my new number", "my no$", "t:", "m:", "p:", "f:", "mi número", "mi numero", "mio numero", "numero è",
    "mijn nummer", "mój numer", "meine nummer", "mon numéro", "meu número", "mitt nummer", "mit nummer", "numaram",
    "nomor saya", "pod numer", "мой номер", "Мой номер", "我的号码",
];
