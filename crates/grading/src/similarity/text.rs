//! The similarity of two texts.

use std::hash::{DefaultHasher, Hash, Hasher};

use unicode_normalization::UnicodeNormalization as _;

use super::ALMOST_SAME;
use super::tokens::{Kind, Token, tokens};

/// Of a longer text, the beginning and the end are read.
const MAX_BYTES: usize = 64 * 1024;
/// What texts of one language have in common by chance.
const CHANCE: f64 = 0.1;
/// Lifts the middle: a sentence in other words keeps little more than its nouns and numbers.
const LIFT: f64 = 0.75;
/// The weight of the parts of a word, all together, beside the word.
const PARTS: f64 = 0.6;
/// The weight of two words that follow each other, beside each of them.
const ORDER: f64 = 0.35;

/// Returns how alike two texts are, from 0 to 1; 1 only if they have the same tokens.
pub(super) fn similarity(one: &str, other: &str) -> f64 {
    let ((one, one_is_whole), (other, other_is_whole)) = (sample(one), sample(other));
    let (one, other) = (normalized(&one), normalized(&other));
    let (left, right) = (tokens(&one), tokens(&other));
    if left == right {
        // Punctuation alone is all there is to compare then.
        let is_same = !left.is_empty() || one.trim() == other.trim();
        let is_whole = one_is_whole && other_is_whole;
        return if !is_same {
            0.0
        } else if is_whole {
            1.0
        } else {
            ALMOST_SAME
        };
    }
    let shared = dice(&features(&left), &features(&right));
    let beyond_chance = ((shared - CHANCE) / (1.0 - CHANCE)).max(0.0);
    beyond_chance.powf(LIFT).min(ALMOST_SAME)
}

/// The text; of a long one, its beginning and end. With it whether it is all of it.
fn sample(text: &str) -> (std::borrow::Cow<'_, str>, bool) {
    if text.len() <= MAX_BYTES {
        return (text.into(), true);
    }
    let begin = text.floor_char_boundary(MAX_BYTES / 2);
    let end = text.ceil_char_boundary(text.len() - MAX_BYTES / 2);
    (format!("{}\n{}", &text[..begin], &text[end..]).into(), false)
}

/// The text in one form of its characters and one case.
fn normalized(text: &str) -> String {
    text.nfkc().flat_map(char::to_lowercase).collect()
}

/// A part of a text by its hash, with its weight.
type Feature = (u64, f64);

/// The features of a text, each once, sorted by hash. One that comes again counts less each time.
fn features(tokens: &[Token<'_>]) -> Vec<Feature> {
    let mut all = Vec::with_capacity(tokens.len() * 4);
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Ideograph => characters(&tokens[at..], &[0.3, 1.0, 0.3], &mut all),
            Kind::Letter => characters(&tokens[at..], &[0.05, 0.15, 0.4, 0.6], &mut all),
            Kind::Word | Kind::Number | Kind::Symbol => words(&tokens[at..], &mut all),
        }
    }
    all.sort_by_key(|&(hash, _)| hash);
    let same = all.chunk_by(|(one, _), (other, _)| one == other);
    same.map(|same| (same[0].0, same[0].1 * (same.len() as f64).sqrt())).collect()
}

/// Adds the characters that begin here, one to as many as there are weights.
fn characters(rest: &[Token<'_>], weights: &[f64], all: &mut Vec<Feature>) {
    let mut hasher = DefaultHasher::new();
    for (token, &weight) in rest.iter().zip(weights) {
        if token.kind != rest[0].kind {
            break;
        }
        token.text.hash(&mut hasher);
        all.push((hasher.finish(), weight));
    }
}

/// Adds the first token, its parts, and the pair that it makes with the next.
fn words(rest: &[Token<'_>], all: &mut Vec<Feature>) {
    let [first, others @ ..] = rest else { return };
    let weight = weight(first);
    all.push((hash(0, &*first.text), weight));
    if first.kind == Kind::Word {
        parts(&first.text, weight * PARTS, all);
    }
    if let Some(next) = others.first().filter(|next| !next.is_character()) {
        let both = (weight * self::weight(next)).sqrt();
        all.push((hash(1, (&*first.text, &*next.text)), both * ORDER));
    }
}

/// Adds the parts of a word: words of one stem share most of them.
fn parts(word: &str, weight: f64, all: &mut Vec<Feature>) {
    let letters: Vec<char> = word.chars().collect();
    let is_syllables = letters.iter().all(|&letter| is_hangul(letter));
    let (length, least) = if is_syllables { (2, 2) } else { (3, 4) };
    if letters.len() < least {
        return;
    }
    let begin = &letters[..length - 1];
    let count = letters.len() - length + 2;
    let each = weight / count as f64;
    all.push((hash(2, begin), each));
    all.extend(letters.windows(length).map(|part| (hash(3, part), each)));
}

/// Long words and numbers say more than short words and symbols.
fn weight(token: &Token<'_>) -> f64 {
    let letters: usize =
        token.text.chars().map(|letter| if is_hangul(letter) { 3 } else { 1 }).sum();
    match token.kind {
        Kind::Number => 1.2,
        Kind::Symbol => 0.3,
        _ => match letters {
            0..=1 => 0.2,
            2 => 0.3,
            3 => 0.45,
            4 => 0.75,
            5 => 0.95,
            6..=8 => 1.15,
            _ => 1.3,
        },
    }
}

fn is_hangul(letter: char) -> bool {
    ('\u{ac00}'..='\u{d7a3}').contains(&letter)
}

fn hash(kind: u8, part: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (kind, part).hash(&mut hasher);
    hasher.finish()
}

/// The weight of what both have, in that of both.
fn dice(one: &[Feature], other: &[Feature]) -> f64 {
    let sum = |all: &[Feature]| all.iter().map(|&(_, weight)| weight).sum::<f64>();
    let (mut shared, mut rest) = (0.0, other);
    for &(hash, weight) in one {
        rest = &rest[rest.partition_point(|&(other, _)| other < hash)..];
        if let Some(&(_, other)) = rest.first().filter(|&&(other, _)| other == hash) {
            shared += weight.min(other);
        }
    }
    let all = sum(one) + sum(other);
    if all > 0.0 { 2.0 * shared / all } else { 0.0 }
}
