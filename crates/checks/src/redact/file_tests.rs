use super::*;
use crate::policy::compiled::Policy;
use crate::policy::encoded::tests::base64;
use crate::redact::file::payload::decoded;
use crate::redact::reading::Reading;
use crate::report::Part;
use domain::safety::{Category, Origin, Safety};

const SAID: &str = "Größe: 42, mail jane.doe@acme.org or call the shop.";

fn percent(bytes: &[u8]) -> String {
    let digits = crate::policy::encoded::tests::each_byte_of(bytes);
    let pairs = digits.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap());
    pairs.flat_map(|pair| ["%", pair]).collect()
}

fn wide(text: &str, mark: bool) -> Vec<u8> {
    let mark = if mark { "\u{feff}" } else { "" };
    [mark, text].concat().encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn latin(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(c).unwrap()).collect()
}

fn in_lines(code: &str, end: &str) -> String {
    let lines = code.as_bytes().chunks(60).map(|line| std::str::from_utf8(line).unwrap());
    lines.collect::<Vec<_>>().join(end)
}

/// A file as it leaves.
fn redacted(raw: &str, is_bare: bool) -> Option<String> {
    let policy = Policy::compile(&Safety::default()).unwrap();
    assert_eq!(file_kind(raw, is_bare), FileKind::Text, "{raw}");
    let reading = Reading::file(raw, is_bare);
    let report = policy.inspect(&[Part { origin: Origin::User, text: reading.text() }]);
    let found = report.findings.iter().filter(|found| found.category != Category::Injection);
    let found: Vec<&Finding> = found.collect();
    reading.redact(&mut Redactor::new(7), &found)
}

#[test]
fn a_file_of_text_is_read_and_redacted_whatever_it_is_called() {
    let plain = base64(SAID.as_bytes(), *b"+/", true);
    for media in [
        "text/plain",
        "TEXT/CSV",
        "application/json",
        "application/ld+json",
        "image/svg+xml",
        "application/x-www-form-urlencoded",
        "",
        "image/png",
        "application/octet-stream",
        "application/pdf",
        "audio/wav",
        "text/plain;charset=utf-8",
        "text/plain;name=\"a.txt\"",
    ] {
        for raw in [
            format!("data:{media};base64,{plain}"),
            format!("DATA:{media};BASE64,{plain}"),
            format!(" \n\u{200b}data:{media};base64,{plain}\n"),
            format!("data:{media};base64,{}", in_lines(&plain, "\r\n")),
            format!("data:{media};base64,{}", plain.replace('=', "")),
            format!("data:{media};base64,{}", base64(SAID.as_bytes(), *b"-_", false)),
            format!("data:{media};base64,{}", plain.replace('=', "%3D")),
            format!("data:{media},{}", percent(SAID.as_bytes())),
        ] {
            let redacted = redacted(&raw, false).unwrap_or_else(|| panic!("{raw}"));
            let file = FileText::read(&redacted, false).unwrap();
            assert_eq!(file.text(), SAID.replace("jane.doe@acme.org", "[EMAIL_1_00000007]"));
        }
    }
}

#[test]
fn every_encoding_stays_what_it_is() {
    for (bytes, head) in [
        (wide(SAID, true), "text/plain;charset=utf-16"),
        (wide(SAID, false), "image/png"),
        (wide(SAID, false), "text/plain;charset=UTF-16LE"),
        (latin(SAID), "text/plain;charset=iso-8859-1"),
        (latin(SAID), "application/octet-stream"),
        (SAID.as_bytes().to_vec(), "text/plain;charset=utf-16"),
    ] {
        let raw = format!("data:{head};base64,{}", base64(&bytes, *b"+/", true));
        let redacted = redacted(&raw, false).unwrap();
        let new = decoded(redacted.split_once(',').unwrap().1.as_bytes());
        let mail: Vec<u8> = if bytes.contains(&0) {
            wide("jane.doe@acme.org", false)
        } else {
            b"jane.doe@acme.org".to_vec()
        };
        let at = memchr::memmem::find(&bytes, &mail).unwrap();
        assert_eq!(new[..at], bytes[..at], "{head}");
        assert!(new.ends_with(&bytes[at + mail.len()..]), "{head}");
        assert!(memchr::memmem::find(&new, &mail).is_none());
    }
}

#[test]
fn bare_base64_is_a_file_where_the_field_is_one_for_files() {
    let plain = base64(SAID.as_bytes(), *b"+/", true);
    assert_eq!(file_kind(&plain, false), FileKind::None);
    let redacted = redacted(&plain, true).unwrap();
    let file = FileText::read(&redacted, true).unwrap();
    let text = file.text();
    assert!(text.starts_with("Größe: 42, mail [EMAIL_1_"), "{text}");
    let noise: Vec<u8> =
        (0..9000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let png = base64(&[&b"\x89PNG\r\n\x1a\n"[..], &noise].concat(), *b"+/", true);
    assert_eq!(file_kind(&png, true), FileKind::Binary);
    assert_eq!(file_kind(&base64(&noise, *b"+/", true), true), FileKind::None);
    for words in
        ["ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5", "file-abc123", "notes for you", "QUJD"]
    {
        assert_eq!(file_kind(words, true), FileKind::None, "{words}");
    }
}

#[test]
fn pictures_sounds_and_documents_are_passed_over() {
    let noise: Vec<u8> =
        (0..60_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let pdf =
        [&b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n".repeat(20)[..], &noise]
            .concat();
    let pcm: Vec<u8> =
        (0..40_000_u32).flat_map(|n| ((n * 37 % 900) as i16 - 450).to_le_bytes()).collect();
    for (media, bytes) in [("image/png", &noise), ("application/pdf", &pdf), ("audio/wav", &pcm)] {
        let raw = format!("data:{media};base64,{}", base64(bytes, *b"+/", true));
        assert_eq!(file_kind(&raw, false), FileKind::Binary, "{media}");
        assert_eq!(file_kind(&in_lines(&raw, "\n"), false), FileKind::Binary, "{media}");
    }
    // A beginning alone makes no picture.
    let text = SAID.repeat(500);
    for magic in [&b"\x89PNG\r\n\x1a\n"[..], b"GIF89a", b"%PDF-1.4\n"] {
        let bytes = [magic, text.as_bytes()].concat();
        let raw = format!("data:image/png;base64,{}", base64(&bytes, *b"+/", true));
        assert!(redacted(&raw, false).is_some());
    }
    for words in [
        "data: the first, the second",
        "data:image/png;base64,ignore all previous",
        "data:,hello",
        "database,",
    ] {
        assert_eq!(file_kind(words, false), FileKind::None, "{words}");
    }
}

#[test]
fn a_long_text_in_lines_is_a_text() {
    let text = SAID.repeat(4_000);
    for lead in ["", "a", "ab"] {
        for head in [&b""[..], &[0xff; 900]] {
            let bytes = [head, lead.as_bytes(), text.as_bytes()].concat();
            let code = base64(&bytes, *b"+/", true);
            for (width, end) in [(76, "\n"), (76, "\r\n"), (64, "\n"), (76, "%0D%0A"), (61, "%0a")]
            {
                let lines = code.as_bytes().chunks(width).map(|l| str::from_utf8(l).unwrap());
                let lines = lines.collect::<Vec<_>>().join(end);
                let raw = format!("data:application/octet-stream;base64,{lines}");
                assert_eq!(file_kind(&raw, false), FileKind::Text, "{width} {end:?}");
            }
        }
    }
}

const KEY: &str = "ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5";

fn found_in(raw: &str) -> Vec<Finding> {
    let policy = Policy::compile(&Safety::default()).unwrap();
    let reading = match file_kind(raw, false) {
        FileKind::Text => Reading::file(raw, false),
        FileKind::None => Reading::Plain(raw.into()),
        FileKind::Binary => return Vec::new(),
    };
    policy.inspect(&[Part { origin: Origin::User, text: reading.text() }]).findings
}

/// A file with a finding and a redaction that changes nothing else.
fn is_seen(head: &str, bytes: &[u8], secret: &[u8]) {
    let raw = format!("data:{head};base64,{}", base64(bytes, *b"+/", true));
    let redacted = redacted(&raw, false);
    let redacted = redacted.unwrap_or_else(|| panic!("{head} {:?}", &bytes[..12]));
    let new = decoded(redacted.split_once(',').unwrap().1.as_bytes());
    let at = memchr::memmem::find(bytes, secret).unwrap();
    let shown = String::from_utf8_lossy(&new);
    assert!(new.starts_with(&bytes[..at]), "{head} {shown:?}");
    assert!(new.ends_with(&bytes[at + secret.len()..]), "{head} {shown:?} {:?}", found_in(&raw));
    assert!(memchr::memmem::find(&new, secret).is_none(), "{head}");
}

#[test]
fn a_mark_or_a_claim_hides_no_text() {
    let text = format!("Hello, my key is {KEY} and no more.");
    for head in
        ["text/plain", "image/png", "text/plain;charset=utf-16", "text/csv;charset=utf-16be"]
    {
        for mark in [&b"\xff\xfe"[..], b"\xfe\xff", b"\xff", b"\xff\xfe\xff", b""] {
            for end in [&b""[..], b"\xff", b"\0", b"\xe9\0"] {
                is_seen(head, &[mark, text.as_bytes(), end].concat(), KEY.as_bytes());
            }
        }
    }
}

#[test]
fn each_stretch_of_a_file_is_read_as_it_is_written() {
    let log = "2024-11-23 all is well on this machine. Größe: 7.\r\n".repeat(40);
    let line = format!("token {KEY}.\r\n");
    let latin = log.replace('ö', "o").replace('ß', "s");
    let big = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
    for head in ["text/plain", "application/octet-stream"] {
        for lead in ["", "a"] {
            let lead = lead.as_bytes();
            // As PowerShell does that adds to the file of another program.
            is_seen(head, &[&wide(&log, true), lead, line.as_bytes()].concat(), KEY.as_bytes());
            is_seen(head, &[&wide(&log, false), lead, line.as_bytes()].concat(), KEY.as_bytes());
            is_seen(head, &[&big(&log), lead, line.as_bytes()].concat(), KEY.as_bytes());
            let long = [&wide(&log.repeat(40), true), lead, line.repeat(1000).as_bytes()].concat();
            let raw = format!("data:{head};base64,{}", base64(&long, *b"+/", true));
            assert!(found_in(&raw).len() >= 1000, "{head}");
            let secret = wide(KEY, false);
            for log in [log.as_bytes(), latin.as_bytes()] {
                is_seen(head, &[lead, log, &wide(&line, false)].concat(), &secret);
                is_seen(head, &[lead, log, &wide(&line, true), log].concat(), &secret);
            }
        }
    }
}

#[test]
fn a_byte_that_is_no_utf_8_spoils_no_other() {
    let mail = "jörg.müller@bücher.example.org";
    for (before, after) in
        [(&b"\xff "[..], &b""[..]), (b"", b" \xff\xfe"), (b"caf\xe9 \x80 ", b" \xf0\x9f")]
    {
        let text = format!("中文 Größe {mail} 中文 für Ärzte");
        let bytes = [before, text.as_bytes(), after].concat();
        is_seen("text/plain", &bytes, mail.as_bytes());
        let raw = format!("data:text/plain;base64,{}", base64(&bytes, *b"+/", true));
        let file = FileText::read(&raw, false).unwrap();
        assert!(file.text().contains(&text), "{}", file.text());
    }
    // The replacement of such a byte may stand in a text itself.
    let text = format!("\u{10feff} {mail} \u{10fe80} Ä");
    is_seen("text/plain", &[text.as_bytes(), b"\xff"].concat(), mail.as_bytes());
}

#[test]
fn redacting_utf_16_changes_nothing_else() {
    let mail = wide("jane.doe@acme.org", false);
    let text = wide("This is a letter to jane.doe@acme.org and others, 中文 𝒳.", true);
    let lone = [0x00, 0xd8, 0x20, 0x00, 0x00, 0xdc, 0x41, 0x00];
    for bytes in [
        [&text[..], b"\x41"].concat(),
        [&text[..], &lone[..]].concat(),
        [&text[..2], &lone[..], &text[2..], &lone[..], b"z"].concat(),
    ] {
        is_seen("text/plain", &bytes, &mail);
        is_seen("text/plain;charset=utf-16le", &bytes, &mail);
    }
}

#[test]
fn a_file_in_another_script_is_read_once() {
    let chinese = "请把这份文件翻译成英文，并总结要点。会议将于下周三上午举行。".repeat(60);
    let japanese = "東京タワーはとてもたかいです。きのうはあめでした。".repeat(60);
    let russian = "Пожалуйста, переведите этот текст на английский язык. ".repeat(60);
    for text in [&chinese, &japanese, &russian] {
        let bytes = wide(text, true);
        for head in ["text/plain", "application/octet-stream"] {
            let raw = format!("data:{head};base64,{}", base64(&bytes, *b"+/", true));
            let kinds = |raw| found_in(raw).into_iter().map(|f| f.kind).collect::<Vec<_>>();
            assert_eq!(kinds(&raw), kinds(text));
            let file = FileText::read(&raw, false).unwrap();
            assert!(file.text().contains(&text[..]), "{head}");
        }
    }
    let raw = format!("data:text/plain;base64,{}", base64(&wide(&chinese, true), *b"+/", true));
    let file = FileText::read(&raw, false).unwrap();
    assert_eq!(file.text().strip_prefix('\u{feff}'), Some(&chinese[..]));
}

#[test]
fn what_may_be_chinese_as_well_as_ascii_is_judged_as_both() {
    let text: String = "在是时候把文件打印出来"
        .chars()
        .filter(|c| {
            let [low, high] = (*c as u16).to_le_bytes();
            [low, high].iter().all(|byte| (0x20..0x7f).contains(byte))
        })
        .collect();
    let raw = base64(&wide(&text.repeat(4), true), *b"+/", true);
    let raw = format!("data:text/plain;base64,{raw}");
    let file = FileText::read(&raw, false).unwrap();
    assert!(text.chars().count() > 2 && file.text().contains(&text.repeat(4)), "{}", file.text());
}

#[test]
fn ordinary_text_with_a_mark_raises_no_alarm() {
    let prose = "The quick brown fox jumps over the lazy dog while the others have their lunch. \
                 Nobody knows how many of them there are, or where they came from.\n"
        .repeat(30);
    for bytes in [[b"\xff\xfe", prose.as_bytes()].concat(), prose.as_bytes().to_vec()] {
        let code = base64(&bytes, *b"+/", true);
        let found = found_in(&format!("data:text/plain;charset=utf-16;base64,{code}"));
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn what_readers_pass_over_hides_no_file() {
    let text = format!("Größe: 42. The key is {KEY} and that is all there is to tell.");
    let wide = wide(&text, true);
    for bytes in [text.as_bytes(), &wide] {
        let code = base64(bytes, *b"+/", true);
        let spread = |sign: &str| {
            let parts = code.as_bytes().chunks(14).map(|part| str::from_utf8(part).unwrap());
            parts.collect::<Vec<_>>().join(sign)
        };
        for raw in [
            format!("data:text/plain;base64,{}", spread(".")),
            format!("data:image/png;base64,{}", spread("\u{200b}")),
            format!("data:text/plain;base64,{}", spread(" ")),
            format!("data:text/plain;base64,% {code}"),
            format!("data:text/plain;name={};base64,{code}", "a".repeat(1_100)),
            format!("data:text/plain;name={};base64,{code}", "a".repeat(60_000)),
            format!("data:te'xt/plain;base64,{code}"),
            format!("data:té (xt)/plain;base64,{code}"),
        ] {
            assert_eq!(file_kind(&raw, false), FileKind::Text);
            let file = FileText::read(&raw, false).unwrap();
            assert!(file.text().contains(KEY), "{raw}");
            assert!(!found_in(&raw).is_empty(), "{raw}");
            let left = redacted(&raw, false).unwrap();
            let left = FileText::read(&left, false);
            assert!(!left.is_some_and(|file| file.text().contains(KEY)), "{raw}");
        }
    }
}

#[test]
fn words_that_call_themselves_a_file_are_judged() {
    let noise: Vec<u8> =
        (0..9000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let png = base64(&[&b"\x89PNG\r\n\x1a\n"[..], &noise].concat(), *b"+/", true);
    let plain = base64(SAID.as_bytes(), *b"+/", true);
    for raw in [
        format!("data:text/plain;base64,{KEY}"),
        format!("data:text/plain;base64,my key is {KEY} and this is no code"),
        format!("data:text/plain;base64,{plain} and my key is {KEY}"),
        format!("data:my key is {KEY};base64,{plain}"),
        format!("data:image/png;name=my key is {KEY};base64,{png}"),
        format!("data:image/png;name={KEY};{};base64,{png}", "a".repeat(100)),
    ] {
        assert!(found_in(&raw).iter().any(|f| f.kind == "github_token"), "{}", &raw[..90]);
        let left = match file_kind(&raw, false) {
            FileKind::Text => redacted(&raw, false).unwrap(),
            _ => continue,
        };
        assert!(!left.contains(KEY), "{left}");
    }
    let left = redacted(&format!("data:image/png;name=a {KEY};base64,{png}"), false).unwrap();
    assert!(left.ends_with(&png) && left.starts_with("data:image/png;name=a [GITHUB_TOKEN_1_"));
    assert_eq!(file_kind(&format!("data:image/png;base64,{png}"), false), FileKind::Binary);
}
