//! Coefficients of the complexity score. Written by `train/train.py`; do not edit.
//!
//! Fitted to published outcomes of weak and strong models, from `RouteLLM`'s evaluations (MMLU,
//! GSM8K), `RouterBench` (ARC, MBPP, `WinoGrande`), MMLU-Pro, `ZeroEval` (MATH level 5), `AlpacaEval` and
//! `LLMRouter`.

use crate::features::NAMES;

/// Added to every score.
pub(crate) const BIAS: f32 = -0.855;
/// One coefficient for each of `NAMES`.
#[rustfmt::skip]
pub(crate) const FEATURES: [f32; NAMES.len()] = [
    1.74, // length
    -0.90, // short
    -0.65, // number_share
    0.16, // numbers
    -0.44, // maths_signs
    0.20, // latex
    0.70, // code_signs
    -1.17, // lines
    0.16, // list_items
    0.29, // questions
    -0.10, // word_length
    0.04, // long_words
    0.70, // capitalised
    0.42, // options
    0.39, // blank
    0.18, // quotes
    0.59, // line_length
    0.55, // commas
    -0.32, // sentences
    -0.52, // sentence_length
    0.59, // people
    -0.47, // single_letters
    -0.55, // option_length
    0.19, // digits
    1.30, // two_options
    2.00, // program
    0.80, // any_number
    0.80, // conversation
    0.80, // tools
    3.40, // proof
    1.10, // reason
    -0.54, // condition
    0.04, // constraint
    0.57, // negation
    1.22, // quantity
    0.30, // sequence
    0.94, // build
    -1.45, // task
    -0.33, // everyday
    -0.36, // maths
    0.58, // science
    0.90, // technical
    0.22, // law
    0.10, // medicine
    -0.66, // humanities
    0.21, // business
    -2.00, // persona
    1.40, // formal_maths
];
