//! From the characters of base64 and hexadecimal to bytes, and from bytes to readable text.

/// The value of each character of base64, in either alphabet; 64 for all others.
static SEXTETS: [u8; 256] = {
    let mut out = [64; 256];
    let mut index = 0;
    while index < 256 {
        let byte = index as u8;
        out[index] = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => 64,
        };
        index += 1;
    }
    out
};

/// Whether a byte is a character of base64, in either alphabet.
pub(crate) fn is_base64(byte: u8) -> bool {
    SEXTETS[usize::from(byte)] < 64
}

/// How a code writes bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Code {
    Hexadecimal,
    Base64,
}

impl Code {
    fn value(self, byte: u8) -> Option<u32> {
        match self {
            Self::Hexadecimal => (byte as char).to_digit(16),
            Self::Base64 => Some(u32::from(SEXTETS[usize::from(byte)])).filter(|&value| value < 64),
        }
    }

    fn width(self) -> u32 {
        match self {
            Self::Hexadecimal => 4,
            Self::Base64 => 6,
        }
    }
}

/// Undoes a code, character by character.
#[derive(Debug)]
pub(crate) struct Decoder {
    code: Code,
    bits: u32,
    held: u32,
    /// The bytes so far.
    pub(crate) out: Vec<u8>,
}

/// The state of a decoder at a place that it may have to go back to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    bits: u32,
    held: u32,
    length: usize,
}

impl Decoder {
    pub(crate) fn new(code: Code) -> Self {
        Self::with_room(code, 0)
    }

    pub(crate) fn with_room(code: Code, bytes: usize) -> Self {
        Self { code, bits: 0, held: 0, out: Vec::with_capacity(bytes) }
    }

    /// Takes the characters that belong to the code; returns their number.
    pub(crate) fn take(&mut self, code: &[u8]) -> usize {
        let count = self.take_all(code);
        #[cfg(test)]
        work::note(count);
        count
    }

    fn take_all(&mut self, code: &[u8]) -> usize {
        let width = self.code.width();
        for (count, &byte) in code.iter().enumerate() {
            let Some(value) = self.code.value(byte) else { return count };
            self.bits = self.bits << width | value;
            self.held += width;
            if self.held >= 8 {
                self.held -= 8;
                self.out.push((self.bits >> self.held) as u8);
            }
        }
        code.len()
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { bits: self.bits, held: self.held, length: self.out.len() }
    }

    pub(crate) fn back_to(&mut self, mark: Mark) {
        (self.bits, self.held) = (mark.bits, mark.held);
        self.out.truncate(mark.length);
    }
}

/// Whether a byte stands in no text: control characters but for those that lay text out.
pub(crate) fn is_control(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r') || byte == 0x7f
}

/// In which order the bytes of UTF-16 stand, if the zeros of plain letters show it.
pub(crate) fn is_utf16(bytes: &[u8]) -> Option<bool> {
    let pairs = bytes.len() / 2;
    if pairs < 4 {
        return None;
    }
    let zeros = |from: usize| bytes[from..].iter().step_by(2).filter(|&&b| b == 0).count();
    let (even, odd) = (zeros(0), zeros(1));
    if odd * 4 >= pairs * 3 && even * 4 <= pairs {
        Some(true)
    } else if even * 4 >= pairs * 3 && odd * 4 <= pairs {
        Some(false)
    } else {
        None
    }
}

/// UTF-16 as text; `little`: the low byte comes first.
pub(crate) fn utf16(bytes: &[u8], little: bool) -> String {
    let units = bytes.chunks_exact(2).map(|two| {
        let two = [two[0], two[1]];
        if little { u16::from_le_bytes(two) } else { u16::from_be_bytes(two) }
    });
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// How many of the bytes stand in no text: control characters and what is no UTF-8. A character that is cut at the end is
/// none of them.
pub(crate) fn unreadable(bytes: &[u8]) -> usize {
    let mut count = bytes.iter().filter(|&&byte| is_control(byte)).count();
    let mut chunks = bytes.utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        let is_cut = chunks.peek().is_none() && chunk.invalid().len() < 4;
        if !is_cut {
            count += chunk.invalid().len();
        }
    }
    count
}

/// Whether the beginning of what is decoded may be that of a text.
pub(crate) fn promises(bytes: &[u8]) -> bool {
    bytes.len() >= 4 && (unreadable(bytes) * 16 <= bytes.len() || is_utf16(bytes).is_some())
}

/// The text that bytes are, if they are one.
pub(crate) fn readable(bytes: Vec<u8>) -> Option<String> {
    if let Some(little) = is_utf16(&bytes) {
        let text = utf16(&bytes, little);
        let bad = text.chars().filter(|&c| c == char::REPLACEMENT_CHARACTER || c.is_control());
        return (bad.count() * 8 <= text.len()).then_some(text);
    }
    if unreadable(&bytes) * 16 > bytes.len() {
        return None;
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    (text.len() >= 8).then_some(text)
}

/// Counts the characters that are read.
#[cfg(test)]
pub(crate) mod work {
    use std::cell::Cell;

    thread_local! {
        static READ: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn note(count: usize) {
        READ.set(READ.get() + count);
    }

    /// How many characters were read since the last call.
    pub(crate) fn take() -> usize {
        READ.take()
    }
}
