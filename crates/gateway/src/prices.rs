//! List prices of well-known models, for definitions that give none.

use domain::money::Usd;

/// The day on which the vendors' public price pages were read.
pub(crate) const AS_OF: &str = "2025-12-01";

/// Identifier, USD per million prompt tokens, USD per million completion tokens.
const LIST: &[(&str, f64, f64)] = &[
    ("gpt-5", 1.25, 10.0),
    ("gpt-5-mini", 0.25, 2.0),
    ("gpt-5-nano", 0.05, 0.4),
    ("gpt-4.1", 2.0, 8.0),
    ("gpt-4.1-mini", 0.4, 1.6),
    ("gpt-4.1-nano", 0.1, 0.4),
    ("gpt-4o", 2.5, 10.0),
    ("gpt-4o-mini", 0.15, 0.6),
    ("o3", 2.0, 8.0),
    ("o4-mini", 1.1, 4.4),
    ("text-embedding-3-small", 0.02, 0.0),
    ("text-embedding-3-large", 0.13, 0.0),
    ("claude-opus-4-5", 5.0, 25.0),
    ("claude-opus-4-1", 15.0, 75.0),
    ("claude-sonnet-4-5", 3.0, 15.0),
    ("claude-haiku-4-5", 1.0, 5.0),
    ("claude-3-5-haiku-latest", 0.8, 4.0),
    ("gemini-2.5-pro", 1.25, 10.0),
    ("gemini-2.5-flash", 0.3, 2.5),
    ("gemini-2.5-flash-lite", 0.1, 0.4),
    ("gemini-2.0-flash", 0.1, 0.4),
];

/// The list price of a model, USD per 1,000 prompt and completion tokens.
pub(crate) fn list_price(identifier: &str) -> Option<(Usd, Usd)> {
    let (_, input, output) = LIST.iter().find(|(known, _, _)| *known == identifier)?;
    Some((Usd::from_dollars(input / 1000.0)?, Usd::from_dollars(output / 1000.0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_thousand_not_per_million() {
        assert_eq!(list_price("gpt-4o-mini"), Some((Usd(150_000), Usd(600_000))));
        assert_eq!(list_price("my-own"), None);
    }
}
