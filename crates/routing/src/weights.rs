//! Coefficients of the complexity score. Written by `train/train.py`; do not edit.
//!
//! Fitted to published outcomes of weak and strong models, from `RouteLLM`'s evaluations (MMLU,
//! GSM8K), `RouterBench` (ARC, MBPP, `WinoGrande`), MMLU-Pro, `ZeroEval` (MATH level 5), `AlpacaEval` and
//! `LLMRouter`.

use crate::features::NAMES;

/// Added to every score.
pub(crate) const BIAS: f32 = -1.0;
/// One coefficient for each of `NAMES`.
#[rustfmt::skip]
pub(crate) const FEATURES: [f32; NAMES.len()] = [
    1.65, // length
    -0.98, // short
    -0.64, // number_share
    0.10, // numbers
    -0.42, // maths_signs
    0.20, // latex
    0.70, // code_signs
    -1.31, // lines
    0.20, // list_items
    0.27, // questions
    -0.13, // word_length
    0.05, // long_words
    0.67, // capitalised
    0.47, // options
    0.41, // blank
    0.14, // quotes
    0.69, // line_length
    0.57, // commas
    -0.29, // sentences
    -0.49, // sentence_length
    0.57, // people
    -0.52, // single_letters
    -0.51, // option_length
    0.28, // digits
    1.30, // two_options
    2.00, // program
    0.80, // any_number
    0.80, // conversation
    0.80, // tools
    3.40, // proof
    1.13, // reason
    -0.51, // condition
    0.06, // constraint
    0.56, // negation
    1.25, // quantity
    0.31, // sequence
    0.91, // build
    -1.47, // task
    -0.38, // everyday
    -0.36, // maths
    0.56, // science
    0.86, // technical
    0.24, // law
    0.10, // medicine
    -0.69, // humanities
    0.22, // business
    -2.00, // persona
    1.40, // formal_maths
];
