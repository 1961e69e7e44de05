//! The texts of a stored conversation, as its findings refer to them.

use domain::conversation::Prompt;

use crate::safety::prompt_strings::each;
use crate::safety::text_part::TextPart;

/// The texts in the contents of a conversation's messages that safety reads as they are, each with its number
/// among all judged strings: the `part` of its findings. Files and JSON in strings are left out: places in
/// them are those of what they hold.
pub fn numbered_texts(prompt: &Prompt) -> Vec<(usize, &str)> {
    let (mut texts, mut number) = (Vec::new(), 0);
    each(prompt, |spot, said| {
        if let (true, TextPart::Text(text) | TextPart::Read(text)) = (spot.field == "content", said)
        {
            texts.push((number, text));
        }
        number += 1;
    });
    texts
}
