//! All keywords of all detectors, and tables that tell which of them begin at a place.

use crate::pii::context;
use crate::pii::context::Context;
use crate::secrets::structured;
use crate::text::words;
use crate::vocabulary::credential_rules::Seek;
use crate::vocabulary::injection;
use crate::vocabulary::{formats, secret_names};

/// Slots of a table; a power of two.
const SLOTS: usize = 1 << 13;
/// Bits of a table's filter; a power of two. Few enough to stay in the fastest cache.
const FILTER: usize = 1 << 15;
/// Sets the bit in which letters differ by case, in eight bytes at once.
const CASELESS: u64 = 0x2020_2020_2020_2020;

/// The meaning of a keyword.
#[derive(Clone, Copy)]
pub(crate) enum Meaning {
    /// Gives a number or a name near it a meaning.
    Context(Context),
    /// The first of those of [`formats::all`] that begin alike.
    Format(u16),
    /// The name of something secret.
    Name,
    /// A class of words that injections are made of, as a bit.
    Anchor(u64),
    /// Index into [`structured::MARKS`].
    Mark(usize),
}

/// The position at which a keyword may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The beginning of a word.
    Word,
    /// Anywhere.
    Inside,
    /// Anywhere, and its first byte is a sign ([`words::is_sign`]).
    Sign,
    /// Anywhere, and its first character is not of ASCII.
    Foreign,
}

/// A word, or the beginning of one, that makes some detector look.
pub(crate) struct Keyword {
    /// Lower-case.
    pub(crate) text: Box<[u8]>,
    pub(crate) meaning: Meaning,
    pub(crate) place: Place,
    /// Whether the word must end with it.
    pub(crate) right: bool,
    /// Whether it is a common word, too: what is meant here is written in capitals, or as a label.
    pub(crate) common: bool,
}

/// All of them.
pub(crate) fn all() -> Vec<Keyword> {
    let mut out = Vec::new();
    for (index, format) in formats::beginnings() {
        let text = format.prefix.to_ascii_lowercase().into_bytes().into();
        let meaning = Meaning::Format(index);
        out.push(Keyword { text, meaning, place: Place::Word, right: false, common: false });
    }
    for (context, texts) in context::WORDS {
        for text in *texts {
            let meaning = Meaning::Context(*context);
            out.push(Keyword::read(text, meaning));
            // Names of fields write "date of birth" as `date_of_birth`, `date-of-birth` and `dateOfBirth`.
            if context.names_field() && text.is_ascii() && text.contains(' ') {
                let joined = ["_", "-", ""].map(|joint| text.replace(' ', joint));
                out.extend(joined.iter().map(|text| Keyword::read(text, meaning)));
            }
        }
    }
    out.extend(secret_names::all().map(|name| Keyword::read(name, Meaning::Name)));
    for (bit, texts) in injection::CLASSES {
        out.extend(texts.iter().map(|text| Keyword::read(text, Meaning::Anchor(*bit))));
    }
    for (index, mark) in structured::MARKS.iter().enumerate() {
        let place = match structured::seek(index) {
            Seek::Anywhere => Place::Inside,
            Seek::Word => Place::Word,
            Seek::Run => continue,
        };
        let text = mark.to_ascii_lowercase().into_bytes().into();
        let meaning = Meaning::Mark(index);
        out.push(Keyword { text, meaning, place, right: false, common: false });
    }
    out
}

/// Returns the detectors' vocabulary as a text would write it: for the benchmark, which searches for the dearest text.
#[doc(hidden)]
pub fn search_vocabulary() -> Vec<String> {
    let prefixes = formats::all().map(|format| format.prefix.to_owned());
    let marks = structured::MARKS.iter().map(|mark| (*mark).to_owned());
    let words =
        all().into_iter().map(|keyword| String::from_utf8_lossy(&keyword.text).into_owned());
    prefixes.chain(marks).chain(words).collect()
}

impl Keyword {
    /// Reads the notation of the word lists: `~` in front for a keyword that may stand inside a word, `$` behind for one
    /// that ends its word, `!` for such a one that is a common word. Punctuation and scripts written without spaces know
    /// no beginning of a word.
    fn read(notation: &str, meaning: Meaning) -> Self {
        let bare = notation.strip_prefix('~').unwrap_or(notation);
        let (bare, common) = bare.strip_suffix('!').map_or((bare, false), |b| (b, true));
        let (bare, right) = bare.strip_suffix('$').map_or((bare, common), |b| (b, true));
        let text: Box<[u8]> = bare.to_ascii_lowercase().into_bytes().into();
        let place = match text.first() {
            Some(0x80..) => Place::Foreign,
            Some(&first) if words::is_sign(first) => Place::Sign,
            _ if notation.starts_with('~') => Place::Inside,
            _ => Place::Word,
        };
        Self { text, meaning, place, right, common }
    }

    /// Whether names of fields hold it as one of their parts.
    pub(crate) fn is_field(&self) -> bool {
        matches!(self.meaning, Meaning::Context(context) if context.names_field())
    }

    /// Whether a text begins with it, in any case.
    fn leads(&self, text: &[u8]) -> bool {
        text.get(..self.text.len())
            .is_some_and(|t| *t == *self.text || t.eq_ignore_ascii_case(&self.text))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_where_it_may_stand() {
        for keyword in all() {
            let first = keyword.text[0];
            let fits = match keyword.place {
                // The search for them takes at least three bytes.
                Place::Inside => keyword.text.len() >= 3,
                Place::Word => first.is_ascii_alphanumeric() && keyword.text.len() >= 2,
                Place::Sign => words::is_sign(first),
                Place::Foreign => first >= 0xc0 && keyword.text.len() >= 4,
            };
            assert!(fits, "{}", String::from_utf8_lossy(&keyword.text));
        }
    }
}
