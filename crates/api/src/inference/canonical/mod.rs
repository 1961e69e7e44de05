//! The code with which all endpoints of other formats read a request into the canonical form, which
//! is chat completions, and write an answer from it. Pure, and of no format in particular.

pub(crate) mod answer;
pub(crate) mod block_sequencer;
pub(crate) mod chunk_reader;
pub(crate) mod documents;
pub(crate) mod external_access;
pub(crate) mod members;
pub(crate) mod prompt;
pub(crate) mod read;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod translation_gaps;

pub(crate) use crate::inference::canonical::answer::first_choice;
