//! Long runs of ASCII without space, found in the bits of blocks of 64 bytes.

use crate::text::codes::runs::SHORTEST_CODE;

/// A run of this many characters without space is not taken for a word.
pub(crate) const LONG_RUN: u32 = 17;

/// Tells whether a long run of set bits has passed by.
#[derive(Default)]
pub(super) struct Runs {
    /// Length of the run that reached the end of the last block.
    pub(super) open: u32,
    pub(super) long: bool,
}

impl Runs {
    /// Takes the bits of the next block; returns whether any of them belongs to a long run, and whether to
    /// one as long as the shortest code.
    #[inline]
    pub(super) fn push(&mut self, bits: u64) -> (bool, bool) {
        let two = bits & bits >> 1;
        let four = two & two >> 2;
        let eight = four & four >> 4;
        let sixteen = eight & eight >> 8;
        let joined = self.open + bits.trailing_ones();
        let is_long = sixteen & bits >> 16 != 0 || joined >= LONG_RUN;
        self.long |= is_long;
        self.open = if bits == u64::MAX { joined } else { bits.leading_ones() };
        const { assert!(SHORTEST_CODE == 15) }
        (is_long, eight & eight >> 7 != 0 || joined >= SHORTEST_CODE as u32)
    }
}
