//! One look over a text: which detectors have anything to look at, and where.
//!
//! Nearly all keywords begin a word, so they are looked up where words begin; those that begin with a sign or in another
//! script, where such characters stand. Only the few that may stand inside words are searched for.

pub(crate) mod hits;
mod index;
pub(crate) mod keywords;
pub(crate) mod runs;
mod table;
use crate::scan::hits::{Anchor, Hit, drop_cut};
use crate::scan::index::{Elsewhere, INDEXES, Index};
use crate::scan::keywords::{Keyword, Meaning};
use crate::scan::runs::Runs;
use crate::text::spans;
use crate::text::words::{self, behind_escape};
use crate::vocabulary::formats::anywhere::BEGINNINGS;
use crate::vocabulary::injection;
pub(crate) use index::Scope;

/// The words and signs in a text, and their positions.
#[derive(Default)]
pub(crate) struct Scan {
    /// Words that give numbers near them a meaning. Ordered by their end.
    pub(crate) contexts: Vec<Hit>,
    /// Beginnings of known credential formats where words begin: place, index of the format. Small, because a text may
    /// be full of them.
    pub(crate) formats: Vec<(u32, u16)>,
    /// Those inside of words.
    pub(crate) glued: Vec<(u32, u16)>,
    /// Names of secrets: start, end. Ordered by their start.
    pub(crate) names: Vec<(u32, u32)>,
    /// Words that injections are made of. Ordered by their place.
    pub(crate) anchors: Vec<Anchor>,
    /// All classes of such words that are anywhere.
    pub(crate) classes: u64,
    /// Which of [`crate::vocabulary::credential_rules::MARKS`] the text holds, in any case, as bits.
    pub(crate) marks: u128,
    /// Whether any run of ASCII without space is [`LONG_RUN`](runs::LONG_RUN): codes and tokens are, words are not.
    pub(crate) long_runs: bool,
    /// The blocks of 64 bytes in which a run of ASCII without space has as many characters as the shortest code. Only where
    /// credentials are looked for.
    pub(crate) dense: Vec<u32>,
}

impl Scan {
    /// Looks a text over.
    pub(crate) fn new(text: &str, scope: Scope) -> Self {
        let index = &INDEXES[scope as usize];
        let text = spans::addressable(text);
        let mut scan = Self::default();
        let mut elsewhere = Vec::new();
        scan.blocks(text, index, &mut elsewhere);
        if let Some(inside) = &index.inside {
            inside.find(text, index, &mut elsewhere);
        }
        elsewhere.sort_unstable();
        for noted in elsewhere {
            let keyword = &index.keywords[usize::from(noted as u16)];
            let end = (noted >> 24) as u32 as usize;
            scan.note(text.as_bytes(), keyword, end - keyword.text.len(), end);
        }
        scan.contexts.sort_unstable_by_key(Hit::end);
        drop_cut(&mut scan.contexts);
        scan.formats.sort_unstable();
        scan.formats.dedup();
        scan.names.sort_unstable();
        scan.anchors.sort_unstable_by_key(|anchor| (anchor.start(), anchor.end()));
        if scan.classes & injection::ORDINARY != 0 {
            scan.leave_out_ordinary();
        }
        scan
    }

    /// Takes out words that mean nothing where they stand, and the phrases that show it.
    fn leave_out_ordinary(&mut self) {
        let is_ordinary = |anchor: &Anchor| anchor.meaning == injection::ORDINARY;
        let phrases = self.anchors.iter().filter(|anchor| is_ordinary(anchor));
        let phrases: Vec<Anchor> = phrases.copied().collect();
        let (mut next, mut reach) = (0, 0);
        self.anchors.retain(|anchor| {
            while let Some(phrase) =
                phrases.get(next).filter(|phrase| phrase.start() <= anchor.start())
            {
                (next, reach) = (next + 1, reach.max(phrase.end()));
            }
            !is_ordinary(anchor) && anchor.end() > reach
        });
        self.classes = self.anchors.iter().fold(0, |bits, anchor| bits | anchor.meaning);
    }

    /// Looks up what begins with a word, a sign or a character of another script.
    fn blocks(&mut self, text: &str, index: &Index, elsewhere: &mut Vec<Elsewhere>) {
        let text = text.as_bytes();
        let (blocks, rest) = text.as_chunks::<64>();
        let mut last = [b' '; 64];
        last[..rest.len()].copy_from_slice(rest);
        let mut runs = Runs::default();
        // Up to where long runs were searched.
        let mut searched = 0;
        let mut inside = 0;
        let mut foreign_inside = 0;
        for (number, block) in blocks.iter().chain((!rest.is_empty()).then_some(&last)).enumerate()
        {
            let base = number * 64;
            let word = words::bits(block, words::is_word);
            let begun = word & !(word << 1 | inside);
            for_each(begun, |bit| {
                let at = base + bit;
                index.words.at(&index.keywords, text, at, |id| {
                    let keyword = &index.keywords[id as usize];
                    self.note(text, keyword, at, at + keyword.text.len());
                });
            });
            if index.any_field {
                for_each(words::bits(block, words::is_inner), |bit| {
                    self.part(text, index, base + bit);
                });
            }
            inside = word >> 63;
            let open = runs.open as usize;
            let (is_long, is_dense) =
                runs.push(words::bits(block, |byte| (byte as i8) > b' ' as i8));
            if is_long && index.formats {
                let from = searched.max(base.saturating_sub(open));
                searched = base + block.len();
                self.inside_run(text, from, searched);
            }
            if is_dense && index.formats {
                self.note_dense(number);
            }
            for_each(words::bits(block, words::is_sign), |bit| {
                let at = base + bit;
                if let Some(signs) = &index.signs {
                    signs.at(&index.keywords, text, at, |id| elsewhere.push(index.order(id, at)));
                }
                if let Some(behind) = behind_escape(text, at) {
                    self.leak_at(text, index, behind);
                }
            });
            if index.formats {
                for_each(begun & words::bits(block, |byte| byte == b'_'), |bit| {
                    self.format_at(text, index, behind_emphasis(text, base + bit));
                });
            }
            let mut foreign = 0;
            if !block.is_ascii() {
                foreign = words::bits(block, |byte| byte >= 0x80);
            }
            if index.formats && foreign | foreign_inside != 0 {
                for_each(word & !foreign & (foreign << 1 | foreign_inside), |bit| {
                    self.format_at(text, index, base + bit);
                });
            }
            foreign_inside = foreign >> 63;
            if foreign != 0 {
                for_each(words::bits(block, |byte| byte >= 0xc0), |bit| {
                    let at = base + bit;
                    let push = |id| elsewhere.push(index.order(id, at));
                    index.foreign.at(&index.keywords, text, at, push);
                });
            }
        }
        self.long_runs = runs.long;
    }

    #[cold]
    fn note_dense(&mut self, block: usize) {
        self.dense.push(block as u32);
    }

    /// Looks up credentials and what names personal data behind an escape, which ends the word before for a reader.
    fn leak_at(&mut self, text: &[u8], index: &Index, at: usize) {
        if !index.formats || at >= text.len() {
            return;
        }
        index.words.at(&index.keywords, text, at, |id| {
            let keyword = &index.keywords[id as usize];
            if matches!(keyword.meaning, Meaning::Format(_) | Meaning::Context(_)) {
                self.note(text, keyword, at, at + keyword.text.len());
            }
        });
    }

    /// Looks up credentials alone, where no word begins but the one before has ended for a reader.
    fn format_at(&mut self, text: &[u8], index: &Index, at: usize) {
        if !index.formats || at >= text.len() {
            return;
        }
        index.words.at(&index.keywords, text, at, |id| {
            if let Meaning::Format(format) = index.keywords[id as usize].meaning {
                self.formats.push((at as u32, format));
            }
        });
    }

    /// Looks up credentials that are glued to the letter, the digit or the `_` in front of them, in a part of a long run:
    /// no credential stands in a shorter one.
    fn inside_run(&mut self, text: &[u8], from: usize, to: usize) {
        BEGINNINGS.find(text, from, to, |at, format| {
            if at > 0 && words::is_name(text[at - 1]) {
                self.glued.push((at as u32, format));
            }
        });
    }

    /// Looks up the names of personal data that begin within a word, behind its `_` or at its hump: `customer_ssn`,
    /// `customerSsn`.
    #[inline]
    fn part(&mut self, text: &[u8], index: &Index, at: usize) {
        let begin = match text[at] {
            b'_' => at + 1,
            _ if words::is_hump(text, at) => at,
            _ => return,
        };
        if begin < text.len() {
            index.words.at(&index.keywords, text, begin, |id| {
                let keyword = &index.keywords[id as usize];
                if keyword.is_field() {
                    self.note(text, keyword, begin, begin + keyword.text.len());
                }
            });
        }
    }

    fn note(&mut self, text: &[u8], keyword: &Keyword, start: usize, end: usize) {
        let ends =
            || keyword.is_field() && (words::parts_after(text, end) || is_plural(text, start, end));
        if keyword.right && !words::free_after(text, end) && !ends() {
            return;
        }
        if keyword.common && !words::is_label(text, start, end) {
            return;
        }
        match keyword.meaning {
            Meaning::Anchor(bit) => {
                let anchor = Anchor::new(start, end, bit);
                spans::push(&mut self.anchors, anchor, end, text.len());
                self.classes |= bit;
            }
            Meaning::Context(context) => {
                spans::push(&mut self.contexts, Hit::new(start, end, context), end, text.len());
            }
            Meaning::Format(index) => {
                spans::push(&mut self.formats, (start as u32, index), end, text.len());
            }
            Meaning::Name => {
                spans::push(&mut self.names, (start as u32, end as u32), end, text.len());
            }
            Meaning::Mark(index) => self.marks |= 1 << index,
        }
    }
}

/// Whether an abbreviation stands for several: `NPIs`.
fn is_plural(text: &[u8], start: usize, end: usize) -> bool {
    text.get(end) == Some(&b's')
        && words::free_after(text, end + 1)
        && text[start..end].iter().all(u8::is_ascii_uppercase)
}

/// Returns the start of the emphasised text behind `_` or `__`.
fn behind_emphasis(text: &[u8], at: usize) -> usize {
    at + text[at..].iter().take(3).take_while(|&&b| b == b'_').count()
}

/// Calls back with the place of each bit, the lowest first.
#[inline]
fn for_each(mut bits: u64, mut call: impl FnMut(usize)) {
    while bits != 0 {
        call(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}
