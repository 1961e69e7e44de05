//! The numbers of a JSON text as they are written: a tree of `serde_json` keeps about seventeen of their
//! digits, and an identifier may have more.

use domain::json_weight::JsonWeight;
use serde_json::Value;

/// The numbers of a JSON text that are still to be read, in their order.
pub(super) struct Numbers<'t>(&'t str);

impl<'t> Numbers<'t> {
    /// The numbers of the text that a value was read from. There are none if they do not go with those of the
    /// value, which has only the last of two members with one name.
    pub(super) fn of(text: &'t str, value: &Value) -> Self {
        let is_whole = JsonWeight::of(text.as_bytes()).values == count(value);
        Self(if is_whole { text } else { "" })
    }

    /// The numbers of a value without a text.
    pub(super) fn none() -> Self {
        Self("")
    }
}

impl<'t> Iterator for Numbers<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        loop {
            let begins = |letter: char| letter == '"' || letter == '-' || letter.is_ascii_digit();
            let rest = &self.0[self.0.find(begins)?..];
            if let Some(string) = rest.strip_prefix('"') {
                self.0 = behind_string(string);
                continue;
            }
            let ends = |letter: char| !letter.is_ascii_digit() && !"+-.eE".contains(letter);
            let (number, rest) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
            self.0 = rest;
            return Some(number);
        }
    }
}

/// The text behind the quote that ends a string.
fn behind_string(mut string: &str) -> &str {
    while let Some(at) = string.find(['"', '\\']) {
        let is_end = string[at..].starts_with('"');
        // A backslash and what it stands before are no end.
        string = string.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            return string;
        }
    }
    ""
}

/// The values in a value, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// A number by its value, with all of its digits: `1`, `1.0` and `1e0` are one.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    is_negative: bool,
    /// The digits behind the point, without zeros at either end: none for zero.
    digits: String,
    /// The power of ten that they are multiplied by.
    exponent: i64,
}

impl Decimal {
    /// Reads a number of JSON.
    pub(super) fn of(written: &str) -> Self {
        let (mantissa, exponent) = written.split_once(['e', 'E']).unwrap_or((written, "0"));
        let (is_negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        let significant = all.trim_start_matches('0');
        let digits = significant.trim_end_matches('0').to_owned();
        if digits.is_empty() {
            return Self::default();
        }
        let places = whole.len() as i64 - (all.len() - significant.len()) as i64;
        // Only a number next to zero has an exponent that does not fit: a larger one is no JSON to the parser.
        let exponent = exponent.parse().unwrap_or(i64::MIN);
        Self { is_negative, digits, exponent: places.saturating_add(exponent) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_as_they_are_written() {
        let text = r#"{"a1": [-1.50, 2e+3,true,null ], "b\"2\\": "3", "c": {"d\u0034": 4}} "#;
        let value = serde_json::from_str(text).unwrap();
        assert_eq!(Numbers::of(text, &value).collect::<Vec<_>>(), ["-1.50", "2e+3", "4"]);
        assert_eq!(Numbers::of("5", &Value::from(5)).collect::<Vec<_>>(), ["5"]);
        let twice = r#"{"a": "x", "b": 1, "a": 2}"#;
        let value = serde_json::from_str(twice).unwrap();
        assert_eq!(Numbers::of(twice, &value).next(), None, "the value has one a");
        assert_eq!(Numbers::none().next(), None);
    }

    #[test]
    fn a_number_is_its_value() {
        for same in [
            &["1", "1.0", "1e0", "10e-1", "0.1E+1", "0.0010e3"][..],
            &["0", "-0", "0.0", "0e9"],
            &["-120", "-1.2e2", "-120.00"],
            &["20000000000000000001", "2.0000000000000000001e19"],
        ] {
            for other in same {
                assert_eq!(Decimal::of(other), Decimal::of(same[0]), "{other}");
            }
        }
        for (one, other) in [
            ("1", "-1"),
            ("1", "10"),
            ("0.1", "0.01"),
            ("0", "1e-400"),
            ("1e-400", "1e-401"),
            ("20000000000000000001", "20000000000000000003"),
        ] {
            assert_ne!(Decimal::of(one), Decimal::of(other), "{one} {other}");
        }
    }
}
