//! All texts of a request, in one fixed order, for safety to judge and redact.

use checks::{FileKind, file_kind, long_number};
use domain::conversation::{Body, PROVIDER_STATE as STATE, Prompt};
use domain::original::Beside;
use domain::safety::Origin;
use serde_json::{Map, Number, Value};

use crate::safety::text_part::{Location, TextPart, TextSlot};

/// Shorter names of fields hold nothing that has to be judged.
const LONG_KEY: usize = 6;
/// The arguments of a tool are JSON inside a string.
const ARGUMENTS: &str = "arguments";
/// The parameters of a request that define tools.
const TOOLS: [&str; 2] = ["tools", "functions"];
/// The names of fields that hold the texts of content parts; a part may be a text itself.
const READ: [&str; 3] = ["text", "content", ""];
/// The names of fields that hold files in base64, without a description of their kind, in small
/// letters and without `_`.
const FILES: [&str; 18] = [
    "data",
    "filedata",
    "bytes",
    "base64",
    "b64",
    "b64json",
    "blob",
    "binary",
    "raw",
    "file",
    "filecontent",
    "content64",
    "document",
    "attachment",
    "payload",
    "audio",
    "image",
    "video",
];

/// Calls `see` with all texts of a prompt, long names of fields included.
pub(crate) fn each<'a>(prompt: &'a Prompt, see: impl FnMut(Location<'a>, TextPart<'a>)) {
    each_by(prompt, &|_| false, see);
}

/// Calls `see` as [`each`] does. The tools that `is_listed` were listed by somebody else: they are none
/// of the application's words.
pub(crate) fn each_by<'a>(
    prompt: &'a Prompt,
    is_listed: &dyn Fn(&Value) -> bool,
    mut see: impl FnMut(Location<'a>, TextPart<'a>),
) {
    for (index, message) in prompt.messages.iter().enumerate() {
        let origin = message.role.origin();
        let at = |field| Location { origin, message: Some((index, message.role.as_str())), field };
        let mut content = |said| see(at("content"), said);
        match &message.body {
            Body::Empty => {}
            Body::Text(text) if is_file(text) => content(TextPart::File(text, false)),
            Body::Text(text) => content(TextPart::Text(text)),
            Body::Parts(parts) => parts.iter().for_each(|part| each_in("", part, &mut content)),
        }
        for (name, value) in &message.extra {
            member(name, value, &mut |said| see(at(name), said));
        }
    }
    for (name, value) in &prompt.params {
        let at = |origin| Location { origin, message: None, field: name };
        let Some(tools) = value.as_array().filter(|_| TOOLS.contains(&name.as_str())) else {
            member(name, value, &mut |said| see(at(Origin::Other), said));
            continue;
        };
        if is_judged_key(name) {
            see(at(Origin::Other), TextPart::Text(name));
        }
        for tool in tools {
            let origin = if is_listed(tool) { Origin::Other } else { Origin::ToolDefinition };
            each_in(name, tool, &mut |said| see(at(origin), said));
        }
    }
    for Beside { field, name, origin, value, .. } in beside(prompt) {
        each_in(name, value, &mut |said| {
            see(Location { origin: *origin, message: None, field }, said);
        });
    }
}

/// The strings that the request as it came holds beside the canonical form.
fn beside(prompt: &Prompt) -> &[Beside] {
    prompt.original.as_ref().map_or(&[], |original| &original.beside)
}

/// The bytes of the strings of a prompt that are judged.
pub(crate) fn length(prompt: &Prompt) -> usize {
    let mut length = 0;
    each(prompt, |_, said| length += said.length());
    length
}

/// The bytes of [`length`], and whether something in the texts has the form of a placeholder.
pub(crate) fn length_and_imitation(prompt: &Prompt) -> (usize, bool) {
    let (mut length, mut imitates) = (0, false);
    each(prompt, |_, said| {
        length += said.length();
        imitates = imitates || said.imitates_placeholder();
    });
    (length, imitates)
}

/// The bytes that a value other than a string counts in [`raw_size`].
const SMALL_VALUE: usize = 8;

/// About the bytes that have to be read to judge a prompt: all of its strings and names, those of
/// pictures included, and its numbers, each with the name of its field. Nothing is read or decoded
/// to count them.
pub(crate) fn raw_size(prompt: &Prompt) -> usize {
    let messages = prompt.messages.iter().map(|message| {
        let body = match &message.body {
            Body::Empty => 0,
            Body::Text(text) => text.len(),
            Body::Parts(parts) => parts.iter().map(|part| raw_value("", part)).sum(),
        };
        body + raw_members(&message.extra)
    });
    let original = prompt.original.as_ref().and_then(|original| original.body.as_ref());
    messages.sum::<usize>() + raw_members(&prompt.params) + original.map_or(0, String::len)
}

fn raw_members(map: &Map<String, Value>) -> usize {
    map.iter().map(|(name, value)| name.len() + raw_value(name, value)).sum()
}

fn raw_value(name: &str, value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        // A number is judged with the name of its field, however many are in one field.
        Value::Number(_) => name.len() + LONG_NUMBER,
        Value::Array(items) => items.iter().map(|item| raw_value(name, item)).sum(),
        Value::Object(map) => raw_members(map),
        Value::Null | Value::Bool(_) => SMALL_VALUE,
    }
}

/// The least bytes of a number that is judged.
const LONG_NUMBER: usize = 16;

/// The least bytes that are judged of a prompt: its strings, and its numbers with their names.
pub(crate) fn judged_length(prompt: &Prompt) -> usize {
    let mut length = 0;
    each(prompt, |_, said| {
        length += match said {
            TextPart::Number(name, _) => name.len() + LONG_NUMBER,
            text => text.length(),
        };
    });
    length
}

/// Calls `change` with all texts of a prompt, in the order of [`each`].
pub(crate) fn each_mut(prompt: &mut Prompt, mut change: impl FnMut(TextSlot<'_>)) {
    for message in &mut prompt.messages {
        match &mut message.body {
            Body::Empty => {}
            Body::Text(text) if is_file(text) => change(TextSlot::File(text, false)),
            Body::Text(text) => change(TextSlot::Text(text)),
            Body::Parts(parts) => {
                for part in parts {
                    each_in_mut("", part, &mut change);
                }
            }
        }
        members_mut(&mut message.extra, &mut change);
    }
    members_mut(&mut prompt.params, &mut change);
    for beside in prompt.original.iter_mut().flat_map(|original| &mut original.beside) {
        each_in_mut(&beside.name, &mut beside.value, &mut change);
    }
}

fn member<'a>(name: &'a str, value: &'a Value, see: &mut impl FnMut(TextPart<'a>)) {
    if is_judged_key(name) {
        see(TextPart::Text(name));
    }
    each_in(name, value, see);
}

fn members_mut(map: &mut Map<String, Value>, change: &mut impl FnMut(TextSlot<'_>)) {
    let entries = std::mem::take(map).into_iter().filter_map(|(mut key, mut value)| {
        if key == STATE {
            let mut spoiled = false;
            member(&key, &value, &mut |_| change(TextSlot::Kept(&mut spoiled)));
            return (!spoiled).then_some((key, value));
        }
        // Under the name that it had when it was judged.
        let name = key.clone();
        if is_judged_key(&key) {
            change(TextSlot::Text(&mut key));
        }
        each_in_mut(&name, &mut value, change);
        Some((key, value))
    });
    *map = entries.collect();
}

fn each_in<'a>(name: &'a str, value: &'a Value, see: &mut impl FnMut(TextPart<'a>)) {
    match value {
        Value::String(text) if name == ARGUMENTS => see(TextPart::Json(text)),
        Value::String(text) => match file(name, text) {
            (FileKind::None, _) if READ.contains(&name) => see(TextPart::Read(text)),
            (FileKind::None, _) => see(TextPart::Text(text)),
            (FileKind::Text, is_bare) => see(TextPart::File(text, is_bare)),
            (FileKind::Binary, _) => {}
        },
        Value::Number(number) if is_long(number) => see(TextPart::Number(name, number)),
        Value::Array(items) => items.iter().for_each(|item| each_in(name, item, see)),
        Value::Object(map) => map.iter().for_each(|(name, value)| member(name, value, see)),
        _ => {}
    }
}

fn each_in_mut(name: &str, value: &mut Value, change: &mut impl FnMut(TextSlot<'_>)) {
    match value {
        Value::String(text) if name == ARGUMENTS => change(TextSlot::Json(text)),
        Value::String(text) => match file(name, text) {
            (FileKind::None, _) => change(TextSlot::Text(text)),
            (FileKind::Text, is_bare) => change(TextSlot::File(text, is_bare)),
            (FileKind::Binary, _) => {}
        },
        Value::Number(number) if is_long(number) => change(TextSlot::Number(value)),
        Value::Array(items) => items.iter_mut().for_each(|item| each_in_mut(name, item, change)),
        Value::Object(map) => members_mut(map, change),
        _ => {}
    }
}

/// Names of fields are short; a longer one may be anything.
pub(super) fn is_judged_key(key: &str) -> bool {
    key.len() >= LONG_KEY
}

/// Whether a number has enough digits to identify a person.
pub(super) fn is_long(number: &Number) -> bool {
    // Most numbers are small, and counting their digits takes time.
    number.as_i64().is_none_or(|value| value.unsigned_abs() >= 1_000_000)
        && long_number(&number.to_string()).is_some()
}

/// The kind of file in a string of a field, and whether the field alone makes it one.
pub(super) fn file(name: &str, text: &str) -> (FileKind, bool) {
    let letters = || name.bytes().filter(|byte| *byte != b'_').map(|b| b.to_ascii_lowercase());
    let is_bare = FILES.iter().any(|file| letters().eq(file.bytes()));
    (file_kind(text, is_bare), is_bare)
}

/// Whether a whole message is a file of text.
fn is_file(text: &str) -> bool {
    file_kind(text, false) == FileKind::Text
}

/// Whether a string is to be judged: bytes of a picture or a sound are no text.
pub(crate) fn is_text(text: &str) -> bool {
    file_kind(text, false) != FileKind::Binary
}

#[cfg(test)]
#[path = "prompt_strings_tests.rs"]
mod tests;
