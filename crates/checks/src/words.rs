//! Small questions about bytes and borders.

/// Whether a byte may be part of a word: ASCII letters, digits, `_`, and every byte of a non-ASCII character.
pub(crate) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Whether no word runs into `at` from the left.
pub(crate) fn free_before(text: &[u8], at: usize) -> bool {
    at == 0 || !is_word(text[at - 1])
}

/// Whether no word runs on from `at`.
pub(crate) fn free_after(text: &[u8], at: usize) -> bool {
    at >= text.len() || !is_word(text[at])
}

/// The nearest character border at or before `at`.
pub(crate) fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}

/// The nearest character border at or after `at`.
pub(crate) fn ceil(text: &str, at: usize) -> usize {
    text.ceil_char_boundary(at)
}
