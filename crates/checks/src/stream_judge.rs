//! An answer that is judged while it arrives: what is certain leaves at once, what may still become a finding waits.
//!
//! Text is certain up to the last border between words (see [`Borders`]), unless a value that holds white space may
//! begin before it (see [`hold`]). Text that has left is kept for a while, because it gives a meaning to what follows.
//!
//! The states of a judge:
//!
//! ```text
//!            +--+ a border, or too much is held: certain text leaves
//!            |  v
//! start --> judging --- a finding that blocks, too many, a slow pattern --> withheld
//!            ^   |
//!            |   +-- a key without its end ---> dropping the key ---+
//!            |   |                                                  |
//!            |   +-- a word that is cut ------> dropping the word --+
//!            |                                                      |
//!            +--- its end, or as much as the longest key -----------+
//! ```
//!
//! While it drops, nothing leaves: the text that arrives belongs to a finding whose placeholder has left. `flush` judges
//! everything that is held as if the text ended there.

mod borders;
mod hold;
#[cfg(test)]
mod tests;

use std::ops::Range;

use domain::safety::{Action, Category};

use crate::policy::compiled::Policy;
use crate::redact::redactor::Redactor;
use crate::report::{Finding, MAX_FINDINGS};
use crate::secrets::key_block::{self, Key};
use crate::text::words;
use borders::Borders;
use hold::NAME_BEHIND_REACH;

/// The bytes of sent text that are judged again with the text that follows. No context of a value is further away,
/// and a word that is cut may be left out.
const LOOK_BACK: usize = 576;
/// The bytes kept beyond [`LOOK_BACK`] before the window is shortened, and the longest word that a cut may drop.
const LOOK_BACK_SLACK: usize = 128;
/// The most bytes that are held.
const MAX_HELD_BYTES: usize = 4096;
/// The bytes that stay held after a forced release. The longest credential that is recognized only by its end fits.
const KEPT_BYTES: usize = 2304;
/// A long piece is judged in parts of this size.
const PART_BYTES: usize = 512;

/// Judges one string of an answer that arrives in pieces, by the actions that the settings have for outputs.
#[derive(Debug, Default)]
pub struct StreamJudge {
    /// The end of what has left, then what has not.
    window: String,
    /// The start in the window of the text that has not left.
    done: usize,
    borders: Borders,
    drops: Option<Dropping>,
    /// How much was found so far.
    found: usize,
}

/// Why an answer must not go on.
#[derive(Debug)]
pub struct Withheld {
    /// The text that may still leave: all before the finding.
    pub said: String,
    /// The finding; none if there is more to find than is judged or a recognizer took too long.
    pub finding: Option<Finding>,
}

/// The part of the following text that belongs to an earlier finding.
#[derive(Debug)]
enum Dropping {
    /// A private key, to the end of its last line: the end of what came of it, and how much more may come.
    KeyBlock { tail: String, left: usize },
    /// A word that is longer than what is held.
    Word,
}

/// How much of a text is to leave.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    /// The text that is certain.
    Certain,
    /// At least so much: more is not held.
    Forced(usize),
    /// All of it: nothing waits for what follows.
    End,
}

impl StreamJudge {
    /// Takes a piece; gives what is certain, with placeholders where the settings ask for them.
    pub fn push(
        &mut self,
        policy: &Policy,
        redactor: &mut Redactor,
        piece: &str,
    ) -> Result<String, Withheld> {
        let (mut out, mut rest) = (String::new(), piece);
        while !rest.is_empty() {
            let (part, further) = rest.split_at(words::floor(rest, PART_BYTES));
            rest = further;
            let part = self.behind_dropped(part);
            self.window.push_str(part);
            if self.borders.follow(&self.window) {
                self.release(policy, redactor, Until::Certain, &mut out)?;
            }
            while self.window.len() - self.done > MAX_HELD_BYTES {
                let until = words::floor(&self.window, self.window.len() - KEPT_BYTES);
                self.release(policy, redactor, Until::Forced(until), &mut out)?;
            }
        }
        Ok(out)
    }

    /// Gives what is held, as if nothing followed. Text that does follow is judged with what has left.
    pub fn flush(&mut self, policy: &Policy, redactor: &mut Redactor) -> Result<String, Withheld> {
        let mut out = String::new();
        if self.holds() {
            self.release(policy, redactor, Until::End, &mut out)?;
        }
        Ok(out)
    }

    /// Whether something is held.
    pub fn holds(&self) -> bool {
        self.done < self.window.len()
    }

    /// Judges the window, and adds to `out` what may leave.
    fn release(
        &mut self,
        policy: &Policy,
        redactor: &mut Redactor,
        until: Until,
        out: &mut String,
    ) -> Result<(), Withheld> {
        let (text, border) = (&self.window, self.borders.last);
        let (open, is_plain) = match until {
            Until::End => (text.len(), false),
            Until::Forced(until) => (until, false),
            Until::Certain => {
                let open = hold::open_from(policy, text, self.done, border);
                (open, hold::is_plain(policy, text, self.done, open))
            }
        };
        let leaks = if is_plain { Some(Vec::new()) } else { policy.leaks(text) };
        let Some(leaks) = leaks else {
            return Err(Withheld { said: std::mem::take(out), finding: None });
        };
        let found = self.unsaid(leaks);
        let certain = self.certain(&found, open, until);
        let judged = &found[..found.partition_point(|finding| self.rest(finding).start < certain)];
        self.found += judged.len();
        if self.found > MAX_FINDINGS || found.len() >= MAX_FINDINGS {
            return Err(Withheld { said: std::mem::take(out), finding: None });
        }
        let stops = |finding: &&Finding| policy.output_action(finding.category) == Action::Block;
        if let Some(stop) = judged.iter().find(stops) {
            out.push_str(&self.redacted(redactor, judged, self.rest(stop).start));
            let said = std::mem::take(out);
            return Err(Withheld { said, finding: Some(stop.clone()) });
        }
        out.push_str(&self.redacted(redactor, judged, certain));
        self.done = certain;
        self.drop_behind(judged, until);
        self.forget();
        Ok(())
    }

    /// Returns the findings that have not left completely: the rest of one that began in text that has left, too. A key
    /// goes on until its end is seen.
    fn unsaid(&self, mut found: Vec<Finding>) -> Vec<Finding> {
        found.retain_mut(|finding| {
            if is_open_key(finding, &self.window) {
                finding.bytes.end = self.window.len();
            }
            finding.bytes.end > self.done
        });
        found
    }

    /// Returns the range of a finding that has not left.
    fn rest(&self, finding: &Finding) -> Range<usize> {
        finding.bytes.start.max(self.done)..finding.bytes.end
    }

    /// Returns the end of the text that may leave: `open`, or the start of a finding that reaches beyond it.
    fn certain(&self, found: &[Finding], open: usize, until: Until) -> usize {
        let mut certain = open;
        // Later ones first: what waits with one of them may cut an earlier one.
        for finding in found.iter().rev() {
            let Range { start, end } = self.rest(finding);
            if start >= certain {
                continue;
            }
            if until != Until::Certain || is_open_key(finding, &self.window) {
                certain = certain.max(end);
            } else if end > certain
                || lingers(finding) && end + NAME_BEHIND_REACH > self.borders.last
            {
                certain = start;
            }
        }
        certain
    }

    fn redacted(&self, redactor: &mut Redactor, found: &[Finding], end: usize) -> String {
        let text = &self.window[self.done..end];
        let ranges = found.iter().map(|finding| (self.rest(finding), &*finding.kind));
        let ranges = ranges
            .filter(|(rest, _)| rest.start < end)
            .map(|(rest, kind)| (rest.start - self.done..rest.end.min(end) - self.done, kind));
        redactor.replace(text, ranges).unwrap_or_else(|| text.to_owned())
    }

    /// Remembers what of the text that follows belongs to what was found in what has left.
    fn drop_behind(&mut self, found: &[Finding], until: Until) {
        if let Some(key) = found.iter().find(|finding| is_open_key(finding, &self.window)) {
            // The key leaves the window, so that later text is not matched with it again.
            let tail = self.window.split_off(key.bytes.start);
            self.done = self.window.len();
            self.borders.end_at(self.done);
            self.drops = Some(Dropping::KeyBlock { tail, left: key_block::MAX_KEY });
        } else if matches!(until, Until::Forced(_)) {
            let goes_on = found.iter().any(|finding| finding.bytes.end == self.window.len());
            self.drops = goes_on.then_some(Dropping::Word);
        }
    }

    /// Returns the rest of a piece behind the text that is dropped.
    fn behind_dropped<'p>(&mut self, piece: &'p str) -> &'p str {
        let rest = match &mut self.drops {
            None => return piece,
            Some(Dropping::Word) => piece.find(|c: char| c.is_whitespace() || c == '"'),
            Some(Dropping::KeyBlock { tail, left }) => {
                let (known, taken) = (tail.len(), words::floor(piece, *left));
                *left -= taken;
                tail.push_str(&piece[..taken]);
                let end = key_block::key_end(tail.as_bytes());
                if let Some(end) = end {
                    // The text that follows is read behind the last line, as in the whole answer.
                    tail.truncate(end);
                }
                // That line is not longer.
                tail.drain(..words::floor(tail, tail.len().saturating_sub(key_block::KEY_LINE)));
                let end = end.map(|end| end - known.min(end));
                end.or_else(|| (taken < piece.len()).then_some(taken))
            }
        };
        let Some(rest) = rest else { return "" };
        if let Some(Dropping::KeyBlock { tail, .. }) = self.drops.take() {
            self.window.push_str(&tail);
            self.done = self.window.len();
            self.borders.end_at(self.done);
        }
        &piece[rest..]
    }

    /// Lets go of what has left and is too far away to matter.
    fn forget(&mut self) {
        if self.done > LOOK_BACK + LOOK_BACK_SLACK {
            let from = words::floor(&self.window, self.done - LOOK_BACK);
            // Not from the middle of a word on, which may be another word.
            let near = &self.window[from..words::floor(&self.window, from + LOOK_BACK_SLACK)];
            let word = near.find(char::is_whitespace).unwrap_or_default();
            // A key whose first line has left is recognized by it.
            let gone = (from + word).min(hold::key(&self.window));
            self.window.drain(..gone);
            self.done -= gone;
            self.borders.moved(gone);
        }
    }
}

/// Whether a finding is a private key of which the end is missing.
fn is_open_key(finding: &Finding, text: &str) -> bool {
    finding.kind == key_block::PRIVATE_KEY
        && matches!(
            Key::read(&text.as_bytes()[finding.bytes.start..]),
            Some(Key::Begun | Key::Open)
        )
}

/// Whether words that follow may extend or reclassify a finding.
fn lingers(finding: &Finding) -> bool {
    let by_form = ["EMAIL", "UPI_ID", "IP_ADDRESS", "MAC_ADDRESS", "CRYPTO_ADDRESS"];
    finding.category == Category::Pii && !by_form.contains(&&*finding.kind)
}
