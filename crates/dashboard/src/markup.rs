//! Elements inside sentences: a link, a name in bold, a time.
//!
//! A sentence of the [texts](crate::texts) has a parameter where an element stands, so that each language can
//! put it where it belongs. The element is made here, and whatever else is given is escaped.

use std::fmt::{self, Display};

use askama::filters::{Html as Escaped, HtmlSafe, escape};
use domain::time::Timestamp;

/// A sentence with its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Html(String);

impl Html {
    /// A sentence of words that [are plain](is_plain) and of parts that are HTML.
    pub(crate) fn of_parts(html: String) -> Self {
        Self(html)
    }
}

impl Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// Its parts are escaped, or elements.
impl HtmlSafe for Html {}

/// An element of a sentence. It has no `Display`, which tells it from values: those are escaped.
#[derive(Clone, Debug)]
pub struct Element(String);

impl Element {
    /// The element outside of any sentence.
    pub(crate) fn alone(self) -> Html {
        Html(self.0)
    }
}

/// What a sentence can have in the place of a parameter: an element, or a value.
pub trait Inline {
    /// As HTML; a value is escaped.
    fn html(&self) -> String;
}

impl<T: Display> Inline for T {
    fn html(&self) -> String {
        escaped(self)
    }
}

impl Inline for Element {
    fn html(&self) -> String {
        self.0.clone()
    }
}

// Templates pass references.
impl Inline for &Element {
    fn html(&self) -> String {
        self.0.clone()
    }
}

fn escaped(value: impl Display) -> String {
    let Ok(escaped) = escape(value, Escaped);
    escaped.to_string()
}

/// Whether the words of a sentence hold no markup, nor the beginning of any. A straight quotation mark would end an
/// attribute.
pub(crate) const fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if matches!(bytes[at], b'<' | b'>' | b'&' | b'"') {
            return false;
        }
        at += 1;
    }
    true
}

/// A word of a program.
pub(crate) fn code(text: impl Display) -> Element {
    Element(format!("<code>{}</code>", escaped(text)))
}

/// What a sentence is about.
pub(crate) fn strong(text: impl Display) -> Element {
    Element(format!("<strong>{}</strong>", escaped(text)))
}

/// A link within the console.
pub(crate) fn link(href: impl Display, text: impl Inline) -> Element {
    Element(format!("<a href=\"{}\">{}</a>", escaped(href), text.html()))
}

/// An id or a name of the API.
pub(crate) fn id(text: impl Display) -> Element {
    Element(format!("<code class=\"id\">{}</code>", escaped(text)))
}

/// An id that a button copies, which finds it by the id of the element.
pub(crate) fn copied_id(element: &'static str, text: impl Display) -> Element {
    Element(format!("<code class=\"id\" id=\"{element}\">{}</code>", escaped(text)))
}

/// A text of a class of the style sheet.
pub(crate) fn span(class: &'static str, text: impl Display) -> Element {
    Element(format!("<span class=\"{class}\">{}</span>", escaped(text)))
}

/// A time, which the script shows in the zone of the reader.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
pub(crate) fn when(at: &Timestamp) -> Element {
    Element(format!("<time datetime=\"{at}\" title=\"{at}\">{at}</time>"))
}
