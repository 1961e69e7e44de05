//! The frames of `application/vnd.amazon.eventstream`, read piece by piece.
//!
//! A frame is: its whole length and that of its headers (4 bytes each, big-endian), a CRC-32 of these
//! eight bytes, the headers, the payload, and a CRC-32 of all before.

/// Most bytes of a frame that are kept: as many as of an event in text.
const MOST_FRAME_BYTES: usize = crate::wire::sse::MOST_EVENT_BYTES;
const PRELUDE_BYTES: usize = 12;
const CHECKSUM_BYTES: usize = 4;

/// The reason why bytes are no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    Checksum,
    Length,
    Header,
}

impl Broken {
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::Checksum => "a frame of the stream fails its checksum",
            Self::Length => "a frame of the stream has an impossible length",
            Self::Header => "a frame of the stream has unreadable headers",
        }
    }
}

/// One frame: the headers that matter here, and the payload.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Frame<'a> {
    /// `event`, `exception` or `error`.
    pub(super) message_type: &'a str,
    /// The name of the event, exception or error.
    pub(super) name: &'a str,
    /// The message of an `error`.
    pub(super) error_message: &'a str,
    pub(super) payload: &'a [u8],
}

/// The parser's state between two reads: a frame that is not whole yet.
#[derive(Debug, Default)]
pub(super) struct Frames {
    partial: Vec<u8>,
}

impl Frames {
    /// Reads the next bytes, and hands over every frame that they complete. A frame that is whole in
    /// the input is not copied.
    pub(super) fn feed<E: From<Broken>>(
        &mut self,
        mut input: &[u8],
        mut on_frame: impl FnMut(&Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !input.is_empty() {
            if self.partial.is_empty()
                && let Some(length) = length(input)?
                && let Some((whole, rest)) = input.split_at_checked(length)
            {
                input = rest;
                on_frame(&read(whole)?)?;
                continue;
            }
            // First the prelude, which holds the length of the frame; then the rest of it.
            let wanted = length(&self.partial)?.unwrap_or(PRELUDE_BYTES);
            let missing = (wanted - self.partial.len()).min(input.len());
            let (more, rest) = input.split_at(missing);
            self.partial.extend_from_slice(more);
            input = rest;
            if length(&self.partial)? == Some(self.partial.len()) {
                let done = on_frame(&read(&self.partial)?);
                self.partial.clear();
                done?;
            }
        }
        Ok(())
    }
}

/// Returns the length of the frame that begins here, once its prelude is complete.
fn length(bytes: &[u8]) -> Result<Option<usize>, Broken> {
    if bytes.len() < PRELUDE_BYTES {
        return Ok(None);
    }
    if crc32fast::hash(&bytes[..8]) != number(&bytes[8..]) {
        return Err(Broken::Checksum);
    }
    let (whole, headers) = (number(bytes) as usize, number(&bytes[4..]) as usize);
    let fits = (PRELUDE_BYTES + CHECKSUM_BYTES..=MOST_FRAME_BYTES).contains(&whole);
    if !fits || headers > whole - PRELUDE_BYTES - CHECKSUM_BYTES {
        return Err(Broken::Length);
    }
    Ok(Some(whole))
}

/// Reads a whole frame with a sound prelude.
fn read(bytes: &[u8]) -> Result<Frame<'_>, Broken> {
    let (before, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    if crc32fast::hash(before) != number(checksum) {
        return Err(Broken::Checksum);
    }
    let (headers, payload) = before[PRELUDE_BYTES..].split_at(number(&bytes[4..]) as usize);
    let mut frame = Frame { payload, ..Frame::default() };
    let mut headers = Headers(headers);
    while !headers.0.is_empty() {
        let (name, value) = headers.next().ok_or(Broken::Header)?;
        match name {
            b":message-type" => frame.message_type = value,
            b":event-type" | b":exception-type" | b":error-code" => frame.name = value,
            b":error-message" => frame.error_message = value,
            _ => {}
        }
    }
    Ok(frame)
}

/// The remaining headers.
struct Headers<'a>(&'a [u8]);

impl<'a> Headers<'a> {
    /// Returns the next header, with an empty value if it is no text. `None` if it is no header.
    fn next(&mut self) -> Option<(&'a [u8], &'a str)> {
        let name = self.counted(1)?;
        let kind = self.bytes(1)?[0];
        // Both booleans, the integers by size, bytes, text, a time, a UUID.
        let value = match kind {
            0 | 1 => &[],
            2 => self.bytes(1)?,
            3 => self.bytes(2)?,
            4 => self.bytes(4)?,
            5 | 8 => self.bytes(8)?,
            6 | 7 => self.counted(2)?,
            9 => self.bytes(16)?,
            _ => return None,
        };
        let text = if kind == 7 { std::str::from_utf8(value).ok()? } else { "" };
        Some((name, text))
    }

    /// Reads bytes preceded by their number, which is `width` bytes wide.
    fn counted(&mut self, width: usize) -> Option<&'a [u8]> {
        let count = self.bytes(width)?.iter().fold(0, |count, b| count << 8 | usize::from(*b));
        self.bytes(count)
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }
}

/// Reads a number of four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, b| number << 8 | u32::from(*b))
}

#[cfg(test)]
#[path = "frames_tests.rs"]
pub(super) mod tests;
