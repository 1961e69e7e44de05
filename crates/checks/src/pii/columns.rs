//! Tables: the heading of a column names the cells under it.

use std::ops::Range;

use crate::pii::view::{Cell, View};
use crate::scan::hits::Hit;
use crate::text::spans;
use crate::text::words::{is_name, is_one_of};
use crate::vocabulary::contexts::Context;

/// How far behind the beginning of the headings a cell may end: in a stream, nothing further back is sure to be known.
const REACH: usize = 440;
/// The longest heading.
const HEADING: usize = 40;
/// Signs that separate cells.
const SEPARATORS: &[u8] = b",;\t|";
/// Words that may follow the word in a heading that names the contents of its cells.
#[rustfmt::skip]
const SMALL: &[&str] = &[
    "number", "numbers", "no", "nr", "num", "nummer", "numero", "número", "numéro", "id", "code", "date", "day", "s", "of",
    "n", "mobile", "home", "work", "cell", "primary",
];

/// All cells under headings that name them, in order.
pub(super) fn cells(text: &str, hits: &[Hit]) -> Vec<Cell> {
    let text = spans::addressable(text);
    let (mut out, mut done) = (Vec::new(), 0);
    if hits.is_empty() || memchr::memchr(b'\n', text.as_bytes()).is_none() {
        return out;
    }
    let mut sign = 0;
    for (index, hit) in hits.iter().enumerate() {
        if hit.start() < done || !hit.meaning.names_field() {
            continue;
        }
        // Looked for once, however many words stand in front of it.
        if sign < hit.end() {
            sign = next_sign(text.as_bytes(), hit.end());
        }
        let ends_cell = text.as_bytes().get(sign).is_some_and(|b| is_end(*b));
        if !ends_cell || sign - hit.end() > HEADING {
            continue;
        }
        let Some(table) = Table::at(text, hit) else { continue };
        let is_of_line = |hit: &&Hit| hit.start() >= table.start && hit.end() <= table.rows;
        let headings = hits[index..].iter().take_while(|hit| hit.end() <= table.rows);
        let headings = headings.filter(is_of_line).filter_map(|hit| table.heading(text, hit));
        done = table.read(text.as_bytes(), &headings.collect::<Vec<_>>(), &mut out);
    }
    out.sort_unstable_by_key(Cell::start);
    out
}

/// Whether a value fills a cell under a heading of this meaning.
pub(super) fn name(view: &View<'_>, context: Context, start: usize, end: usize) -> bool {
    let from = view.cells.partition_point(|cell| cell.start() < start);
    let here = view.cells[from..].iter().take_while(|cell| cell.start() == start);
    here.into_iter().any(|cell| cell.end() == end && cell.meaning == context)
}

/// Returns the position of the first byte from `from` that does not continue a heading.
fn next_sign(bytes: &[u8], from: usize) -> usize {
    let goes_on = |b: &u8| is_name(*b) || *b >= 0x80 || b" \"'-#.".contains(b);
    from + bytes[from..].iter().take_while(|b| goes_on(b)).count()
}

/// Whether a cell ends with a byte.
fn is_end(byte: u8) -> bool {
    SEPARATORS.contains(&byte) || matches!(byte, b'\r' | b'\n')
}

/// A line of headings.
struct Table {
    start: usize,
    /// Start of the line behind it.
    rows: usize,
    separator: u8,
    /// How many of them the line has.
    columns: usize,
}

impl Table {
    /// The line that a word is in, if it may be one of headings.
    fn at(text: &str, hit: &Hit) -> Option<Self> {
        let Range { start, end } = hit.range();
        let bytes = text.as_bytes();
        let near = start.saturating_sub(REACH);
        let line = memchr::memrchr(b'\n', &bytes[near..start]);
        let begin = line.map_or(near, |at| near + at + 1);
        let until = bytes.len().min(begin + REACH);
        let rows = end + memchr::memchr(b'\n', bytes.get(end..until)?)? + 1;
        if line.is_none() && near > 0 {
            return None;
        }
        let is_separator = |b: &&u8| SEPARATORS.contains(b);
        let separator = *bytes[end..rows]
            .iter()
            .find(is_separator)
            .or_else(|| bytes[begin..start].iter().rev().find(is_separator))?;
        let columns = memchr::memchr_iter(separator, &bytes[begin..rows]).count();
        Some(Self { start: begin, rows, separator, columns })
    }

    /// The column of a word that is its heading, and what it means.
    fn heading(&self, text: &str, hit: &Hit) -> Option<(usize, Context)> {
        let (Range { start, end }, context) = (hit.range(), hit.meaning);
        let separator = char::from(self.separator);
        let behind = text[end..self.rows].split([separator, '\n']).next().unwrap_or_default();
        // The rest of the word itself: "phones".
        let behind = behind.trim_start_matches(char::is_lowercase);
        let before = &text[self.start..start];
        let lead = before.rsplit(separator).next().unwrap_or_default();
        let is_small =
            |word: &str| word.bytes().all(|b| b.is_ascii_digit()) || is_one_of(word, SMALL);
        let words = |text: &str| {
            text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).count()
        };
        let fits = context.names_field()
            && lead.len() + behind.len() < HEADING
            && words(lead) <= 3
            && !lead.contains([':', '=', '(', '{'])
            && behind.split(|c: char| !c.is_alphanumeric()).all(is_small);
        fits.then(|| (before.matches(separator).count(), context))
    }

    /// Reads the cells under headings, up to a line of other columns; returns where it stopped.
    fn read(&self, bytes: &[u8], headings: &[(usize, Context)], out: &mut Vec<Cell>) -> usize {
        let limit = bytes.len().min(self.start + REACH);
        let mut at = self.rows;
        while at < limit {
            let (mut column, mut quoted, mut from) = (0, false, at);
            loop {
                let sign = bytes.get(at);
                let ends = sign.is_none_or(|&b| b == b'\n');
                if ends || sign == Some(&self.separator) && !quoted {
                    let cell = trim(bytes, from..at);
                    let named = headings.iter().filter(|heading| heading.0 == column);
                    if !cell.is_empty() && cell.end <= limit {
                        named.for_each(|heading| {
                            let cell = Cell::new(cell.start, cell.end, heading.1);
                            spans::push(out, cell, at, bytes.len());
                        });
                    }
                    (column, from) = (column + 1, at + 1);
                }
                if ends || at >= limit {
                    break;
                }
                quoted ^= sign == Some(&b'"');
                at += 1;
            }
            at += 1;
            if column != self.columns + 1 {
                break;
            }
        }
        at
    }
}

fn trim(bytes: &[u8], cell: Range<usize>) -> Range<usize> {
    let is_around = |b: &u8| b" \"'`\r".contains(b);
    let front = bytes[cell.clone()].iter().take_while(|b| is_around(b)).count();
    let start = cell.start + front;
    let back = bytes[start..cell.end].iter().rev().take_while(|b| is_around(b)).count();
    start..cell.end - back
}
