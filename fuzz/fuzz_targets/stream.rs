//! Any answer, cut in any way: what leaves does not depend on the cuts.

#![no_main]

use std::sync::LazyLock;

use checks::{Policy, Redactor, StreamJudge};
use domain::safety::{Action, Safety};
use libfuzzer_sys::fuzz_target;

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let redacts =
        Safety { output_secrets: Action::Redact, output_pii: Action::Redact, ..Safety::default() };
    Policy::compile(&redacts).expect("the actions are valid")
});

/// An answer without the numbers of its private keys: of one without an end the first part alone is known in a stream, and
/// two that begin alike are one there.
fn unnumbered((said, is_stopped): (String, bool)) -> (String, bool) {
    let mut parts = said.split("[PRIVATE_KEY_");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("[PRIVATE_KEY_");
        out.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    (out, is_stopped)
}

/// The text of an answer in pieces as it leaves; `None` from the point where it was stopped.
fn streamed<'t>(pieces: impl Iterator<Item = &'t str>) -> (String, bool) {
    let (mut judge, mut redactor) = (StreamJudge::default(), Redactor::of_answer(7));
    let mut out = String::new();
    for piece in pieces {
        match judge.push(&POLICY, &mut redactor, piece) {
            Ok(said) => out.push_str(&said),
            Err(withheld) => return (out + &withheld.said, true),
        }
    }
    match judge.flush(&POLICY, &mut redactor) {
        Ok(said) => (out + &said, false),
        Err(withheld) => (out + &withheld.said, true),
    }
}

fuzz_target!(|input: (Vec<u8>, &str)| {
    let (cuts, text) = input;
    // The first letters of an address in a script without spaces may have left when its `@` comes.
    if text.split(['@', '＠']).any(|part| part.ends_with(|c: char| c > '\u{e00}')) {
        return;
    }
    let (mut pieces, mut rest) = (Vec::new(), text);
    let mut cuts = cuts.iter().map(|cut| usize::from(*cut) + 1).cycle();
    while !rest.is_empty() {
        let cut = rest.ceil_char_boundary(cuts.next().unwrap_or(rest.len()));
        let (piece, further) = rest.split_at(cut);
        pieces.push(piece);
        rest = further;
    }
    let expected = unnumbered(streamed(std::iter::once(text)));
    assert_eq!(unnumbered(streamed(pieces.into_iter())), expected, "in pieces");
    let chars = text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]);
    assert_eq!(unnumbered(streamed(chars)), expected, "character by character");
});
