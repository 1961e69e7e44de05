//! Between the canonical form, which is chat completions, and the doors of other formats: what they
//! all read a request and write an answer with. Pure, and of no format in particular.

pub(crate) mod block_sequencer;
pub(crate) mod chunk_reader;
mod answer;
mod prompt;
mod read;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use crate::inference::canonical::answer::{Answer, Call, first_choice};
pub(crate) use crate::inference::canonical::chunk_reader::Hearing;
pub(crate) use crate::inference::canonical::block_sequencer::{Beat, Order, Part, Voice};
pub(crate) use crate::inference::canonical::prompt::{State, assistant, call, function, image_part, marked, plain, result, state_of, text_part};
pub(crate) use crate::inference::canonical::read::{Node, invalid, malformed};
