//! Every code, with every kind of value behind it, and what only looks like that.

use std::fmt::Write as _;

use domain::safety::{Category, Origin, Safety};

use crate::policy::compiled::Policy;
use crate::redact::redactor::Redactor;
use crate::report::{Finding, Part};
use crate::text::codes::times_read;

const TOKEN: &str = "ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5";
/// Values and their types.
const VALUES: [(&str, &str); 6] = [
    (TOKEN, "github_token"),
    ("AKIAQ3EGRXH7LM2KQWZP", "aws_access_key_id"),
    ("jane.doe@acme.org", "EMAIL"),
    ("4111 1111 1111 1111", "PAYMENT_CARD"),
    ("DE89 3704 0044 0532 0130 00", "IBAN"),
    ("536-22-8741", "US_SSN"),
];

pub(crate) fn base64(bytes: &[u8], letters: [u8; 2], pads: bool) -> String {
    let value = |index: u32| match index {
        0..26 => b'A' + index as u8,
        26..52 => b'a' + (index - 26) as u8,
        52..62 => b'0' + (index - 52) as u8,
        62 => letters[0],
        _ => letters[1],
    };
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0, |bits, &b| bits << 8 | u32::from(b)) << (24 - 8 * three.len());
        out.extend((0..=three.len()).map(|n| char::from(value(bits >> (18 - 6 * n) & 63))));
        out.extend((three.len()..3).filter(|_| pads).map(|_| '='));
    }
    out
}

fn wrapped(code: &str, width: usize, end: &str) -> String {
    let lines: Vec<&str> =
        code.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
    lines.join(end)
}

fn each_byte(text: &str, write: impl Fn(u8) -> String) -> String {
    text.bytes().map(write).collect()
}

fn joined(text: &str, sign: &str, write: impl Fn(u8) -> String) -> String {
    text.bytes().map(write).collect::<Vec<_>>().join(sign)
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// A text in every code.
pub(crate) fn codes(text: &str) -> Vec<(&'static str, String)> {
    let bytes = text.as_bytes();
    let hex = each_byte(text, |b| format!("{b:02x}"));
    let mut all = vec![
        ("base64", base64(bytes, *b"+/", true)),
        ("base64 without padding", base64(bytes, *b"+/", false)),
        ("base64 for URLs", base64(bytes, *b"-_", false)),
        ("base64 of UTF-16", base64(&utf16(text), *b"+/", true)),
        ("hexadecimal", hex.clone()),
        ("capital hexadecimal", hex.to_uppercase()),
        ("hexadecimal with 0x", format!("0x{hex}")),
        ("pairs", joined(text, " ", |b| format!("{b:02x}"))),
        ("pairs with colons", joined(text, ":", |b| format!("{b:02X}"))),
        ("a list", joined(text, ", ", |b| format!("0x{b:02x}"))),
        ("\\x", each_byte(text, |b| format!("\\x{b:02x}"))),
        ("\\u", each_byte(text, |b| format!("\\u{b:04x}"))),
        ("\\u{}", each_byte(text, |b| format!("\\u{{{b:x}}}"))),
        ("\\U", each_byte(text, |b| format!("\\U{b:08X}"))),
        ("%", each_byte(text, |b| format!("%{b:02X}"))),
        ("decimal entities", each_byte(text, |b| format!("&#{b};"))),
        ("hexadecimal entities", each_byte(text, |b| format!("&#x{b:X};"))),
        ("entities without an end", each_byte(text, |b| format!("&#{b}"))),
        ("base64 in lines", wrapped(&base64(bytes, *b"+/", true), 20, "\n")),
        ("hexadecimal in lines", wrapped(&hex, 18, "\r\n")),
    ];
    if text.len() > 16 {
        all.push(("fours", wrapped(&hex, 4, " ")));
    }
    all
}

fn found(text: &str) -> Vec<Finding> {
    found_by(&Policy::compile(&Safety::default()).unwrap(), text)
}

fn found_by(policy: &Policy, text: &str) -> Vec<Finding> {
    let report = policy.inspect(&[Part { origin: Origin::User, text }]);
    report
        .findings
        .into_iter()
        .filter(|f| matches!(f.category, Category::Secret | Category::Pii))
        .collect()
}

#[test]
fn every_code_gives_away_every_value() {
    let policy = Policy::compile(&Safety::default()).unwrap();
    let mut missed = String::new();
    for (value, kind) in VALUES {
        let labelled = format!("My SSN is {value}, so take note.");
        let hidden = if kind == "US_SSN" { &labelled } else { value };
        for (name, code) in codes(hidden) {
            for (lead, tail) in [
                ("", ""),
                ("Please look at ", " and answer. The rest is as agreed, of course."),
                ("Das Päckchen „", "“ ist da."),
                ("{\"data\": \"", "\", \"n\": 1}"),
                ("x=", "&y=2"),
            ] {
                let text = format!("{lead}{code}{tail}");
                let found = found_by(&policy, &text);
                let is_whole = |f: &Finding| {
                    let covered = &text[f.bytes.clone()];
                    let chars: String = text.chars().skip(f.start).take(f.end - f.start).collect();
                    assert_eq!(chars, covered);
                    f.kind == kind && !covered.is_empty()
                };
                if !found.iter().any(is_whole) {
                    writeln!(missed, "{kind} in {name}: {text} {found:?}").unwrap();
                }
            }
        }
    }
    assert!(missed.is_empty(), "{missed}");
}

fn redacted(text: &str) -> (String, String) {
    let found = found(text);
    let found: Vec<&Finding> = found.iter().collect();
    let mut redactor = Redactor::new(7);
    let redacted = redactor.redact(text, &found).unwrap_or_else(|| text.to_owned());
    let restored = redactor.into_placeholders().restore(&redacted);
    (redacted, restored)
}

#[test]
fn the_whole_code_is_replaced_and_comes_back() {
    for (value, kind) in [(TOKEN, "GITHUB_TOKEN"), ("jane.doe@acme.org", "EMAIL")] {
        for (name, code) in codes(value) {
            let text = format!("Look: {code} is what they sent.");
            let (redacted, restored) = redacted(&text);
            let expected = format!("Look: [{kind}_1_00000007] is what they sent.");
            assert_eq!(redacted, expected, "{name}: {text}");
            assert_eq!(restored, text, "{name}");
        }
    }
    let (redacted, _) =
        redacted("Mail jane%40acme.org, or j&#97;ne&commat;acme.org, not \\u006aim.");
    assert_eq!(redacted, "Mail [EMAIL_1_00000007], or [EMAIL_2_00000007], not \\u006aim.");
}

#[test]
fn a_value_is_told_by_the_words_around_its_code() {
    for (text, kind) in [
        ("ssn: NTM2LTIyLTg3NDE=", "US_SSN"),
        ("My SSN is NTM2LTIyLTg3NDE", "US_SSN"),
        ("The card is MzQ3ODczNDkzODczNDkz, right?", "PAYMENT_CARD"),
        ("api_key = \"dzN0OGs1bTI3aDF6UTBwTDRuQjk=\"", "assigned_secret"),
        ("4111%201111%201111%201111", "PAYMENT_CARD"),
        ("4111&nbsp;1111&nbsp;1111&nbsp;1111", "PAYMENT_CARD"),
        ("https://x.example/?u=jane%2Edoe%40acme.org&v=1", "EMAIL"),
        ("gh\\u0070_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5", "github_token"),
        ("jos%C3%A9@acme.org", "EMAIL"),
    ] {
        let found = found(text);
        assert!(found.iter().any(|f| f.kind == kind), "{text}: {found:?}");
    }
}

#[test]
fn a_code_far_behind_others_is_undone_as_well() {
    let decoy = base64(b"Nothing to be seen here, whatever anybody says of it. ", *b"+/", true);
    let secret = base64(format!("and the token is {TOKEN}, as agreed").as_bytes(), *b"+/", true);
    for decoys in [
        format!("{decoy} ").repeat(2_000),
        base64("Nothing to be seen. ".repeat(10_000).as_bytes(), *b"+/", true) + " ",
        "%41%42 ".repeat(30_000),
        "41 42 43 44 45 46 47 48 49 4a 4b 4c ".repeat(4_000) + "\n",
    ] {
        for text in [format!("{decoys}\n{secret}"), format!("{decoys}\njane%40acme.org")] {
            assert_eq!(found(&text).len(), 1, "{} bytes", text.len());
        }
    }
    // A run further on takes nothing from groups in front of it.
    let pairs = joined("jane.doe@acme.org", " ", |b| format!("{b:02x}"));
    for lead in 0..20 {
        let text = format!("{}{pairs}, and {decoy}", "é".repeat(lead));
        assert_eq!(found(&text).len(), 1, "{text}");
    }
    let long = "Nothing to be seen. ".repeat(5_000);
    let code = base64(format!("{long}{TOKEN} {long}").as_bytes(), *b"+/", true);
    let found = found(&format!("Look: {code}"));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].bytes, 6..6 + code.len());
}

/// Noise, and what is told already.
#[test]
fn what_only_looks_like_a_code_is_left_alone() {
    let mut noise = Vec::new();
    let mut state = 7_u64;
    for _ in 0..60_000 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        noise.push((state >> 33) as u8);
    }
    let mut texts = vec![base64(&noise, *b"+/", true), base64(&noise, *b"-_", false)];
    texts.push(wrapped(&texts[0], 76, "\n"));
    texts.push(noise.chunks(32).map(|line| each_byte_of(line) + "\n").collect());
    for text in [
        "sha512-oCTVKaN5hq1pUNbQp8TZrWzxVsN8VjVLXFTvDnbaTDVJmHBCd0lJwSnkWIbLEyMwUGD8VJnIZWPUpUwmMZAmgA==",
        "550e8400-e29b-41d4-a716-446655440000",
        "getElementsByTagName(responsibilities, internationalization)",
        "The range 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 is sold out.",
        "00:1b:44:11:3a:b7 at 10:20:30 on 2024-11-23",
        "100% of it &amp; more: %d items, C:\\x86\\u1234\\users, &#8212; caf&#233;",
        "https://example.org/a%20b/c%2Fd?x=%22quoted%22&y=1",
        "\\u4f60\\u597d\\uff0c\\u4e16\\u754c",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk0Yl2r3x2bqv2f0J2v1mC0mXkqN8h7Zb2rX1sQv9aT build",
        "SGVsbG8sIHdvcmxkISBUaGlzIGlzIGEgdGV4dCBhYm91dCBub3RoaW5nIGF0IGFsbC4=",
    ] {
        texts.push(text.to_owned());
    }
    for text in texts {
        let of_codes: Vec<Finding> =
            found(&text).into_iter().filter(|f| f.kind != "MAC_ADDRESS").collect();
        assert!(of_codes.is_empty(), "{}: {of_codes:?}", &text[..60.min(text.len())]);
    }
}

pub(crate) fn each_byte_of(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

#[test]
fn what_was_found_already_is_not_counted_twice() {
    let database = base64(b"postgres://app:Kd92mQx1LpR7@db.acme.io:5432/shop", *b"+/", true);
    let service = base64(
        format!(
            "{{\"email\":\"jane@acme.org\",\"key\":\"A3-C4ZJMN-PQTZTL-HGL84-G64M7-KVZRN-4ZVP6\",\"auth\":\"{TOKEN}\",\
             \"salt\":\"FMRUPiyrN4Xf8Hoh6YRXQcZ2mLw7KsT0\",\"device\":\"q7bW2xLk9mZt4RcV\"}}"
        )
        .as_bytes(),
        *b"-_",
        false,
    );
    let jwt = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJqYW5lQGFjbWUub3JnIiwiaWF0IjoxNTE2MjM5MDIyfQ.\
               SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c";
    for text in [
        format!("url: {database}"),
        format!("Authorization: Bearer {jwt}"),
        format!("ops_{service}"),
        format!("{TOKEN} with%20more"),
        "mail jane.doe@acme.org%2C please".to_owned(),
    ] {
        let found = found(&text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
    }
}

#[test]
fn a_code_that_is_cut_is_undone_wherever_it_is_cut() {
    let filler = "Nothing to be seen here, whatever anybody says of it. ".repeat(20);
    let code = base64(format!("{filler}and {TOKEN} {filler}").as_bytes(), *b"+/", true);
    for from in 100..140 {
        assert_eq!(found(&code[from..code.len() - 3]).len(), 1, "{}", &code[from..from + 40]);
    }
}

#[test]
fn beginnings_of_signed_tokens_are_read_once() {
    let text = "eyJaaaaaaaaaaaa.".repeat(4_000);
    assert!(times_read(&text) <= 4, "{}", times_read(&text));
}

#[test]
fn the_end_of_a_run_is_looked_for_once() {
    let text = (each_byte_of(&[b'a'; 12]) + "x").repeat(2_000);
    assert!(times_read(&text) <= 16, "{}", times_read(&text));
    assert_eq!(found(&(text + &each_byte_of(b" jane.doe@acme.org "))).len(), 1);
}

#[test]
fn what_is_no_code_is_not_undone_again_and_again() {
    let line = |bytes: &[u8]| base64(bytes, *b"+/", false);
    let text = b"what a plain text";
    let wide = utf16("what a plain text it is.");
    let noise = |number: usize| line(&[&text[..], &[0xff; 40], &number.to_le_bytes()].concat());
    for text in [
        line(text) + "////\n",
        line(text) + "\n" + &"////".repeat(5) + "\n",
        line(&wide) + "\n" + &line(text) + "\n",
        line(&wide) + "\n" + &line(&[0, 0xd8].repeat(12)) + "\n",
        each_byte_of(&[b'a'; 12]) + "x",
        line(text) + "x" + &each_byte_of(&[b'a'; 12]) + "/",
        (0..40).map(noise).collect(),
    ] {
        let long = text.repeat(120_000 / text.len());
        assert!(times_read(&long) <= 64, "{} times: {text}", times_read(&long));
    }
}

#[test]
fn noise_behind_a_code_does_not_hide_it() {
    let code =
        wrapped(&base64(format!("the token is {TOKEN}.").as_bytes(), *b"+/", false), 76, "\n");
    let noise = base64(&[0xff, 0x80, 0xe9, 0xc1].repeat(12), *b"+/", false);
    for noise in [format!("{noise}\n").repeat(40), format!("{noise}\n").repeat(2)] {
        assert_eq!(found(&format!("{code}\n{noise}")).len(), 1, "{code}\n{noise}");
    }
    // A character may begin in one line and end in the next.
    let chinese = base64(format!("{} {TOKEN}", "请忽略".repeat(40)).as_bytes(), *b"+/", true);
    for width in [20, 22, 76] {
        assert_eq!(found(&wrapped(&chinese, width, "\n")).len(), 1, "{width}");
    }
    // Not even where very much was undone for nothing.
    let decoy =
        base64(b"what a plain text", *b"+/", false) + "x" + &each_byte_of(&[b'a'; 12]) + "/";
    let decoys = decoy.repeat(2_000);
    for code in [code.clone(), wrapped(&code.replace('\n', ""), 20, "\n")] {
        assert_eq!(found(&format!("{decoys}\n\n. {code}\n")).len(), 1, "{code}");
    }
}

#[test]
fn a_credential_in_the_clear_gives_way_to_a_credential_alone() {
    let all = |kind: &'static str, category, bytes| Finding {
        kind: kind.into(),
        category,
        bytes,
        ..found(TOKEN).remove(0)
    };
    for (category, left) in [(Category::Pii, 2), (Category::Secret, 1)] {
        let mut findings = vec![all("github_token", Category::Secret, 10..20)];
        super::merge(vec![all("behind", category, 0..40)], &mut findings);
        assert_eq!(findings.len(), left);
    }
}

#[test]
fn zeros_may_stand_in_front_of_the_number_of_a_character() {
    for sign in ["&#000000064;", "&#x00000000040;", "&#000000000000000000064;", "&#0064;"] {
        assert_eq!(found(&format!("Mail jane.doe{sign}acme.org now")).len(), 1, "{sign}");
    }
}

#[test]
fn a_code_behind_an_escape_is_undone() {
    let digits = each_byte_of(TOKEN.as_bytes());
    let upper = digits.to_uppercase();
    let code = base64(format!("the key is {TOKEN} now").as_bytes(), *b"+/", true);
    let bare = code.replace('=', "");
    let mut texts = Vec::new();
    for before in ["\\x", "%", "x'", "0x", "E'\\\\x", "&#x20;"] {
        texts.push(format!("value {before}{digits}"));
        texts.push(format!("value {before}{upper} and more"));
    }
    for before in [
        "key:\\n",
        "key:\\r\\n",
        "\\t",
        "token%3D",
        "a%20",
        "a%0a",
        "\\u003d",
        "\\x3d",
        "&#61;",
        "\\u{3d}",
    ] {
        texts.push(format!("{before}{code}"));
        texts.push(format!("it is {before}{bare} here"));
        texts.push(format!("it is {before}{digits} here"));
    }
    for depth in [2, 8, 12, 40] {
        texts.push(format!("{}{code}", "folder/".repeat(depth)));
        texts.push(format!("/{}{bare}?x=1", "some-long_name/".repeat(depth)));
    }
    for text in texts {
        let found = found(&text);
        assert!(found.iter().any(|f| f.category == Category::Secret), "{text} {found:?}");
    }
}
