//! The material of a request: the text, list or quotation that it brings to be worked on.
//!
//! "Translate this: ..." is as easy with a page behind the colon as with a line. Material is told by the
//! shape of a text, in any language: quotation marks, a colon, a blank line, a list behind a question.

use std::ops::Range;

use crate::features::Reading;
use crate::lexicon::Group;

/// Most characters of an instruction. What is longer sets up a case.
const MOST_REQUEST_CHARS: usize = 320;
/// Most bytes at the end of a text that are searched for the end of its material.
const TAIL_BYTES: usize = 8 * 1024;
/// Most characters of a last sentence or paragraph that belongs to the instruction.
const MOST_CLOSING_CHARS: usize = 160;
/// Least characters that are material: a quoted word is a word of the instruction.
const LEAST_CHARS: usize = 8;

/// Most bytes of material that a question is easy about, whatever it asks: the answer to one about more may
/// need all of it.
const MOST_ASKED_BYTES: usize = 240;

/// Quotation marks, opening and closing.
const QUOTES: [(char, &[char]); 7] = [
    ('"', &['"']),
    ('“', &['”']),
    ('„', &['“', '”']),
    ('«', &['»']),
    ('»', &['«']),
    ('「', &['」']),
    ('『', &['』']),
];

/// Returns where the material of a text lies; all around it is the instruction.
pub(crate) fn find(text: &str) -> Option<Range<usize>> {
    let (from, end) = tail(text, 0);
    let text = &text[..from + end.trim_end().len()];
    let head = first_chars(text, MOST_REQUEST_CHARS);
    let quotation = quotation(text, head);
    let start = [
        quotation.as_ref().map(|quoted| quoted.start),
        behind_colon(text, head),
        behind_blank_line(head),
        list_behind_sentence(text, head),
    ]
    .into_iter()
    .flatten()
    .min()?;
    let end = match quotation {
        Some(quoted) if blank(&text[start..quoted.start]) => quoted.end,
        _ => end_of_material(text, start),
    };
    let material = &text[start..end];
    (material.chars().take(LEAST_CHARS).count() == LEAST_CHARS).then_some(start..end)
}

fn first_chars(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

fn blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c == ':')
}

/// The last bytes of a text from `from` on, and where they begin.
fn tail(text: &str, from: usize) -> (usize, &str) {
    let start = text.ceil_char_boundary(from.max(text.len().saturating_sub(TAIL_BYTES)));
    (start, &text[start..])
}

/// From the first opening quotation mark to the last that closes it, if that is much of the text.
fn quotation(text: &str, head: &str) -> Option<Range<usize>> {
    let mut marks = head.char_indices();
    let (start, open) = marks.find(|(_, c)| QUOTES.iter().any(|(open, _)| open == c))?;
    let (_, closing) = QUOTES.iter().find(|(mark, _)| *mark == open)?;
    let (from, rest) = tail(text, start + open.len_utf8());
    let at = from + rest.rfind(*closing)?;
    let end = at + text[at..].chars().next().map_or(0, char::len_utf8);
    let quoted = &text[start..end];
    let is_much = 5 * quoted.len() >= 2 * text.len();
    (is_much && is_quoted_through(quoted, open, closing)).then_some(start..end)
}

/// Whether little of a text stands outside of quotation marks: a story with direct speech is no quotation.
fn is_quoted_through(text: &str, open: char, closing: &[char]) -> bool {
    let mut inside = false;
    let mut outside_bytes = 0;
    for c in first_chars(text, TAIL_BYTES).chars() {
        if inside && closing.contains(&c) {
            inside = false;
        } else if c == open {
            inside = true;
        } else if !inside && !c.is_whitespace() {
            outside_bytes += c.len_utf8();
        }
    }
    8 * outside_bytes <= text.len()
}

/// Behind a colon that ends the first sentence or a line.
fn behind_colon(text: &str, head: &str) -> Option<usize> {
    let mut is_first_sentence = true;
    let mut before = ' ';
    for (at, c) in head.char_indices() {
        let end = at + c.len_utf8();
        let next = text[end..].chars().next()?;
        match c {
            '：' if is_first_sentence || next == '\n' => return Some(end),
            ':' if next == '\n' || is_first_sentence && next.is_whitespace() => return Some(end),
            ':' if is_first_sentence && QUOTES.iter().any(|(open, _)| *open == next) => {
                return Some(end);
            }
            '\n' if before == '\n' => return None,
            _ => is_first_sentence &= !ends_sentence(c, next),
        }
        before = c;
    }
    None
}

fn ends_sentence(c: char, next: char) -> bool {
    matches!(c, '。' | '？' | '！' | '।' | '؟')
        || matches!(c, '.' | '?' | '!') && next.is_whitespace()
}

/// Behind the blank line that ends the first paragraph.
fn behind_blank_line(head: &str) -> Option<usize> {
    let at = head.find("\n\n").or_else(|| head.find("\n\r\n"))?;
    Some(at + head[at..].find(|c: char| !c.is_whitespace())?)
}

/// Behind the first sentence, where nothing but a list of few words each follows.
fn list_behind_sentence(text: &str, head: &str) -> Option<usize> {
    let mut chars = head.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map_or('\n', |(_, next)| *next);
        if ends_sentence(c, next) {
            let from = at + c.len_utf8();
            let rest = &text[from..];
            return (list_end(rest) == Some(rest.len())).then_some(from);
        }
    }
    None
}

/// Returns the end of a list that a text begins with: three items or more, of three words at most.
fn list_end(text: &str) -> Option<usize> {
    let head = first_chars(text, MOST_REQUEST_CHARS);
    let mut end = head.len();
    let mut chars = head.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map_or('\n', |(_, next)| *next);
        if ends_sentence(c, next) || c == '\n' && at > 0 {
            end = at + c.len_utf8();
            break;
        }
    }
    let list = &head[..end];
    let items = 1 + list.chars().filter(|c| matches!(c, ',' | '、' | '，' | '،' | ';')).count();
    let words = list.split_whitespace().count();
    (items >= 3 && words <= 3 * items).then_some(end)
}

/// Where material without quotation marks ends: with its list, or before a closing instruction.
fn end_of_material(text: &str, start: usize) -> usize {
    let (from, rest) = tail(text, start);
    let is_closing = |at: usize| {
        if at + TAIL_BYTES < text.len() {
            return false;
        }
        let closing = text[at..].trim();
        let last = closing.chars().next_back();
        closing.chars().nth(MOST_CLOSING_CHARS).is_none()
            && last.is_some_and(|c| matches!(c, '?' | '.' | '!' | ':' | '？' | '。' | '؟'))
    };
    if let Some(end) = list_end(&text[start..]).map(|end| start + end)
        && is_closing(end)
        && !text[end..].trim().contains('\n')
    {
        return end;
    }
    if let Some(at) = rest.rfind("\n\n") {
        return if is_closing(from + at) { from + at } else { text.len() };
    }
    let asks = text.ends_with(['?', '？', '؟']);
    let mut ends = rest
        .char_indices()
        .rev()
        .skip(1)
        .skip_while(|(_, c)| !matches!(c, '.' | '?' | '!' | '。' | '？' | '！' | '\n'));
    match ends.next() {
        Some((at, c)) if asks && is_closing(from + at + c.len_utf8()) => from + at + c.len_utf8(),
        _ => text.len(),
    }
}

/// Whether an instruction asks for no more than everyday work on its material.
///
/// It does not where it asks for a proof, a reason, a design or an amount, where it belongs to a field of
/// knowledge and names no work on a text, where it sets up a case, or where the material is a program,
/// formulas or options to choose from.
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
    if heard(Group::Proof) + heard(Group::Reason) + counts.programs > 0
        || heard(Group::Build) > task
    {
        return false;
    }
    if task == 0 {
        const FIELDS: [Group; 5] =
            [Group::Maths, Group::Science, Group::Technical, Group::Law, Group::Medicine];
        let is_case = opens_a_case(before) && heard(Group::Everyday) == 0;
        let is_question = counts.questions > 0 && !is_polite(before) && !is_polite(after);
        let asks_of_much = is_question && material.len() > MOST_ASKED_BYTES;
        if is_case || asks_of_much || FIELDS.iter().any(|&field| heard(field) > 0) {
            return false;
        }
    }
    let nature = Nature::of(material);
    let asks_for_amount = counts.amounts > 0 && nature.numbers >= 2;
    !(asks_for_amount || nature.is_formal(material.len()) || nature.options >= 2)
}

/// Number of words of a text, at most two; two characters beyond ASCII make a word of any run.
fn words_up_to_two(text: &str) -> usize {
    let mut runs = text.split(|c: char| !c.is_alphabetic()).filter(|run| !run.is_empty());
    let first = runs
        .next()
        .map_or(0, |run| 1 + usize::from(run.chars().filter(|c| *c >= '\u{3040}').count() > 2));
    (first + runs.count()).min(2)
}

/// Whether a text begins with a statement: somebody's case, not an instruction.
fn opens_a_case(text: &str) -> bool {
    const OPENERS: [&str; 30] = [
        "a", "an", "after", "all", "assume", "at", "consider", "five", "for", "four", "given",
        "he", "i", "if", "in", "it", "let", "my", "on", "our", "q", "she", "suppose", "the",
        "there", "this", "three", "two", "we", "when",
    ];
    let first = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    OPENERS.iter().any(|opener| first.eq_ignore_ascii_case(opener))
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
        let bytes = &material.as_bytes()[..material.len().min(2 * TAIL_BYTES)];
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                b'0'..=b'9' => {
                    let inside =
                        before.is_ascii_alphanumeric() || matches!(before, b'_' | b'.' | b',');
                    nature.numbers += usize::from(!inside);
                    nature.formal += usize::from(before.is_ascii_alphabetic() && sign != b'_');
                }
                b'{' | b'}' | b';' | b'=' | b'<' | b'>' | b'$' | b'\\' | b'^' | b'`' | b'_' => {
                    nature.formal += 1
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
        self.formal >= 3 && 40 * self.formal >= bytes.min(2 * TAIL_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::classify::Shape;
    use crate::features::measure;

    /// The material of a text, if the instruction asks for no more than work on it.
    fn worked_on(text: &str) -> Option<&str> {
        let brings = measure(text, &Shape::default()).material_words > 0;
        brings.then(|| find(text).map(|at| text[at].trim())).flatten()
    }

    #[test]
    fn material_is_told_by_the_shape_of_a_text() {
        for (instruction, material, closing) in [
            ("Translate this: ", "\"The ferry leaves at noon.\"", " into Dutch"),
            ("Sort these by colour: ", "plum, lemon, cherry, lime", ""),
            ("Which word is odd? ", "chair, table, spoon, sofa", ""),
            (
                "Shorten the notice below.\n\n",
                "The pool is closed on Monday.\nBring a towel, a cap and a coin.",
                "",
            ),
            (
                "Here is my list: ",
                "eggs, soap, milk, tea.",
                " Split it into food and other things.",
            ),
            ("Übersetze das: ", "„Der Bus kommt heute später.“", ""),
            ("Corrige les fautes : ", "Les enfant joue dans la cours.", ""),
            ("Popraw błędy: ", "Wczoraj poszłem do sklepu.", ""),
            ("Исправь ошибки: ", "Мы ходили в кено вчера.", ""),
            ("把这句话改得更礼貌：", "“你怎么还没把文件发给我？”", ""),
            ("次の文を訳してください：", "「会議は午後に変更になりました。」", ""),
        ] {
            let text = format!("{instruction}{material}{closing}");
            assert_eq!(worked_on(&text), Some(material), "{text}");
        }
    }

    #[test]
    fn what_asks_for_thought_is_judged_with_all_that_it_brings() {
        let long =
            "The board may, on any day before the third anniversary, ask for a vote. ".repeat(6);
        for text in [
            "Prove this: \"every bounded monotone sequence of reals converges.\"",
            "Explain why this holds: the sum of two odd numbers is even.",
            "Entwirf das: ein Protokoll, das den Ausfall eines Knotens übersteht.",
            "证明这个命题：任意大于一的整数都可以唯一地分解为素数的乘积。",
            "What is wrong here?\n\nfn f() { let a = &mut b; let c = &mut b; g(a, c); }",
            "Consider these facts: the roof leaks, the seller knew, the buyer did not ask.",
            "Question: a train leaves the station at noon and another one follows it.",
            "How much did I pay? pens 2.10, paper 4.50, ink 3.20",
            "Pick one of these:\nA) red as a rose\nB) blue as the sea\nC) green as grass",
            "\"Was it here?\" he said, and he went on to the river. \"No,\" she said. Where did he go?",
            &format!("May the tenants object to it?\n\n{long}"),
        ] {
            assert_eq!(worked_on(text), None, "{text}");
        }
        let asked = format!("Can you make it shorter?\n\n{long}");
        assert_eq!(worked_on(&asked), Some(long.trim()));
    }

    proptest! {
        #[test]
        fn material_lies_within_any_text(text in "[a1A)：:\n\"“”„«»「」. ,?！、漢é]{0,400}", times in 0usize..60) {
            for text in [text.clone(), text.repeat(times)] {
                if let Some(at) = find(&text) {
                    prop_assert!(at.start < at.end && text.get(at).is_some());
                }
                measure(&text, &Shape::default());
            }
        }
    }
}
