//! Features counted in a text: one pass over its bytes and one over the lexicon.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use domain::tier::Intent;

use crate::classify::Shape;
use crate::lexicon::{GROUPS, Group, Heard, Lexicon};
use crate::material;
use crate::words::Words;

/// The most bytes that are looked at, at each end of a text.
pub(crate) const EDGE_BYTES: usize = 8 * 1024;

/// The name of each feature, in order; training names its coefficients by these.
pub const NAMES: [&str; 30 + GROUPS] = [
    "length",
    "short",
    "number_share",
    "numbers",
    "maths_signs",
    "latex",
    "code_signs",
    "lines",
    "list_items",
    "questions",
    "word_length",
    "long_words",
    "capitalised",
    "options",
    "blank",
    "quotes",
    "line_length",
    "commas",
    "sentences",
    "sentence_length",
    "people",
    "single_letters",
    "option_length",
    "digits",
    "two_options",
    "program",
    "any_number",
    "conversation",
    "tools",
    "proof",
    "reason",
    "condition",
    "constraint",
    "negation",
    "quantity",
    "sequence",
    "build",
    "task",
    "everyday",
    "maths",
    "science",
    "technical",
    "law",
    "medicine",
    "humanities",
    "business",
    "persona",
    "formal_maths",
];

/// The features of a text.
#[derive(Clone, Debug)]
pub struct Features {
    /// One number from 0 to 1 for each of [`NAMES`].
    pub values: [f32; NAMES.len()],
    /// Words in the parts that were looked at; those of the instruction alone where it brings material.
    pub words: usize,
    /// Words, about, of the material that the instruction brings.
    pub material_words: usize,
    /// Cues found per group of the lexicon.
    pub(crate) cues: [u32; GROUPS],
    pub(crate) counts: Counts,
    /// The words of the text, in the parts that were looked at.
    pub(crate) said: Words,
}

/// Plain counts over the bytes of a text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) words: u32,
    pub(crate) letters: u32,
    pub(crate) long_words: u32,
    pub(crate) capitalised: u32,
    pub(crate) numbers: u32,
    pub(crate) maths: u32,
    pub(crate) latex: u32,
    pub(crate) code: u32,
    pub(crate) lines: u32,
    pub(crate) items: u32,
    pub(crate) options: u32,
    pub(crate) questions: u32,
    pub(crate) blanks: u32,
    pub(crate) quotes: u32,
    pub(crate) characters: u32,
    pub(crate) commas: u32,
    pub(crate) sentences: u32,
    pub(crate) people: u32,
    pub(crate) single_letters: u32,
    pub(crate) option_bytes: u32,
    pub(crate) digits: u32,
    pub(crate) programs: u32,
    pub(crate) amounts: u32,
    pub(crate) unspaced: u32,
}


/// Measures a text of which at most the first and the last 8 KB are looked at.
///
/// The values are what the model of `train/train.py` is fitted to.
pub fn measure(text: &str, shape: &Shape) -> Features {
    measure_with(text, shape, |_| {})
}

/// Measures a text, and calls `hear` with every cue of the lexicon that counts.
///
/// Where an instruction brings material to work on, the instruction is what is measured, and the material
/// makes it longer by a fraction of its words.
pub(crate) fn measure_with(text: &str, shape: &Shape, mut hear: impl FnMut(&Heard)) -> Features {
    let around = shape.total_chars.saturating_sub(text.len());
    let surroundings = Surroundings { around, shape: *shape };
    if let Some(material) = material::find(text) {
        let instruction = [&text.as_bytes()[..material.start], &text.as_bytes()[material.end..]];
        let quiet = Reading::of(instruction, |_| {});
        if material::is_worked_on(text, &material, &quiet) {
            let words = material.len() / 6;
            let bytes = text.len() - material.len();
            return Reading::of(instruction, hear).measured(bytes, words, &surroundings);
        }
    }
    Reading::of(edges(text.as_bytes()), &mut hear).measured(text.len(), 0, &surroundings)
}

/// The text around the one that is judged.
struct Surroundings {
    around: usize,
    shape: Shape,
}

/// All that is counted in the parts of a text.
pub(crate) struct Reading {
    pub(crate) counts: Counts,
    pub(crate) cues: [u32; GROUPS],
    said: Words,
}

impl Reading {
    fn of(parts: [&[u8]; 2], mut hear: impl FnMut(&Heard)) -> Self {
        let mut counts = Counts::default();
        let mut cues = [0u32; GROUPS];
        let (mut programs, mut amounts) = (0, 0);
        let mut said = Words::default();
        let lexicon = Lexicon::get();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            // Words inside a cue of several words begin no other cue.
            let mut deaf_until = 0;
            count(part, &mut counts, &mut |found: Word| {
                said.add(found.first);
                let mut next = Some(found);
                while let Some(word) = next {
                    next = next_in_run(part, word.at);
                    if word.at < deaf_until {
                        continue;
                    }
                    if let Some(heard) = lexicon.hear(part, word.at, word.first) {
                        deaf_until = heard.end;
                        cues[heard.group as usize] += 1;
                        programs += u32::from(asks_for_code(&heard));
                        amounts += u32::from(asks_how_many(part, &heard));
                        hear(&heard);
                    }
                }
            });
        }
        counts.programs = programs;
        counts.amounts = amounts;
        Self { counts, cues, said }
    }

    /// The features of a text of so many bytes that brings so many words of material.
    fn measured(self, bytes: usize, material_words: usize, around: &Surroundings) -> Features {
        let Self { counts, cues, said } = self;
        Features {
            values: scale(bytes, material_words, around, &counts, &cues),
            words: counts.words as usize,
            material_words,
            cues,
            counts,
            said,
        }
    }
}

fn asks_for_code(heard: &Heard) -> bool {
    heard.group == Group::Build && heard.intent == Some(Intent::Code)
}

/// Whether a cue is one of "how many", "how much", "how long" and their like.
fn asks_how_many(part: &[u8], heard: &Heard) -> bool {
    let cue = &part[heard.at..heard.end];
    heard.group == Group::Quantity && cue.len() > 4 && cue[..4].eq_ignore_ascii_case(b"how ")
}

/// Returns what follows the first character of a word in a script without spaces: the next word may begin
/// at any character.
fn next_in_run(part: &[u8], at: usize) -> Option<Word> {
    let next = at + 3;
    let is_unspaced = |at: usize| part.get(at).is_some_and(|byte| UNSPACED.contains(byte));
    (is_unspaced(at) && is_unspaced(next)).then(|| Word { at: next, first: letters(part, next).0 })
}

/// Returns the first and the last [`EDGE_BYTES`] bytes; the whole text when it is no longer than both.
fn edges(text: &[u8]) -> [&[u8]; 2] {
    if text.len() <= 2 * EDGE_BYTES {
        [text, &[]]
    } else {
        [&text[..EDGE_BYTES], &text[text.len() - EDGE_BYTES..]]
    }
}

/// A word of a text.
struct Word {
    at: usize,
    /// Its first eight letters, see [`letters`].
    first: u64,
}

fn count(text: &[u8], c: &mut Counts, word: &mut impl FnMut(Word)) {
    // Every byte counts as a character; [`read_long_word`] subtracts continuation bytes.
    c.characters += text.len() as u32;
    let mut at = 0;
    let mut line_start = true;
    let mut sentence_start = true;
    // Start of the option on the current line.
    let mut option_from = None;
    while let Some(&byte) = text.get(at) {
        // No byte below `A` begins a letter; any other is read as if a word began here, which is the
        // usual case.
        let (first, taken) = if byte < b'A' { (0, 0) } else { letters(text, at) };
        if taken > 0 {
            let short = taken < 8 && first & HIGH == 0;
            let end = if short {
                c.letters += taken as u32;
                c.single_letters += u32::from(taken == 1);
                c.people += u32::from(is_person(first));
                at + taken
            } else {
                read_long_word(text, at, first, taken, c)
            };
            c.words += 1;
            word(Word { at, first });
            if byte.is_ascii_uppercase() {
                let single = end - at == 1 && byte <= b'J';
                let option = single && matches!(text.get(end), Some(b')' | b'.' | b':'));
                c.options += u32::from(option);
                if option {
                    option_from = Some(end);
                }
                c.capitalised += u32::from(!sentence_start && !option);
            }
            at = end;
            sentence_start = false;
            line_start = false;
        } else if byte == b' ' {
            at += 1;
            continue;
        } else if byte.is_ascii_digit() {
            let from = at;
            while text.get(at).is_some_and(|b| b.is_ascii_digit() || *b == b',') {
                at += 1;
            }
            c.digits += (at - from) as u32;
            c.numbers += 1;
            c.items += u32::from(line_start && matches!(text.get(at), Some(b'.' | b')')));
            sentence_start = false;
            line_start = false;
        } else if byte == b'['
            && let Some(end) = placeholder_end(text, at)
        {
            c.words += 1;
            at = end;
            sentence_start = false;
            line_start = false;
        } else {
            sign(byte, line_start, c);
            let ends = matches!(byte, b'.' | b'!' | b'?');
            c.sentences += u32::from(ends && text.get(at + 1).is_none_or(u8::is_ascii_whitespace));
            if byte == b'\n'
                && let Some(from) = option_from.take()
            {
                c.option_bytes += (at - from) as u32;
            }
            sentence_start |= matches!(byte, b'.' | b'!' | b'?' | b'\n' | b':' | b'"');
            line_start = byte == b'\n';
            at += 1;
        }
        // A space mostly follows; skipping it here saves one pass of the loop.
        at += usize::from(text.get(at) == Some(&b' '));
    }
    c.option_bytes += option_from.map_or(0, |from| text.len() - from) as u32;
}

/// Returns the end of a placeholder of personal data that begins with this bracket:
/// `[EMAIL_1_ff7daa86]`. It stands for a word, and its last eight characters are random.
fn placeholder_end(text: &[u8], at: usize) -> Option<usize> {
    const MOST_PLACEHOLDER_BYTES: usize = 64;
    let inside = &text[at + 1..text.len().min(at + MOST_PLACEHOLDER_BYTES)];
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let length = inside.iter().position(|b| !is_part(b))?;
    let nonce = inside[..length].last_chunk::<9>()?;
    let is_whole =
        inside[length] == b']' && nonce[0] == b'_' && nonce[1..].iter().all(u8::is_ascii_hexdigit);
    is_whole.then_some(at + 1 + length + 1)
}

/// Whether a word stands for a person: cases and word problems are full of such words.
fn is_person(word: u64) -> bool {
    const fn of(word: &[u8]) -> u64 {
        let mut number = 0;
        let mut at = word.len();
        while at > 0 {
            at -= 1;
            number = number << 8 | word[at] as u64;
        }
        number
    }
    const I: u64 = of(b"i");
    const ME: u64 = of(b"me");
    const MY: u64 = of(b"my");
    const HE: u64 = of(b"he");
    const HIM: u64 = of(b"him");
    const HIS: u64 = of(b"his");
    const SHE: u64 = of(b"she");
    const HER: u64 = of(b"her");
    const THEY: u64 = of(b"they");
    const THEIR: u64 = of(b"their");
    matches!(word, I | ME | MY | HE | HIM | HIS | SHE | HER | THEY | THEIR)
}

/// Reads the rest of a word of eight bytes or more, or beyond ASCII; returns its end.
#[inline(never)]
fn read_long_word(text: &[u8], at: usize, first: u64, mut taken: usize, c: &mut Counts) -> usize {
    let mut end = at + taken;
    let mut beyond_ascii = first & HIGH;
    while taken == 8 {
        let more;
        (more, taken) = letters(text, end);
        beyond_ascii |= more & HIGH;
        end += taken;
    }
    let mut length = (end - at) as u32;
    if beyond_ascii != 0 {
        let within = text[at..end].iter().filter(|byte| **byte & 0xc0 == 0x80).count() as u32;
        c.unspaced += text[at..end].iter().filter(|byte| UNSPACED.contains(byte)).count() as u32;
        length -= within;
        c.characters -= within;
    }
    c.letters += length;
    c.long_words += u32::from(length >= 9);
    end
}

/// The first bytes of Han characters, kana and their punctuation, three bytes each.
const UNSPACED: RangeInclusive<u8> = 0xe3..=0xe9;

const HIGH: u64 = 0x8080_8080_8080_8080;
const LOW: u64 = 0x0101_0101_0101_0101;

/// Returns the letters at `at`, up to eight: in lower case as a number (zero in place of missing ones),
/// and their count. A letter is an ASCII letter or any byte of a character beyond ASCII.
#[inline]
pub(crate) fn letters(text: &[u8], at: usize) -> (u64, usize) {
    let rest = text.get(at..).unwrap_or_default();
    let bytes = if let Some(whole) = rest.first_chunk::<8>() { *whole } else { padded(rest) };
    let lower = u64::from_le_bytes(bytes) | (LOW * 0x20);
    // All eight bytes at once: the high bit of a sum is set if the byte reaches 'a' or passes 'z'.
    let low_bits = lower & !HIGH;
    let from_a = low_bits + LOW * (0x80 - u64::from(b'a'));
    let past_z = low_bits + LOW * (0x7f - u64::from(b'z'));
    let others = !((from_a & !past_z) | lower) & HIGH;
    if others == 0 {
        return (lower, 8);
    }
    // All bits below the first byte that is no letter.
    let mask = (others ^ (others - 1)) >> 8;
    (lower & mask, others.trailing_zeros() as usize / 8)
}

/// Pads fewer than eight bytes with zeros.
pub(crate) fn padded(rest: &[u8]) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}

fn sign(byte: u8, line_start: bool, c: &mut Counts) {
    match byte {
        b'\n' => c.lines += 1,
        b'-' | b'*' if line_start => c.items += 1,
        b'=' | b'+' | b'^' | b'<' | b'>' | b'*' | b'/' | b'$' | b'%' => c.maths += 1,
        b'\\' => c.latex += 1,
        b'{' | b'}' | b';' | b'[' | b']' | b'`' | b'#' | b'|' | b'&' => c.code += 1,
        b'?' => c.questions += 1,
        b'_' => c.blanks += 1,
        b',' => c.commas += 1,
        b'"' => c.quotes += 1,
        _ => {}
    }
}

/// Shares in texts of fewer words are computed as if they had this many.
const FEW_WORDS: f32 = 24.0;

/// A word of material counts as this much of a word of an instruction.
const MATERIAL_WORD: f32 = 0.2;

fn scale(
    bytes: usize,
    material_words: usize,
    Surroundings { around, shape }: &Surroundings,
    c: &Counts,
    cues: &[u32; GROUPS],
) -> [f32; NAMES.len()] {
    // Scripts without spaces have few "words": six characters count as one, of Han and kana two.
    let words = c.words.max(c.characters / 6).max(c.unspaced / 2) as f32;
    let seen = (c.words + c.numbers).max(1) as f32;
    // In a few words one sign of a feature does not mean much of it.
    let room = seen.max(FEW_WORDS);
    // The words between the edges are estimated from those counted.
    let whole = words * (bytes as f32 / bytes.clamp(1, 2 * EDGE_BYTES) as f32);
    let around = (around / 6) as f32;
    let earlier_turns = shape.turns.saturating_sub(1);
    let log = &*LOGARITHMS;
    let share = |count: u32, full: usize| log[(count as usize).min(full)] / log[full];
    let mut values = [0.0; NAMES.len()];
    let measured = [
        log_share(whole + MATERIAL_WORD * material_words as f32, 2000.0),
        ((12.0 - words) / 12.0).max(0.0),
        (4.0 * c.numbers as f32 / seen).min(1.0),
        share(c.numbers, 30),
        share(c.maths, 40),
        share(c.latex, 40),
        share(c.code, 60),
        share(c.lines, 60),
        share(c.items, 15),
        share(c.questions, 8),
        ((c.letters as f32 / c.words.max(1) as f32 - 3.0) / 4.0).clamp(0.0, 1.0),
        (3.0 * c.long_words as f32 / seen).min(1.0),
        (3.0 * c.capitalised as f32 / room).min(1.0),
        share(c.options, 10),
        share(c.blanks, 6),
        share(c.quotes, 12),
        log_share(c.characters as f32 / (c.lines + 1) as f32, 1000.0),
        (8.0 * c.commas as f32 / room).min(1.0),
        share(c.sentences, 30),
        (seen / (40 * c.sentences.max(1)) as f32).min(1.0),
        (8.0 * c.people as f32 / room).min(1.0),
        share(c.single_letters, 30),
        log_share(c.option_bytes as f32 / c.options.max(1) as f32, 200.0),
        (4.0 * c.digits as f32 / c.characters.max(1) as f32).min(1.0),
        f32::from(u8::from(c.options == 2)),
        f32::from(u8::from(c.programs > 0 && c.options < 2)),
        f32::from(u8::from(c.numbers > 0 && c.options < 2)),
        log_share(around, 8000.0).max(share(earlier_turns.min(30) as u32, 30)),
        share(shape.tools.min(20) as u32, 20),
    ];
    values[..measured.len()].copy_from_slice(&measured);
    for (value, &heard) in values[measured.len()..].iter_mut().zip(cues) {
        *value = share(heard, 12);
    }
    // Words of mathematics beside its signs: a problem, not a mention.
    let signs = share(c.maths.max(c.latex), 40);
    values[NAMES.len() - 1] = share(cues[Group::Maths as usize], 12).min(signs);
    values
}

/// The logarithm of each small count plus one.
static LOGARITHMS: LazyLock<[f32; 64]> =
    LazyLock::new(|| std::array::from_fn(|count| (count as f32).ln_1p()));

/// Grows with the logarithm of a count; 1 from `full` on.
fn log_share(count: f32, full: f32) -> f32 {
    if count > 0.0 { (count.ln_1p() / full.ln_1p()).min(1.0) } else { 0.0 }
}

impl Features {
    /// Returns the indices of its words in the tables of subjects, in order.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.said.places()
    }

    /// Number of cues of a group that were found.
    pub(crate) fn heard(&self, group: Group) -> u32 {
        self.cues[group as usize]
    }
}
