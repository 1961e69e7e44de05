//! Patterns of the beginnings of matches: they find whether a text that goes on may end in a part of a match.

use regex_syntax::hir::{Hir, HirKind, Repetition};

use crate::pattern::Pattern;

/// A pattern that compiles to more bytes is given up.
const MAX_COMPILED: usize = 8 << 20;

/// A pattern that matches the beginnings of the matches of another one, whole matches among them, at the end of a text.
/// `None` when there is none of a reasonable size.
pub(crate) fn compile(pattern: &str) -> Option<Pattern> {
    let hir = regex_syntax::parse(pattern).ok()?;
    Pattern::sized(&format!(r"(?:{})\z", begun(&hir)), MAX_COMPILED).ok()
}

fn begun(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Hir::empty(),
        HirKind::Class(_) => optional(hir.clone()),
        HirKind::Literal(literal) => {
            let text = String::from_utf8_lossy(&literal.0);
            let mut last = [0; 4];
            text.chars().rev().fold(Hir::empty(), |rest, c| {
                let first = Hir::literal(c.encode_utf8(&mut last).as_bytes());
                optional(Hir::concat(vec![first, rest]))
            })
        }
        HirKind::Repetition(repeated) => {
            let whole = Repetition { min: 0, ..repeated.clone() };
            Hir::concat(vec![Hir::repetition(whole), begun(&repeated.sub)])
        }
        HirKind::Capture(group) => begun(&group.sub),
        HirKind::Concat(parts) => parts.iter().rfold(Hir::empty(), |rest, part| {
            Hir::alternation(vec![begun(part), Hir::concat(vec![part.clone(), rest])])
        }),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(begun).collect()),
    }
}

fn optional(hir: Hir) -> Hir {
    Hir::repetition(Repetition { min: 0, max: Some(1), greedy: true, sub: Box::new(hir) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pattern::work::Budget;

    /// Returns the start of the first part that may become a match.
    fn open(pattern: &str, text: &str) -> usize {
        let budget = &mut Budget::counted(u64::MAX, &|| false);
        compile(pattern).unwrap().find_at(text, 0, budget).unwrap().unwrap().start
    }

    #[test]
    fn only_what_may_still_match_is_open() {
        for (pattern, text, from) in [
            (r"\b[0-9]{8}\b", "see 1234", 4),
            (r"\b[0-9]{8}\b", "see 12345678", 4),
            (r"\b[0-9]{8}\b", "see 12345678 ", 13),
            ("S-?[0-9]{6}", "a S", 2),
            ("S-?[0-9]{6}", "a S-12x", 7),
            (r"(?i)line: \S+", "the LINE: a", 4),
            (r"line: \S+", "line: a ", 8),
            ("(ab|cd)+é", "xabc", 1),
            ("(ab|cd)+é", "xabce", 5),
            ("\u{e9}\u{e8}", "x\u{e9}", 1),
        ] {
            assert_eq!(open(pattern, text), from, "{pattern} {text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_beginning_of_a_match_is_open(text in "[ab]{1,3}(-[0-9]{2}){1,2}[x-z]é", cut in 1_usize..9) {
            let pattern = "[ab]{1,3}(?:-[0-9]{2}){1,2}[x-z]é";
            let cut = text.floor_char_boundary(cut);
            prop_assert_eq!(open(pattern, &text[..cut]), 0);
        }
    }
}
