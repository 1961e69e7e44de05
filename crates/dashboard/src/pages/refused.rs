//! A form that was refused, as its page shows it again: with what was sent, and the fault beside its field.

use std::borrow::Borrow;

use crate::pages::choice::Choice;

/// A form that was refused.
#[derive(Clone, Debug, Default)]
pub struct Refused {
    /// The name of the form among those of its page.
    pub form: String,
    /// The fields that were sent, without credentials.
    pub sent: Vec<(String, String)>,
    /// The faults, each with its field.
    pub faults: Vec<(&'static str, String)>,
}

/// A form of a page: as it was sent, if it is the one that was refused.
pub(crate) struct SentForm<'r>(Option<&'r Refused>);

impl Refused {
    /// A form of the page, by its name.
    pub(crate) fn of(&self, form: impl AsRef<str>) -> SentForm<'_> {
        SentForm(Some(self).filter(|refused| refused.form == form.as_ref()))
    }
}

impl SentForm<'_> {
    /// Whether it is the form that was refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.0.is_some()
    }

    fn sent(&self, field: &str) -> Option<&str> {
        let found = self.0?.sent.iter().find(|(name, _)| name == field);
        Some(found.map_or("", |(_, value)| value))
    }

    /// The value of a field; `today` is its value in a form that was not sent.
    pub(crate) fn value<'a>(&'a self, field: &str, today: &'a str) -> &'a str {
        self.sent(field).unwrap_or(today)
    }

    /// Whether a box is ticked.
    pub(crate) fn ticks(&self, field: &str, today: impl Borrow<bool>) -> bool {
        self.sent(field).map_or(*today.borrow(), |value| !value.is_empty())
    }

    /// Whether a field that may be sent several times was sent with a value.
    pub(crate) fn includes(&self, field: &str, value: &str) -> bool {
        self.0.is_some_and(|refused| {
            refused.sent.iter().any(|(name, sent)| name == field && sent == value)
        })
    }

    /// The first of its values that is none of those to choose from; empty without one.
    pub(crate) fn beyond(&self, field: &str, known: &[String]) -> &str {
        let all = self.0.into_iter().flat_map(|refused| &refused.sent);
        let mut sent = all.filter(|(name, _)| name == field).map(|(_, value)| value);
        sent.find(|value| !known.contains(value)).map_or("", String::as_str)
    }

    /// Whether such a field was sent at all.
    pub(crate) fn any(&self, field: &str) -> bool {
        self.0.is_some_and(|refused| refused.sent.iter().any(|(name, _)| name == field))
    }

    /// Whether a value is chosen among others.
    pub(crate) fn picks(&self, field: &str, value: &str, today: impl Borrow<bool>) -> bool {
        self.sent(field).map_or(*today.borrow(), |sent| sent == value)
    }

    /// The value that was sent, if it is none that can be chosen any more.
    pub(crate) fn other(&self, field: &str, choices: &[Choice]) -> Option<&str> {
        let is_other = |sent: &&str| choices.iter().all(|choice| choice.value != *sent);
        self.sent(field).filter(|sent| !sent.is_empty()).filter(is_other)
    }

    /// The fault of a field.
    pub(crate) fn fault(&self, field: &str) -> Option<&str> {
        let found = self.0?.faults.iter().find(|(name, _)| *name == field);
        found.map(|(_, fault)| fault.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_shows_what_was_sent_and_the_others_what_is() {
        let text = str::to_owned;
        let refused = Refused {
            form: text("new"),
            sent: vec![(text("name"), text("Sent")), (text("role"), text("admin"))],
            faults: vec![("name", text("It is taken"))],
        };
        let sent = refused.of("new");
        assert_eq!((sent.value("name", "Old"), sent.value("cap", "5")), ("Sent", ""));
        assert!(!sent.ticks("box", true) && sent.picks("role", "admin", false));
        assert_eq!((sent.fault("name"), sent.fault("role")), (Some("It is taken"), None));
        let other = refused.of("other");
        assert_eq!((other.value("name", "Old"), other.fault("name")), ("Old", None));
        assert!(other.ticks("box", true) && !other.picks("role", "admin", false));
    }
}
