//! Numbers with separators, as people read them.

use std::fmt::Display;

/// A whole number without a sign, its digits in groups of three: 1240 as `1,240`.
pub fn grouped(number: impl Display) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1240, "1,240"), (1_000_000, "1,000,000")] {
            assert_eq!(grouped(number), text);
        }
    }
}
