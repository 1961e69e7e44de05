//! A JSON text as it is spelled: its tokens, and changes to single ones. Whitespace, the order of
//! members, numbers and escapes stay as they came wherever nothing is changed.
//!
//! The text must be JSON: a parser has accepted it. A text that is none gives some tokens or an error.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

/// Deeper nesting is not read; `serde_json` builds no tree of it either.
const MAX_DEPTH: usize = 128;
/// The names of a larger object are hashed, not compared one by one.
const FEW_NAMES: usize = 32;

/// Why a text cannot be changed token by token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is no JSON, or nested too deeply.
    #[error("it is no JSON text, or nested too deeply")]
    Malformed,
    /// A member is there twice: readers differ in which of the two counts.
    #[error("a member is there twice")]
    Twice,
}

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'t> {
    /// The name of a member, without escapes.
    Name(&'t str),
    /// A string, without escapes.
    Text(&'t str),
    /// A number as it is spelled.
    Number(&'t str),
}

impl<'t> Token<'t> {
    /// Its text.
    pub fn text(self) -> &'t str {
        match self {
            Self::Name(text) | Self::Text(text) | Self::Number(text) => text,
        }
    }
}

/// An object or a list that has not ended.
#[derive(Debug)]
struct Level<'a> {
    is_object: bool,
    /// The member that is being read.
    name: Cow<'a, str>,
    /// The number of values before this one.
    index: usize,
    /// The index of this object's first name among all that are kept.
    names: usize,
    many: HashSet<Cow<'a, str>>,
}

/// The place of a token.
#[derive(Debug)]
pub struct Place<'p, 'a> {
    levels: &'p [Level<'a>],
    /// The bytes of the token, quotes included.
    pub range: Range<usize>,
}

impl Place<'_, '_> {
    /// The number of lists and objects around it.
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// The member of the object at a depth, the outermost of which is 0.
    pub fn member(&self, depth: usize) -> Option<&str> {
        self.levels.get(depth).filter(|level| level.is_object).map(|level| &*level.name)
    }

    /// The index in the list at a depth.
    pub fn index(&self, depth: usize) -> Option<usize> {
        self.levels.get(depth).filter(|level| !level.is_object).map(|level| level.index)
    }

    /// The name of the member that holds it, directly or in lists; empty outside of all objects.
    pub fn name(&self) -> &str {
        let object = self.levels.iter().rev().find(|level| level.is_object);
        object.map_or("", |level| &*level.name)
    }

    /// Whether it is the member of nested objects under these names.
    pub fn is_at(&self, names: &[&str]) -> bool {
        self.levels.len() == names.len()
            && names.iter().enumerate().all(|(depth, name)| self.member(depth) == Some(name))
    }
}

/// Calls `see` with every token.
pub fn visit<'a>(
    json: &'a str,
    mut see: impl FnMut(&Place<'_, 'a>, Token<'_>),
) -> Result<(), Unreadable> {
    Reader::new(json).read(|place, token| {
        see(place, token);
        None
    })?;
    Ok(())
}

/// Replaces the tokens for which `change` has a text; a number becomes a string. `None` if there is
/// nothing to change.
pub fn rewrite<'a>(
    json: &'a str,
    change: impl FnMut(&Place<'_, 'a>, Token<'_>) -> Option<String>,
) -> Result<Option<String>, Unreadable> {
    Reader::new(json).read(change)
}

/// The bytes of the value behind the name of a member, which ends at `at`.
pub(crate) fn value_behind(json: &str, at: usize) -> Option<Range<usize>> {
    let bytes = json.as_bytes();
    let rest = bytes.get(at..)?;
    let gap = rest.iter().position(|byte| *byte != b':' && !byte.is_ascii_whitespace())?;
    let begins = at + gap;
    let (mut depth, mut at) = (0_usize, begins);
    loop {
        match bytes.get(at)? {
            b'"' => at = string_end(bytes, at + 1)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
                continue;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if depth > 0 => {
                at += 1;
                continue;
            }
            _ => {
                let ends = |byte: &u8| {
                    matches!(byte, b',' | b':' | b'}' | b']') || byte.is_ascii_whitespace()
                };
                at += bytes[at..].iter().take_while(|byte| !ends(byte)).count().max(1);
            }
        }
        if depth == 0 {
            return Some(begins..at);
        }
    }
}

/// A text as a JSON string.
pub fn quoted(text: &str) -> String {
    // A string is always JSON.
    serde_json::to_string(text).unwrap_or_default()
}

struct Reader<'a> {
    json: &'a str,
    levels: Vec<Level<'a>>,
    names: Vec<Cow<'a, str>>,
    /// Whether the next string is the name of a member.
    expects_name: bool,
    /// The text with changes, up to `copied`; empty before the first.
    out: String,
    copied: usize,
}

impl<'a> Reader<'a> {
    fn new(json: &'a str) -> Self {
        let (levels, names) = (Vec::new(), Vec::new());
        Self { json, levels, names, expects_name: false, out: String::new(), copied: 0 }
    }

    fn read(
        mut self,
        mut change: impl FnMut(&Place<'_, 'a>, Token<'_>) -> Option<String>,
    ) -> Result<Option<String>, Unreadable> {
        let bytes = self.json.as_bytes();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let start = at;
            at += 1;
            match byte {
                b'"' => {
                    at = string_end(bytes, at).ok_or(Unreadable::Malformed)?;
                    let text = decoded(&self.json[start..at])?;
                    let is_name = std::mem::take(&mut self.expects_name);
                    if is_name {
                        self.enter_member(text.clone())?;
                    }
                    let token = if is_name { Token::Name(&text) } else { Token::Text(&text) };
                    self.tell(start..at, token, &mut change);
                }
                b'{' | b'[' => {
                    if self.levels.len() == MAX_DEPTH {
                        return Err(Unreadable::Malformed);
                    }
                    self.expects_name = *byte == b'{';
                    self.levels.push(Level {
                        is_object: self.expects_name,
                        name: Cow::Borrowed(""),
                        index: 0,
                        names: self.names.len(),
                        many: HashSet::new(),
                    });
                }
                b'}' | b']' => {
                    let level = self.levels.pop().ok_or(Unreadable::Malformed)?;
                    self.names.truncate(level.names);
                    self.expects_name = false;
                }
                b',' => {
                    let level = self.levels.last_mut().ok_or(Unreadable::Malformed)?;
                    level.index += 1;
                    self.expects_name = level.is_object;
                }
                b'-' | b'0'..=b'9' => {
                    let is_part =
                        |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                    at += bytes[at..].iter().take_while(|byte| is_part(byte)).count();
                    let number = &self.json[start..at];
                    self.tell(start..at, Token::Number(number), &mut change);
                }
                _ => {}
            }
        }
        if self.copied == 0 {
            return Ok(None);
        }
        self.out.push_str(&self.json[self.copied..]);
        Ok(Some(self.out))
    }

    fn tell(
        &mut self,
        range: Range<usize>,
        token: Token<'_>,
        change: &mut impl FnMut(&Place<'_, 'a>, Token<'_>) -> Option<String>,
    ) {
        let place = Place { levels: &self.levels, range };
        if let Some(new) = change(&place, token) {
            self.out.push_str(&self.json[self.copied..place.range.start]);
            self.out.push_str(&quoted(&new));
            self.copied = place.range.end;
        }
    }

    fn enter_member(&mut self, name: Cow<'a, str>) -> Result<(), Unreadable> {
        let level = self.levels.last_mut().ok_or(Unreadable::Malformed)?;
        level.name.clone_from(&name);
        let few = &self.names[level.names..];
        let is_known = few.contains(&name);
        if is_known || level.many.contains(&name) {
            return Err(Unreadable::Twice);
        }
        if few.len() < FEW_NAMES {
            self.names.push(name);
        } else {
            level.many.insert(name);
        }
        Ok(())
    }
}

/// The position behind the quote that ends a string, which begins at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        match bytes[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// Whether a text is one JSON string, and nothing else. What stands in it is not looked at.
pub(crate) fn is_string(text: &str) -> bool {
    text.starts_with('"') && string_end(text.as_bytes(), 1) == Some(text.len())
}

/// A JSON string without its quotes and escapes.
pub(crate) fn unquoted(string: &str) -> Result<Cow<'_, str>, Unreadable> {
    decoded(string)
}

/// A string without its quotes and escapes.
fn decoded(token: &str) -> Result<Cow<'_, str>, Unreadable> {
    let inner = &token[1..token.len() - 1];
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Ok(Cow::Borrowed(inner));
    }
    serde_json::from_str(token).map(Cow::Owned).map_err(|_| Unreadable::Malformed)
}

/// A change to a member of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit<'e> {
    /// It is taken out, if it is there.
    Remove,
    /// Its value becomes this JSON text; the member is added if it is missing.
    Set(&'e str),
}

/// A member of the outermost object: its name, its bytes, and those of its value.
struct Member<'a> {
    name: Cow<'a, str>,
    whole: Range<usize>,
    value: Range<usize>,
}

/// Changes members of the object that a text is. Everything else stays as it is spelled.
pub fn edited(json: &str, edits: &[(&str, Edit<'_>)]) -> Result<String, Unreadable> {
    if !json.trim_start().starts_with('{') {
        return Err(Unreadable::Malformed);
    }
    let members = members(json)?;
    let edit_of = |name: &str| edits.iter().find(|(of, _)| *of == name).map(|(_, edit)| *edit);
    let mut out = String::with_capacity(json.len() + 64);
    let begins = json.find('{').ok_or(Unreadable::Malformed)? + 1;
    out.push_str(&json[..begins]);
    let (mut before, mut is_first) = (begins, true);
    for member in &members {
        let between = before..member.whole.start;
        before = member.whole.end;
        let edit = edit_of(&member.name);
        if edit == Some(Edit::Remove) {
            continue;
        }
        let between = &json[between];
        if std::mem::take(&mut is_first) {
            // Nothing separates it from a member that is gone.
            out.push_str(&between.replacen(',', "", 1));
        } else {
            out.push_str(between);
        }
        match edit {
            Some(Edit::Set(value)) => {
                out.push_str(&json[member.whole.start..member.value.start]);
                out.push_str(value);
            }
            _ => out.push_str(&json[member.whole.clone()]),
        }
    }
    for (name, edit) in edits {
        if let Edit::Set(value) = edit
            && members.iter().all(|member| member.name != *name)
        {
            out.push_str(if std::mem::take(&mut is_first) { "" } else { "," });
            out.push_str(&quoted(name));
            out.push(':');
            out.push_str(value);
        }
    }
    out.push_str(&json[before..]);
    Ok(out)
}

/// The value of a member of the object that a text is, as it is spelled.
pub fn member<'a>(json: &'a str, name: &str) -> Result<Option<&'a str>, Unreadable> {
    select(json, [name]).map(|[value]| value)
}

/// The values of some members of the object that a text is, as they are spelled.
pub fn select<'a, const N: usize>(
    json: &'a str,
    names: [&str; N],
) -> Result<[Option<&'a str>; N], Unreadable> {
    let all = members(json)?;
    Ok(names.map(|name| {
        let found = all.iter().find(|member| member.name == name);
        found.map(|member| &json[member.value.clone()])
    }))
}

fn members(json: &str) -> Result<Vec<Member<'_>>, Unreadable> {
    let bytes = json.as_bytes();
    let mut all: Vec<Member<'_>> = Vec::new();
    let (mut depth, mut at, mut expects_name) = (0_usize, 0, false);
    while let Some(byte) = bytes.get(at) {
        let start = at;
        at += 1;
        let is_value = match byte {
            b'"' => {
                at = string_end(bytes, at).ok_or(Unreadable::Malformed)?;
                if depth == 1 && std::mem::take(&mut expects_name) {
                    let name = decoded(&json[start..at])?;
                    all.push(Member { name, whole: start..at, value: at..at });
                    continue;
                }
                depth == 1
            }
            b'{' | b'[' => {
                depth += 1;
                expects_name = depth == 1 && *byte == b'{';
                if depth == 2
                    && let Some(member) = all.last_mut()
                {
                    member.value.start = start;
                }
                false
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1).ok_or(Unreadable::Malformed)?;
                if depth == 1
                    && let Some(member) = all.last_mut()
                {
                    (member.value.end, member.whole.end) = (at, at);
                }
                false
            }
            b',' => {
                expects_name = depth == 1;
                false
            }
            b':' | b' ' | b'\t' | b'\r' | b'\n' => false,
            _ => {
                let ends =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                at += bytes[at..].iter().take_while(|byte| !ends(byte)).count();
                depth == 1
            }
        };
        if is_value && let Some(member) = all.last_mut() {
            (member.value, member.whole.end) = (start..at, at);
        }
    }
    if depth == 0 { Ok(all) } else { Err(Unreadable::Malformed) }
}

#[cfg(test)]
#[path = "json_text_tests.rs"]
mod tests;
