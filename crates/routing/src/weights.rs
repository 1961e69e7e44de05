//! Coefficients of the complexity score. Written by `train/train.py`; do not edit.
//!
//! Fitted to published outcomes of weak and strong models, from `RouteLLM`'s evaluations (MMLU,
//! GSM8K), `RouterBench` (ARC, MBPP, `WinoGrande`), MMLU-Pro, `ZeroEval` (MATH level 5), `AlpacaEval` and
//! `LLMRouter`.

use crate::features::NAMES;

/// Added to every score.
pub(crate) const BIAS: f32 = -1.1;
/// One coefficient for each of `NAMES`.
#[rustfmt::skip]
pub(crate) const FEATURES: [f32; NAMES.len()] = [
    1.66, // length
    -1.00, // short
    -0.67, // number_share
    0.11, // numbers
    -0.34, // maths_signs
    0.47, // latex
    0.64, // code_signs
    -1.37, // lines
    0.19, // list_items
    0.24, // questions
    -0.14, // word_length
    0.05, // long_words
    0.50, // capitalised
    0.54, // options
    0.37, // blank
    0.11, // quotes
    0.74, // line_length
    0.56, // commas
    -0.28, // sentences
    -0.43, // sentence_length
    0.49, // people
    -0.41, // single_letters
    -0.54, // option_length
    0.26, // digits
    0.80, // two_options
    1.60, // program
    0.80, // any_number
    1.80, // code_lines
    0.80, // conversation
    0.80, // tools
    3.40, // proof
    1.12, // reason
    -0.48, // condition
    0.04, // constraint
    0.59, // negation
    1.20, // quantity
    0.31, // sequence
    0.90, // build
    -1.45, // task
    -0.38, // everyday
    -0.37, // maths
    0.54, // science
    0.85, // technical
    0.23, // law
    0.10, // medicine
    -0.67, // humanities
    0.21, // business
    -2.00, // persona
    1.40, // formal_maths
];
