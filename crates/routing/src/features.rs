//! Features counted in a text: one pass over its bytes and one over the lexicon.

use std::sync::LazyLock;

use domain::tier::Intent;

use crate::classify::Shape;
use crate::counts::{Counts, Word, count, next_in_run};
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

/// Measures a text of which at most the first and the last 8 KB are looked at.
///
/// The values are what the model of `train/train.py` is fitted to.
pub fn measure(text: &str, shape: &Shape) -> Features {
    measure_with(text, shape, |_| {})
}

/// Measures a text, and calls `hear` with every cue of the lexicon that counts.
///
/// An instruction that brings material to work on is measured without it, and the material
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
    pub(crate) said: Words,
}

impl Reading {
    /// Reads the parts, and calls `hear` with every cue.
    pub(crate) fn of(parts: [&[u8]; 2], mut hear: impl FnMut(&Heard)) -> Self {
        let mut counts = Counts::default();
        let mut cues = [0u32; GROUPS];
        let (mut programs, mut amounts, mut named_tasks) = (0, 0, 0);
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
                        named_tasks += u32::from(names_work(&heard));
                        hear(&heard);
                    }
                }
            });
        }
        counts.programs = programs;
        counts.amounts = amounts;
        counts.named_tasks = named_tasks;
        Self { counts, cues, said }
    }

    /// Number of cues of fields of knowledge in which most questions are hard.
    pub(crate) fn fields(&self) -> u32 {
        const FIELDS: [Group; 5] =
            [Group::Maths, Group::Science, Group::Technical, Group::Law, Group::Medicine];
        FIELDS.iter().map(|&field| self.cues[field as usize]).sum()
    }

    /// The features of a text of so many bytes that brings so many words of material.
    fn measured(self, bytes: usize, material_words: usize, around: &Surroundings) -> Features {
        let Self { mut counts, mut cues, said } = self;
        if material_words > 0 {
            // "Each in one line, twelve words at most": amounts say what comes out and are no problem to be solved.
            cues[Group::Quantity as usize] = 0;
            (counts.numbers, counts.digits) = (0, 0);
            // Work on a text at hand, whether or not the lexicon has its verb.
            let task = &mut cues[Group::Task as usize];
            *task = (*task).max(1);
        }
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

/// Whether a cue names what is to be done with a text, and not only what is to come out: "suggest", "list".
fn names_work(heard: &Heard) -> bool {
    heard.group == Group::Task && heard.intent != Some(Intent::Generate)
}

/// Whether a cue is one of "how many", "how much", "how long" and their like.
fn asks_how_many(part: &[u8], heard: &Heard) -> bool {
    let cue = &part[heard.at..heard.end];
    heard.group == Group::Quantity && cue.len() > 4 && cue[..4].eq_ignore_ascii_case(b"how ")
}

/// Returns the first and the last [`EDGE_BYTES`] bytes; the whole text when it is no longer than both.
fn edges(text: &[u8]) -> [&[u8]; 2] {
    if text.len() <= 2 * EDGE_BYTES {
        [text, &[]]
    } else {
        [&text[..EDGE_BYTES], &text[text.len() - EDGE_BYTES..]]
    }
}

/// Shares in texts of fewer words are computed as if they had this many.
const FEW_WORDS: f32 = 24.0;

/// A word of material counts as this much of a word of an instruction; so does a word of an instruction that brings
/// material, beyond its first ones: a task that is defined at length is no harder than one that is named.
const MATERIAL_WORD: f32 = 0.2;
const NAMING_WORDS: f32 = 12.0;
/// Most characters of a line of such an instruction that count.
const NAMING_CHARS: u32 = 80;

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
    let (whole, characters) = if material_words > 0 {
        let beyond = (whole - NAMING_WORDS).max(0.0) + material_words as f32;
        (whole.min(NAMING_WORDS) + MATERIAL_WORD * beyond, c.characters.min(NAMING_CHARS))
    } else {
        (whole, c.characters)
    };
    let around = (around / 6) as f32;
    let earlier_turns = shape.turns.saturating_sub(1);
    let log = &*LOGARITHMS;
    let share = |count: u32, full: usize| log[(count as usize).min(full)] / log[full];
    let mut values = [0.0; NAMES.len()];
    let measured = [
        log_share(whole, 2000.0),
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
        log_share(characters as f32 / (c.lines + 1) as f32, 1000.0),
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
