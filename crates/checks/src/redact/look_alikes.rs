//! Text that has the form of a placeholder, whether it is one or not.

/// Whether something in a text has the form of a placeholder.
pub fn imitates_placeholder(text: &str) -> bool {
    look_alikes(text).next().is_some()
}

/// Ranges that have the form of a placeholder, whoever wrote them.
pub(super) fn look_alikes(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'[', bytes).filter_map(move |start| {
        let body = &bytes[start + 1..];
        let length =
            body.iter().take(64).take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        let tail = length.checked_sub(9)?;
        let nonce = &body[tail..length];
        let formed = body.get(length) == Some(&b']')
            && nonce[0] == b'_'
            && nonce[1..].iter().all(u8::is_ascii_hexdigit);
        formed.then_some((start, start + length + 2))
    })
}
