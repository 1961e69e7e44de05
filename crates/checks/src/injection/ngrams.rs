//! The features of a text: its words, neighbouring words, parts of words, and their classes in the vocabulary, each
//! hashed to a number. The script that trains the model reads them from here, so there is no second way to count them.

use crate::injection::disguise::Disguise;
use crate::injection::tokens::{Kind, LONGEST, Tokens};
use crate::scan::hits::Anchor;

/// Changes whenever a text may get other features; weights name their version.
pub(crate) const VERSION: u16 = 5;
/// A feature is a number of this many bits. The texts that are learned from hold some 700,000 of them; with 16 bits eleven
/// shared a number, which cost 0.01 of the recall at one false alarm in a hundred.
pub(crate) const BITS: u32 = 18;
/// How many features there can be.
pub(crate) const BUCKETS: usize = 1 << BITS;
/// Two classes of words that stand further apart, in bytes, have nothing to do with each other.
const NEIGHBOURS: usize = 80;

/// The kind of feature that a number stands for.
const PART_OF_WORD: u32 = 0x51ed_270b;
const WORD: u32 = 0x2545_f491;
const TWO_WORDS: u32 = 0x9d2c_5680;
const THREE_WORDS: u32 = 0xefc6_0000;
const SIGN: u32 = 0x7feb_352d;
const CLASS: u32 = 0x846c_a68b;
const TWO_CLASSES: u32 = 0x1b87_3593;

/// Takes the features of a text in their order, some of them more than once.
pub(crate) trait Sink {
    /// One feature, below [`BUCKETS`]. Says whether it is new in this block.
    fn feature(&mut self, index: u32) -> bool;
    /// The same for a whole word.
    fn word(&mut self, index: u32) -> bool;
    /// All features since the last call belong to the token in this place.
    fn token(&mut self, start: usize, end: usize);
    /// A block is full.
    fn block(&mut self);
}

/// Gives the features of a text to a sink, a block after so many symbols. `anchors` are the words of the vocabulary,
/// in order.
pub(crate) fn walk(text: &str, anchors: &[Anchor], block: usize, sink: &mut impl Sink) -> Disguise {
    let mut tokens = Tokens::new(text);
    let mut disguise = Disguise::default();
    let mut anchors = Anchors { rest: anchors, last: None };
    let (mut last, mut before) = (0, 0);
    let mut filled = 0;
    while let Some(token) = tokens.read() {
        let symbols = tokens.symbols();
        match token.kind {
            Kind::Sign => {
                sink.feature(index(hash(tokens.padded()), SIGN));
            }
            Kind::Word | Kind::Glyph => {
                disguise.note(&token);
                let word = hash(tokens.padded());
                let fresh = sink.word(index(word, WORD));
                let two = mix(last, word);
                sink.feature(index(two, TWO_WORDS));
                sink.feature(index(mix(before, two), THREE_WORDS));
                (before, last) = (last, word);
                // The parts of a word that was there before were there as well.
                if fresh && symbols.len() > 2 && token.kind == Kind::Word {
                    parts(symbols, sink);
                }
            }
        }
        anchors.until(token.end, sink);
        sink.token(token.start, token.end);
        filled += symbols.len() + 1;
        if filled >= block {
            sink.block();
            filled = 0;
        }
    }
    disguise
}

/// All runs of four symbols of a word, with its borders. Shorter and longer ones beside them find nothing more.
#[inline]
fn parts(symbols: &[u8], sink: &mut impl Sink) {
    const BORDER: u32 = 1;
    let [first, second, rest @ ..] = symbols else { return };
    let mut four = BORDER << 16 | u32::from(*first) << 8 | u32::from(*second);
    for &symbol in rest {
        four = four << 8 | u32::from(symbol);
        sink.feature(index(four, PART_OF_WORD));
    }
    sink.feature(index(four << 8 | BORDER, PART_OF_WORD));
}

/// The words of the vocabulary that are still to come.
struct Anchors<'a> {
    rest: &'a [Anchor],
    last: Option<(usize, u32)>,
}

impl Anchors<'_> {
    /// Gives those that begin before a byte.
    fn until(&mut self, end: usize, sink: &mut impl Sink) {
        while let Some((anchor, rest)) = self.rest.split_first() {
            let start = anchor.start();
            if start >= end {
                return;
            }
            self.rest = rest;
            // The lowest bit is the class.
            let number = anchor.meaning.trailing_zeros() + 1;
            sink.feature(index(number, CLASS));
            if let Some((at, other)) = self.last
                && start.saturating_sub(at) <= NEIGHBOURS
                && other != number
            {
                sink.feature(index(mix(other, number), TWO_CLASSES));
            }
            self.last = Some((anchor.end(), number));
        }
    }
}

#[inline]
fn mix(hash: u32, symbol: u32) -> u32 {
    hash.wrapping_mul(0x0100_4a6f).wrapping_add(symbol) ^ hash >> 15
}

/// All symbols at once.
#[inline]
fn hash(symbols: &[u8; LONGEST]) -> u32 {
    const FACTORS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9];
    let (eights, _) = symbols.as_chunks::<8>();
    let parts = eights.iter().zip(FACTORS);
    let sum = parts.fold(0u64, |sum, (&eight, factor)| {
        sum ^ u64::from_le_bytes(eight).wrapping_mul(factor).rotate_left(23)
    });
    (sum ^ sum >> 32) as u32
}

/// The highest bits are the best mixed.
#[inline]
fn index(hash: u32, kind: u32) -> u32 {
    let once = (hash ^ kind).wrapping_mul(0x9e37_79b1);
    (once ^ once >> 15).wrapping_mul(0x85eb_ca77) >> (32 - BITS)
}
