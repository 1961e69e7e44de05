//! The results of a scan: words with a meaning, and their places.

use crate::text::spans::Span;
use crate::vocabulary::contexts::Context;

/// A word with a meaning.
pub(crate) type Hit = Span<Context>;

/// A word of the vocabulary in a text, with its classes as bits.
pub(crate) type Anchor = Span<u64>;

/// No word is longer.
const LONGEST: usize = 40;

/// Drops a word for a social security number where it runs into a longer word, and is a part of that: "my social" of
/// "my social insurance".
pub(crate) fn drop_cut(hits: &mut Vec<Hit>) {
    let is_cut = |at: &usize| {
        let hit = &hits[*at];
        let (start, end) = (hit.start(), hit.end());
        hit.meaning == Context::Ssn
            && hits[at + 1..].iter().take_while(|next| next.end() < end + LONGEST).any(|next| {
                start < next.start()
                    && next.start() < end
                    && end < next.end()
                    && next.len() > hit.len()
                    && next.meaning != hit.meaning
            })
    };
    let cut: Vec<usize> = (0..hits.len()).filter(is_cut).collect();
    let (mut cut, mut at) = (cut.into_iter().peekable(), 0..);
    if cut.peek().is_some() {
        hits.retain(|_| cut.next_if(|next| Some(*next) == at.next()).is_none());
    }
}
