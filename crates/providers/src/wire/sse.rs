//! Server-sent events, read piece by piece as the network brings them.
//!
//! Only the data of events is passed on: no supported format needs the other fields.

/// Most bytes of one line, and of one event, unless another bound is given.
pub(crate) const MOST_EVENT_BYTES: usize = 1024 * 1024;

/// Buffers larger than this are freed once they are empty.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;

/// A line or an event is longer than the bound.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The parser's state between two reads. Lines end with LF, CRLF or CR; bytes are only examined once
/// their line is whole, so characters and events may be split anywhere.
#[derive(Debug)]
pub(crate) struct Sse {
    /// Most bytes of one line, and of one event.
    most: usize,
    /// A line whose end has not come yet.
    line: Vec<u8>,
    /// The data of an event whose end has not come yet, and whether it has any.
    data: Vec<u8>,
    has_data: bool,
    /// Whether the last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    /// Whether the first line was read.
    begun: bool,
}

impl Default for Sse {
    fn default() -> Self {
        Self::with_most(MOST_EVENT_BYTES)
    }
}

impl Sse {
    /// Creates a parser for lines and events of at most `most` bytes.
    pub(crate) fn with_most(most: usize) -> Self {
        Self {
            most,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            begun: false,
        }
    }

    /// Reads the next bytes, and hands over the data of every event that they complete. `on_event` may
    /// stop the reading with an error.
    pub(crate) fn feed<E: From<TooLong>>(
        &mut self,
        mut input: &[u8],
        mut on_event: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // The data of an event that is whole in this input is never copied.
        let mut single: Option<&[u8]> = None;
        while !input.is_empty() {
            if std::mem::take(&mut self.after_cr) && input[0] == b'\n' {
                input = &input[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', input) else {
                append(&mut self.line, input, self.most)?;
                break;
            };
            let (line, rest) = (&input[..end], &input[end + 1..]);
            self.after_cr = input[end] == b'\r';
            input = rest;
            if self.line.is_empty() {
                self.borrowed_line(line, &mut single, &mut on_event)?;
            } else {
                append(&mut self.line, line, self.most)?;
                let line = std::mem::take(&mut self.line);
                self.keep(single.take())?;
                self.owned_line(&line, &mut on_event)?;
                self.line = line;
                emptied(&mut self.line);
            }
        }
        self.keep(single)?;
        Ok(())
    }

    /// Ends the input. An event without a blank line after it counts too: some servers leave it out
    /// after their last event.
    pub(crate) fn end<E: From<TooLong>>(
        &mut self,
        mut on_event: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        self.owned_line(&line, &mut on_event)?;
        if self.has_data { self.dispatch(&mut on_event) } else { Ok(()) }
    }

    fn borrowed_line<'a, E: From<TooLong>>(
        &mut self,
        line: &'a [u8],
        single: &mut Option<&'a [u8]>,
        on_event: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = self.without_mark(line);
        if line.is_empty() {
            return match single.take() {
                Some(data) => on_event(data),
                None if self.has_data => self.dispatch(on_event),
                None => Ok(()),
            };
        }
        if let Some(data) = data_of(line) {
            if data.len() > self.most {
                return Err(TooLong.into());
            }
            if single.is_none() && !self.has_data {
                *single = Some(data);
            } else {
                self.keep(single.take())?;
                self.keep(Some(data))?;
            }
        }
        Ok(())
    }

    fn owned_line<E: From<TooLong>>(
        &mut self,
        line: &[u8],
        on_event: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = self.without_mark(line);
        if line.is_empty() && self.has_data {
            return self.dispatch(on_event);
        }
        self.keep(data_of(line))?;
        Ok(())
    }

    fn dispatch<E>(&mut self, on_event: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.has_data = false;
        let done = on_event(&self.data);
        emptied(&mut self.data);
        done
    }

    /// Adds a line of data to the event that is being read.
    fn keep(&mut self, data: Option<&[u8]>) -> Result<(), TooLong> {
        let Some(data) = data else { return Ok(()) };
        if self.has_data {
            append(&mut self.data, b"\n", self.most)?;
        }
        self.has_data = true;
        append(&mut self.data, data, self.most)
    }

    /// Removes a byte order mark before the first line.
    fn without_mark<'a>(&mut self, line: &'a [u8]) -> &'a [u8] {
        if std::mem::replace(&mut self.begun, true) {
            return line;
        }
        line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
    }
}

/// Empties a buffer; one grown beyond the usual size is freed.
fn emptied(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEPT_BUFFER_BYTES);
}

fn append(buffer: &mut Vec<u8>, bytes: &[u8], most: usize) -> Result<(), TooLong> {
    if buffer.len() + bytes.len() > most {
        return Err(TooLong);
    }
    buffer.extend_from_slice(bytes);
    Ok(())
}

/// Returns the value of a `data` field; `None` for comments and other fields.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"data")?;
    match rest {
        [] => Some(rest),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
