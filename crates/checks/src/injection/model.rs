//! A linear model over the features of [`ngrams`]: what attacks have in common beyond the rules.
//!
//! It judges stretches of a text, each two blocks long and half over the next, so that an order in a long document
//! weighs as much as one that stands alone. `scripts/train-injection` makes the weights.

use std::ops::Range;

use crate::injection::disguise::Disguise;
use crate::injection::ngrams::{BITS, BUCKETS, Sink, VERSION, walk};
use crate::scan::hits::Anchor;

/// The model as the script wrote it; see there.
static MODEL: Model = Model::read(include_bytes!("model.bin"));

/// Blocks are this long, in symbols.
pub(crate) const BLOCK: usize = 256;
/// A stretch with no more features than this proves nothing: a name, a number, a word.
const FEW: i64 = 8;
/// One with this many counts in full.
const ENOUGH: i64 = 40;
/// The share of known words in a stretch below which its words prove nothing, and from which on they count in full. What
/// it has of unknown words looks like an attack by chance alone: parts of them, and features that share a number.
const STRANGE: f32 = 0.4;
const FAMILIAR: f32 = 0.7;
/// The more stretches a text has, the likelier one looks like an attack by chance: so many times the logarithm of their
/// number, up to [`MANY`], are taken off.
const BY_CHANCE: f32 = 0.3;
const MANY: u32 = 16;
/// Points of the curve from evidence to score.
const POINTS: usize = 8;
const HEADER: usize = 8 + 4 * 4 + 8 * POINTS;

struct Model {
    weights: &'static [u8; BUCKETS],
    /// The value of one step of a weight.
    scale: f32,
    /// Evidence of a text without any feature.
    bias: f32,
    /// Stands for features that every stretch has: the fewer its own, the less they count.
    ground: f32,
    /// The weight of the evidence of rules.
    rules: f32,
    /// Pairs of evidence and score, both rising.
    curve: [(f32, f32); POINTS],
}

impl Model {
    #[expect(clippy::expect_used, reason = "a wrong file must not compile")]
    const fn read(file: &'static [u8]) -> Self {
        assert!(file.len() == HEADER + BUCKETS, "the file of weights has another size");
        assert!(file[0] == b'S' && file[1] == b'L' && file[2] == b'I' && file[3] == b'M');
        let version = u16::from_le_bytes([file[4], file[5]]);
        assert!(version == VERSION, "the weights are for other features: train again");
        assert!(file[6] as u32 == BITS && file[7] as usize == POINTS);
        let mut curve = [(0.0, 0.0); POINTS];
        let mut point = 0;
        while point < POINTS {
            curve[point] = (float(file, 24 + 8 * point), float(file, 28 + 8 * point));
            point += 1;
        }
        Self {
            weights: file.last_chunk().expect("the size was looked at above"),
            scale: float(file, 8),
            bias: float(file, 12),
            ground: float(file, 16),
            rules: float(file, 20),
            curve,
        }
    }

    /// The weight of a feature, in steps. The lowest bit of its byte is no part of it: see [`Self::knows`].
    #[inline]
    fn weight(&self, index: u32) -> i64 {
        i64::from(self.weights[index as usize % BUCKETS].cast_signed() >> 1)
    }

    /// 1 if several texts that the weights are made from hold this word.
    #[inline]
    fn knows(&self, index: u32) -> i64 {
        i64::from(self.weights[index as usize % BUCKETS] & 1)
    }
}

const fn float(file: &[u8], at: usize) -> f32 {
    f32::from_le_bytes([file[at], file[at + 1], file[at + 2], file[at + 3]])
}

/// The model's judgement of a text.
pub(crate) struct Opinion {
    /// Log odds, of the stretch that speaks most for an attack.
    pub(crate) evidence: f32,
    /// That stretch.
    pub(crate) bytes: Range<usize>,
    /// How much of the text was disguised.
    pub(crate) disguise: Disguise,
}

/// Asks the model. `anchors` are the words of the vocabulary in the text.
pub(crate) fn judge(text: &str, anchors: &[Anchor]) -> Opinion {
    let mut windows = Windows::new();
    let disguise = walk(text, anchors, BLOCK, &mut windows);
    windows.close();
    let by_chance = BY_CHANCE * (windows.stretches.clamp(1, MANY) as f32).ln();
    Opinion { evidence: windows.best - by_chance, bytes: windows.best_bytes, disguise }
}

/// All evidence together.
pub(crate) fn weigh(model: f32, rules: f32) -> f32 {
    model + MODEL.rules * rules
}

/// The score that evidence stands for: what its bands mean is measured on texts that the model has not seen.
pub(crate) fn score(evidence: f32) -> f64 {
    let curve = &MODEL.curve;
    let above = curve.partition_point(|point| point.0 <= evidence);
    if above == 0 {
        return 0.0;
    }
    if above == POINTS {
        return f64::from(curve[POINTS - 1].1);
    }
    let ((x0, y0), (x1, y1)) = (curve[above - 1], curve[above]);
    f64::from(y0 + (y1 - y0) * (evidence - x0) / (x1 - x0))
}

/// The words of a stretch that speak most for an attack, as one run.
pub(crate) fn strongest(text: &str, anchors: &[Anchor], stretch: &Range<usize>) -> Range<usize> {
    let first = anchors.partition_point(|anchor| anchor.start() < stretch.start);
    let inside: Vec<_> = anchors[first..]
        .iter()
        .take_while(|anchor| anchor.start() < stretch.end)
        .map(|anchor| {
            let end = anchor.end().min(stretch.end);
            Anchor::new(anchor.start() - stretch.start, end - stretch.start, anchor.meaning)
        })
        .collect();
    let mut runs = Runs::new();
    walk(&text[stretch.clone()], &inside, usize::MAX, &mut runs);
    stretch.start + runs.best_bytes.start..stretch.start + runs.best_bytes.end
}

/// Sums each feature of two neighbouring blocks once. Sums of weights stand below [`ONE`], numbers of features above.
struct Windows {
    /// For either block a bit for each feature.
    seen: [Seen; 2],
    /// Which of the two is being filled.
    side: usize,
    /// The sums of the block that is being filled, of the one before it, and of the features that both hold.
    filling: i64,
    before: i64,
    shared: i64,
    /// The start of both, and the end of the text read so far.
    filling_start: usize,
    before_start: usize,
    end: usize,
    best: f32,
    best_bytes: Range<usize>,
    /// How many stretches were judged.
    stretches: u32,
}

/// A bit for each feature that a block holds, by the last 16 bits of its number: few enough to stay near the processor,
/// and of the hundred or two of a block hardly two share one. Only the first of those that do counts, in training too.
type Seen = [u64; SEEN];
const SEEN: usize = (1 << 16) / 64;

/// One feature, beside the sum of weights; one word, and one that is known, beside both. A stretch has at most some 260
/// words and some thousand features, so that each stays below the next.
const ONE: i64 = 1 << 32;
const WORD: i64 = ONE << 13;
const KNOWN: i64 = WORD << 9;

/// How much the words of a stretch count by how many of them are known.
fn familiarity(known: i64, words: i64) -> f32 {
    let share = known as f32 / words.max(1) as f32;
    ((share - STRANGE) / (FAMILIAR - STRANGE)).clamp(0.0, 1.0)
}

impl Windows {
    fn new() -> Self {
        Self {
            seen: [[0; SEEN]; 2],
            side: 0,
            filling: 0,
            before: 0,
            shared: 0,
            filling_start: 0,
            before_start: 0,
            end: 0,
            best: MODEL.bias,
            best_bytes: 0..0,
            stretches: 0,
        }
    }

    /// Judges the block that is being filled together with the one before.
    fn close(&mut self) {
        if self.filling == 0 {
            return;
        }
        self.stretches = self.stretches.saturating_add(1);
        let both = self.filling + self.before - self.shared;
        let sum = both as i32;
        let counts = (both - i64::from(sum)) / ONE;
        let (count, words) = (counts % (WORD / ONE), counts / (WORD / ONE) % (KNOWN / WORD));
        let known = counts / (KNOWN / ONE);
        let share = (count - FEW).clamp(0, ENOUGH - FEW) as f32 / (ENOUGH - FEW) as f32;
        let speaks = MODEL.scale * sum as f32 / (count as f32 + MODEL.ground).sqrt();
        let believed = if speaks > 0.0 { familiarity(known, words) } else { 1.0 };
        let evidence = MODEL.bias + share * believed * speaks;
        if evidence > self.best || self.best_bytes.is_empty() {
            self.best = evidence;
            self.best_bytes = self.before_start..self.end;
        }
    }

    /// Takes one feature of a block, with what it counts.
    #[inline]
    fn take(&mut self, index: u32, value: i64) -> bool {
        let (word, bit) = place(index);
        let side = self.side & 1;
        let filling = self.seen[side][word];
        let fresh = !(filling >> bit) & 1;
        let known = self.seen[side ^ 1][word] >> bit & fresh;
        self.seen[side][word] = filling | 1 << bit;
        self.filling += value * fresh as i64;
        self.shared += value * known as i64;
        fresh == 1
    }
}

impl Sink for Windows {
    #[inline]
    fn feature(&mut self, index: u32) -> bool {
        self.take(index, ONE + MODEL.weight(index))
    }

    #[inline]
    fn word(&mut self, index: u32) -> bool {
        self.take(index, ONE + WORD + KNOWN * MODEL.knows(index) + MODEL.weight(index))
    }

    #[inline]
    fn token(&mut self, _: usize, end: usize) {
        self.end = end;
    }

    fn block(&mut self) {
        self.close();
        self.side ^= 1;
        self.seen[self.side].fill(0);
        (self.before, self.filling, self.shared) = (self.filling, 0, 0);
        (self.before_start, self.filling_start) = (self.filling_start, self.end);
    }
}

/// Finds the run of words with the largest sum.
struct Runs {
    seen: Box<Seen>,
    token: i64,
    sum: i64,
    start: usize,
    best: i64,
    best_bytes: Range<usize>,
}

impl Runs {
    fn new() -> Self {
        let seen = Box::new([0; SEEN]);
        Self { seen, token: 0, sum: 0, start: 0, best: 0, best_bytes: 0..0 }
    }
}

impl Sink for Runs {
    fn feature(&mut self, index: u32) -> bool {
        let fresh = first(&mut self.seen, index);
        if fresh {
            self.token += MODEL.weight(index);
        }
        fresh
    }

    fn word(&mut self, index: u32) -> bool {
        self.feature(index)
    }

    fn token(&mut self, start: usize, end: usize) {
        if self.sum <= 0 {
            (self.sum, self.start) = (0, start);
        }
        self.sum += std::mem::take(&mut self.token);
        if self.sum > self.best {
            (self.best, self.best_bytes) = (self.sum, self.start..end);
        }
    }

    fn block(&mut self) {}
}

/// Sets the bit of a feature; returns whether it was not set.
fn first(seen: &mut Seen, index: u32) -> bool {
    let (word, bit) = place(index);
    let fresh = seen[word] >> bit & 1 == 0;
    seen[word] |= 1 << bit;
    fresh
}

/// The word and the bit of a feature.
#[inline]
fn place(index: u32) -> (usize, u32) {
    (index as usize / 64 % SEEN, index % 64)
}

/// The features of a text, for the script that trains the model.
#[derive(Debug, Default)]
pub struct Features {
    /// The features of each block, each once, in their order.
    pub blocks: Vec<Vec<u32>>,
    /// Those of them that are whole words.
    pub words: Vec<Vec<u32>>,
    /// The evidence of the rules, in the same unit as log odds.
    pub rules: f32,
    /// The evidence of the built-in model and the rules together, in log odds.
    pub evidence: f32,
    /// The score that this stands for, without decoded texts.
    pub score: f64,
}

/// Collects the features of each block.
pub(crate) struct Blocks {
    full: Vec<Vec<u32>>,
    open: Vec<u32>,
    full_words: Vec<Vec<u32>>,
    words: Vec<u32>,
    seen: Box<Seen>,
}

impl Blocks {
    /// The features of a text, block by block, and those of them that are whole words.
    pub(crate) fn of(text: &str, anchors: &[Anchor]) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
        let (full, open, seen) = (Vec::new(), Vec::new(), Box::new([0; SEEN]));
        let mut blocks = Self { full, open, full_words: Vec::new(), words: Vec::new(), seen };
        walk(text, anchors, BLOCK, &mut blocks);
        blocks.block();
        (blocks.full, blocks.full_words)
    }
}

impl Sink for Blocks {
    fn feature(&mut self, index: u32) -> bool {
        let fresh = first(&mut self.seen, index);
        if fresh {
            self.open.push(index);
        }
        fresh
    }

    fn word(&mut self, index: u32) -> bool {
        let fresh = self.feature(index);
        if fresh {
            self.words.push(index);
        }
        fresh
    }

    fn token(&mut self, _: usize, _: usize) {}

    fn block(&mut self) {
        let block = std::mem::take(&mut self.open);
        let words = std::mem::take(&mut self.words);
        if !block.is_empty() {
            self.full.push(block);
            self.full_words.push(words);
        }
        self.seen.fill(0);
    }
}
