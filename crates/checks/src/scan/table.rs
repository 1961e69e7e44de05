//! Tables that look up which keywords begin at a place.

use crate::scan::keywords::{Keyword, Place};

/// Slots of a table; a power of two.
const SLOTS: usize = 1 << 13;

/// Bits of a table's filter; a power of two. Few enough to stay in the fastest cache.
const FILTER: usize = 1 << 15;

/// Sets the bit in which letters differ by case, in eight bytes at once.
const CASELESS: u64 = 0x2020_2020_2020_2020;

/// Keywords by their first `WIDEST` bytes; shorter ones by as many as they have, at least `LEAST`.
pub(crate) struct Table<const LEAST: usize, const WIDEST: usize> {
    /// For each slot, the number of its bucket.
    slots: Box<[u16; SLOTS]>,
    /// The first one is empty.
    buckets: Vec<Bucket>,
    entries: Vec<Entry>,
    /// A bit for each beginning of the largest width that some keyword has: most places are refused by it.
    filter: Box<[u64; FILTER / 64]>,
}

/// The keywords of a slot, in their order.
struct Bucket {
    from: u16,
    to: u16,
    /// Which fourth bytes they have, and which fourth and fifth: nearly all other words are refused by these.
    fourth: u64,
    fifth: u64,
}

/// A keyword in a bucket, with its first eight bytes at hand: most are refused without a look at the keyword itself.
struct Entry {
    head: u64,
    mask: u64,
    id: u16,
}

impl<const LEAST: usize, const WIDEST: usize> Table<LEAST, WIDEST> {
    /// A table of those keywords that have this place.
    pub(crate) fn new(keywords: &[Keyword], place: Place) -> Self {
        let mut filled: Vec<Vec<u16>> = vec![Vec::new(); SLOTS];
        let mut filter = Box::new([0; FILTER / 64]);
        for (id, keyword) in keywords.iter().enumerate().filter(|(_, k)| k.place == place) {
            let (head, width) = (eight(&keyword.text) | CASELESS, keyword.text.len().min(WIDEST));
            filled[slot(hash(head, width_bits(width)))].push(id as u16);
            // A keyword shorter than the filter is wide may be followed by anything.
            let known = head & u64::from(width_bits(width));
            for behind in 0..1u64 << (8 * (WIDEST - width)) {
                let bit = filter_bit(hash(known | behind << (8 * width), width_bits(WIDEST)));
                filter[bit / 64] |= 1 << (bit % 64);
            }
        }
        let mut slots = Box::new([0; SLOTS]);
        let mut buckets = vec![Bucket { from: 0, to: 0, fourth: 0, fifth: 0 }];
        let mut entries = Vec::new();
        for (slot, ids) in filled.into_iter().enumerate().filter(|(_, ids)| !ids.is_empty()) {
            slots[slot] = buckets.len() as u16;
            let (from, mut fourth, mut fifth) = (entries.len() as u16, 0, 0);
            for id in ids {
                let text = &keywords[id as usize].text;
                let mask = if text.len() >= 8 { u64::MAX } else { (1 << (text.len() * 8)) - 1 };
                let head = (eight(text) | CASELESS) & mask;
                entries.push(Entry { head, mask, id });
                fourth |= if text.len() > 3 { byte_bit(head >> 24) } else { u64::MAX };
                fifth |= if text.len() > 4 { pair_bit(head >> 24) } else { u64::MAX };
            }
            buckets.push(Bucket { from, to: entries.len() as u16, fourth, fifth });
        }
        Self { slots, buckets, entries, filter }
    }

    /// Calls back for each keyword that stands at a place: the shortest first, then in their order.
    #[inline]
    pub(crate) fn at(
        &self,
        keywords: &[Keyword],
        text: &[u8],
        at: usize,
        mut found: impl FnMut(u16),
    ) {
        let rest = &text[at..];
        let seen = eight(rest) | CASELESS;
        let bit = filter_bit(hash(seen, width_bits(WIDEST)));
        if self.filter[bit / 64] >> (bit % 64) & 1 == 0 {
            return;
        }
        for width in LEAST..=WIDEST {
            let Some(bucket) = self.bucket(seen, width) else { continue };
            for entry in &self.entries[bucket.from as usize..bucket.to as usize] {
                if seen & entry.mask == entry.head
                    && entry.stands(keywords, rest, width, width == WIDEST)
                {
                    found(entry.id);
                }
            }
        }
    }

    /// The bucket in which keywords of a width may stand.
    #[inline]
    fn bucket(&self, seen: u64, width: usize) -> Option<&Bucket> {
        let number = self.slots[slot(hash(seen, width_bits(width)))];
        let bucket = &self.buckets[number as usize];
        let possible = number > 0
            && bucket.fourth & byte_bit(seen >> 24) != 0
            && bucket.fifth & pair_bit(seen >> 24) != 0;
        possible.then_some(bucket)
    }
}

impl Entry {
    /// Whether its keyword stands at the beginning of a text with the same head. Only the widest slot has keywords that
    /// are longer than its width.
    #[inline(never)]
    fn stands(&self, keywords: &[Keyword], text: &[u8], width: usize, widest: bool) -> bool {
        let keyword = &keywords[self.id as usize];
        (keyword.text.len() == width || widest && keyword.text.len() > width) && keyword.leads(text)
    }
}

/// The first eight bytes, the first lowest; zeros behind the end.
#[inline]
fn eight(text: &[u8]) -> u64 {
    if let Some(head) = text.first_chunk::<8>() {
        return u64::from_le_bytes(*head);
    }
    text.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b))
}

/// The bits of a number's lowest bytes.
const fn width_bits(width: usize) -> u32 {
    u32::MAX >> (32 - 8 * width)
}

/// One of sixty-four bits for a number's lowest byte.
fn byte_bit(number: u64) -> u64 {
    1 << (number & 63)
}

/// One of sixty-four bits for a number's two lowest bytes.
fn pair_bit(number: u64) -> u64 {
    1 << (hash(number, 0xffff) >> 26)
}

/// Mixes some bits of a beginning; the highest bits are the best.
fn hash(head: u64, bits: u32) -> u32 {
    (head as u32 & bits).wrapping_mul(0x9e37_79b1)
}

fn slot(hash: u32) -> usize {
    hash as usize >> (32 - SLOTS.trailing_zeros())
}

fn filter_bit(hash: u32) -> usize {
    hash as usize >> (32 - FILTER.trailing_zeros())
}
