//! Codes of one text, and what they stand for.

use std::ops::Range;

/// A code and what it stands for.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Place of the code in the text.
    pub(super) bytes: Range<usize>,
    /// The text behind it.
    pub(super) text: String,
}

/// Codes of one text. Small: there may be many.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Their texts, one after the other.
    pub(super) texts: String,
    /// Place of each in the source, and of its text: start and length.
    pub(super) places: Vec<[u32; 4]>,
}

impl Pieces {
    pub(crate) fn push(&mut self, piece: &Piece) {
        let place = [piece.bytes.start, piece.bytes.len(), self.texts.len(), piece.text.len()];
        self.places.push(place.map(|value| value as u32));
        self.texts.push_str(&piece.text);
    }

    /// Returns the range of each, and the text behind it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Range<usize>, &str)> {
        self.places.iter().map(|place| {
            let [start, length, at, size] = place.map(|value| value as usize);
            (start..start + length, &self.texts[at..at + size])
        })
    }
}
