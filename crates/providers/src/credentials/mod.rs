//! Removes the credentials of a call from its answer, in case a provider echoes them.
//!
//! Callers and traces must not learn them. A whole answer is cleaned string by string. In a stream each
//! string that continues from chunk to chunk has a channel of its own: only its end is withheld, and
//! only if it is the beginning of a credential. A text that ends in at least half of one loses that,
//! too.

mod chunk;
pub(crate) mod chunk_position;
pub(crate) mod scrub;
mod source;
pub(crate) mod stream;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::conversation::Reply;
use domain::secret::Secret;
use memchr::memmem::Finder;
use serde_json::{Map, Value};

use crate::chat_form::ids::MOST_UNIQUE_CHARS;

/// The replacement of a credential.
pub(crate) const MASK: &str = "***";
/// Shortest credential that is removed: a shorter one is no secret, and would be found in ordinary
/// words.
pub(crate) const LEAST_CREDENTIAL_BYTES: usize = 8;
/// Least bytes of a credential's beginning at the end of a text for which the log probabilities of its
/// tokens are removed.
const LOGPROB_LEAK_BYTES: usize = 4;

/// The credentials of one call, in the forms that an echo can have. They are never printed.
pub(crate) struct Credentials {
    /// Longest first: one may be a part of another.
    forms: Vec<Form>,
    shortest: usize,
}

struct Form {
    text: String,
    finder: Finder<'static>,
    /// Finds so much of it as is hidden at the end of a text; `None` if JSON spells that with escapes.
    beginning: Option<Finder<'static>>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    /// Returns the credentials of a key; `None` if it cannot be distinguished from an ordinary word.
    pub(crate) fn of(key: Option<&Secret>) -> Option<Self> {
        let mut texts = Vec::new();
        for part in parts(key?.expose()).filter(|part| part.len() >= LEAST_CREDENTIAL_BYTES) {
            written(part, &mut texts);
        }
        texts.sort_unstable_by(|one, other| {
            other.len().cmp(&one.len()).then_with(|| one.cmp(other))
        });
        texts.dedup();
        let shortest = texts.last()?.len();
        Some(Self { forms: texts.into_iter().map(Form::new).collect(), shortest })
    }

    /// Whether a string of a JSON text may have something to clean. Most texts have nothing, which is
    /// seen without reading their strings one by one.
    pub(crate) fn may_be_in_json(&self, json: &str) -> bool {
        let json = json.as_bytes();
        // Any character may be spelled so.
        let is_escape = |at: usize| matches!(json.get(at + 1), Some(b'u' | b'/'));
        let is_spelled = memchr::memchr_iter(b'\\', json).any(is_escape);
        let begins = |form: &Form| {
            form.beginning.as_ref().is_none_or(|beginning| beginning.find(json).is_some())
        };
        is_spelled || self.forms.iter().any(begins)
    }

    /// Whether a text contains a credential.
    pub(crate) fn are_in(&self, text: &str) -> bool {
        let text = text.as_bytes();
        text.len() >= self.shortest
            && self.forms.iter().any(|form| form.finder.find(text).is_some())
    }

    /// Returns the text without credentials, if it contains any.
    pub(crate) fn masked(&self, text: &str) -> Option<String> {
        if !self.are_in(text) {
            return None;
        }
        let mut clean = text.to_owned();
        for form in &self.forms {
            if form.finder.find(clean.as_bytes()).is_some() {
                clean = clean.replace(&form.text, MASK);
            }
        }
        Some(clean)
    }

    /// Number of bytes at the end of a text that are the beginning of a credential.
    pub(crate) fn begun_at_end(&self, text: &str) -> usize {
        self.forms.iter().map(|form| form.begun_at_end(text.as_bytes())).max().unwrap_or(0)
    }

    /// Number of bytes at the end of a text that are so much of a credential that they are hidden.
    fn much_begun_at_end(&self, text: &str) -> usize {
        self.forms.iter().map(|form| form.much_begun_at_end(text.as_bytes())).max().unwrap_or(0)
    }

    /// Whether the beginning of a credential is long enough to be hidden.
    pub(crate) fn is_much(&self, begun: &str) -> bool {
        begun.len() >= LEAST_CREDENTIAL_BYTES
            && self
                .forms
                .iter()
                .any(|form| form.text.starts_with(begun) && begun.len() >= form.much())
    }

    /// Whether a complete text has nothing to clean.
    pub(crate) fn is_clean(&self, text: &str) -> bool {
        !self.are_in(text) && self.much_begun_at_end(text) == 0
    }

    /// Cleans a complete text. Returns whether there was anything to clean.
    pub(crate) fn clean(&self, text: &mut String) -> bool {
        // Most strings of an answer are such words; neither a credential nor enough of one fits in.
        if text.len() < LEAST_CREDENTIAL_BYTES {
            return false;
        }
        let masked = self.masked(text);
        let is_masked = masked.is_some();
        if let Some(masked) = masked {
            *text = masked;
        }
        let begun = self.much_begun_at_end(text);
        if begun > 0 {
            text.truncate(text.len() - begun);
            text.push_str(MASK);
        }
        is_masked || begun > 0
    }

    /// Cleans every string of a value, the names of members too. Returns whether there was anything to
    /// clean.
    pub(crate) fn clean_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => self.clean(text),
            Value::Array(items) => {
                let mut changed = self.clean_parts(items);
                for item in items {
                    changed |= self.clean_value(item);
                }
                changed
            }
            Value::Object(members) => self.clean_members(members),
            _ => false,
        }
    }

    pub(crate) fn clean_members(&self, members: &mut Map<String, Value>) -> bool {
        let mut changed = self.clean_names(members);
        for value in members.values_mut() {
            changed |= self.clean_value(value);
        }
        changed
    }

    /// Cleans the names of members. Returns whether there was anything to clean.
    pub(crate) fn clean_names(&self, members: &mut Map<String, Value>) -> bool {
        if !members.keys().any(|name| self.are_in(name)) {
            return false;
        }
        let old = std::mem::take(members);
        members.extend(
            old.into_iter().map(|(name, value)| (self.masked(&name).unwrap_or(name), value)),
        );
        true
    }

    /// Cleans texts that readers join, such as the parts of a content: a credential may be split over
    /// several. Returns whether there was anything to clean.
    fn clean_parts(&self, items: &mut [Value]) -> bool {
        let text = |item: &Value| item.get("text").and_then(Value::as_str).map(str::len);
        if items.iter().filter_map(text).take(2).count() < 2 {
            return false;
        }
        let joined: String =
            items.iter().filter_map(|item| item.get("text").and_then(Value::as_str)).collect();
        if !self.are_in(&joined) {
            return false;
        }
        let mut held = String::new();
        let mut last = None;
        for item in items {
            if let Some(Value::String(text)) = item.get_mut("text") {
                self.pass(&mut held, text);
                last = Some(text);
            }
        }
        if let Some(last) = last {
            last.push_str(self.rest(&held));
        }
        true
    }

    /// Cleans the next piece of an unfinished text: the withheld text comes before it, and an end that
    /// may begin a credential is withheld. Returns whether it contained a credential.
    pub(crate) fn pass(&self, held: &mut String, piece: &mut String) -> bool {
        if !held.is_empty() {
            held.push_str(piece);
            std::mem::swap(held, piece);
            held.clear();
        }
        let masked = self.masked(piece);
        let found = masked.is_some();
        if let Some(masked) = masked {
            *piece = masked;
        }
        let end = piece.len() - self.begun_at_end(piece);
        held.push_str(&piece[end..]);
        piece.truncate(end);
        found
    }

    /// Returns the withheld end of a text that is complete.
    pub(crate) fn rest<'a>(&self, held: &'a str) -> &'a str {
        if self.is_much(held) { MASK } else { held }
    }

    /// Cleans a whole answer.
    pub(crate) fn clean_reply(&self, reply: &mut Reply) {
        let mut is_changed = self.clean(&mut reply.text);
        if let Some(name) = &mut reply.upstream_model {
            self.clean(name);
        }
        if let Some(native) = &mut reply.native
            && self.clean_members(native)
        {
            is_changed = true;
            // Log probabilities repeat the text, token by token.
            let choices = native.get_mut("choices").and_then(Value::as_array_mut);
            for choice in choices.into_iter().flatten().filter_map(Value::as_object_mut) {
                choice.shift_remove("logprobs");
            }
        }
        if is_changed {
            // The canonical form joins what stands apart in the answer as it came.
            reply.source = None;
        }
        self.clean_source(reply);
    }
}

impl Form {
    fn new(text: String) -> Self {
        let finder = Finder::new(&text).into_owned();
        let form = Self { text, finder, beginning: None };
        let much = &form.text.as_bytes()[..form.much()];
        let is_escaped = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
        let is_plain = !much.iter().any(is_escaped);
        let beginning = is_plain.then(|| Finder::new(much).into_owned());
        Self { beginning, ..form }
    }

    /// The bytes of a beginning that is hidden.
    fn much(&self) -> usize {
        self.text.len().div_ceil(2).max(LEAST_CREDENTIAL_BYTES)
    }

    fn much_begun_at_end(&self, text: &[u8]) -> usize {
        let form = self.text.as_bytes();
        let lengths = self.much()..form.len().min(text.len() + 1);
        lengths.rev().find(|&length| text.ends_with(&form[..length])).unwrap_or(0)
    }

    fn begun_at_end(&self, text: &[u8]) -> usize {
        let form = self.text.as_bytes();
        let start = text.len().saturating_sub(form.len() - 1);
        let end = &text[start..];
        let begins = |at: &usize| form.starts_with(&end[*at..]);
        memchr::memchr_iter(form[0], end).find(begins).map_or(0, |at| end.len() - at)
    }
}

/// Returns the key, and the parts of one that is written `id:secret:token`.
pub(crate) fn parts(key: &str) -> impl Iterator<Item = &str> {
    let key = key.trim();
    let inside = key.contains(':').then(|| key.split(':').map(str::trim));
    std::iter::once(key).chain(inside.into_iter().flatten())
}

/// Adds the forms in which a credential may be written in an answer: as it is, in JSON within a text,
/// in a URL, and in base64 if it is a name and a password.
pub(crate) fn written(part: &str, texts: &mut Vec<String>) {
    texts.push(part.to_owned());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    // An echo as the response's id is a part of invented call ids, without underscores.
    if part.len() <= MOST_UNIQUE_CHARS && part.contains('_') {
        texts.extend(
            Some(part.replace('_', "")).filter(|letters| letters.len() >= LEAST_CREDENTIAL_BYTES),
        );
    }
    // Most keys are written the same in every form.
    if part.bytes().all(is_plain) {
        return;
    }
    let json = Value::from(part).to_string();
    let json = json.trim_start_matches('"');
    let json = json.strip_suffix('"').unwrap_or(json);
    for escaped in [json.to_owned(), json.replace('/', "\\/")] {
        if escaped != part {
            texts.push(escaped);
        }
    }
    for upper in [true, false] {
        let encoded = part.bytes().map(|byte| match byte {
            plain if is_plain(plain) => char::from(plain).to_string(),
            byte if upper => format!("%{byte:02X}"),
            byte => format!("%{byte:02x}"),
        });
        texts.push(encoded.collect());
    }
    if part.contains(':') {
        texts.push(STANDARD.encode(part).trim_end_matches('=').to_owned());
    }
}

#[cfg(test)]
mod json_tests;
#[cfg(test)]
#[path = "tests.rs"]
mod tests;
