//! Requests and answers as they came, beside their canonical forms: no string leaves in them that was
//! not judged, and what is replaced in the canonical form is replaced in them.
//!
//! Strings are compared by their text, wherever they stand: a string of the canonical form has been
//! judged, and every other one is judged beside it. A member that nobody knows is so no way around
//! safety, and no format has to be known here.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use checks::{FileKind, Placeholders, file_kind};
use domain::conversation::{Body, Prompt};
use domain::json_text::{Place, Token, Unreadable, rewrite, visit};
use domain::original::{Beside, LONGEST_NAME, Original, WireFormat, shown_name};
use domain::safety::Origin;
use serde::de::IgnoredAny;
use serde_json::{Number, Value};

use crate::safety::prompt_strings::{self, file, is_judged_key, is_long};
use crate::safety::text_part::{Replaced, TextPart};
use crate::safety::wire_members::{
    is_another_spelling, is_conversation, is_label, is_of_video, is_word_of_formats, origin,
    replaced_members, role,
};

/// The member that holds a signature, which its vendor alone can read, in its two spellings.
const SIGNATURES: [&str; 2] = ["thoughtSignature", "thought_signature"];
/// The members whose `data` is a file in base64.
const INLINE: [&str; 2] = ["inlineData", "inline_data"];
/// The member that holds the base64 of a file, in several formats.
const DATA: &str = "data";
/// The member of an answer that holds the arguments of a call, as JSON in a string.
const ARGUMENTS: &str = "arguments";
/// The members of an answer that repeat the request.
const ECHOED: [&str; 4] = ["instructions", "tools", "metadata", "text"];
/// The beginning of a file in base64 whose kind its bytes decide.
const BYTES: &str = "data:application/octet-stream;base64,";

/// The texts that were judged, by their hashes under a random key.
#[derive(Default)]
struct Judged {
    hasher: RandomState,
    /// Whether only as the application's own words.
    texts: HashMap<u64, bool>,
    /// The base64 of files that are no texts.
    files: HashSet<u64>,
}

impl Judged {
    fn of(prompt: &Prompt) -> Self {
        let mut judged = Self::default();
        prompt_strings::each(prompt, |spot, said| {
            let is_ours = spot.origin.is_application();
            match said {
                TextPart::Text(text) | TextPart::Read(text) | TextPart::File(text, _) => {
                    judged.add(Token::Text(text), is_ours);
                }
                // All strings in it, or none if it is no JSON.
                TextPart::Json(json) if is_json(json) => {
                    let _ = visit(json, |_, token| judged.add(token, is_ours));
                }
                TextPart::Json(text) => judged.add(Token::Text(text), is_ours),
                TextPart::Number(_, number) => {
                    judged.add(Token::Number(&number.to_string()), is_ours);
                }
            }
        });
        for message in &prompt.messages {
            if let Body::Parts(parts) = &message.body {
                for part in parts {
                    judged.add_files("", part);
                }
            }
        }
        judged
    }

    /// Notes the files of a part, which it holds as `data:` URLs, and as bare base64 if it is a sound.
    fn add_files(&mut self, name: &str, value: &Value) {
        match value {
            Value::String(text) => {
                let data = text.split_once(";base64,").map(|(_, data)| data);
                let data = data.or_else(|| (name == DATA).then_some(text));
                self.files.extend(data.map(|data| self.hasher.hash_one(data)));
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_files(name, item)),
            Value::Object(members) => {
                members.iter().for_each(|(name, value)| self.add_files(name, value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Whether the canonical form holds a file with this base64, and counts it. Some clients write it in
    /// the alphabet of URLs, and leave out the padding.
    fn holds_file(&self, data: &str) -> bool {
        let holds = |data: &str| self.files.contains(&self.hasher.hash_one(data));
        let is_standard = data.len().is_multiple_of(4) && !data.contains(['-', '_']);
        holds(data)
            || !is_standard && !self.files.is_empty() && {
                let mut standard = data.replace('-', "+").replace('_', "/");
                standard.extend(std::iter::repeat_n('=', (4 - data.len() % 4) % 4));
                holds(&standard)
            }
    }

    fn add(&mut self, token: Token<'_>, is_ours: bool) {
        let hash = self.hash(token);
        self.texts.entry(hash).and_modify(|only_ours| *only_ours &= is_ours).or_insert(is_ours);
    }

    /// Whether a text was judged at least as strictly as one of this origin is, or needs no judging.
    fn has(&self, token: Token<'_>, origin: Origin) -> bool {
        if is_word_of_formats(token.text()) {
            return true;
        }
        let only_ours = self.texts.get(&self.hash(token));
        only_ours.is_some_and(|only_ours| !only_ours || origin.is_application())
    }

    fn hash(&self, token: Token<'_>) -> u64 {
        self.hasher.hash_one((matches!(token, Token::Number(_)), token.text()))
    }
}

/// Finds what a request as it came holds beside its canonical form. One that can be read in two ways
/// does not pass.
pub(crate) fn find_beside(prompt: &mut Prompt) {
    let Some(mut original) = prompt.original.take() else { return };
    if let Some(body) = &original.body {
        match Beyond::of(body, original.format, &Judged::of(prompt)) {
            Ok(Beyond { all, files, has_video, signatures, .. }) => {
                (original.beside, original.signatures) = (all, signatures);
                (original.files, original.has_video) = (files, has_video);
            }
            Err(_) => original.body = None,
        }
    }
    prompt.original = Some(original);
}

/// The content of a body that its canonical form does not hold.
#[derive(Default)]
struct Beyond {
    all: Vec<Beside>,
    /// The message of each.
    messages: Vec<Option<usize>>,
    files: usize,
    has_video: bool,
    signatures: usize,
}

impl Beyond {
    fn of(body: &str, format: WireFormat, judged: &Judged) -> Result<Self, Unreadable> {
        let mut beyond = Self::default();
        // The authors of the messages.
        let mut roles = HashMap::new();
        let mut known = HashSet::new();
        let mut is_ambiguous = false;
        visit(body, |place, token| {
            if let (1, Token::Name(name)) = (place.depth(), token) {
                is_ambiguous |= is_another_spelling(name);
            }
            beyond.has_video |= is_of_video(place, token);
            if let Some((index, role)) = role(place, token) {
                roles.insert(index, role);
            }
            let top = place.member(0).unwrap_or_default();
            if replaced_members(format).contains(&top) || judged.has(token, origin(top)) {
                return;
            }
            let Some((name, value)) = beyond.value(place, token, judged) else { return };
            let message = place.index(1).filter(|_| is_conversation(top));
            if known.insert(judged.hasher.hash_one((message, top, name, token.text()))) {
                let field = message.map_or_else(|| top.to_owned(), |at| format!("{top}[{at}]"));
                let (name, was) = (name.to_owned(), token.text().to_owned());
                beyond.messages.push(message);
                beyond.all.push(Beside { field, name, origin: origin(top), was, value });
            }
        })?;
        if is_ambiguous {
            return Err(Unreadable::Twice);
        }
        for (message, beside) in beyond.messages.iter().zip(&mut beyond.all) {
            let role = message.and_then(|index| roles.get(&index));
            beside.origin = role.copied().unwrap_or(beside.origin);
        }
        Ok(beyond)
    }

    /// The value to be judged, and the name of its member; none of what needs no judging.
    fn value<'p>(
        &mut self,
        place: &'p Place<'_, '_>,
        token: Token<'_>,
        judged: &Judged,
    ) -> Option<(&'p str, Value)> {
        match token {
            Token::Name(name) => is_judged_key(name).then(|| ("key", Value::from(name))),
            Token::Text("") => None,
            Token::Text(text) if is_inline(place) && judged.holds_file(text) => None,
            Token::Text(text) if is_binary(place, text) => {
                if SIGNATURES.contains(&place.name()) {
                    self.signatures += text.len();
                } else if !judged.holds_file(text) {
                    self.files += text.len();
                }
                None
            }
            Token::Text(text) => Some((place.name(), Value::from(text))),
            Token::Number(text) => {
                let number = serde_json::from_str::<Number>(text).ok().filter(is_long)?;
                Some((place.name(), Value::Number(number)))
            }
        }
    }
}

/// Whether a string holds bytes that are no text: nothing in it is judged.
pub(crate) fn is_binary(place: &Place<'_, '_>, text: &str) -> bool {
    let kind = match file(place.name(), text) {
        // Base64 as it comes in these members need not begin as a known kind of file does.
        (FileKind::None, _) if is_inline(place) || SIGNATURES.contains(&place.name()) => {
            file_kind(&[BYTES, text].concat(), false)
        }
        (kind, _) => kind,
    };
    kind == FileKind::Binary
}

/// Whether a string is the base64 of a file in Gemini's format.
fn is_inline(place: &Place<'_, '_>) -> bool {
    let above = place.depth().checked_sub(2).and_then(|above| place.member(above));
    place.name() == DATA && above.is_some_and(|above| INLINE.contains(&above))
}

/// Replaces in a request as it came what was replaced in its canonical form and beside it. One in which
/// some of that is not found does not pass: the canonical form may join texts that stand apart in it.
pub(crate) fn replace(original: &mut Original, replaced: &[Replaced]) {
    let Some(body) = &original.body else { return };
    let wanted: Result<Vec<Wanted<'_>>, Unreadable> = replaced.iter().map(Wanted::of).collect();
    let Ok(wanted) = wanted else {
        original.body = None;
        return;
    };
    let members = replaced_members(original.format);
    let changes = changes(&wanted, &original.beside);
    original.body = match replaced_in(body, members, &wanted, &changes) {
        Ok(None) => return,
        Ok(Some(new)) => {
            let names: Vec<String> = changes.keys().map(|was| shown_name(was)).collect();
            original.omitted.retain(|part| !names.iter().any(|name| tells(part, name)));
            Some(new)
        }
        Err(_) => None,
    };
}

/// Whether the label of a part that the canonical form lacks tells a text that was replaced, in the form of labels. It
/// may be cut off in it.
fn tells(label: &str, text: &str) -> bool {
    let is_cut = label.len() >= LONGEST_NAME;
    !text.is_empty()
        && (label.contains(text)
            || is_cut && label.char_indices().any(|(from, _)| text.starts_with(&label[from..])))
}

/// A text that has to be replaced: as a whole, or, if it is JSON, string by string.
struct Wanted<'a> {
    whole: &'a Replaced,
    /// The strings that have changed in it.
    strings: Vec<(String, String)>,
}

impl<'a> Wanted<'a> {
    /// Fails if the strings that have changed cannot be told.
    fn of(whole: &'a Replaced) -> Result<Self, Unreadable> {
        let mut strings = Vec::new();
        // The result of a tool may be an object in the format of the request.
        let is_object = || whole.was.starts_with('{') && is_json(&whole.new);
        if (whole.is_json || is_object()) && is_json(&whole.was) {
            let (before, after) = (texts(&whole.was)?, texts(&whole.new)?);
            if before.len() != after.len() {
                return Err(Unreadable::Malformed);
            }
            strings.extend(before.into_iter().zip(after).filter(|(before, after)| before != after));
        }
        Ok(Self { whole, strings })
    }

    /// Whether it was found. A number that is spelled in another way stands beside the canonical form.
    fn is_in(&self, found: &HashSet<&str>) -> bool {
        let was = self.whole.was.as_str();
        let by_strings = || {
            let mut strings = self.strings.iter();
            !self.strings.is_empty() && strings.all(|(before, _)| found.contains(before.as_str()))
        };
        found.contains(was) || serde_json::from_str::<Number>(was).is_ok() || by_strings()
    }
}

/// The texts that are replaced, of the canonical form and beside it, each with what takes its place.
fn changes<'a>(wanted: &'a [Wanted<'_>], beside: &'a [Beside]) -> HashMap<&'a str, &'a str> {
    let mut all: HashMap<&str, &str> = HashMap::new();
    for Wanted { whole, strings } in wanted {
        all.insert(&whole.was, &whole.new);
        all.extend(strings.iter().map(|(before, after)| (before.as_str(), after.as_str())));
    }
    // A number is found as it is spelled in the request.
    for Beside { was, value, .. } in beside {
        if let Value::String(new) = value
            && new != was
        {
            all.insert(was, new);
        }
    }
    all
}

/// A body with these changes. `None` if there are none; each text that is wanted has to be there.
fn replaced_in(
    body: &str,
    members: &[&str],
    wanted: &[Wanted<'_>],
    all: &HashMap<&str, &str>,
) -> Result<Option<String>, Unreadable> {
    if all.is_empty() {
        return Ok(None);
    }
    let mut found = HashSet::new();
    let new = rewrite(body, |place, token| {
        if place.member(0).is_some_and(|top| members.contains(&top)) {
            return None;
        }
        let (was, new) = all.get_key_value(token.text())?;
        found.insert(*was);
        Some((*new).to_owned())
    })?;
    if wanted.iter().all(|wanted| wanted.is_in(&found)) {
        Ok(new)
    } else {
        Err(Unreadable::Malformed)
    }
}

/// Whether a text is JSON in which no member is there twice: each of its strings is judged then.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok() && visit(text, |_, _| {}).is_ok()
}

fn texts(json: &str) -> Result<Vec<String>, Unreadable> {
    let mut all = Vec::new();
    visit(json, |_, token| all.push(token.text().to_owned()))?;
    Ok(all)
}

/// Whether a string of an answer is JSON: the arguments of a function in a chat completion.
fn is_json_in_answer(place: &Place<'_, '_>) -> bool {
    let depth = place.depth();
    let above = depth.checked_sub(2).and_then(|above| place.member(above));
    place.member(0) == Some("choices")
        && place.name() == ARGUMENTS
        && matches!(above, Some("function" | "function_call"))
}

/// Whether a token of an answer stands where answers repeat their request.
pub(crate) fn is_echoed(place: &Place<'_, '_>) -> bool {
    place.depth() > 0 && place.member(0).is_some_and(|top| ECHOED.contains(&top))
}

/// Puts originals back into a string of an answer as it came: escaped where the string is JSON itself.
pub(crate) fn restored(
    placeholders: &Placeholders,
    place: &Place<'_, '_>,
    text: &str,
) -> Option<String> {
    let is_inner_json = is_json_in_answer(place) || place.name() == ARGUMENTS && is_json(text);
    let new =
        if is_inner_json { placeholders.restore_json(text) } else { placeholders.restore(text) };
    Some(new).filter(|new| new != text)
}

/// The strings of an answer as it came that are not among these of its canonical form.
pub(crate) fn answer_beside<'a>(
    source: &str,
    request: Option<&str>,
    canonical: impl Iterator<Item = (&'a str, bool)>,
) -> Result<Vec<String>, Unreadable> {
    let mut judged = Judged::default();
    for (text, is_json) in canonical {
        judged.add(Token::Text(text), false);
        if is_json && self::is_json(text) {
            let _ = visit(text, |_, token| judged.add(token, false));
        }
    }
    // Strings that an answer repeats of its request were judged there.
    let mut sent = Judged::default();
    if let Some(request) = request {
        visit(request, |_, token| sent.add(token, false))?;
    }
    let mut all = Vec::new();
    visit(source, |place, token| {
        if let Token::Text(text) = token
            && !text.is_empty()
            && !judged.has(token, Origin::Assistant)
            && !(is_echoed(place) && sent.has(token, Origin::Assistant))
            && !is_label(place, text)
            && !is_binary(place, text)
        {
            judged.add(token, false);
            all.push(text.to_owned());
        }
    })?;
    Ok(all)
}

#[cfg(test)]
#[path = "as_it_came_tests.rs"]
mod tests;
