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
    1.70, // length
    -1.01, // short
    -0.64, // number_share
    0.12, // numbers
    -0.41, // maths_signs
    0.19, // latex
    0.73, // code_signs
    -1.30, // lines
    0.18, // list_items
    0.28, // questions
    -0.13, // word_length
    0.04, // long_words
    0.50, // capitalised
    0.52, // options
    0.43, // blank
    0.13, // quotes
    0.74, // line_length
    0.56, // commas
    -0.26, // sentences
    -0.47, // sentence_length
    0.48, // people
    -0.49, // single_letters
    -0.53, // option_length
    0.28, // digits
    0.80, // two_options
    1.60, // program
    0.80, // any_number
    0.80, // conversation
    0.80, // tools
    3.40, // proof
    1.12, // reason
    -0.55, // condition
    0.05, // constraint
    0.59, // negation
    1.24, // quantity
    0.31, // sequence
    0.91, // build
    -1.45, // task
    -0.38, // everyday
    -0.36, // maths
    0.56, // science
    0.86, // technical
    0.24, // law
    0.09, // medicine
    -0.68, // humanities
    0.20, // business
    -2.00, // persona
    1.40, // formal_maths
];
