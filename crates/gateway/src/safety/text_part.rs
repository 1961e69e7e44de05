//! The texts of a request as safety reads them, and their locations.

use checks::{Finding, Placeholders, Reading, Redactor, imitates_placeholder, label, long_number};
use domain::safety::Origin;
use serde_json::{Number, Value};

/// The location of a text in a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location<'a> {
    pub(crate) origin: Origin,
    /// The index of its message, and the role of that.
    pub(crate) message: Option<(usize, &'static str)>,
    /// The field of the message, or of the request if it belongs to none.
    pub(crate) field: &'a str,
}

impl Location<'_> {
    /// Whether two neighbours belong to the same message, or to the same field of the request, and
    /// are trusted alike.
    pub(crate) fn belongs_with(&self, next: &Location<'_>) -> bool {
        let is_same_field = self.message.is_some() || self.field == next.field;
        self.message == next.message && is_same_field && self.origin == next.origin
    }
}

/// A text that is judged for itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TextPart<'a> {
    Text(&'a str),
    /// A text that is read right behind the last one of these in its message, or in its field of the request.
    Read(&'a str),
    /// JSON inside a string.
    Json(&'a str),
    /// A file of text, and whether only its field shows that it is a file.
    File(&'a str, bool),
    /// A long number and the name of its field.
    Number(&'a str, &'a Number),
}

/// A part of a prompt in a form in which it can be replaced.
pub(crate) enum TextSlot<'a> {
    Text(&'a mut String),
    Json(&'a mut String),
    File(&'a mut String, bool),
    Number(&'a mut Value),
    /// A part of a provider's state, which is returned unchanged: it is left out whole if something
    /// in it would have to be replaced.
    Kept(&'a mut bool),
}

/// A text of a prompt, and what stands in its place.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) was: String,
    pub(crate) new: String,
    /// Whether it is JSON inside a string.
    pub(crate) is_json: bool,
}

impl<'a> TextPart<'a> {
    /// The text that safety reads. A number comes with the name of its field, as a person would
    /// write it: most mean nothing without it, and a text of only a number is taken for an identity
    /// number.
    pub(crate) fn reading(self) -> Reading<'a> {
        match self {
            Self::Text(text) | Self::Read(text) => Reading::Plain(text.into()),
            Self::Json(text) => Reading::json(text),
            Self::File(text, is_bare) => Reading::file(text, is_bare),
            Self::Number(name, number) => {
                let label = label(name).unwrap_or_else(|| "value".to_owned());
                let number = long_number(&number.to_string()).unwrap_or_default();
                Reading::Plain(format!("{label}: {number}").into())
            }
        }
    }

    /// The text that safety reads, with the originals of its placeholders; `None` if it has none.
    pub(super) fn with_originals(self, placeholders: &Placeholders) -> Option<String> {
        placeholders.originals_in(self.reading().text())
    }

    /// Whether something in it has the form of a placeholder.
    pub(crate) fn imitates_placeholder(self) -> bool {
        match self {
            Self::Text(text) | Self::Read(text) => imitates_placeholder(text),
            // Only an escape can hide one from a look at the JSON as it came.
            Self::Json(text) => {
                imitates_placeholder(text)
                    || text.contains("\\u") && Reading::json(text).imitates_placeholder()
            }
            Self::File(text, is_bare) => Reading::file(text, is_bare).imitates_placeholder(),
            Self::Number(..) => false,
        }
    }

    /// The number of its bytes.
    pub(crate) fn length(self) -> usize {
        match self {
            Self::Text(text) | Self::Read(text) | Self::Json(text) | Self::File(text, _) => {
                text.len()
            }
            Self::Number(..) => 0,
        }
    }
}

impl TextSlot<'_> {
    /// Replaces what was found in it; a number becomes a string. Returns what was replaced by what.
    pub(crate) fn redact(self, redactor: &mut Redactor, findings: &[&Finding]) -> Option<Replaced> {
        let (slot, new, is_json) = match self {
            Self::Text(text) => {
                let new = redactor.redact(text, findings)?;
                (text, new, false)
            }
            Self::Json(text) => {
                let new = Reading::json(text).redact(redactor, findings)?;
                (text, new, true)
            }
            Self::File(text, is_bare) => {
                let new = Reading::file(text, is_bare).redact(redactor, findings)?;
                (text, new, false)
            }
            Self::Number(value) => {
                let was = value.to_string();
                let new = redactor.replace_whole(&findings.first()?.kind, &was);
                *value = new.clone().into();
                return Some(Replaced { was, new, is_json: false });
            }
            Self::Kept(spoiled) => {
                *spoiled |= !findings.is_empty();
                return None;
            }
        };
        let was = std::mem::replace(slot, new.clone());
        Some(Replaced { was, new, is_json })
    }
}
