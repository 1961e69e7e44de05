//! Choices of forms.

/// An option of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The value that is sent.
    pub value: String,
    /// The text that is shown.
    pub label: String,
    /// Whether it is chosen.
    pub is_chosen: bool,
}

impl Choice {
    /// A value that is shown as it is, and is not chosen.
    pub fn of(value: String) -> Self {
        Self { label: value.clone(), value, is_chosen: false }
    }

    /// Values that are shown as they are, of which some may be chosen.
    pub fn all_of<'a, 'c>(
        values: impl IntoIterator<Item = &'a str>,
        chosen: impl IntoIterator<Item = &'c str>,
    ) -> Vec<Self> {
        let chosen: Vec<&str> = chosen.into_iter().collect();
        let choice =
            |value: &str| Self { is_chosen: chosen.contains(&value), ..Self::of(value.to_owned()) };
        values.into_iter().map(choice).collect()
    }
}

/// The value that is chosen; empty without one.
pub(crate) fn chosen(choices: &[Choice]) -> &str {
    let found = choices.iter().find(|choice| choice.is_chosen);
    found.map_or("", |choice| &choice.value)
}
