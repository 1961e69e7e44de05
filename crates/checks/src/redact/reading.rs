//! A text as it is judged and redacted.

use std::borrow::Cow;

use crate::redact::file::FileText;
use crate::redact::json_text::JsonText;
use crate::redact::look_alikes::imitates_placeholder;
use crate::redact::redactor::Redactor;
use crate::report::Finding;

/// A text as it is judged and redacted: as it stands, or as the JSON that it is.
#[derive(Debug)]
pub enum Reading<'a> {
    /// Words.
    Plain(Cow<'a, str>),
    /// JSON inside a string.
    Json(JsonText<'a>),
    /// A file of text.
    File(FileText<'a>),
}

impl<'a> Reading<'a> {
    /// Reads a text that should be JSON; one that does not look so is taken as it stands.
    pub fn json(text: &'a str) -> Self {
        JsonText::read(text).map_or_else(|| Self::Plain(text.into()), Self::Json)
    }

    /// Reads a string of which [`file_kind`](crate::file_kind) finds that it holds a file of text.
    pub fn file(text: &'a str, is_bare: bool) -> Self {
        FileText::read(text, is_bare).map_or_else(|| Self::Plain(text.into()), Self::File)
    }

    /// Returns the text to be judged.
    pub fn text(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Json(json) => json.text(),
            Self::File(file) => file.text(),
        }
    }

    /// Whether something in [`Reading::text`] has the form of a placeholder.
    pub fn imitates_placeholder(&self) -> bool {
        imitates_placeholder(self.text())
    }

    /// Replaces what was found in [`Reading::text`]; `None` when nothing changes.
    pub fn redact(&self, redactor: &mut Redactor, findings: &[&Finding]) -> Option<String> {
        match self {
            Self::Plain(text) => redactor.redact(text, findings),
            Self::Json(json) => json.redact(redactor, findings),
            Self::File(file) => file.redact(redactor, findings),
        }
    }
}
