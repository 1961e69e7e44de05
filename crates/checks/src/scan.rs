//! One pass over a text: which detectors have anything to look at, and where.
//!
//! Nearly all keywords begin a word, so they are looked up where words begin; only those that may stand anywhere go
//! through an automaton, and those of other scripts only in texts that are not all ASCII.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::injection::vocabulary;
use crate::pii::context::{self, Context};
use crate::secrets::{assigned, formats};
use crate::words;

/// Slots of the table of word beginnings; a power of two.
const SLOTS: usize = 1 << 12;
/// Sets the bit in which letters differ by case, in eight bytes at once.
const CASELESS: u64 = 0x2020_2020_2020_2020;

/// What a keyword speaks for.
#[derive(Clone, Copy)]
enum Meaning {
    /// Gives a number or a name near it a meaning.
    Context(Context),
    /// Index into [`formats::FORMATS`].
    Format(u16),
    /// The name of something secret.
    Name,
    /// A class of words that injections are made of, as a bit.
    Anchor(u64),
}

struct Keyword {
    /// Lower-case.
    text: Box<[u8]>,
    meaning: Meaning,
    /// Whether a word must begin with it.
    left: bool,
    /// Whether the word must end with it.
    right: bool,
}

/// Where the keywords of a text stand.
#[derive(Default)]
pub(crate) struct Scan {
    /// Words that give numbers near them a meaning: start, end, which. Ordered by their end.
    pub(crate) contexts: Vec<(usize, usize, Context)>,
    /// Beginnings of known credential formats: place, index of the format.
    pub(crate) formats: Vec<(usize, u16)>,
    /// Names of secrets: start, end. Ordered by their start.
    pub(crate) names: Vec<(usize, usize)>,
    /// Words that injections are made of: start, end, the class as a bit.
    pub(crate) anchors: Vec<(usize, usize, u64)>,
}

/// Which keywords to look for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of them.
    Everything,
    /// Not those of injections.
    Leaks,
    /// Only those of injections.
    Injections,
}

struct Index {
    keywords: Vec<Keyword>,
    /// For each slot, where its keywords stand in `order`: by their first three bytes, shorter ones by two.
    slots: Vec<(u16, u16)>,
    order: Vec<Entry>,
    /// A bit for each pair of bytes that some keyword begins with.
    pairs: Vec<u64>,
    /// Keywords that may stand anywhere: ASCII, then others.
    anywhere: [(Option<AhoCorasick>, Vec<u16>); 2],
}

/// A keyword in a slot, with its first eight bytes at hand: most are refused without a look at the keyword itself.
struct Entry {
    head: u64,
    mask: u64,
    id: u16,
}

/// Whether each byte may be part of a word.
static WORD: [bool; 256] = {
    let mut out = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        out[byte] = words::is_word(byte as u8);
        byte += 1;
    }
    out
};

static INDEX: LazyLock<Index> = LazyLock::new(Index::new);

impl Scan {
    /// Looks a text over.
    pub(crate) fn new(text: &str, scope: Scope) -> Self {
        let index = &*INDEX;
        let mut scan = Self::default();
        let bytes = text.as_bytes();
        let mut inside = 0;
        for (block, chunk) in bytes.chunks(64).enumerate() {
            // One bit for each byte: free of branches, so that word borders cost nothing to guess.
            let word =
                chunk.iter().rev().fold(0u64, |bits, &b| bits << 1 | u64::from(WORD[b as usize]));
            let mut starts = word & !(word << 1 | inside);
            inside = word >> 63;
            while starts != 0 {
                let at = block * 64 + starts.trailing_zeros() as usize;
                starts &= starts - 1;
                index.words_at(bytes, at, |keyword, end| scan.note(bytes, keyword, at, end, scope));
            }
        }
        let automata = if text.is_ascii() { &index.anywhere[..1] } else { &index.anywhere[..] };
        for (automaton, ids) in automata {
            for found in automaton.iter().flat_map(|a| a.find_overlapping_iter(text)) {
                let keyword = &index.keywords[ids[found.pattern().as_usize()] as usize];
                scan.note(bytes, keyword, found.start(), found.end(), scope);
            }
        }
        scan.contexts.sort_unstable_by_key(|hit| hit.1);
        scan.formats.sort_unstable();
        scan.names.sort_unstable();
        scan
    }

    fn note(&mut self, text: &[u8], keyword: &Keyword, start: usize, end: usize, scope: Scope) {
        if keyword.right && !words::free_after(text, end) {
            return;
        }
        match keyword.meaning {
            Meaning::Anchor(bit) if scope != Scope::Leaks => self.anchors.push((start, end, bit)),
            Meaning::Context(context) if scope != Scope::Injections => {
                self.contexts.push((start, end, context));
            }
            Meaning::Format(index) if scope != Scope::Injections => {
                self.formats.push((start, index));
            }
            Meaning::Name if scope != Scope::Injections => self.names.push((start, end)),
            _ => {}
        }
    }
}

impl Index {
    fn new() -> Self {
        let keywords = keywords();
        let mut filled: Vec<Vec<u16>> = vec![Vec::new(); SLOTS];
        let mut pairs = vec![0u64; 1024];
        let mut anywhere = [Vec::new(), Vec::new()];
        for (id, keyword) in keywords.iter().enumerate() {
            if keyword.left {
                let pair = ((eight(&keyword.text) | CASELESS) & 0xffff) as usize;
                pairs[pair / 64] |= 1 << (pair % 64);
                filled[slot(eight(&keyword.text) | CASELESS, keyword.text.len().min(3))]
                    .push(id as u16);
            } else {
                anywhere[usize::from(!keyword.text.is_ascii())].push(id as u16);
            }
        }
        let mut order = Vec::with_capacity(keywords.len());
        let mut slots = Vec::with_capacity(SLOTS);
        for ids in filled {
            slots.push((order.len() as u16, ids.len() as u16));
            order.extend(ids.into_iter().map(|id| {
                let text = &keywords[id as usize].text;
                let mask = if text.len() >= 8 { u64::MAX } else { (1 << (text.len() * 8)) - 1 };
                Entry { head: (eight(text) | CASELESS) & mask, mask, id }
            }));
        }
        let anywhere = anywhere.map(|ids| {
            let automaton = AhoCorasick::builder()
                .ascii_case_insensitive(true)
                .match_kind(MatchKind::Standard)
                .kind(Some(AhoCorasickKind::DFA))
                .build(ids.iter().map(|&id| &*keywords[id as usize].text));
            (automaton.ok(), ids)
        });
        Self { keywords, slots, order, pairs, anywhere }
    }

    /// Calls back for each keyword that stands at a place where a word begins.
    fn words_at<'k>(&'k self, text: &[u8], at: usize, mut found: impl FnMut(&'k Keyword, usize)) {
        let rest = &text[at..];
        let seen = eight(rest) | CASELESS;
        let pair = (seen & 0xffff) as usize;
        if self.pairs[pair / 64] >> (pair % 64) & 1 == 0 {
            return;
        }
        self.slot_at::<2>(rest, seen, at, &mut found);
        self.slot_at::<3>(rest, seen, at, &mut found);
    }

    fn slot_at<'k, const LENGTH: usize>(
        &'k self,
        rest: &[u8],
        seen: u64,
        at: usize,
        found: &mut impl FnMut(&'k Keyword, usize),
    ) {
        let (first, count) = self.slots[slot(seen, LENGTH)];
        for entry in &self.order[first as usize..(first + count) as usize] {
            if seen & entry.mask != entry.head {
                continue;
            }
            let keyword = &self.keywords[entry.id as usize];
            let width = keyword.text.len();
            let same = || rest.get(..width).is_some_and(|t| t.eq_ignore_ascii_case(&keyword.text));
            if width.min(3) == LENGTH && same() {
                found(keyword, at + width);
            }
        }
    }
}

/// The first eight bytes, the first lowest; zeros behind the end.
fn eight(text: &[u8]) -> u64 {
    if let Some(head) = text.first_chunk::<8>() {
        return u64::from_le_bytes(*head);
    }
    text.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b))
}

/// The slot of a caseless beginning, by its first bytes.
fn slot(head: u64, length: usize) -> usize {
    let key = head as u32 & if length == 2 { 0xffff } else { 0x00ff_ffff };
    (key.wrapping_mul(0x9e37_79b1) >> 20) as usize
}

fn keywords() -> Vec<Keyword> {
    let mut out = Vec::new();
    for (index, format) in formats::FORMATS.iter().enumerate() {
        let text = format.prefix.to_ascii_lowercase().into_bytes().into();
        out.push(Keyword {
            text,
            meaning: Meaning::Format(index as u16),
            left: true,
            right: false,
        });
    }
    for (context, texts) in context::WORDS {
        out.extend(texts.iter().map(|text| keyword(text, Meaning::Context(*context))));
    }
    out.extend(assigned::NAMES.iter().map(|name| keyword(name, Meaning::Name)));
    for (bit, texts) in vocabulary::CLASSES {
        out.extend(texts.iter().map(|text| keyword(text, Meaning::Anchor(*bit))));
    }
    out
}

/// Reads the notation of the word lists: `~` in front for a keyword that may stand inside a word, `$` behind for one that
/// ends its word. Punctuation and scripts written without spaces know no beginning of a word.
fn keyword(notation: &str, meaning: Meaning) -> Keyword {
    let bare = notation.strip_prefix('~').unwrap_or(notation);
    let (bare, right) = bare.strip_suffix('$').map_or((bare, false), |b| (b, true));
    let left = notation.starts_with(|c: char| c.is_ascii_alphanumeric()) && bare.len() > 1;
    Keyword { text: bare.to_ascii_lowercase().into_bytes().into(), meaning, left, right }
}
