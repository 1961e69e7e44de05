//! A text with its words, numbers and cells, as the detectors of personal data read it.

use std::ops::Range;

use crate::scan::Scan;
use crate::text::spans::Span;
use crate::text::words::floor;
use crate::vocabulary::contexts::Context;

/// A text with what the scan found in it, and the numbers and tokens in it.
pub(super) struct View<'a> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) scan: &'a Scan,
    pub(super) groups: Vec<Span>,
    pub(super) tokens: Vec<Span>,
    pub(super) joined: Vec<u32>,
    /// The cells of tables whose headings name them.
    pub(super) cells: Vec<Cell>,
    /// The text without white space around it: a value that fills it is a form field's value.
    pub(super) whole: Range<usize>,
}

impl View<'_> {
    pub(super) fn is_whole(&self, range: &Range<usize>) -> bool {
        *range == self.whole
    }
}

/// A cell under a heading, without the white space and the quotes around it.
pub(super) type Cell = Span<Context>;

/// A range that is known to be something else: nothing in it counts that is not surer.
pub(super) struct Refused {
    pub(super) bytes: Range<usize>,
    pub(super) below: f64,
}

/// The text just before `at`, at most `reach` bytes of it.
pub(super) fn before(text: &str, at: usize, reach: usize) -> &str {
    &text[floor(text, at.saturating_sub(reach))..at]
}
