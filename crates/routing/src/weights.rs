//! Coefficients of the complexity score. Written by `train/train.py`; do not edit.
//!
//! Fitted to published outcomes of weak and strong models, from `RouteLLM`'s evaluations (MMLU,
//! GSM8K), `RouterBench` (ARC, MBPP, `WinoGrande`), MMLU-Pro, `ZeroEval` (MATH level 5), `AlpacaEval` and
//! `LLMRouter`.

use crate::features::NAMES;

/// Added to every score.
pub(crate) const BIAS: f32 = -0.961;
/// One coefficient for each of `NAMES`.
#[rustfmt::skip]
pub(crate) const FEATURES: [f32; NAMES.len()] = [
    1.74, // length
    -0.90, // short
    -0.67, // number_share
    0.19, // numbers
    -0.44, // maths_signs
    0.20, // latex
    0.70, // code_signs
    -1.14, // lines
    0.14, // list_items
    0.27, // questions
    -0.08, // word_length
    0.04, // long_words
    0.72, // capitalised
    0.41, // options
    0.38, // blank
    0.16, // quotes
    0.58, // line_length
    0.56, // commas
    -0.33, // sentences
    -0.53, // sentence_length
    0.59, // people
    -0.46, // single_letters
    -0.56, // option_length
    0.20, // digits
    1.30, // two_options
    2.00, // program
    0.80, // any_number
    0.80, // conversation
    0.80, // tools
    3.40, // proof
    1.11, // reason
    -0.53, // condition
    0.04, // constraint
    0.57, // negation
    1.23, // quantity
    0.29, // sequence
    0.96, // build
    -1.44, // task
    -0.34, // everyday
    -0.34, // maths
    0.62, // science
    0.92, // technical
    0.23, // law
    0.10, // medicine
    -0.66, // humanities
    0.21, // business
    -2.00, // persona
    1.40, // formal_maths
];
