use super::super::tests::base64;
use super::*;
use crate::{Part, Policy, Reading};
use domain::safety::{Origin, Safety};

const SAID: &str = "Größe: 42, mail jane.doe@acme.org or call the shop.";

fn percent(bytes: &[u8]) -> String {
    let digits = super::super::tests::each_byte_of(bytes);
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
    let found: Vec<&Finding> = report.findings.iter().collect();
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
    let text = FileText::read(&redacted, true).unwrap().text;
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
