//! Requests and answers as they came, beside their canonical forms: no string leaves in them that was
//! not judged, and what is replaced in the canonical form is replaced in them.
//!
//! Strings are compared by their text, wherever they stand: a string of the canonical form has been
//! judged, and every other one is judged beside it. A member that nobody knows is so no way around
//! safety, and no format has to be known here.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use checks::{FileKind, Placeholders};
use domain::conversation::{Body, Prompt};
use domain::json_text::{Place, Token, Unreadable, rewrite, visit};
use domain::original::{Beside, Original};
use domain::safety::Origin;
use serde::de::IgnoredAny;
use serde_json::{Number, Value};

use crate::safety::prompt_strings::{self, file, is_judged_key, is_long};
use crate::safety::text_part::{Replaced, TextPart};

/// The members of a request that the gateway replaces or takes out.
const OURS: [&str; 3] = ["model", "trace_id", "stream"];
/// The members of a request that the gateway decides, and the bytes of the longest name.
const GOVERNED: [&str; 22] = [
    "model",
    "trace_id",
    "stream",
    "max_tokens",
    "messages",
    "max_completion_tokens",
    "stream_options",
    "n",
    "best_of",
    "service_tier",
    "modalities",
    "audio",
    "web_search_options",
    "tools",
    "background",
    "conversation",
    "input",
    "max_output_tokens",
    "max_tool_calls",
    "previous_response_id",
    "prompt",
    "store",
];
const LONGEST_GOVERNED: usize = 21;
/// The members that hold the conversation, by message or by item.
const CONVERSATIONS: [&str; 2] = ["messages", "input"];
/// The member of an answer that holds the arguments of a call, as JSON in a string.
const ARGUMENTS: &str = "arguments";
/// The members of an answer that repeat the request.
const ECHOED: [&str; 4] = ["instructions", "tools", "metadata", "text"];
/// Words and names of the formats themselves: judging them would only take time.
const FORMAT_WORDS: [&str; 47] = [
    "adaptive",
    "any",
    "assistant",
    "auto",
    "base64",
    "budget_tokens",
    "cache_control",
    "content",
    "custom",
    "description",
    "disabled",
    "document",
    "enabled",
    "ephemeral",
    "function",
    "image_url",
    "include_usage",
    "max_completion_tokens",
    "response_format",
    "stream_options",
    "tool_call_id",
    "tool_calls",
    "image",
    "input_schema",
    "is_error",
    "max_tokens",
    "media_type",
    "messages",
    "metadata",
    "object",
    "output_config",
    "signature",
    "source",
    "stop_sequences",
    "stream",
    "string",
    "system",
    "temperature",
    "text",
    "thinking",
    "tool_choice",
    "tool_result",
    "tool_use",
    "tool_use_id",
    "user",
    "user_id",
    "url",
];

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
    /// The words of the formats, which need no judging.
    fn of_formats() -> Self {
        let mut judged = Self::default();
        for word in FORMAT_WORDS {
            judged.add(Token::Text(word), false);
        }
        judged
    }

    fn of(prompt: &Prompt) -> Self {
        let mut judged = Self::of_formats();
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
                    judged.add_files(part);
                }
            }
        }
        judged
    }

    /// Notes the files of a part, which it holds as `data:` URLs.
    fn add_files(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                if let Some((_, data)) = text.split_once(";base64,") {
                    self.files.insert(self.hasher.hash_one(data));
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_files(item)),
            Value::Object(members) => members.values().for_each(|value| self.add_files(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Whether the canonical form holds a file with this base64, and counts it.
    fn holds_file(&self, data: &str) -> bool {
        self.files.contains(&self.hasher.hash_one(data))
    }

    fn add(&mut self, token: Token<'_>, is_ours: bool) {
        let hash = self.hash(token);
        self.texts.entry(hash).and_modify(|only_ours| *only_ours &= is_ours).or_insert(is_ours);
    }

    /// Whether a text was judged at least as strictly as one of this origin is.
    fn has(&self, token: Token<'_>, origin: Origin) -> bool {
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
        match beside(body, &Judged::of(prompt)) {
            Ok((beside, files)) => (original.beside, original.files) = (beside, files),
            Err(_) => original.body = None,
        }
    }
    prompt.original = Some(original);
}

fn beside(body: &str, judged: &Judged) -> Result<(Vec<Beside>, usize), Unreadable> {
    let (mut all, mut files): (Vec<(Option<usize>, Beside)>, usize) = (Vec::new(), 0);
    // The authors of the messages.
    let mut roles = HashMap::new();
    let mut known = HashSet::new();
    let mut is_ambiguous = false;
    visit(body, |place, token| {
        if let (1, Token::Name(name)) = (place.depth(), token) {
            is_ambiguous |= is_another_spelling(name);
        }
        if let Some((index, role)) = role(place, token) {
            roles.insert(index, role);
        }
        let top = place.member(0).unwrap_or_default();
        if OURS.contains(&top) {
            return;
        }
        let origin = origin(top);
        if judged.has(token, origin) {
            return;
        }
        let (name, value) = match token {
            Token::Name(name) if is_judged_key(name) => ("key", Value::from(name)),
            Token::Text(text) if !text.is_empty() => {
                if file(place.name(), text).0 == FileKind::Binary {
                    files += if judged.holds_file(text) { 0 } else { text.len() };
                    return;
                }
                (place.name(), Value::from(text))
            }
            Token::Number(text) => match serde_json::from_str::<Number>(text) {
                Ok(number) if is_long(&number) => (place.name(), Value::Number(number)),
                _ => return,
            },
            Token::Name(_) | Token::Text(_) => return,
        };
        let message = place.index(1).filter(|_| CONVERSATIONS.contains(&top));
        if known.insert(judged.hasher.hash_one((message, top, name, token.text()))) {
            let field = message.map_or_else(|| top.to_owned(), |at| format!("{top}[{at}]"));
            let (name, was) = (name.to_owned(), token.text().to_owned());
            all.push((message, Beside { field, name, origin, was, value }));
        }
    })?;
    if is_ambiguous {
        return Err(Unreadable::Twice);
    }
    let all = all.into_iter().map(|(message, beside)| {
        let role = message.and_then(|index| roles.get(&index));
        Beside { origin: role.copied().unwrap_or(beside.origin), ..beside }
    });
    Ok((all.collect(), files))
}

/// Whether a name is that of a member that the gateway decides but for its case: some servers read it
/// as the same.
fn is_another_spelling(name: &str) -> bool {
    if name.len() > 2 * LONGEST_GOVERNED {
        return false;
    }
    let folded = name.to_lowercase().to_uppercase();
    GOVERNED.iter().any(|governed| *governed != name && governed.to_uppercase() == folded)
}

/// The index of a message, and whose words its unknown parts are, if its author stands here.
fn role(place: &Place<'_, '_>, token: Token<'_>) -> Option<(usize, Origin)> {
    let Token::Text(role) = token else { return None };
    let is_role = place.depth() == 3 && place.member(2) == Some("role");
    let index = place
        .index(1)
        .filter(|_| is_role && place.member(0).is_some_and(|top| CONVERSATIONS.contains(&top)))?;
    Some((
        index,
        match role {
            "assistant" => Origin::Assistant,
            "system" | "developer" => Origin::System,
            // A block that nobody knows may hold anybody's words.
            _ => Origin::Other,
        },
    ))
}

/// How far the strings in a member of a request are trusted.
fn origin(top: &str) -> Origin {
    match top {
        "system" | "instructions" => Origin::System,
        "tools" => Origin::ToolDefinition,
        _ => Origin::Other,
    }
}

/// Replaces in a request as it came what was replaced in its canonical form and beside it. One in which
/// some of that is not found does not pass: the canonical form may join texts that stand apart in it.
pub(crate) fn replace(original: &mut Original, replaced: &[Replaced]) {
    let Some(body) = &original.body else { return };
    let wanted: Result<Vec<Wanted<'_>>, Unreadable> = replaced.iter().map(Wanted::of).collect();
    original.body = match wanted.and_then(|wanted| replaced_in(body, &wanted, &original.beside)) {
        Ok(None) => return,
        Ok(Some(new)) => Some(new),
        Err(_) => None,
    };
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
        if whole.is_json && is_json(&whole.was) {
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

/// A body with these texts replaced, each of which has to be there, and those beside its canonical form.
/// `None` if there is none.
fn replaced_in(
    body: &str,
    wanted: &[Wanted<'_>],
    beside: &[Beside],
) -> Result<Option<String>, Unreadable> {
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
    if all.is_empty() {
        return Ok(None);
    }
    let mut found = HashSet::new();
    let new = rewrite(body, |place, token| {
        if place.member(0).is_some_and(|top| OURS.contains(&top)) {
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
    let mut judged = Judged::of_formats();
    for (text, is_json) in canonical {
        judged.add(Token::Text(text), false);
        if is_json && self::is_json(text) {
            let _ = visit(text, |_, token| judged.add(token, false));
        }
    }
    // What an answer repeats of its request was judged there.
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
            && file(place.name(), text).0 != FileKind::Binary
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
