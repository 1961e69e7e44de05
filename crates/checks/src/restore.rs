//! Puts originals back where their placeholders stand, except where a URL would carry them away.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

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

    /// The placeholders themselves.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.originals.keys().map(String::as_str)
    }

    /// Puts the originals back. A placeholder stays when it is part of a token with `//` in it, of a token that begins with
    /// `www.`, or of the target of a markdown link or image: nothing may be carried out that way.
    pub fn restore(&self, text: &str) -> String {
        if self.is_empty() || !text.contains('[') {
            return text.to_owned();
        }
        let mut stream = self.stream();
        let mut out = stream.push(text);
        out.push_str(&stream.finish());
        out
    }

    /// Restores a text that arrives in pieces.
    pub fn stream(&self) -> StreamRestorer {
        StreamRestorer { placeholders: self.clone(), ..StreamRestorer::default() }
    }

    pub(crate) fn insert(&mut self, placeholder: String, original: String) {
        Arc::make_mut(&mut self.originals).insert(placeholder, original);
    }

    /// Whether some placeholder begins so.
    fn has_prefix(&self, prefix: &str) -> bool {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        self.originals.range::<str, _>(from).next().is_some_and(|(key, _)| key.starts_with(prefix))
    }
}

/// Restores a text that arrives in pieces; any split gives what [`Placeholders::restore`] gives on the whole. Text flows on
/// at once unless its end may become a placeholder, or its last token holds one and may still turn out to be a URL.
#[derive(Debug, Default)]
pub struct StreamRestorer {
    placeholders: Placeholders,
    out: String,
    /// What may become a placeholder.
    candidate: String,
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
        for c in piece.chars() {
            self.step(c);
        }
        std::mem::take(&mut self.out)
    }

    /// Gives what was held back.
    pub fn finish(mut self) -> String {
        self.drop_candidate();
        self.end_token();
        self.out
    }

    fn step(&mut self, c: char) {
        if !self.candidate.is_empty() {
            self.candidate.push(c);
            if self.placeholders.has_prefix(&self.candidate) {
                if let Some(original) = self.placeholders.originals.get(&self.candidate).cloned() {
                    let placeholder = std::mem::take(&mut self.candidate);
                    self.place(&placeholder, &original);
                }
                return;
            }
            self.candidate.pop();
            self.drop_candidate();
        }
        if c == '[' && self.target == 0 {
            self.candidate.push(c);
        } else {
            self.plain(c);
        }
    }

    fn place(&mut self, placeholder: &str, original: &str) {
        if self.url {
            self.out.push_str(placeholder);
        } else {
            let held = self.held.get_or_insert_default();
            held.0.push_str(placeholder);
            held.1.push_str(original);
        }
        // A placeholder is no part of `www.` or `//`, but may be the text of a link.
        self.lead.push(' ');
        self.last = ']';
    }

    fn drop_candidate(&mut self) {
        for c in std::mem::take(&mut self.candidate).chars() {
            self.plain(c);
        }
    }

    fn plain(&mut self, c: char) {
        self.follow_target(c);
        if c.is_whitespace() || matches!(c, '"' | '<' | '>' | '`') {
            self.end_token();
            self.out.push(c);
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
                raw.push(c);
                restored.push(c);
                if raw.len() > MAX_HELD {
                    let (_, restored) = self.held.take().unwrap_or_default();
                    self.out.push_str(&restored);
                }
            }
            None => self.out.push(c),
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
