//! Base64 and hexadecimal digits in one go, for short runs.

/// Decodes base64 in either alphabet, up to `limit` bytes; stops at what does not belong.
pub(crate) fn base64(code: &[u8], limit: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity((code.len() * 3 / 4).min(limit));
    let (mut bits, mut held) = (0u32, 0);
    for &byte in code {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            if out.len() >= limit {
                break;
            }
        }
    }
    out
}

pub(crate) fn hexadecimal(code: &[u8], limit: usize) -> Vec<u8> {
    if !code.len().is_multiple_of(2) || !code.iter().all(u8::is_ascii_hexdigit) {
        return Vec::new();
    }
    let digit = |b: u8| (b as char).to_digit(16).map_or(0, |d| d as u8);
    code.chunks_exact(2).take(limit).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
