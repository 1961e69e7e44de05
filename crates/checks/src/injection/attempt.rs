//! One mechanism at work in a text.

use std::ops::Range;

/// One mechanism at work, before offsets are led back.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// The mechanism.
    pub(crate) kind: &'static str,
    /// The range of its first occurrence, in the bytes of the text given.
    pub(crate) bytes: Range<usize>,
    /// How sure, 0 to 1.
    pub(crate) score: f64,
    /// Whether the text has too few words for this to block.
    pub(crate) held: bool,
}

impl Attempt {
    pub(super) fn new(kind: &'static str, bytes: Range<usize>, score: f64) -> Self {
        Self { kind, bytes, score, held: false }
    }
}

/// Keeps the strongest attempt of each kind.
pub(super) fn keep_strongest(attempts: &mut Vec<Attempt>, new: Attempt) {
    match attempts.iter_mut().find(|a| a.kind == new.kind) {
        Some(old) if old.score >= new.score => {}
        Some(old) => *old = new,
        None => attempts.push(new),
    }
}
