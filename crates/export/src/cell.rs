//! Texts of users in cells that spreadsheet programs open.

use std::borrow::Cow;

/// Characters at which programs begin another cell or row. The file separates cells by commas, and quotes
/// texts that have some. A program in a country that writes decimals with a comma takes the semicolon
/// instead, and quotes protect nothing there: they do not stand at the begin of what it takes for a cell.
const SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];

/// A text that a spreadsheet program takes for a text. A cell that begins like a formula would be
/// computed, and could send other cells elsewhere: an apostrophe goes before it, as people write it too.
pub fn text(text: &str) -> Cow<'_, str> {
    let (mut guarded, mut copied) = (String::new(), 0);
    let mut is_begin = true;
    for (at, c) in text.char_indices() {
        if (is_begin && begins_formula(c)) || (at == 0 && matches!(c, '\t' | '\r' | '\n')) {
            guarded.push_str(&text[copied..at]);
            guarded.push('\'');
            copied = at;
        }
        is_begin = SEPARATORS.contains(&c) || (is_begin && (c == '"' || c.is_whitespace()));
    }
    if guarded.is_empty() {
        return text.into();
    }
    guarded.push_str(&text[copied..]);
    guarded.into()
}

/// Whether a formula begins with a character; in Japanese also with its full-width form.
fn begins_formula(c: char) -> bool {
    matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠')
}

/// A text of JSON in which no program finds a separator. The value is the same.
pub(crate) fn json(text: &str) -> String {
    // The others are escaped in JSON, and a semicolon is nowhere but in strings.
    text.replace(';', "\\u003b")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts and their cells; the console's own script is held to them as well (`tests/console/cells.test.mjs`).
    const CASES: &str = include_str!("cell_cases.json");

    #[test]
    fn formulas_become_texts() {
        let cases: Vec<(String, String)> = serde_json::from_str(CASES).unwrap();
        for (given, shown) in cases {
            assert_eq!(text(&given), shown);
        }
    }
}
