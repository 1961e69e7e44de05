//! The sandbox's tokens.

/// Most characters of one token.
const MOST_TOKEN_CHARS: usize = 12;

/// Splits a text into tokens. Space before a token belongs to it, so that the tokens joined are the
/// text again.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
        let first = rest[start..].chars().next();
        let word = first.is_some_and(char::is_alphanumeric);
        let end = rest[start..]
            .char_indices()
            .enumerate()
            .find(|(n, (_, c))| {
                *n >= MOST_TOKEN_CHARS || c.is_whitespace() || c.is_alphanumeric() != word
            })
            .map_or(rest.len(), |(_, (at, _))| start + at);
        if end == 0 {
            return None;
        }
        let token = &rest[..end];
        rest = &rest[end..];
        Some(token)
    })
}

pub(super) fn count(text: &str) -> u64 {
    tokens(text).count() as u64
}

/// Returns the text cut after at most `most` tokens, and whether anything was cut off.
pub(super) fn cut(text: &str, most: u64) -> (&str, bool) {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let length: usize = tokens(text).take(most).map(str::len).sum();
    (&text[..length], length < text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_make_up_the_text() {
        for (text, parts) in [
            ("Hello, world!", vec!["Hello", ",", " world", "!"]),
            ("  two  spaces ", vec!["  two", "  spaces", " "]),
            ("abcdefghijklmnop", vec!["abcdefghijkl", "mnop"]),
            ("日本語", vec!["日本語"]),
            ("", vec![]),
        ] {
            assert_eq!(tokens(text).collect::<Vec<_>>(), parts);
        }
        assert_eq!(cut("one two three", 2), ("one two", true));
        assert_eq!(cut("one two three", 3), ("one two three", false));
        assert_eq!(cut("one", 0), ("", true));
    }
}
