//! The form of a condition under which a command fails: `cost>+10%`.

/// A condition, taken apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Parsed<'a> {
    /// The name of the figure.
    pub(crate) figure: &'a str,
    /// Whether it holds above the limit, and not below it.
    pub(crate) is_above: bool,
    pub(crate) limit: f64,
    pub(crate) is_percent: bool,
}

/// Takes a condition apart; `None` if it has another form.
pub(crate) fn parse(text: &str) -> Option<Parsed<'_>> {
    let (figure, rest) = text.split_at(text.find(['<', '>'])?);
    let is_above = rest.starts_with('>');
    let value = rest[1..].trim();
    let (number, is_percent) = match value.strip_suffix('%') {
        Some(number) => (number.trim_end(), true),
        None => (value, false),
    };
    let limit = number.parse::<f64>().ok().filter(|limit| limit.is_finite())?;
    Some(Parsed { figure: figure.trim(), is_above, limit, is_percent })
}
