//! Between the canonical form, which is chat completions, and the doors of other formats: what they
//! all read a request and write an answer with. Pure, and of no format in particular.

mod answer;
mod hear;
mod order;
mod prompt;
mod read;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use answer::{Answer, Call, first_choice};
pub(crate) use hear::Hearing;
pub(crate) use order::{Beat, Order, Part, Voice};
pub(crate) use prompt::{
    State, States, assistant, call, function, image_part, marked, plain, result, text_part,
};
pub(crate) use read::{Node, invalid, malformed};
