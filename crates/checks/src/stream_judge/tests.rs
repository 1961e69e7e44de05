//! Answers in pieces, against the same answers as a whole.

use domain::safety::{Action, Checksum, Recognizer, Safety};
use proptest::prelude::*;

use super::*;
use crate::policy::encoded;
use crate::{pii, secrets, vocabulary};

/// More of an ordinary text than this never waits, in characters.
const MOST_HELD: usize = 100;

/// Text as people and programs write it, with numbers, names and code in it.
const PROSE: &str = "\
Sure! Here's how the release of version 3.14 went: in 2024 Apple Inc. and 35 others moved 1,234,567 \
records (about 12 % of all) between 2019-03-04 and 10:30 on 5 June. The session token limit is 4096; \
the API key goes into the header, and your password stays where it is. A professor would call it done.

1. Open `Settings` and choose \"Advanced\" - it is at the top.
2. Run `cargo build --release` (or `make`), then `git push origin main`.
3. Wait 5 to 10 minutes; see https://docs.example.org/guide/install?lang=en#linux for more.

```rust
fn main() {
    let key_count: usize = 42;
    for (let mut i = 0; i < 1_000_000; i += 1) { println!(\"{} of {}\", i, key_count); }
}
```

| name | born | street |
|---|---|---|
| a | b | via e-mail, on the road |

{\"title\": \"A minified object\",\"items\":[{\"name\":\"first\",\"size\":12},{\"name\":\"it's\",\"size\":7}],\"ok\":true}
这是一个很长的句子，里面没有空格。会议在星期三举行，地点还没有确定。日本語の文章もそのまま流れます。
Tschüss — “until then”, l'été, naïve façade; наши данные не видны. Thanks… 🙂
";

fn policy(secrets: Action, pii: Action) -> Policy {
    let safety = Safety { output_secrets: secrets, output_pii: pii, ..Safety::default() };
    Policy::compile(&safety).unwrap()
}

fn redacts() -> Policy {
    policy(Action::Redact, Action::Redact)
}

/// Returns a whole answer as it leaves.
fn whole(policy: &Policy, text: &str) -> String {
    let report = policy.inspect_output(&[text]);
    let found: Vec<&Finding> = report.findings.iter().collect();
    Redactor::of_answer(7).redact(text, &found).unwrap_or_else(|| text.to_owned())
}

/// Returns an answer in pieces as it leaves, or the part of it that had left when it was stopped.
fn streamed<'p>(policy: &Policy, pieces: impl IntoIterator<Item = &'p str>) -> (String, bool) {
    let (mut judge, mut redactor) = (StreamJudge::default(), Redactor::of_answer(7));
    let mut out = String::new();
    for piece in pieces {
        match judge.push(policy, &mut redactor, piece) {
            Ok(said) => out.push_str(&said),
            Err(withheld) => return (out + &withheld.said, true),
        }
        assert!(judge.window.len() - judge.done <= MAX_HELD_BYTES);
        assert!(judge.window.len() <= LOOK_BACK + LOOK_BACK_SLACK + MAX_HELD_BYTES + PART_BYTES);
    }
    match judge.flush(policy, &mut redactor) {
        Ok(said) => (out + &said, false),
        Err(withheld) => (out + &withheld.said, true),
    }
}

fn chars(text: &str) -> impl Iterator<Item = &str> {
    text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()])
}

/// A value where answers have such: alone, in prose, in a block of code, in JSON, behind a key.
fn settings(value: &str) -> [String; 5] {
    [
        value.to_owned(),
        format!(
            "As you have asked, here it is: {value}\nThat is all there is to tell about it today."
        ),
        format!("Do this:\n\n```sh\n{value}\n```\n\nThen look again whether everything has come."),
        format!("{{\"id\":7,\"note\":{},\"more\":[1,2,3]}}", serde_json::Value::from(value)),
        format!("- key: {value}\n- other: nothing that anybody would look at twice, I am afraid"),
    ]
}

fn samples() -> impl Iterator<Item = String> {
    let plain = secrets::tests::samples().into_iter();
    plain.chain(pii::tests::samples().map(str::to_owned)).chain(encoded_samples())
}

/// Values behind every code.
fn encoded_samples() -> impl Iterator<Item = String> {
    let values = [
        "ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5",
        "jane.doe@acme.org",
        "My card is 4111 1111 1111 1111, and that is all.",
        "DE89 3704 0044 0532 0130 00",
        "My SSN is 536-22-8741, so take note.",
    ];
    values.into_iter().flat_map(|value| encoded::tests::codes(value).into_iter().map(|code| code.1))
}

#[test]
fn a_code_is_held_to_its_end() {
    let policy = redacts();
    for text in [
        "ssn: NTM2LTIyLTg3NDE= it is",
        "the number NTM2LTIyLTg3NDE= is my SSN, you know, and that is that",
        "4111%201111 1111&#32;1111 is the card number of mine",
        "j&#97;ne %40 home, or jane%40acme.org.",
        "35 33 36 2d 32 32 2d 38 37 34 31 is my ssn",
        "numbers 20 21 22 23 24 25, and 2024 of them in a row 30 31 32 33",
    ] {
        let expected = whole(&policy, text);
        assert_eq!(streamed(&policy, chars(text)).0, expected);
        assert_eq!(streamed(&policy, [text]).0, expected);
    }
}

#[test]
fn a_code_longer_than_what_is_held_is_dropped_from_where_it_is_told() {
    let policy = redacts();
    let filler = "Nothing to be seen here, whatever anybody says of it. ".repeat(300);
    let secret = "ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5";
    for (text, early) in
        [(format!("{secret} {filler}"), true), (format!("{filler}and {secret} {filler}"), false)]
    {
        for code in [
            encoded::tests::base64(text.as_bytes(), *b"+/", true),
            encoded::tests::each_byte_of(text.as_bytes()),
        ] {
            let answer = format!("Look: {code} is it.");
            for said in [streamed(&policy, chars(&answer)).0, streamed(&policy, [&*answer]).0] {
                assert!(
                    said.ends_with("_1_00000007] is it."),
                    "{early} {} {} {}",
                    said.len(),
                    answer.len(),
                    &said[said.len() - 60..]
                );
                assert!(!early || said.starts_with("Look: [GITHUB"), "{}", &said[..60]);
                assert!(said.len() < answer.len() - filler.len());
            }
        }
    }
}

#[test]
fn a_group_that_may_have_left_is_no_part_of_a_value() {
    let policy = redacts();
    for text in [
        "Passport No: 12AB 34567",
        "Licence number: M123A 45B67 8C9DE and more",
        "26::\"/3456::/wr",
    ] {
        assert_eq!(streamed(&policy, chars(text)).0, whole(&policy, text));
    }
}

#[test]
fn a_number_is_held_whatever_it_is_joined_to() {
    let policy = redacts();
    for joined in ["a1.", "x=7&", "\0"] {
        let text = format!("{}tel.: 011 44 20 7946 0958 or so", joined.repeat(80));
        let (said, expected) = (streamed(&policy, chars(&text)).0, whole(&policy, &text));
        assert!(expected.contains("PHONE"), "{expected}");
        assert_eq!(said, expected);
        let text = format!("{}(011 44 20 7946 0958) or so", joined.repeat(80));
        assert_eq!(streamed(&policy, chars(&text)).0, whole(&policy, &text));
    }
}

#[test]
fn an_answer_in_pieces_leaves_as_the_whole_one() {
    let policy = redacts();
    for sample in samples() {
        let mut is_found = false;
        for text in settings(&sample) {
            let expected = whole(&policy, &text);
            assert_eq!(streamed(&policy, [&*text]).0, expected);
            assert_eq!(streamed(&policy, chars(&text)).0, expected);
            is_found |= expected != text;
        }
        assert!(is_found, "{sample}");
    }
}

#[test]
fn what_is_padded_quoted_or_labelled_is_held_as_well() {
    let policy = redacts();
    let line = "MIIEowIBAAKCAQEAq8fT2vLr9XyZbN4kQwHs7dJpUeGcRtYm3oVaEx5iLz6nBfWu";
    let body = [line; 8].join("\n");
    let key = |padding: &str| {
        let (begin, end) = ("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----");
        format!("Here:\n{begin}\n{padding}\n{body}\n{end}\nThat is all.")
    };
    for text in [
        key(&" ".repeat(500)),
        key(&".\n".repeat(1500)),
        key(&"\\n".repeat(900)),
        r#"{"dob":"5 May 1990"}"#.to_owned(),
        "Date of birth: **May 5, 1990**, in Leeds.".to_owned(),
        r#"{"iban":"NL91 ABNA 0417 1643 00"}"#.to_owned(),
        "IBAN:GB82 WEST 1234 5698 7654 32 it is.".to_owned(),
    ] {
        let expected = whole(&policy, &text);
        assert_ne!(expected, text);
        assert_eq!(streamed(&policy, [&*text]).0, expected);
        assert_eq!(streamed(&policy, chars(&text)).0, expected);
    }
}

#[test]
fn nothing_of_what_stops_an_answer_leaves() {
    let policy = policy(Action::Block, Action::Block);
    for text in samples().flat_map(|sample| settings(&sample)) {
        let report = policy.inspect_output(&[&text]);
        let first = report.findings.iter().map(|finding| finding.bytes.start).min();
        for (said, stopped) in [streamed(&policy, [&*text]), streamed(&policy, chars(&text))] {
            assert_eq!(stopped, first.is_some(), "{text}");
            assert!(text.starts_with(&said), "{text}: {said}");
            assert_eq!(said.len(), first.unwrap_or(text.len()), "{text}: {said}");
        }
    }
}

#[test]
fn what_stands_close_to_other_words_is_found_as_well() {
    let policy = redacts();
    for text in [
        "password: abc:12345 it is",
        "<user>jo</user><password>a\"kd92mQx1Lp</password> is in the file",
        "see tempo P.O. Box 4711 and xP.O. Box 4712",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTU\n-----END PRIVATE KEY-----ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5 of",
        "a_run_of_many_letters_and_more_of_them_before_the_colon_and_the_number_behind_it_and_one_more_and_another_one_here:(020) 7946 0958 is it",
    ] {
        let expected = whole(&policy, text);
        assert_ne!(expected, text);
        assert_eq!(streamed(&policy, chars(text)).0, expected);
    }
}

#[test]
fn ordinary_text_flows() {
    let policy = redacts();
    let text = PROSE.repeat(3);
    let (mut judge, mut redactor) = (StreamJudge::default(), Redactor::of_answer(7));
    let (mut said, mut most) = (String::new(), (0, String::new()));
    for piece in chars(&text) {
        said.push_str(&judge.push(&policy, &mut redactor, piece).unwrap());
        let held = &judge.window[judge.done..];
        if held.chars().count() > most.0 {
            most = (held.chars().count(), held.to_owned());
        }
    }
    said.push_str(&judge.flush(&policy, &mut redactor).unwrap());
    assert_eq!(said, text);
    assert!(most.0 < MOST_HELD, "{most:?}");
}

#[test]
fn a_word_leaves_when_the_next_one_begins() {
    let policy = redacts();
    let (mut judge, mut redactor) = (StreamJudge::default(), Redactor::of_answer(7));
    let mut push = |piece: &str| judge.push(&policy, &mut redactor, piece).unwrap();
    let pieces = ["The", " answer", " comes", " word", " by", " word."];
    assert_eq!(pieces.map(&mut push), ["", "The ", "answer ", "comes ", "word ", "by "]);
}

#[test]
fn only_what_the_settings_act_on_waits() {
    let text = "call 415-555-2671 or mail jane@acme.org ";
    for (secrets, pii, waits) in
        [(Action::Redact, Action::Flag, false), (Action::Flag, Action::Redact, true)]
    {
        let (mut judge, mut redactor) = (StreamJudge::default(), Redactor::of_answer(7));
        let said = judge.push(&policy(secrets, pii), &mut redactor, &text[..18]).unwrap();
        assert_eq!(said == text[..18], !waits, "{said}");
        let said = streamed(&policy(secrets, pii), [text]).0;
        assert_eq!(said.contains("jane"), !waits, "{said}");
    }
}

#[test]
fn a_key_without_an_end_never_leaves() {
    let policy = redacts();
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n";
    let text = format!("Here:\n-----BEGIN PRIVATE KEY-----\n{}", line.repeat(150));
    for said in [streamed(&policy, [&*text]).0, streamed(&policy, chars(&text)).0] {
        assert_eq!(said, "Here:\n[PRIVATE_KEY_1_00000007]");
    }
    let ended = format!("{text}-----END PRIVATE KEY-----\nThat is it.");
    assert_eq!(streamed(&policy, chars(&ended)).0, "Here:\n[PRIVATE_KEY_1_00000007]\nThat is it.");
    let shown = "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\nis how it looks";
    assert_eq!(streamed(&policy, chars(shown)).0, shown);
}

#[test]
fn a_key_whose_first_line_has_left_is_told_by_it() {
    let policy = redacts();
    let line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n";
    let (begin, end) = ("Here:\n-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----");
    for (padding, body) in [("", line.repeat(3)), ("", line.repeat(150)), (" ", line.repeat(150))] {
        let begin = format!("{begin}{}", padding.repeat(1000));
        let (mut judge, mut redactor) = (StreamJudge::default(), Redactor::of_answer(7));
        let mut out = judge.push(&policy, &mut redactor, &begin).unwrap();
        out.push_str(&judge.flush(&policy, &mut redactor).unwrap());
        assert_eq!(out, begin);
        out.clear();
        for piece in chars(&format!("{body}{end}\nThat is it.")) {
            out.push_str(&judge.push(&policy, &mut redactor, piece).unwrap());
        }
        out.push_str(&judge.flush(&policy, &mut redactor).unwrap());
        assert_eq!(out, "[PRIVATE_KEY_1_00000007]\nThat is it.");
    }
}

#[test]
fn a_word_without_an_end_leaves_piece_by_piece() {
    let policy = redacts();
    let run = "Zm9vYmFy".repeat(4000);
    assert_eq!(streamed(&policy, chars(&run)).0, run);
    // A secret that begins in the middle of it is found all the same, and so is a token that does not end.
    let secret = "ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5";
    let text = format!("{run}.,{secret},{run}");
    let said = streamed(&policy, chars(&text)).0;
    assert!(!said.contains("x7Kd92") && said.starts_with(&run) && said.ends_with(&run), "{said}");
    let head = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
    let said = streamed(&policy, chars(&format!("it is {head}.{run} then"))).0;
    assert_eq!(said, "it is [JWT_1_00000007] then");
}

#[test]
fn what_goes_on_after_a_flush_is_judged_with_what_has_left() {
    let policy = redacts();
    let (mut judge, mut redactor) = (StreamJudge::default(), Redactor::of_answer(7));
    let mut out = judge.push(&policy, &mut redactor, "password: Tr0u").unwrap();
    out.push_str(&judge.flush(&policy, &mut redactor).unwrap());
    assert!(!judge.holds());
    out.push_str(&judge.push(&policy, &mut redactor, "b4dor&3 it is").unwrap());
    out.push_str(&judge.flush(&policy, &mut redactor).unwrap());
    assert_eq!(out, "password: Tr0u[PASSWORD_1_00000007] it is");
}

#[test]
fn more_than_can_be_judged_stops_an_answer() {
    let policy = redacts();
    let mails = "jo@acme.org ".repeat(MAX_FINDINGS + 100);
    for (said, stopped) in [streamed(&policy, [&*mails]), streamed(&policy, chars(&mails))] {
        assert!(stopped && !said.contains('@'));
    }
}

#[test]
fn the_kinds_of_a_project_wait_as_long_as_they_may_match() {
    let own = |name: &str, pattern: &str, context: &[&str]| Recognizer {
        name: name.to_owned(),
        pattern: pattern.to_owned(),
        context: context.iter().map(|word| (*word).to_owned()).collect(),
        checksum: Checksum::None,
        score: 0.6,
    };
    let recognizers = vec![
        own("CASE", r"case [a-z]+ [0-9]+ of the [a-z]+", &[]),
        own("STAFF", r"\b[A-Z]{2}-[0-9]{4}\b", &["staff"]),
    ];
    let safety = Safety { recognizers, output_pii: Action::Redact, ..Safety::default() };
    let policy = Policy::compile(&safety).unwrap();
    for text in [
        "In any case it is case blue 77 of the north that we mean.",
        "QX-1234 is one of our own, of the staff; QX-9999 is a plane that flies to places.",
    ] {
        let expected = whole(&policy, text);
        assert_ne!(expected, text);
        assert_eq!(streamed(&policy, chars(text)).0, expected);
    }
    let (mut judge, mut redactor) = (StreamJudge::default(), Redactor::of_answer(7));
    let mut push = |piece: &str| judge.push(&policy, &mut redactor, piece).unwrap();
    assert_eq!(["In any case ", "it is so"].map(&mut push), ["In any ", "case it is "]);
}

/// Words that give the words behind them a meaning, of small letters.
fn leads() -> Vec<&'static str> {
    let contexts = vocabulary::contexts::WORDS.iter().flat_map(|(_, words)| *words);
    let words = contexts.copied().chain(vocabulary::secret_names::all());
    let words = words.map(|word| word.trim_start_matches('~').trim_end_matches(['$', '!']));
    let plain = |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase() || b" .:".contains(&b));
    words.filter(plain).collect()
}

#[test]
fn no_format_fits_into_a_plain_word() {
    for format in vocabulary::formats::all() {
        let (first, rest) = format.prefix.split_at(1);
        let plain = first.bytes().all(|b| b.is_ascii_alphabetic())
            && rest.bytes().all(|b| b.is_ascii_lowercase());
        assert!(!plain || format.prefix.len() + format.length.0 >= 16, "{}", format.prefix);
    }
}

proptest! {
    #[test]
    fn words_alone_are_nothing(
        words in prop::collection::vec(
            prop_oneof![
                prop::sample::select(leads()).prop_map(str::to_owned),
                "[(]?[a-z]{1,13}[.,;:)]?",
                "(is|was|as|value|default|bearer|string)",
            ],
            1..12,
        ),
        gap in "[ \n]",
    ) {
        let text = words.join(&gap);
        let report = redacts().inspect_output(&[&text]);
        prop_assert!(report.findings.is_empty(), "{text}: {:?}", report.findings);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_cut_changes_what_leaves(
        before in 0_usize..3,
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..5), 1..4),
        cuts in prop::collection::vec(1_usize..40, 1..40),
    ) {
        let policy = redacts();
        let samples: Vec<String> = samples().collect();
        let texts = picks.iter().map(|(pick, place)| settings(pick.get::<String>(&samples))[*place].clone());
        let texts = texts.collect::<Vec<_>>().join("\n\nAnd there is another thing to tell.\n");
        let text = PROSE.repeat(before) + &texts;
        let (mut pieces, mut rest, mut cuts) = (Vec::new(), &*text, cuts.into_iter().cycle());
        while !rest.is_empty() {
            let cut = words::ceil(rest, rest.len().min(cuts.next().unwrap_or(1)));
            let (piece, further) = rest.split_at(cut);
            pieces.push(piece);
            rest = further;
        }
        let expected = whole(&policy, &text);
        prop_assert_eq!(&streamed(&policy, [&*text]).0, &expected);
        prop_assert_eq!(&streamed(&policy, pieces).0, &expected);
        prop_assert_eq!(&streamed(&policy, chars(&text)).0, &expected);
    }

    #[test]
    fn odd_texts_are_borne(
        parts in prop::collection::vec("0x|eyJ|-----BEGIN |PRIVATE KEY-----|-----END|SG\\.|key=|-p |value|password|iban |GB82|card |born |[\"'=:(){}.,@/+~-]|[0-9]{1,5}|[A-Za-z]{1,6}|[A-Fa-f0-9]{16}|\\PC|\u{661}|\u{ff11}|\u{200b}|\n| ", 0..60),
    ) {
        let (policy, text) = (redacts(), parts.concat());
        streamed(&policy, parts.iter().map(String::as_str));
        streamed(&policy, chars(&text));
    }
}
