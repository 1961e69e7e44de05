//! The subject of a prompt, by its words: a capable model is worth its price in some subjects more than
//! in others.
//!
//! `subjects.bin`, for questions with options to choose from, and `kinds.bin`, for all others, written
//! by `train/train.py`, all numbers little-endian: the magic `SLRS`, the version and the logarithm of
//! the number of slots as bytes, the worth of one unit as a 32-bit float, then for each slot the weight
//! of its words, as a signed byte.

use std::iter::successors;

/// Table for questions with options to choose from.
const SUBJECTS: &[u8] = include_bytes!("subjects.bin");
/// Table for all other prompts.
const KINDS: &[u8] = include_bytes!("kinds.bin");
const HEADER: [u8; 6] = [b'S', b'L', b'R', b'S', 1, BITS as u8];
const BITS: u32 = 15;
/// Number of slots that words hash to; words that share one are not distinguished. A word of the
/// training prompts, which have 26,000, shares its slot with less than one other on average.
const PLACES: usize = 1 << BITS;
/// The most that a subject adds to the logit or takes from it: prompts that a table was not fitted to
/// have its words, too. `train.py` measures with the same bound, which costs nothing there.
const MOST_SUBJECT_WEIGHT: f32 = 1.0;

/// The words of a text, by the first eight letters of each. Words of one letter do not count.
#[derive(Clone, Debug)]
pub(crate) struct Words([u64; PLACES / 64]);

impl Default for Words {
    fn default() -> Self {
        Self([0; PLACES / 64])
    }
}

impl Words {
    /// Adds a word by its first letters, as [`letters`](crate::counts::letters) returns them.
    pub(crate) fn add(&mut self, first: u64) {
        if first > 0xff {
            let place = place(first);
            self.0[place / 64] |= 1 << (place % 64);
        }
    }

    /// Returns the slots that are taken, in order.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        let taken = |cell: u64| (cell != 0).then_some(cell);
        self.0.iter().enumerate().flat_map(move |(at, &cell)| {
            successors(taken(cell), move |rest| taken(rest & (rest - 1)))
                .map(move |rest| at * 64 + rest.trailing_zeros() as usize)
        })
    }

    /// Returns the value that the subject adds to the logit; questions with options to choose from have
    /// their own table.
    pub(crate) fn worth(&self, has_options: bool) -> f32 {
        let bytes = if has_options { SUBJECTS } else { KINDS };
        // A build with a broken file passes no test; without a table the subject adds nothing.
        read(bytes).map_or(0.0, |table| table.worth(self))
    }
}

/// Returns the slot of a word. Multiplication by a large odd number spreads words over the upper bits
/// (Knuth, 6.4).
fn place(first: u64) -> usize {
    (first.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS)) as usize
}

struct Table<'a> {
    scale: f32,
    units: &'a [u8; PLACES],
}

impl Table<'_> {
    /// Sums the weights of words, scaled down by the square root of their number, within [`MOST_SUBJECT_WEIGHT`].
    fn worth(&self, words: &Words) -> f32 {
        let unit = |place: usize| i32::from(self.units[place].cast_signed());
        let (count, sum) =
            words.places().fold((0u32, 0i32), |(count, sum), place| (count + 1, sum + unit(place)));
        (self.scale * sum as f32 / (count.max(1) as f32).sqrt())
            .clamp(-MOST_SUBJECT_WEIGHT, MOST_SUBJECT_WEIGHT)
    }
}

/// Reads a table; `None` if the bytes are no table of [`PLACES`] slots.
fn read(bytes: &[u8]) -> Option<Table<'_>> {
    let (scale, units) = bytes.strip_prefix(&HEADER)?.split_first_chunk()?;
    Some(Table { scale: f32::from_le_bytes(*scale), units: units.try_into().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Reading;

    fn words(text: &str) -> Words {
        Reading::of([text.as_bytes(), &[]], |_| {}).said
    }

    #[test]
    fn the_shipped_tables_are_whole() {
        for bytes in [SUBJECTS, KINDS] {
            let table = read(bytes).expect("it is readable");
            let full = |unit: &u8| *unit == 127 || *unit == 129;
            assert!(table.scale > 0.0 && table.units.iter().any(full));
        }
    }

    /// Pins the values that a reader of the files in another language computes. New coefficients change
    /// them.
    #[test]
    fn the_shipped_tables_answer_as_they_were_written() {
        for (text, has_options, expected) in [
            ("", true, 0.0),
            ("", false, 0.0),
            ("Which court may hear an appeal against this judgment?", true, 0.1714),
            ("Which court may hear an appeal against this judgment?", false, -0.1258),
            ("What is the sum of all solutions of this equation?", true, -MOST_SUBJECT_WEIGHT),
            ("What is the sum of all solutions of this equation?", false, -0.2359),
        ] {
            let found = words(text).worth(has_options);
            assert!((found - expected).abs() < 0.001, "{text}: {found}");
        }
    }

    #[test]
    fn broken_tables_are_refused() {
        assert!(read(&SUBJECTS[..SUBJECTS.len() - 1]).is_none());
        assert!(read(&[SUBJECTS, &[0]].concat()).is_none());
        let mut other_version = SUBJECTS.to_vec();
        other_version[4] += 1;
        assert!(read(&other_version).is_none());
    }

    #[test]
    fn a_word_counts_once_wherever_it_stands() {
        let places = |text: &str| words(text).places().collect::<Vec<_>>();
        let once = places("Light bends near heavy stars");
        assert_eq!(once.len(), 5);
        assert!(once.is_sorted());
        assert_eq!(once, places("heavy stars: LIGHT, light bends near a light (b) stars."));
        assert_eq!(places("gravitation"), places("gravitational"), "by their first eight letters");
    }

    #[test]
    fn words_add_up_and_count_for_less_where_there_are_many() {
        let mut units = vec![0; PLACES];
        for (word, unit) in [("light", 100), ("stars", 20), ("bends", -60_i8)] {
            units[words(word).places().next().unwrap()] = unit.cast_unsigned();
        }
        let units = units.as_slice().try_into().unwrap();
        for (scale, text, expected) in [
            (0.01, "stars", 0.2),
            (0.01, "light bends near stars", 0.6 / 2.0),
            (0.01, "", 0.0),
            (1.0, "light", MOST_SUBJECT_WEIGHT),
            (1.0, "bends", -MOST_SUBJECT_WEIGHT),
        ] {
            let found = Table { scale, units }.worth(&words(text));
            assert!((found - expected).abs() < 1e-6, "{text}: {found}");
        }
    }
}
