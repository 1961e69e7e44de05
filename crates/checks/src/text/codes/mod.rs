//! Codes in a text, undone: base64, hexadecimal digits and escapes that turn into readable text.
//!
//! All of it is linear: what is undone in vain is limited to a multiple of the text.

pub(crate) mod charset;
pub(crate) mod decoder;
mod escapes;
mod groups;
pub(crate) mod pieces;
pub(crate) mod runs;
pub(crate) mod view;

use pieces::Pieces;
use view::View;

/// All codes of a text that are longer than an escape, in order and without overlaps. `dense` names the blocks of 64 bytes
/// that may hold runs, in order.
pub(crate) fn pieces(text: &str, dense: impl Iterator<Item = usize>) -> Pieces {
    let mut pieces = Pieces::default();
    if u32::try_from(text.len()).is_err() {
        return pieces;
    }
    runs::find(text.as_bytes(), dense, &mut pieces);
    let runs = pieces.places.len();
    groups::find(text.as_bytes(), &mut pieces);
    if runs > 0 && pieces.places.len() > runs {
        pieces.places.sort_unstable_by_key(|place| (place[0], std::cmp::Reverse(place[1])));
        let mut reached = 0;
        pieces.places.retain(|place| {
            let stands = place[0] >= reached;
            reached = reached.max(place[0] + place[1]);
            stands
        });
    }
    pieces
}

/// A text with everything in it undone, for streams; `None` where nothing is. It may be long: callers bound it.
pub(crate) fn undone(text: &str) -> Option<View<'_>> {
    let blocks = 0..text.len().div_ceil(64);
    view::whole(text, &pieces(text, blocks))
}

/// Returns the start, in an unfinished text, of a code of which more may come: base64 in lines, and digits in groups.
pub(crate) fn open_from(text: &str) -> usize {
    groups::open_from(text.as_bytes()).min(runs::open_from(text.as_bytes()))
}

/// How often each character of a text is read when its runs are undone.
#[cfg(test)]
pub(crate) fn times_read(text: &str) -> usize {
    decoder::work::take();
    let mut pieces = Pieces::default();
    runs::find(text.as_bytes(), 0..text.len().div_ceil(64), &mut pieces);
    decoder::work::take() / text.len()
}
