//! The form of a condition under which a command fails: `cost>+10%`.

/// A condition about one of the figures of a command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parsed<F> {
    /// The condition as it was given.
    pub(crate) text: String,
    pub(crate) figure: F,
    /// Whether it holds above the limit, and not below it.
    pub(crate) is_above: bool,
    pub(crate) limit: f64,
    pub(crate) is_percent: bool,
}

impl<F: Copy> Parsed<F> {
    /// Reads a condition about one of these figures, each with its name; `None` if it has another form.
    pub(crate) fn read(text: &str, figures: &[(&str, F)]) -> Option<Self> {
        let (name, rest) = text.split_at(text.find(['<', '>'])?);
        let is_above = rest.starts_with('>');
        let value = rest[1..].trim();
        let (number, is_percent) = match value.strip_suffix('%') {
            Some(number) => (number.trim_end(), true),
            None => (value, false),
        };
        let limit = number.parse::<f64>().ok().filter(|limit| limit.is_finite())?;
        let (_, figure) = figures.iter().find(|(known, _)| *known == name.trim())?;
        Some(Self { text: text.to_owned(), figure: *figure, is_above, limit, is_percent })
    }

    /// Whether it holds for a value that was found.
    pub(crate) fn holds(&self, found: f64) -> bool {
        if self.is_above { found > self.limit } else { found < self.limit }
    }
}
