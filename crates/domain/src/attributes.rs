//! Attributes of a call: the user and the session that it is for, and tags. They come from the caller's
//! headers, from the body of the call and from the metadata of its trace, in this order of precedence.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The longest value of an attribute, in characters.
pub const LONGEST_VALUE: usize = 128;
/// The longest name of a tag, in characters.
pub const LONGEST_TAG_NAME: usize = 64;
/// The most tags of a call.
pub const MOST_TAGS: usize = 8;
/// Stands before the name of a tag where attributes are named.
const TAG: &str = "tag:";

/// The attributes of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The user that it is for.
    pub user: Option<String>,
    /// The session that it belongs to.
    pub session: Option<String>,
    /// Tags by name.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

/// The name of an attribute: `user`, `session` or `tag:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttributeName {
    /// The user.
    User,
    /// The session.
    Session,
    /// A tag of this name.
    Tag(String),
}

impl AttributeName {
    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "user" => Some(Self::User),
            "session" => Some(Self::Session),
            _ => {
                let name = text.strip_prefix(TAG)?;
                is_tag_name(name).then(|| Self::Tag(name.to_owned()))
            }
        }
    }
}

impl fmt::Display for AttributeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("user"),
            Self::Session => f.write_str("session"),
            Self::Tag(name) => write!(f, "{TAG}{name}"),
        }
    }
}

/// Whether a text can name a tag. Names stand in headers, queries and paths of JSON: the characters that
/// end a name there are not in it.
pub fn is_tag_name(name: &str) -> bool {
    let fits = |c: char| !c.is_control() && !matches!(c, '"' | '\\' | '[' | ']' | '=' | ',');
    fits_length(name, LONGEST_TAG_NAME) && name.chars().all(fits)
}

/// Whether a text can be the value of an attribute.
pub fn is_value(value: &str) -> bool {
    // A text that is not UTF-8 comes with replacement characters.
    let fits = |c: char| !c.is_control() && c != char::REPLACEMENT_CHARACTER;
    fits_length(value, LONGEST_VALUE) && value.chars().all(fits)
}

/// Whether a text has 1 to `most` characters; a long text is not counted to its end.
fn fits_length(text: &str, most: usize) -> bool {
    !text.is_empty() && text.chars().nth(most).is_none()
}

impl Attributes {
    /// The value of an attribute.
    pub fn get(&self, name: &AttributeName) -> Option<&str> {
        match name {
            AttributeName::User => self.user.as_deref(),
            AttributeName::Session => self.session.as_deref(),
            AttributeName::Tag(name) => self.tags.get(name).map(String::as_str),
        }
    }

    /// Replaces the value of an attribute that is there.
    pub fn replace(&mut self, name: &AttributeName, with: impl FnOnce(&str) -> String) {
        let value = match name {
            AttributeName::User => self.user.as_mut(),
            AttributeName::Session => self.session.as_mut(),
            AttributeName::Tag(name) => self.tags.get_mut(name),
        };
        if let Some(value) = value {
            *value = with(value);
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.user.is_none() && self.session.is_none() && self.tags.is_empty()
    }
}

/// Why an attribute is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeFault {
    /// The name of the tag is too long, or has a character that names do not have.
    Name,
    /// The value is too long, or has a control character.
    Value,
    /// There are as many tags already as there may be.
    TooMany,
}

impl fmt::Display for AttributeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => write!(
                f,
                "must have a name of at most {LONGEST_TAG_NAME} characters, without control characters and \" \\ [ ] = ,"
            ),
            Self::Value => {
                write!(f, "must have at most {LONGEST_VALUE} characters, and no control characters")
            }
            Self::TooMany => write!(f, "is one of more than {MOST_TAGS} tags"),
        }
    }
}

/// Attributes that are gathered from several places, the one with the highest precedence first. An empty
/// value is none.
#[derive(Clone, Debug, Default)]
pub struct Gathering {
    attributes: Attributes,
    faults: Vec<(String, AttributeFault)>,
}

impl Gathering {
    /// Adds the user, if there is none yet.
    pub fn user(&mut self, value: &str) {
        if self.attributes.user.is_none() && value_of(&mut self.faults, "user", value) {
            self.attributes.user = Some(value.to_owned());
        }
    }

    /// Adds the session, if there is none yet.
    pub fn session(&mut self, value: &str) {
        if self.attributes.session.is_none() && value_of(&mut self.faults, "session", value) {
            self.attributes.session = Some(value.to_owned());
        }
    }

    /// Adds a tag, if there is none of this name yet.
    pub fn tag(&mut self, name: &str, value: &str) {
        if value.is_empty() || self.attributes.tags.contains_key(name) {
            return;
        }
        let shown = || format!("{TAG}{name}");
        if !is_tag_name(name) {
            self.faults.push((shown(), AttributeFault::Name));
        } else if !is_value(value) {
            self.faults.push((shown(), AttributeFault::Value));
        } else if self.attributes.tags.len() == MOST_TAGS {
            self.faults.push((shown(), AttributeFault::TooMany));
        } else {
            self.attributes.tags.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Adds tags as a header has them: `name=value,name=value`. A part without `=` is dropped by its name.
    pub fn tags(&mut self, text: &str) {
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((name, value)) => self.tag(name.trim_end(), value.trim_start()),
                None => self.faults.push((format!("{TAG}{part}"), AttributeFault::Name)),
            }
        }
    }

    /// Adds the members `user`, `session` and `tags` of the metadata of a trace. Members of other types
    /// are the application's own.
    pub fn metadata(&mut self, metadata: &Map<String, Value>) {
        let text = |name| metadata.get(name).and_then(Value::as_str);
        if let Some(user) = text("user") {
            self.user(user);
        }
        if let Some(session) = text("session") {
            self.session(session);
        }
        let tags = metadata.get("tags").and_then(Value::as_object).into_iter().flatten();
        for (name, value) in tags {
            if let Some(value) = value.as_str() {
                self.tag(name, value);
            }
        }
    }

    /// Adds attributes that are known to fit.
    pub fn add(&mut self, lower: &Attributes) {
        if let Some(user) = &lower.user {
            self.user(user);
        }
        if let Some(session) = &lower.session {
            self.session(session);
        }
        for (name, value) in &lower.tags {
            self.tag(name, value);
        }
    }

    /// The attributes, and those that are not kept, by name.
    pub fn finish(self) -> (Attributes, Vec<(String, AttributeFault)>) {
        (self.attributes, self.faults)
    }
}

/// Whether a value is one; notes its fault if it is wrong.
fn value_of(faults: &mut Vec<(String, AttributeFault)>, name: &str, value: &str) -> bool {
    let fits = is_value(value);
    if !fits && !value.is_empty() {
        faults.push((name.to_owned(), AttributeFault::Value));
    }
    fits
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(value: Value) -> (Attributes, Vec<(String, AttributeFault)>) {
        let mut gathering = Gathering::default();
        gathering.metadata(value.as_object().unwrap());
        gathering.finish()
    }

    #[test]
    fn the_first_place_counts_and_tags_of_all_places_add_up() {
        let mut gathering = Gathering::default();
        gathering.user("");
        gathering.user("jane");
        gathering.tags("team=red, cost = 7 ,,stage=a=b");
        gathering.user("joe");
        gathering.tag("team", "blue");
        gathering.tag("region", "eu");
        let (attributes, faults) = gathering.finish();
        assert_eq!(faults, []);
        assert_eq!((attributes.user.as_deref(), attributes.session), (Some("jane"), None));
        let tags: Vec<_> =
            attributes.tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(tags, ["cost=7", "region=eu", "stage=a=b", "team=red"]);
    }

    #[test]
    fn limits_are_those_of_characters() {
        let (fits, long) = ("é".repeat(128), "é".repeat(129));
        let (attributes, faults) = metadata(json!({"user": fits, "session": long, "tags": {
            "n".repeat(64): "v", "n".repeat(65): "v", "a=b": "v", "nul": "\u{0}", "empty": "",
            "number": 7}, "other": long}));
        assert_eq!(attributes.user, Some(fits));
        assert_eq!((attributes.session, attributes.tags.len()), (None, 1));
        let mut found: Vec<_> = faults.iter().map(|(name, fault)| (&name[..5], *fault)).collect();
        found.sort_by_key(|(name, _)| *name);
        let (name, value) = (AttributeFault::Name, AttributeFault::Value);
        assert_eq!(found, [("sessi", value), ("tag:a", name), ("tag:n", name), ("tag:n", value)]);
        assert_eq!(metadata(json!({"user": {"id": 5}, "session": 7, "tags": ["a"]})).1, []);
        let tags: Map<String, Value> = (0..9).map(|n| (format!("t{n}"), json!("v"))).collect();
        let (attributes, faults) = metadata(json!({"tags": tags}));
        assert_eq!(attributes.tags.len(), 8);
        assert_eq!(faults, [("tag:t8".to_owned(), AttributeFault::TooMany)]);
    }

    #[test]
    fn names_are_read_as_they_are_shown() {
        for name in ["user", "session", "tag:team", "tag:a.b c"] {
            assert_eq!(AttributeName::parse(name).unwrap().to_string(), name);
        }
        for name in ["", "team", "tag:", "tag:a,b", "tag:a\"", "User"] {
            assert_eq!(AttributeName::parse(name), None, "{name}");
        }
        let mut attributes = Attributes { user: Some("jane".to_owned()), ..Attributes::default() };
        attributes.replace(&AttributeName::User, str::to_uppercase);
        attributes.replace(&AttributeName::Session, str::to_uppercase);
        assert_eq!(attributes.get(&AttributeName::User), Some("JANE"));
        assert_eq!(attributes.get(&AttributeName::Session), None);
    }
}
