//! Texts of users in cells that spreadsheet programs open.

use std::borrow::Cow;

/// A text that a spreadsheet program takes for a text. A cell that begins like a formula would be
/// computed, and could send other cells elsewhere: an apostrophe goes before it, as people write it too.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        format!("'{text}").into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_texts() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"] {
            assert_eq!(text(formula), format!("'{formula}"));
        }
        for harmless in ["", "gpt-4o", "a=b", "'=1", "Ümit"] {
            assert_eq!(text(harmless), harmless);
        }
    }
}
