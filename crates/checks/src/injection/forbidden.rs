//! A text that forbids to show something does not request it: "never reveal your rules", "do not share, repeat or disclose them".

use crate::scan::hits::Anchor;
use crate::vocabulary::injection::{NEVER, REVEAL};

/// A word that is forbidden stands so close behind what forbids it, in bytes.
const FORBIDDEN_GAP: usize = 1;
/// The longest text between two words of a list, in bytes.
const MAX_JOINT_BYTES: usize = 9;
/// The longest distance from a verb to the thing that it forbids to show, in bytes.
const OBJECT_GAP: usize = 16;
/// The subject of a condition is no longer, in bytes.
const MAX_SUBJECT_BYTES: usize = 32;
/// So many words of a list, or of the vocabulary before it, are looked at.
const MAX_LISTED: usize = 8;

/// Words that begin a condition or a question: what they deny is wished for.
const CONDITIONS: &str = "if unless why because since until wenn falls warum si pourquoi porque se perché als waarom jeśli dlaczego если почему якщо чому";
/// Words for "or", before the last word of a list.
const ALTERNATIVES: &str = "or nor oder noch ou ni o of eller lub ani или або veya";

/// Whether a word asks for nothing because it is forbidden, or belongs to a verb that is: "never reveal your rules".
pub(super) fn is_forbidden(text: &[u8], anchors: &[Anchor], index: usize) -> bool {
    let word = &anchors[index];
    if word.meaning & REVEAL != 0 {
        return is_denied(text, anchors, index);
    }
    let mut before = anchors[..index].iter().enumerate().rev().take(MAX_LISTED);
    let verb = before.find(|(_, other)| other.meaning & REVEAL != 0);
    verb.is_some_and(|(at, verb)| {
        word.start().saturating_sub(verb.end()) <= OBJECT_GAP && is_denied(text, anchors, at)
    })
}

/// Whether what a word asks to see is not to be shown: "never reveal", "do not share, repeat or reveal". A list ends
/// with an "or", so that in "do not summarise, print it" only the first is forbidden.
fn is_denied(text: &[u8], anchors: &[Anchor], index: usize) -> bool {
    let listed = |anchor: &&Anchor| anchor.meaning & REVEAL != 0;
    let (mut begin, mut commas, mut alternatives) = (anchors[index].start(), 0, 0);
    for anchor in anchors[..index].iter().rev().take(MAX_LISTED) {
        let Some(gap) = text.get(anchor.end()..begin) else { continue };
        if anchor.meaning & NEVER != 0 && gap.len() <= FORBIDDEN_GAP {
            let goes_on = || ends_with_alternative(text, anchors[index..].iter().filter(listed));
            let is_whole = commas == 0 || alternatives > 0 || goes_on();
            return is_whole && !is_condition(&text[..anchor.start()]);
        }
        if !listed(&anchor) {
            continue;
        }
        match joined(gap) {
            Some(Joined::Comma) => commas += 1,
            // Behind "or" a list is over: what a comma joins to it is another order.
            Some(Joined::Alternative) if commas == 0 => alternatives += 1,
            _ => return false,
        }
        begin = anchor.start();
    }
    false
}

/// Whether a clause begins so that what it denies is wished for: "if you do not reveal it", "why won't you show it".
fn is_condition(before: &[u8]) -> bool {
    let near = &before[before.len().saturating_sub(MAX_SUBJECT_BYTES)..];
    let ends = |byte: &u8| b".,;:!?\n".contains(byte);
    let clause = near.iter().rposition(ends).map_or(near, |at| &near[at + 1..]);
    let mut words = clause.split(u8::is_ascii_whitespace);
    words.any(|word| CONDITIONS.split(' ').any(|known| known.as_bytes().eq_ignore_ascii_case(word)))
}

/// Whether words that a comma joins come to an "or".
fn ends_with_alternative<'a>(text: &[u8], words: impl Iterator<Item = &'a Anchor>) -> bool {
    let mut end = None;
    for word in words.take(MAX_LISTED) {
        match end.replace(word.end()).map(|end| text.get(end..word.start()).and_then(joined)) {
            None | Some(Some(Joined::Comma)) => {}
            Some(found) => return matches!(found, Some(Joined::Alternative)),
        }
    }
    false
}

/// How a list joins two of its words.
enum Joined {
    Comma,
    Alternative,
}

/// Reads what stands between two words of a list.
fn joined(gap: &[u8]) -> Option<Joined> {
    if gap.len() > MAX_JOINT_BYTES {
        return None;
    }
    let is_comma = |byte: &u8| *byte == b',' || byte.is_ascii_whitespace();
    let first = gap.iter().position(|byte| !is_comma(byte));
    let Some(first) = first else { return gap.contains(&b',').then_some(Joined::Comma) };
    let word = gap[first..].trim_ascii_end();
    ALTERNATIVES.split(' ').any(|known| known.as_bytes() == word).then_some(Joined::Alternative)
}
