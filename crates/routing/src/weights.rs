//! Coefficients of the complexity score. Written by `train/train.py`; do not edit.
//!
//! Fitted to published outcomes of weak and strong models, from `RouteLLM`'s evaluations (MMLU,
//! GSM8K), `RouterBench` (ARC, MBPP, `WinoGrande`), MMLU-Pro, `ZeroEval` (MATH level 5), `AlpacaEval` and
//! `LLMRouter`.

use crate::features::NAMES;

/// Added to every score.
pub(crate) const BIAS: f32 = -1.13;
/// One coefficient for each of `NAMES`.
#[rustfmt::skip]
pub(crate) const FEATURES: [f32; NAMES.len()] = [
    1.79, // length
    -1.12, // short
    -0.46, // number_share
    0.23, // numbers
    -0.46, // maths_signs
    0.21, // latex
    0.73, // code_signs
    -1.18, // lines
    0.19, // list_items
    0.27, // questions
    -0.03, // word_length
    0.06, // long_words
    0.52, // capitalised
    0.27, // options
    0.40, // blank
    0.09, // quotes
    0.82, // line_length
    0.51, // commas
    -0.00, // sentences
    -0.37, // sentence_length
    0.48, // people
    -0.43, // single_letters
    -0.57, // option_length
    0.20, // digits
    0.80, // two_options
    0.80, // program
    0.80, // conversation
    0.80, // tools
    3.40, // proof
    1.12, // reason
    -0.58, // condition
    0.03, // constraint
    0.59, // negation
    1.36, // quantity
    0.32, // sequence
    0.89, // build
    -1.51, // task
    -0.39, // everyday
    -0.33, // maths
    0.53, // science
    0.93, // technical
    0.20, // law
    0.10, // medicine
    -0.68, // humanities
    0.21, // business
    1.40, // formal_maths
];
