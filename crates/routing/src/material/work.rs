//! The work that an instruction asks for: an everyday one on its material, or more.

use std::ops::Range;

use super::{MOST_REQUEST_CHARS, SAMPLE_BYTES, first_chars};
use crate::features::Reading;
use crate::lexicon::Group;

/// Words of material to one cue of something hard that means nothing: any page has some.
const WORDS_PER_CUE: u32 = 40;
/// Most bytes of material that a question, or a request for help, is easy about: the answer to one about more
/// may need all of it.
const MOST_ASKED_BYTES: usize = 240;

/// An instruction of more characters, or of two sentences, defines a task; a shorter one names it.
const NAMED_CHARS: u32 = 140;

/// Whether an instruction asks for no more than everyday work on its material.
///
/// It does not where it asks for a proof, a reason, a design or an amount, where it belongs to a field of
/// knowledge more than it names work on a text, where it sets up a case, or where the material is a program,
/// formulas or options to choose from. If it names no work on a text ("help me with this"), the material is the
/// request, and must not be a hard one.
pub(crate) fn is_worked_on(text: &str, at: &Range<usize>, instruction: &Reading) -> bool {
    let (before, material, after) = (&text[..at.start], &text[at.clone()], &text[at.end..]);
    let heard = |group: Group| instruction.cues[group as usize];
    let counts = &instruction.counts;
    let task = heard(Group::Task);
    let said = if before.trim().is_empty() { after } else { before };
    let is_label = words_up_to_two(said) <= usize::from(task == 0);
    if counts.characters > MOST_REQUEST_CHARS as u32 || is_label || counts.options >= 2 {
        return false;
    }
    let fields = instruction.fields();
    // The definition of a task at length names its field beside the work, and the hard part of it.
    let is_definition = counts.sentences >= 2 || counts.characters > NAMED_CHARS;
    if is_definition
        && (heard(Group::Build) + fields > task
            || asks_for_thought(before)
            || asks_for_thought(after))
    {
        return false;
    }
    if heard(Group::Proof) + heard(Group::Reason) + counts.programs > 0
        || 2 * heard(Group::Build) + fields > 2 * task
    {
        return false;
    }
    let is_case = opens_a_case(before, task > 0) && heard(Group::Everyday) == 0;
    let is_question = counts.questions > 0 && !is_polite(before) && !is_polite(after);
    let asks_of_much = task == 0 && is_question && material.len() > MOST_ASKED_BYTES;
    if is_case || asks_of_much {
        return false;
    }
    let nature = Nature::of(material);
    let asks_for_amount = counts.amounts > 0 && nature.numbers >= 2;
    if asks_for_amount || nature.is_formal(material.len()) || nature.options >= 2 {
        return false;
    }
    // Material that stands first may be the request itself: a claim, a problem, before somebody asks for it to be put well.
    let names_work = counts.named_tasks > 0 && !before.trim().is_empty();
    names_work || !is_hard(material, asks_for_help(before))
}

/// Whether material that is the request itself is a hard one, by the cues in it. A request for help with it is about
/// a problem, unless that is a short everyday one.
fn is_hard(material: &str, is_problem: bool) -> bool {
    let reading = Reading::of([sample(material), &[]], |_| {});
    let heard = |group: Group| reading.cues[group as usize];
    let asked = heard(Group::Proof) + heard(Group::Reason) + heard(Group::Build);
    let usual = reading.counts.words / WORDS_PER_CUE;
    // The name of a field has other meanings: a library lends books, a star shines.
    asked > usual
        || asked + reading.fields() > usual + 1
        || is_problem && (heard(Group::Everyday) == 0 || material.len() > MOST_ASKED_BYTES)
}

/// The first bytes of material.
fn sample(material: &str) -> &[u8] {
    &material.as_bytes()[..material.len().min(SAMPLE_BYTES)]
}

/// Number of words of a text, at most two; two characters beyond ASCII make a word of any run.
fn words_up_to_two(text: &str) -> usize {
    let mut runs = text.split(|c: char| !c.is_alphabetic()).filter(|run| !run.is_empty());
    let first = runs
        .next()
        .map_or(0, |run| 1 + usize::from(run.chars().filter(|c| *c >= '\u{3040}').count() > 2));
    (first + runs.count()).min(2)
}

/// Whether a text begins with a statement: somebody's case, not an instruction. One that names work on a text may begin
/// with more words: "In one sentence, ...", "The text below: ...".
fn opens_a_case(text: &str, names_work: bool) -> bool {
    const CASES: [&str; 6] = ["a", "an", "assume", "he", "she", "suppose"];
    const OPENERS: [&str; 24] = [
        "after", "all", "at", "consider", "five", "for", "four", "given", "i", "if", "in", "it",
        "let", "my", "on", "our", "q", "the", "there", "this", "three", "two", "we", "when",
    ];
    let first = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let begins = |openers: &[&str]| openers.iter().any(|opener| first.eq_ignore_ascii_case(opener));
    begins(&CASES) || !names_work && begins(&OPENERS)
}

/// Whether an instruction asks for help, an answer or an opinion, and no more: the material is the problem.
fn asks_for_help(instruction: &str) -> bool {
    #[rustfmt::skip]
    const WORDS: [&str; 41] = [
        "help", "look at", "problem", "question", "task", "exam", "homework", "exercise", "thoughts", "you think", "opinion", "hilf",
        "helfen", "aufgabe", "frage", "aide", "exercice", "ayuda", "ayúda", "pregunta", "ejercicio", "tarea",
        "aiuta", "aiuto", "domanda", "esercizio", "ajuda", "pergunta", "exercício", "pomóż", "zadanie", "pytanie",
        "помоги", "задач", "вопрос", "допоможи", "питання", "问题", "問題", "質問", "문제",
    ];
    let instruction = first_chars(instruction, MOST_REQUEST_CHARS).to_lowercase();
    WORDS.iter().any(|word| instruction.contains(word))
}

/// Whether the definition of a task asks for reasons, a calculation or a judgement, and not only for a result.
fn asks_for_thought(instruction: &str) -> bool {
    #[rustfmt::skip]
    const STEMS: [&str; 43] = [
        "explain", "why", "justif", "show every", "show each", "show that", "compute", "work out", "argue", "argument",
        "discuss", "assess", "interpret", "recommend", "estimat", "conclu", "predict", "diagnos", "reconstruct",
        "begründ", "erklär", "beweis", "widerleg", "analys", "analiz", "démontr", "expliqu", "explica",
        "razon", "dimostra", "udowodn", "uzasadn", "wyjaśn", "докаж", "обоснуй", "объясни", "证明", "分析", "解释", "証明", "説明", "증명",
        "설명",
    ];
    const DENIED: [&str; 14] = [
        "not", "n't", "without", "no", "never", "nicht", "keine", "ohne", "sans", "sin", "senza",
        "bez", "не", "без",
    ];
    let instruction = first_chars(instruction, MOST_REQUEST_CHARS).to_lowercase();
    let is_denied = |at: usize| {
        let last = instruction[..at].split_whitespace().next_back().unwrap_or_default();
        DENIED.iter().any(|word| {
            last == *word || word.len() == 3 && last.ends_with(word) && word.starts_with("n'")
        }) || ["不需要", "不用", "不要", "无需"].iter().any(|no| instruction[..at].ends_with(no))
    };
    let mut asks = STEMS.iter().flat_map(|stem| instruction.match_indices(stem));
    asks.any(|(at, _)| !is_denied(at))
}

/// Whether an instruction is put as a question: "Can you make it shorter?".
fn is_polite(instruction: &str) -> bool {
    const FORMS: [&str; 5] = ["can you", "could you", "would you", "will you", "please"];
    let instruction = first_chars(instruction, MOST_REQUEST_CHARS).to_ascii_lowercase();
    FORMS.iter().any(|form| instruction.contains(form))
}

/// Counts over material.
#[derive(Default)]
struct Nature {
    numbers: usize,
    options: usize,
    formal: usize,
}

impl Nature {
    fn of(material: &str) -> Self {
        let mut nature = Self::default();
        let mut before = b'\n';
        // The sign before the word: a placeholder of personal data ends in a random word behind `_`.
        let mut sign = b'\n';
        let mut line_start = true;
        let bytes = sample(material);
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                b'0'..=b'9' => {
                    let inside =
                        before.is_ascii_alphanumeric() || matches!(before, b'_' | b'.' | b',');
                    nature.numbers += usize::from(!inside);
                    nature.formal += usize::from(before.is_ascii_alphabetic() && sign != b'_');
                }
                b'{' | b'}' | b';' | b'=' | b'<' | b'>' | b'$' | b'\\' | b'^' | b'`' | b'_' => {
                    nature.formal += 1;
                }
                b'A'..=b'J' | b'a'..=b'j' => {
                    let next = bytes.get(at + 1);
                    let ends = matches!(next, Some(b')'))
                        || matches!(next, Some(b'.' | b':')) && byte < b'a';
                    let is_option = line_start && ends;
                    nature.options += usize::from(is_option);
                }
                _ => {}
            }
            if !byte.is_ascii_alphanumeric() {
                sign = byte;
            }
            line_start = byte == b'\n' || line_start && matches!(byte, b' ' | b'(');
            before = byte;
        }
        nature
    }

    fn is_formal(&self, bytes: usize) -> bool {
        self.formal >= 2 && 40 * self.formal >= bytes.min(SAMPLE_BYTES)
    }
}
