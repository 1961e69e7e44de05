//! Between the canonical form, which is chat completions, and the endpoints of other formats: the
//! code with which all of them read a request and write an answer. Pure, and of no format in
//! particular.

pub(crate) mod answer;
pub(crate) mod block_sequencer;
pub(crate) mod chunk_reader;
pub(crate) mod prompt;
pub(crate) mod read;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use crate::inference::canonical::answer::first_choice;
