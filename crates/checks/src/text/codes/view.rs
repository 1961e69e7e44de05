//! A text with its codes undone, in windows: what stands near a code, and which part of the text each part came from.

use std::ops::Range;

use crate::text::codes::escapes::{self, Escape};
use crate::text::codes::pieces::Pieces;
use crate::text::spans;
use crate::text::words::{ceil, floor, is_name};

/// How much of the text in front of a code is read with it, and behind it. A word that names a value stands nearer.
const BEFORE: usize = 160;
const BEHIND: usize = 64;
/// A window is judged when it has so many bytes; the last of them are judged with what follows as well.
const WINDOW: usize = 32 * 1024;
const OVERLAP: usize = 4 * 1024;
/// Stands between parts of a window that are apart in the text.
const BORDER: &str = "\n\n----\n\n";

/// A part of a window. Small: a window may be nothing but escapes, each of which is one.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// The start in the window.
    at: u32,
    /// The start and the end in the source.
    from: u32,
    to: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// As it stands in the source.
    Plain,
    /// A character that was an escape.
    Escape,
    /// The text of a longer code.
    Run,
    Border,
}

/// A window.
#[derive(Debug)]
pub(crate) struct View<'t> {
    source: &'t str,
    text: String,
    spans: Vec<Span>,
}

impl<'t> View<'t> {
    fn new(source: &'t str) -> Self {
        Self { source, text: String::new(), spans: Vec::new() }
    }

    /// Returns the text to judge.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the source of a range of the window, and whether any of it was a code longer than an escape; `None`
    /// if no part of it was a code, or if it reaches over parts that are apart in the text.
    pub(crate) fn source(&self, range: Range<usize>) -> Option<(Range<usize>, bool)> {
        if range.is_empty() {
            return None;
        }
        let (first, last) = (self.span(range.start), self.span(range.end - 1));
        let spans = self.spans.get(first..=last)?;
        let has = |kind: Kind| spans.iter().any(|span| span.kind == kind);
        let is_run = has(Kind::Run);
        if has(Kind::Border) || !is_run && !has(Kind::Escape) {
            return None;
        }
        let start = self.place(first, range.start).start;
        Some((start..self.place(last, range.end - 1).end, is_run))
    }

    /// Returns the start in the source of the part at `at` in the window. For streams.
    pub(crate) fn begin(&self, at: usize) -> usize {
        if self.spans.is_empty() || at >= self.text.len() {
            return self.source.len();
        }
        self.place(self.span(at), at).start
    }

    fn span(&self, at: usize) -> usize {
        self.spans.partition_point(|span| span.at as usize <= at).saturating_sub(1)
    }

    /// Returns the range in the source that a byte of a span is a part of.
    fn place(&self, span: usize, at: usize) -> Range<usize> {
        let span = &self.spans[span];
        if span.kind != Kind::Plain {
            return span.from as usize..span.to as usize;
        }
        let start = floor(self.source, span.from as usize + (at - span.at as usize));
        start..ceil(self.source, start + 1)
    }

    fn push(&mut self, kind: Kind, source: Range<usize>, text: &str) {
        if !text.is_empty() {
            let [at, from, to] =
                [self.text.len(), source.start, source.end].map(|place| place as u32);
            self.spans.push(Span { at, from, to, kind });
            self.text.push_str(text);
        }
    }

    fn plain(&mut self, range: Range<usize>) {
        self.push(Kind::Plain, range.clone(), &self.source[range]);
    }

    /// Lets go of what needs not be judged again with what follows.
    fn keep_end(&mut self) {
        let from = floor(&self.text, self.text.len().saturating_sub(OVERLAP));
        let first = self.span(from);
        self.spans.drain(..first);
        let cut = from as u32;
        for span in &mut self.spans {
            if span.at < cut && span.kind == Kind::Plain {
                span.from += cut - span.at;
            }
            span.at = span.at.saturating_sub(cut);
        }
        self.text.drain(..from);
    }
}

/// Builds windows.
struct Builder<'t, F> {
    view: View<'t>,
    /// How far the source is read.
    done: usize,
    reach: (usize, usize),
    /// Whether anything was undone since the window was judged last.
    is_new: bool,
    judge: F,
}

impl<'t, F: FnMut(&View<'t>)> Builder<'t, F> {
    fn new(source: &'t str, reach: (usize, usize), judge: F) -> Self {
        let source = spans::addressable(source);
        Self { view: View::new(source), done: 0, reach, is_new: false, judge }
    }

    /// Adds a code, with what stands in front of it.
    fn add(&mut self, kind: Kind, source: Range<usize>, text: &str) {
        self.lead(source.start);
        if kind == Kind::Run && self.view.source[..source.start].ends_with(is_part) {
            // The code begins within a word, its text does not.
            self.view.push(kind, source.clone(), " ");
        }
        let mut rest = text;
        while !rest.is_empty() {
            let (part, further) = rest.split_at(ceil(rest, rest.len().min(WINDOW)));
            self.view.push(kind, source.clone(), part);
            (rest, self.is_new) = (further, true);
            if self.view.text.len() >= WINDOW {
                self.judge();
                self.view.keep_end();
            }
        }
        self.done = source.end;
    }

    /// Adds what stands between the last code and the next one.
    fn lead(&mut self, next: usize) {
        let text = self.view.source;
        let (before, behind) = self.reach;
        let gap = next - self.done;
        if self.view.spans.is_empty() {
            self.view.plain(word(text, next.saturating_sub(before).max(self.done))..next);
        } else if gap <= before.saturating_add(behind) {
            self.view.plain(self.done..next);
        } else {
            self.tail();
            self.view.push(Kind::Border, self.done..self.done, BORDER);
            self.view.plain(word(text, next - before)..next);
        }
    }

    /// Adds what stands behind the last code.
    fn tail(&mut self) {
        let text = self.view.source;
        let end = ceil(text, text.len().min(self.done.saturating_add(self.reach.1)));
        self.view.plain(self.done..end);
        self.done = end;
    }

    fn judge(&mut self) {
        if std::mem::take(&mut self.is_new) {
            (self.judge)(&self.view);
        }
    }

    /// Reads the codes of a text, in their order.
    fn read(&mut self, pieces: &Pieces) {
        let bytes = self.view.source.as_bytes();
        let mut pieces = pieces.iter().peekable();
        for at in memchr::memchr3_iter(b'%', b'\\', b'&', bytes) {
            while let Some((place, text)) = pieces.next_if(|(place, _)| place.start <= at) {
                self.run(place, text);
            }
            if at < self.done {
                continue;
            }
            if let Some(escape) = escapes::read(&bytes[at..]).filter(|e| self.counts(e, at)) {
                let end = at + escape.length;
                if let Some((place, text)) = pieces.next_if(|(place, _)| place.start < end) {
                    // The announcement of a code reads as an escape with its first digits.
                    self.run(at..place.end, text);
                    continue;
                }
                let value = escape.value;
                self.add(Kind::Escape, at..at + escape.length, value.encode_utf8(&mut [0; 4]));
            }
        }
        pieces.for_each(|(place, text)| self.run(place, text));
    }

    fn run(&mut self, place: Range<usize>, text: &str) {
        if place.start >= self.done {
            self.add(Kind::Run, place, text);
        }
    }

    /// Whether an escape is to be undone: those that pages are full of only near others and between digits.
    fn counts(&self, escape: &Escape, at: usize) -> bool {
        let bytes = self.view.source.as_bytes();
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let is_near = || !self.view.spans.is_empty() && at - self.done <= self.reach.1;
        let is_between = || at > 0 && is_digit(at - 1) && is_digit(at + escape.length);
        !escape.is_common || is_near() || is_between()
    }
}

/// Whether a character may be part of a name in code.
fn is_part(c: char) -> bool {
    u8::try_from(c).is_ok_and(is_name)
}

/// The beginning of a word near a place, at it or behind it.
fn word(text: &str, at: usize) -> usize {
    let at = ceil(text, at);
    if at == 0 || text.as_bytes()[at - 1].is_ascii_whitespace() {
        return at;
    }
    let space = text.as_bytes()[at..].iter().take(BEFORE / 2).position(u8::is_ascii_whitespace);
    space.map_or(at, |space| at + space)
}

/// Calls back with windows in which all codes of a text stand as what they stand for.
pub(crate) fn windows<'t>(text: &'t str, pieces: &Pieces, judge: impl FnMut(&View<'t>)) {
    let mut builder = Builder::new(text, (BEFORE, BEHIND), judge);
    builder.read(pieces);
    if builder.is_new {
        builder.tail();
        builder.judge();
    }
}

/// All of a text in one window, or nothing where it has no codes.
pub(super) fn whole<'t>(text: &'t str, pieces: &Pieces) -> Option<View<'t>> {
    let mut builder = Builder::new(text, (usize::MAX, usize::MAX), |_: &View<'_>| {});
    builder.read(pieces);
    if builder.view.spans.is_empty() {
        return None;
    }
    builder.tail();
    Some(builder.view)
}
