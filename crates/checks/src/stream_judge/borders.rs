//! The places at which an unfinished text may be cut.

/// The places at which a text may be cut: no value without white space reaches over one. They are behind white space,
/// behind a quote, and between characters of scripts that put no space between words, unless an address has begun.
#[derive(Debug, Default)]
pub(super) struct Borders {
    /// The last one.
    pub(super) last: usize,
    /// How far the text was looked at.
    seen: usize,
    /// Whether a quote of another kind stands behind the last one: what it opens may hold the usual ones.
    quoted: bool,
    /// Whether a sign stands behind the last one that addresses have.
    addressed: bool,
}

impl Borders {
    /// Looks at what is new of a text; returns whether there is a border in it.
    pub(super) fn follow(&mut self, text: &str) -> bool {
        let known = self.last;
        for (at, c) in text[self.seen..].char_indices() {
            if self.is_behind(c) {
                self.last = self.seen + at + c.len_utf8();
                (self.quoted, self.addressed) = (false, false);
            }
            self.quoted |= matches!(c, '\'' | '`');
            self.addressed |= matches!(c, '@' | ':' | '/');
        }
        self.seen = text.len();
        self.last > known
    }

    fn is_behind(&self, c: char) -> bool {
        c.is_whitespace()
            || c == '"' && !self.quoted
            || is_own_word(c) && !self.addressed
            || matches!(c, '、' | '。' | '，' | '！' | '？')
    }

    /// The text ends here now.
    pub(super) fn end_at(&mut self, end: usize) {
        (self.seen, self.last) = (end, self.last.min(end));
    }

    /// The text begins so much later now.
    pub(super) fn moved(&mut self, by: usize) {
        (self.seen, self.last) = (self.seen - by, self.last.saturating_sub(by));
    }
}

/// Whether a letter may end a word wherever it stands: in the scripts of Southeast and East Asia that put no space between
/// words. Korean does.
fn is_own_word(c: char) -> bool {
    let asian = matches!(
        u32::from(c),
        0x0e00..0x10a0 | 0x1780..0x1800 | 0x2e80..0x3130 | 0x31a0..0xa000 | 0xf900..0xfb00 | 0xff66..0xff9e | 0x20000..0x40000
    );
    asian && c.is_alphabetic()
}
