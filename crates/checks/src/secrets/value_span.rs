//! The start and end of a value behind a name.

/// The longest value that is looked at, and the longest password.
pub(super) const MAX_VALUE: usize = 512;
pub(super) const MAX_PASSWORD: usize = 128;

/// The meaning of a byte to a value, as bits.
static ENDS: [u8; 256] = {
    let mut out = [0; 256];
    let (ends, brackets) = (b"\"'`<>|", b",;(){}[]&\\");
    let mut byte = 0;
    while byte < out.len() {
        // From `0xe0` on: punctuation and letters of scripts in which no credential is written.
        out[byte] = if byte <= 0x20 || byte >= 0xe0 { END } else { 0 };
        byte += 1;
    }
    let mut index = 0;
    while index < ends.len() {
        out[ends[index] as usize] = END;
        index += 1;
    }
    index = 0;
    while index < brackets.len() {
        out[brackets[index] as usize] = BRACKET;
        index += 1;
    }
    out
};
/// Every value ends in front of it.
const END: u8 = 1;
/// It sets fields apart, or opens and closes them: passwords have such signs as well.
const BRACKET: u8 = 2;

/// Returns the end of a value that begins at `from`, at most as far as is looked at.
pub(super) fn value_end(bytes: &[u8], from: usize, password: bool) -> usize {
    let most = if password { MAX_PASSWORD + 1 } else { MAX_VALUE };
    let reach = &bytes[from..bytes.len().min(from + most)];
    // In quotes a password is not one field of several, unless it begins with a word: `'required;min:8'`.
    let in_quotes = from > 0 && matches!(bytes[from - 1], b'"' | b'\'');
    let is_word = |part: &[u8]| part.iter().all(u8::is_ascii_alphabetic);
    let mut equals = 0;
    let length = reach.iter().enumerate().position(|(at, &byte)| {
        let ends = ENDS[byte as usize];
        equals += usize::from(byte == b'=');
        // `a=b=c=d` is a list of names, not one value; without this each of them would be read to its end.
        ends == END
            || equals > 2
            || ends == BRACKET
                && (!password
                    || ends_password(&bytes[from + at..], in_quotes && !is_word(&reach[..at])))
    });
    let mut end = from + length.unwrap_or(reach.len());
    while end > from && matches!(bytes[end - 1], b'.' | b',' | b';' | b':' | b')' | b'}') {
        end -= 1;
    }
    while end < bytes.len() && bytes[end] & 0xc0 == 0x80 {
        end += 1;
    }
    end
}

/// Whether a sign ends a password: a sign between fields, where another one follows and no quotes hold them together, or
/// a backslash that stands for something else.
fn ends_password(rest: &[u8], in_quotes: bool) -> bool {
    let behind = &rest[1..];
    match rest[0] {
        b'\\' => behind.first().is_some_and(|b| b"nrtu\"'\\".contains(b)),
        sign @ (b'&' | b';' | b',') if !in_quotes => {
            let is_part = |b: &&u8| {
                b.is_ascii_alphanumeric() || b"_.-".contains(b) || sign == b';' && **b == b' '
            };
            let name = behind.iter().take(40).take_while(is_part).count();
            behind.first().is_some_and(u8::is_ascii_alphabetic)
                && matches!(behind.get(name), Some(b'=' | b':'))
        }
        _ => false,
    }
}

/// Returns the end of a value that is too long to be looked at as a whole.
pub(super) fn whole_end(bytes: &[u8], from: usize, to: usize) -> usize {
    let goes_on = |b: &&u8| b.is_ascii_alphanumeric() || b"-_.+/=~".contains(b);
    let rest =
        if to - from < MAX_VALUE { 0 } else { bytes[to..].iter().take_while(goes_on).count() };
    to + rest
}

/// A value without the asterisks or lines that emphasise it, and without a name of its own: `client_id=...`.
pub(super) fn without_marks(
    bytes: &[u8],
    from: usize,
    to: usize,
    password: bool,
) -> (usize, usize) {
    let value = &bytes[from..to];
    let marks = |ends: &mut dyn Iterator<Item = &u8>, mark: u8| {
        ends.take(3).take_while(|&&b| b == mark).count()
    };
    if let Some(&mark @ (b'*' | b'_')) = value.first() {
        let (front, back) = (marks(&mut value.iter(), mark), marks(&mut value.iter().rev(), mark));
        if front == back && front * 2 < value.len() {
            return (from + front, to - back);
        }
    }
    let is_name = |b: &&u8| b.is_ascii_alphabetic() || **b == b'_';
    let name = value.iter().take(24).take_while(is_name).count();
    let is_named = !password && name > 1 && value.get(name) == Some(&b'=');
    let is_value = is_named && value.len() > name + 8 && value[name + 1] != b'=';
    (if is_value { from + name + 1 } else { from }, to)
}

/// Returns the end of the run that a byte is in: only a password reaches over it.
pub(super) fn run_end(bytes: &[u8], from: usize) -> usize {
    let run = bytes[from..].iter().position(|&b| ENDS[b as usize] != 0);
    run.map_or(bytes.len(), |length| from + length)
}
