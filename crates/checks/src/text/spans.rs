//! Places in a text, for lists as long as the text is. Small: a text of one thing over and over is not to take many times its
//! size.

use std::ops::Range;

use crate::text::words::floor;

/// The range of something in a text, and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span<M = ()> {
    start: u32,
    end: u32,
    pub(crate) meaning: M,
}

impl<M> Span<M> {
    /// A place within [`addressable`] text.
    #[inline]
    pub(crate) fn new(start: usize, end: usize, meaning: M) -> Self {
        Self { start: start as u32, end: end as u32, meaning }
    }

    #[inline]
    pub(crate) fn start(&self) -> usize {
        self.start as usize
    }

    #[inline]
    pub(crate) fn end(&self) -> usize {
        self.end as usize
    }

    #[inline]
    pub(crate) fn range(&self) -> Range<usize> {
        self.start()..self.end()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }
}

/// As much of a text as its places have numbers for. No request is longer.
pub(crate) fn addressable(text: &str) -> &str {
    &text[..floor(text, u32::MAX as usize - 64)]
}

/// Adds to a list of what stands in a text of which `read` bytes of `all` are behind: the list grows by what the rest will
/// hold if it is like the text so far, and never more than twofold.
#[inline]
pub(crate) fn push<T>(list: &mut Vec<T>, item: T, read: usize, all: usize) {
    if list.len() == list.capacity() {
        grow(list, read, all);
    }
    list.push(item);
}

#[cold]
fn grow<T>(list: &mut Vec<T>, read: usize, all: usize) {
    /// One item is seldom the only one: this spares growing step by step.
    const FIRST: usize = 32;
    let known = list.len();
    let rest = known.saturating_mul(all.saturating_sub(read)) / read.max(1);
    list.reserve_exact(rest.clamp(known / 8, known).max(FIRST));
}
