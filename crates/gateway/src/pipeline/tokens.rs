//! Token counts for providers that report none.
//!
//! A vocabulary would be exact for some models and wrong for the others, and weighs more than the
//! rest of the binary. Texts are cut as the vocabularies in use cut them first (a word with the
//! space before it, up to three digits, a run of signs), and long words count for several tokens.
//! Such counts are marked as estimated wherever they show.

use domain::conversation::{Body, Prompt};
use domain::model::Model;
use domain::usage::Usage;
use serde_json::Value;

use crate::pipeline::{file_tokens, picture_tokens};

/// Tokens that a message costs beside its text, in the chat-completions format (OpenAI's cookbook,
/// "How to count tokens with tiktoken").
const PER_MESSAGE: u64 = 3;

/// About what hosted models write in a second: large ones less, small ones more.
const PER_SECOND: u64 = 50;

/// About the tokens that a model has written, `micros` microseconds after it was asked, of an
/// answer that was not seen yet.
pub(crate) fn written_within(micros: i64) -> u64 {
    u64::try_from(micros).unwrap_or(0).saturating_mul(PER_SECOND).div_ceil(1_000_000)
}

/// A quick estimate from the length in bytes: about four bytes a token in English.
pub(crate) fn estimate(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}

/// Counts a prompt and its answer, for a model if it is known.
pub(crate) fn count(prompt: &Prompt, output: &str, model: Option<&Model>) -> Usage {
    let context_window = model.and_then(|model| model.config.context_window);
    let mut tokens = file_tokens::about(prompt, context_window) + picture_tokens::of(prompt, model);
    for message in &prompt.messages {
        tokens += PER_MESSAGE;
        tokens += match &message.body {
            Body::Empty => 0,
            Body::Text(body) => text(body),
            Body::Parts(parts) => {
                let texts =
                    parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
                texts.map(text).sum()
            }
        };
    }
    if let Some(tools) = prompt.params.get("tools") {
        tokens += text(&tools.to_string());
    }
    Usage { prompt: tokens, completion: text(output), ..Usage::default() }
}

/// Counts texts to be embedded.
pub(crate) fn of_texts(prompt: &Prompt) -> u64 {
    prompt.texts().map(text).sum()
}

/// The class of a character for a tokenizer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Latin,
    Letter,
    Ideograph,
    Digit,
    Space,
    Line,
    Sign,
}

fn class(c: char) -> Class {
    match c {
        'a'..='z' | 'A'..='Z' => Class::Latin,
        '0'..='9' => Class::Digit,
        '\n' | '\r' => Class::Line,
        _ if c.is_whitespace() => Class::Space,
        // Han, kana and Hangul; supplementary ideographs.
        '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}'
        | '\u{20000}'..='\u{3ffff}' => Class::Ideograph,
        _ if c.is_alphabetic() => Class::Letter,
        _ => Class::Sign,
    }
}

fn text(text: &str) -> u64 {
    runs(text, weight)
}

/// About the most tokens that any vocabulary makes of a text: random letters, and scripts that it
/// was hardly taught, have many more than words have.
pub(crate) fn at_most(text: &str) -> u64 {
    let rare = text.bytes().filter(|byte| !byte.is_ascii()).count() as u64;
    let most = rare
        + runs(text, |(class, length)| match class {
            Class::Latin => length.div_ceil(2),
            Class::Digit | Class::Sign => length,
            Class::Space | Class::Line => length.div_ceil(4),
            // Their bytes are counted.
            Class::Letter | Class::Ideograph => 0,
        });
    most.min(text.len() as u64)
}

/// The tokens of all runs of one class.
fn runs(text: &str, weight: fn((Class, u64)) -> u64) -> u64 {
    let mut tokens = 0;
    let mut run: Option<(Class, u64)> = None;
    for c in text.chars() {
        let class = class(c);
        match &mut run {
            Some((last, length)) if *last == class => *length += 1,
            _ => {
                tokens += run.map_or(0, weight);
                run = Some((class, 1));
            }
        }
    }
    tokens + run.map_or(0, weight)
}

/// The tokens of a run of one class.
fn weight((class, length): (Class, u64)) -> u64 {
    match class {
        Class::Latin => 1 + length.saturating_sub(8).div_ceil(5),
        Class::Ideograph => (length * 4).div_ceil(5),
        Class::Letter | Class::Digit => length.div_ceil(3),
        // One space belongs to the word after it.
        Class::Space => u64::from(length > 1),
        Class::Line => 1,
        Class::Sign => length.div_ceil(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{of_parts, pdf};

    #[test]
    fn what_nobody_has_seen_grows_with_the_wait() {
        for (micros, tokens) in
            [(-5, 0), (0, 0), (1, 1), (20_000, 1), (20_001, 2), (2_000_000, 100)]
        {
            assert_eq!(written_within(micros), tokens, "{micros}");
        }
    }

    #[test]
    fn near_what_a_vocabulary_gives() {
        // The counts of a vocabulary of 200,000 tokens.
        for (sample, tokens) in [
            ("Hello, world!", 4),
            ("The quick brown fox jumps over the lazy dog.", 10),
            ("internationalization", 2),
            ("1234567890", 4),
            ("", 0),
        ] {
            let counted = text(sample);
            assert!(counted.abs_diff(tokens) <= 2, "{sample}: {counted} instead of {tokens}");
        }
    }

    #[test]
    fn a_pdf_beside_a_question_counts() {
        let parts =
            vec![serde_json::json!({"type": "text", "text": "Hello, world!"}), pdf(160_000)];
        let counted = count(&of_parts(parts), "", None).prompt;
        assert!((20_000..20_020).contains(&counted), "{counted}");
    }

    #[test]
    fn at_most_is_between_the_count_and_the_bytes() {
        for sample in [
            "The quick brown fox jumps over the lazy dog.",
            "xKq9ZpWv3TnRb7LsYd",
            "1234567890",
            "            \n\n            ",
            "日本語のテキスト, ꦲꦏ꧀ꦱꦫ",
            "",
        ] {
            let most = at_most(sample);
            assert!(most >= text(sample) && most <= sample.len() as u64, "{sample}: {most}");
        }
        assert!(at_most("xKq9ZpWv3TnRb7LsYd") > 9, "random letters are hardly ever two a token");
    }

    #[test]
    fn longer_is_never_cheaper() {
        let sample = "Une phrase, 12345 chiffres.\n\n 日本語のテキスト and code(x) { return 1; }";
        let mut last = 0;
        for (end, _) in sample.char_indices() {
            let counted = text(&sample[..end]);
            assert!(counted >= last);
            last = counted;
        }
    }
}
