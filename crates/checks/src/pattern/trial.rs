//! A pattern is tried on texts made to be expensive for it, before it is saved.

use std::collections::{BTreeSet, HashMap};

use regex_syntax::hir::{Class, Hir, HirKind};

use crate::pattern::Pattern;
use crate::pattern::automaton::Automaton;
use crate::pattern::work::{AT_ONCE, Budget, GivenUp, PER_BYTE};

/// How long the texts are, in bytes.
const BYTES: usize = 32 * 1024;
/// So many characters of a pattern are tried.
const MAX_CHARACTERS: usize = 48;
/// So many of them are repeated alone.
const MAX_ALONE: usize = 8;
/// The most pieces of one string made from a pattern.
const MAX_SAMPLE: usize = 4096;
/// After so many steps a text that has grown by less than so many bytes in each is repeated.
const MAX_SHORT: usize = 256;
const LEAST_GROWTH: usize = 4;
/// How much work is spent on the patterns of one project that are new: two seconds, about.
const FOR_ALL: u64 = 2_000_000 * PER_BYTE;
/// The cost of making one byte of a text.
const TO_MAKE: u64 = 1;
/// The error for patterns that cost too much together.
const TOO_MANY: &str = "the new patterns are too slow to be tried together: save fewer at a time, or use fewer \
                        repetitions inside one another";
/// Texts whatever the pattern is.
const ANY: &[(&str, &str)] = &[
    ("letters", "a"),
    ("two letters", "ab"),
    ("capitals", "A"),
    ("digits", "0"),
    ("numbers", "4111 1111 "),
    ("spaces", " "),
    ("words", "the quick brown fox jumps over the lazy dog, "),
    ("base64", "QUtJQVEzRUdSVlhUN1pMTkI1UEQ+/x0="),
    ("ends of lines", "a\n"),
    ("letters with accents", "é"),
    ("Greek", "αβγ "),
    ("Chinese", "中文"),
];

/// Tries patterns one after the other, as long as there is time for all of them.
pub(crate) struct Trial {
    left: u64,
}

impl Default for Trial {
    fn default() -> Self {
        Self { left: FOR_ALL }
    }
}

impl Trial {
    /// Finds out whether a pattern takes too long. The error is a sentence for the one who wrote it. No more
    /// matches of a pattern than `most` are looked for in one text. Ends early when `stop` answers `true`.
    pub(crate) fn run(
        &mut self,
        pattern: &Pattern,
        most: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        if pattern.matches_never() {
            return Err("no text matches the pattern".to_owned());
        }
        if pattern.longest.is_some() && pattern.worst <= PER_BYTE {
            return Ok(());
        }
        self.cost(pattern, most, stop).map(|_| ())
    }

    /// How many units of work a pattern takes for a byte of the text that is dearest for it.
    pub(crate) fn cost(
        &mut self,
        pattern: &Pattern,
        most: usize,
        stop: &dyn Fn() -> bool,
    ) -> Result<u64, String> {
        // Nothing more is made once all is spent.
        if self.left == 0 {
            return Err(TOO_MANY.to_owned());
        }
        let Some(automaton) = Automaton::new(&pattern.hir) else {
            return Err("the pattern is too large once compiled".to_owned());
        };
        let texts = texts(&pattern.hir);
        // To make them takes time as well, whatever the searches cost.
        let made: u64 = texts.iter().map(|(_, text)| TO_MAKE * text.len().max(BYTES) as u64).sum();
        self.left = self.left.saturating_sub(made);
        let mut dearest = 0;
        for (name, text) in texts {
            let allowed = PER_BYTE * text.len() as u64;
            let mut budget = Budget::counted(allowed.min(self.left), stop);
            let given = budget.left();
            let ended = each(&automaton, &text, most, &mut budget);
            let spent = given - budget.left();
            self.left -= spent;
            dearest = dearest.max(spent.div_ceil(text.len().max(1) as u64));
            if ended == Err(GivenUp::Stopped) || ended.is_err() && given < allowed {
                return Err(TOO_MANY.to_owned());
            }
            let times = if ended.is_err() {
                "1,000 ns for a byte"
            } else if budget.dearest() > AT_ONCE {
                "3,000 ns for a single byte"
            } else {
                continue;
            };
            return Err(format!(
                "the pattern takes more than {times} of a text of {name}: use fewer or smaller counted repetitions, and \
                 none inside one another"
            ));
        }
        Ok(dearest)
    }
}

fn each(
    automaton: &Automaton,
    text: &str,
    most: usize,
    budget: &mut Budget<'_>,
) -> Result<(), GivenUp> {
    let (mut from, mut found) = (0, 0);
    while found < most
        && from <= text.len()
        && let Some((start, end)) = automaton.find_at(text.as_bytes(), from, budget)?
    {
        found += usize::from(end > start);
        from = if end > start { end } else { crate::pattern::next_character(text, end) };
    }
    Ok(())
}

/// Texts that may be expensive for a pattern, each with a name.
pub(crate) fn texts(hir: &Hir) -> Vec<(String, String)> {
    let mut characters = BTreeSet::new();
    collect(hir, &mut characters);
    let characters: Vec<char> = characters.into_iter().collect();
    let step = characters.len().div_ceil(MAX_CHARACTERS).max(1);
    let characters: Vec<char> = characters.into_iter().step_by(step).collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // By the class in the pattern: to list the ranges of a large one for each character takes too long.
    let mut known = Members::new();
    let mut all: Vec<(String, String)> =
        ANY.iter().map(|(name, unit)| ((*name).to_owned(), repeated(unit))).collect();
    if !characters.is_empty() {
        let shuffled = filled(|text| text.push(characters[random.below(characters.len())]));
        all.push(("the pattern's characters in any order".to_owned(), shuffled));
        let alone = characters.len().div_ceil(MAX_ALONE).max(1);
        for &c in characters.iter().step_by(alone) {
            all.push((format!("nothing but {c:?}"), repeated(c.encode_utf8(&mut [0; 4]))));
        }
        for pair in characters.windows(2).step_by(alone) {
            let pair: String = pair.iter().collect();
            all.push((format!("nothing but {pair:?}"), repeated(&pair)));
        }
    }
    let matches =
        filled(|text| sample(hir, &mut random, &mut known, text, &mut MAX_SAMPLE.clone()));
    all.push(("what it matches".to_owned(), matches));
    let nearly = filled(|text| {
        sample(hir, &mut random, &mut known, text, &mut MAX_SAMPLE.clone());
        text.pop();
        let other = characters.get(random.below(characters.len().max(1)));
        text.extend(other.filter(|_| random.below(2) == 0));
    });
    all.push(("what it nearly matches".to_owned(), nearly));
    let mut one = String::new();
    sample(hir, &mut random, &mut known, &mut one, &mut MAX_SAMPLE.clone());
    one.pop();
    if !one.is_empty() {
        all.push(("beginnings of what it matches".to_owned(), repeated(&one)));
        let long: String = one.chars().chain(std::iter::once('\u{1}')).collect();
        all.push(("beginnings of what it matches, broken off".to_owned(), repeated(&long)));
    }
    all
}

/// A text of [`BYTES`] made of one string.
fn repeated(unit: &str) -> String {
    unit.repeat(BYTES.div_ceil(unit.len().max(1)))
}

/// A text of [`BYTES`] made by steps.
fn filled(mut step: impl FnMut(&mut String)) -> String {
    let mut text = String::with_capacity(BYTES + MAX_SAMPLE);
    // A step takes as long as a long string, also where it adds little or nothing.
    for done in 0..BYTES {
        if text.len() >= BYTES || done >= MAX_SHORT && text.len() < done * LEAST_GROWTH {
            break;
        }
        step(&mut text);
    }
    // A pattern that matches nothing but an empty text makes none.
    let unit = if text.is_empty() { "a" } else { &text };
    if text.len() < BYTES { repeated(unit) } else { text }
}

/// The characters of a pattern: all of its literals, some of its classes.
fn collect(hir: &Hir, into: &mut BTreeSet<char>) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => into.extend(String::from_utf8_lossy(&literal.0).chars()),
        HirKind::Class(class) => into.extend(members(class)),
        HirKind::Repetition(repeated) => collect(&repeated.sub, into),
        HirKind::Capture(group) => collect(&group.sub, into),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            for part in parts {
                collect(part, into);
            }
        }
    }
}

/// Some characters of each class that was sampled, by its place in memory, which stays while its pattern does.
type Members = HashMap<*const Class, Vec<char>>;

/// Some characters of a class: the ends of its first ranges and of a few of the others.
fn members(class: &Class) -> Vec<char> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.ranges().iter().map(|r| (r.start(), r.end())).collect(),
        Class::Bytes(class) => {
            let ranges = class.ranges().iter().filter(|r| r.end().is_ascii());
            ranges.map(|r| (char::from(r.start()), char::from(r.end()))).collect()
        }
    };
    let common = ['a', 'e', 'A', '0', ' ', 'x', '.', 'é'];
    let holds = |c: &char| ranges.iter().any(|(start, end)| (start..=end).contains(&c));
    let step = ranges.len().div_ceil(4).max(1);
    let ends = ranges.iter().take(4).chain(ranges.iter().step_by(step));
    common.into_iter().filter(holds).chain(ends.flat_map(|&(start, end)| [start, end])).collect()
}

/// Adds a string that the pattern matches, but for its assertions, of at most `left` pieces.
fn sample(
    hir: &Hir,
    random: &mut Random,
    known: &mut Members,
    text: &mut String,
    left: &mut usize,
) {
    let Some(rest) = left.checked_sub(1) else { return };
    *left = rest;
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => {
            text.push_str(&String::from_utf8_lossy(&literal.0));
        }
        HirKind::Class(class) => {
            let members = known.entry(std::ptr::from_ref(class)).or_insert_with(|| members(class));
            text.extend(members.get(random.below(members.len().max(1))));
        }
        HirKind::Repetition(repeated) => {
            let (min, max) =
                (repeated.min, repeated.max.unwrap_or(repeated.min.saturating_add(20)));
            // Long ones as often as any other.
            let span = (max - min) as usize + 1;
            let times =
                min as usize + if random.below(2) == 0 { span - 1 } else { random.below(span) };
            for _ in 0..times.min(MAX_SAMPLE) {
                if *left == 0 {
                    break;
                }
                sample(&repeated.sub, random, known, text, left);
            }
        }
        HirKind::Capture(group) => sample(&group.sub, random, known, text, left),
        HirKind::Concat(parts) => {
            for part in parts {
                sample(part, random, known, text, left);
            }
        }
        HirKind::Alternation(parts) => {
            sample(&parts[random.below(parts.len())], random, known, text, left);
        }
    }
}

/// The same numbers every time.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % most.max(1)
    }
}
