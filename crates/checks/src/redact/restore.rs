//! Puts originals back where their placeholders stand, except where a URL would carry them away.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::redact::look_alikes::look_alikes;
use crate::text::json_lexer::{Lexer, Place, escaped};

/// A token longer than this behind a placeholder is given up waiting for.
const MAX_HELD: usize = 8192;

/// The placeholders of one request and what they stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Placeholders {
    originals: Arc<BTreeMap<String, String>>,
}

impl Placeholders {
    /// Whether nothing was replaced.
    pub fn is_empty(&self) -> bool {
        self.originals.is_empty()
    }

    /// These placeholders and others. One that both have stands for what it stands for here.
    #[must_use]
    pub fn and(mut self, others: &Self) -> Self {
        if self.is_empty() {
            return others.clone();
        }
        let originals = Arc::make_mut(&mut self.originals);
        for (placeholder, original) in others.originals.iter() {
            originals.entry(placeholder.clone()).or_insert_with(|| original.clone());
        }
        self
    }

    /// A text with a word in the place of each placeholder.
    pub fn replaced_by(&self, word: &str, text: &str) -> String {
        self.substituted(text, |_| word).unwrap_or_else(|| text.to_owned())
    }

    /// A text with the original in the place of each placeholder, in addresses too: for judging it anew, and
    /// never to be sent. `None` if it has none.
    pub fn originals_in(&self, text: &str) -> Option<String> {
        self.substituted(text, |original| original)
    }

    /// A text with something in the place of each placeholder, by its original. `None` if it has none.
    fn substituted<'a>(&'a self, text: &str, by: impl Fn(&'a str) -> &'a str) -> Option<String> {
        let mut out = String::new();
        let mut done = 0;
        for (start, end) in look_alikes(text) {
            if let Some(original) = self.originals.get(&text[start..end]) {
                out.push_str(&text[done..start]);
                out.push_str(by(original));
                done = end;
            }
        }
        (done > 0).then(|| out + &text[done..])
    }

    /// Puts the originals back. A placeholder stays when it is part of a token with `//` in it, of a token that begins with
    /// `www.`, or of the target of a markdown link or image: nothing may be carried out that way.
    pub fn restore(&self, text: &str) -> String {
        self.whole(text, Self::stream)
    }

    /// Puts the originals back into a text that is JSON: escaped, so that it stays JSON, and wherever the text says a
    /// placeholder, however that is spelled.
    pub fn restore_json(&self, text: &str) -> String {
        self.whole(text, Self::json_stream)
    }

    /// Restores a text that arrives in pieces.
    pub fn stream(&self) -> StreamRestorer {
        StreamRestorer { placeholders: self.clone(), ..StreamRestorer::default() }
    }

    /// Restores a JSON text that arrives in pieces.
    pub fn json_stream(&self) -> StreamRestorer {
        StreamRestorer { json: Some(Lexer::default()), escapes: true, ..self.stream() }
    }

    /// Adds placeholders of earlier requests, with their originals. One that is known keeps its own.
    pub fn extend(&mut self, earlier: &[(String, String)]) {
        for (placeholder, original) in earlier {
            if !self.has(placeholder) {
                self.insert(placeholder.clone(), original.clone());
            }
        }
    }

    pub(crate) fn has(&self, placeholder: &str) -> bool {
        self.originals.contains_key(placeholder)
    }

    pub(crate) fn insert(&mut self, placeholder: String, original: String) {
        Arc::make_mut(&mut self.originals).insert(placeholder, original);
    }

    fn whole(&self, text: &str, stream: impl Fn(&Self) -> StreamRestorer) -> String {
        // A bracket may be spelled as an escape.
        if self.is_empty() || !text.contains(['[', '\\']) {
            return text.to_owned();
        }
        let mut stream = stream(self);
        let mut out = stream.push(text);
        out.push_str(&stream.finish());
        out
    }

    /// Whether some placeholder begins so.
    fn has_prefix(&self, prefix: &str) -> bool {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        self.originals.range::<str, _>(from).next().is_some_and(|(key, _)| key.starts_with(prefix))
    }
}

/// Restores a text that arrives in pieces; any split gives what [`Placeholders::restore`] gives on the whole. Text flows on
/// at once unless its end may become a placeholder, or its last token holds one and may still turn out to be a URL.
#[derive(Clone, Debug, Default)]
pub struct StreamRestorer {
    placeholders: Placeholders,
    /// For JSON: the decoded text of strings is looked at, and comes out as it was spelled.
    json: Option<Lexer>,
    /// Whether originals are spelled as in a JSON string.
    escapes: bool,
    out: String,
    /// Text that may become a placeholder.
    candidate: String,
    /// How its characters are spelled.
    spelled: Vec<String>,
    /// The last token from its first placeholder on, as it came and as it would be restored.
    held: Option<(String, String)>,
    /// The beginning of the token, as far as it is needed to know `www.`.
    lead: String,
    last: char,
    url: bool,
    /// Open parentheses of a markdown target.
    target: usize,
}

impl StreamRestorer {
    /// Takes a piece; gives what is certain.
    pub fn push(&mut self, piece: &str) -> String {
        if self.placeholders.is_empty() {
            return piece.to_owned();
        }
        match self.json.take() {
            None => piece.chars().for_each(|c| self.step(c, c.encode_utf8(&mut [0; 4]))),
            Some(mut lexer) => {
                piece.chars().for_each(|c| {
                    lexer.push(c, &mut |place, c, spelled| self.step_in_json(place, c, spelled));
                });
                self.json = Some(lexer);
            }
        }
        std::mem::take(&mut self.out)
    }

    /// Gives what was held back.
    pub fn finish(mut self) -> String {
        if let Some(mut lexer) = self.json.take() {
            lexer.finish(&mut |place, c, spelled| self.step_in_json(place, c, spelled));
        }
        self.drop_candidate();
        self.end_token();
        self.out
    }

    /// Gives what was held back, as if the text ended here, and begins another one.
    pub fn rest(&mut self) -> String {
        let fresh =
            if self.escapes { self.placeholders.json_stream() } else { self.placeholders.stream() };
        std::mem::replace(self, fresh).finish()
    }

    /// Gives what was held back at the end of a text to which readers join another, which goes on here: a URL may go on
    /// in it.
    pub fn end_part(&mut self) -> String {
        if self.json.is_some() {
            return self.rest();
        }
        self.drop_candidate();
        if let Some((_, restored)) = self.held.take() {
            self.out.push_str(&restored);
        }
        std::mem::take(&mut self.out)
    }

    /// Whether something is held back.
    pub fn holds(&self) -> bool {
        !self.candidate.is_empty()
            || self.held.is_some()
            || self.json.as_ref().is_some_and(Lexer::holds)
    }

    fn step_in_json(&mut self, place: Place, c: char, spelled: &str) {
        if place != Place::Quote {
            return self.step(c, spelled);
        }
        // Each string is a text of its own.
        self.drop_candidate();
        self.end_token();
        (self.last, self.target) = (c, 0);
        self.out.push_str(spelled);
    }

    fn step(&mut self, c: char, spelled: &str) {
        if !self.candidate.is_empty() {
            self.candidate.push(c);
            if self.placeholders.has_prefix(&self.candidate) {
                self.spelled.push(spelled.to_owned());
                if let Some(original) = self.placeholders.originals.get(&self.candidate).cloned() {
                    self.candidate.clear();
                    let placeholder = std::mem::take(&mut self.spelled).concat();
                    self.place(&placeholder, original);
                }
                return;
            }
            self.candidate.pop();
            self.drop_candidate();
        }
        if c == '[' && self.target == 0 {
            self.candidate.push(c);
            self.spelled.push(spelled.to_owned());
        } else {
            self.plain(c, spelled);
        }
    }

    fn place(&mut self, placeholder: &str, original: String) {
        if self.url {
            self.out.push_str(placeholder);
        } else {
            let original = if self.escapes { escaped(&original) } else { original };
            let held = self.held.get_or_insert_default();
            held.0.push_str(placeholder);
            held.1.push_str(&original);
        }
        // A placeholder is no part of `www.` or `//`, but may be the text of a link.
        self.lead.push(' ');
        self.last = ']';
    }

    fn drop_candidate(&mut self) {
        let candidate = std::mem::take(&mut self.candidate);
        for (c, spelled) in candidate.chars().zip(std::mem::take(&mut self.spelled)) {
            self.plain(c, &spelled);
        }
    }

    fn plain(&mut self, c: char, spelled: &str) {
        self.follow_target(c);
        if c.is_whitespace() || matches!(c, '"' | '<' | '>' | '`') {
            self.end_token();
            self.out.push_str(spelled);
            self.last = c;
            return;
        }
        if self.lead.len() < 4 && (c.is_alphanumeric() || c == '.' || !self.lead.is_empty()) {
            self.lead.extend(c.to_lowercase());
        }
        let was_url = self.url;
        self.url |= c == '/' && self.last == '/' || self.lead == "www.";
        self.last = c;
        let became_url = self.url && !was_url;
        if let Some((raw, _)) = became_url.then(|| self.held.take()).flatten() {
            self.out.push_str(&raw);
        }
        match &mut self.held {
            Some((raw, restored)) => {
                raw.push_str(spelled);
                restored.push_str(spelled);
                if raw.len() > MAX_HELD {
                    let (_, restored) = self.held.take().unwrap_or_default();
                    self.out.push_str(&restored);
                }
            }
            None => self.out.push_str(spelled),
        }
    }

    fn follow_target(&mut self, c: char) {
        match c {
            '(' if self.target > 0 || self.last == ']' => self.target += 1,
            ')' => self.target = self.target.saturating_sub(1),
            '\n' => self.target = 0,
            _ => {}
        }
    }

    fn end_token(&mut self) {
        if let Some((_, restored)) = self.held.take() {
            self.out.push_str(&restored);
        }
        self.url = false;
        self.lead.clear();
    }
}
