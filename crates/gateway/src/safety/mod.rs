//! Safety around a call: the strings of prompts and answers, their inspection, and the locations of
//! findings.

pub(crate) mod answer_fields;
pub(crate) mod answer_strings;
pub(crate) mod as_it_came;
pub(crate) mod chunk_parts;
pub(crate) mod inspection;
pub(crate) mod json_path;
pub(crate) mod location;
pub(crate) mod nonce;
pub(crate) mod output_check;
pub(crate) mod prompt_strings;
pub(crate) mod text_numbers;
pub(crate) mod text_part;
pub(crate) mod wire_members;
