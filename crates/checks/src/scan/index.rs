//! The keywords of a scope, by where they may begin.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use crate::scan::keywords::{self, Keyword, Meaning, Place};
use crate::scan::table::Table;

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

/// The keywords of a scope, by where they may begin.
pub(super) struct Index {
    pub(super) keywords: Vec<Keyword>,
    pub(super) words: Table<2, 3>,
    pub(super) signs: Option<Table<1, 3>>,
    pub(super) foreign: Table<4, 4>,
    pub(super) inside: Option<Inside>,
    /// Whether credentials are among them.
    pub(super) formats: bool,
    /// Whether any of them may be a part of a field's name.
    pub(super) any_field: bool,
}

/// Keywords that may stand inside words: a search for their beginnings, and those that share each.
pub(super) struct Inside {
    search: AhoCorasick,
    keywords: Vec<Vec<u16>>,
}

/// A keyword that did not begin a word, as a number: whether it is of another script than ASCII, where it ends, how far
/// its length is from the longest, and which it is. In this order such keywords are noted. Small, because a text may be
/// full of them.
pub(super) type Elsewhere = u64;

pub(super) static INDEXES: LazyLock<[Index; 3]> =
    LazyLock::new(|| [Scope::Everything, Scope::Leaks, Scope::Injections].map(Index::new));

impl Index {
    fn new(scope: Scope) -> Self {
        let mut keywords = keywords::all();
        keywords.retain(|keyword| match scope {
            Scope::Everything => true,
            Scope::Leaks => !matches!(keyword.meaning, Meaning::Anchor(_)),
            Scope::Injections => matches!(keyword.meaning, Meaning::Anchor(_)),
        });
        let any_sign = keywords.iter().any(|keyword| keyword.place == Place::Sign);
        Self {
            words: Table::new(&keywords, Place::Word),
            signs: any_sign.then(|| Table::new(&keywords, Place::Sign)),
            foreign: Table::new(&keywords, Place::Foreign),
            inside: Inside::new(&keywords),
            formats: keywords.iter().any(|keyword| matches!(keyword.meaning, Meaning::Format(_))),
            any_field: keywords.iter().any(Keyword::is_field),
            keywords,
        }
    }

    pub(super) fn order(&self, id: u16, at: usize) -> Elsewhere {
        let text = &self.keywords[id as usize].text;
        let (end, length) = ((at + text.len()) as u32, u8::MAX.saturating_sub(text.len() as u8));
        u64::from(!text.is_ascii()) << 56
            | u64::from(end) << 24
            | u64::from(length) << 16
            | u64::from(id)
    }
}

impl Inside {
    fn new(keywords: &[Keyword]) -> Option<Self> {
        let mut texts: Vec<(&[u8], u16)> = keywords
            .iter()
            .enumerate()
            .filter(|(_, keyword)| keyword.place == Place::Inside)
            .map(|(id, keyword)| (&*keyword.text, id as u16))
            .collect();
        texts.sort_unstable();
        // Those that begin with another one are found with it.
        let mut stems: Vec<(&[u8], Vec<u16>)> = Vec::new();
        for (text, id) in texts {
            match stems.last_mut() {
                Some((stem, ids)) if text.starts_with(stem) => ids.push(id),
                _ => stems.push((text, vec![id])),
            }
        }
        // For few patterns in one case, vector instructions look for the beginnings.
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .build(stems.iter().map(|(stem, _)| stem))
            .ok()?;
        let keywords: Vec<Vec<u16>> = stems.into_iter().map(|(_, ids)| ids).collect();
        (!keywords.is_empty()).then_some(Self { search, keywords })
    }

    pub(super) fn find(&self, text: &str, index: &Index, out: &mut Vec<Elsewhere>) {
        let lower = text.to_ascii_lowercase();
        let lower = lower.as_bytes();
        let mut from = 0;
        while let Some(stem) = self.search.find(Input::new(lower).range(from..)) {
            for &id in &self.keywords[stem.pattern().as_usize()] {
                if lower[stem.start()..].starts_with(&index.keywords[id as usize].text) {
                    out.push(index.order(id, stem.start()));
                }
            }
            from = stem.start() + 1;
        }
    }
}
