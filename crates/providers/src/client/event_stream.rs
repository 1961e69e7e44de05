//! A streamed answer as the caller reads it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use domain::conversation::StreamEvent;
use domain::secret::Secret;
use domain::usage::Usage;
use hyper::body::Body as _;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::adapter::Decoder;
use crate::adapter::request::Attempt;
use crate::credentials::stream::StreamFilter;
use crate::error::Error;
use crate::net::pool::Body;

/// Most bytes of a stream.
const MOST_STREAM_BYTES: usize = 128 * 1024 * 1024;
/// Number of events from which a batch is handed over.
const BATCH_EVENTS: usize = 256;
/// Reads up to the first word are decoded in pieces of this many bytes: the word leaves before the
/// bytes behind it are decoded.
const FIRST_PIECE_BYTES: usize = 256;
/// Number of reads without an event after which other tasks are scheduled.
const MOST_READS: usize = 64;
/// Time to wait for the first word, once any bytes have come, before the caller learns that the call
/// was accepted: until then another model can answer instead. A model may think for longer, and some
/// proxies between us and the caller give up after half a minute.
const FIRST_WORD_TIMEOUT: Duration = Duration::from_secs(15);
/// Most events before the first word: no format has more than a few.
const MOST_FIRST_EVENTS: usize = 1024;
/// Time to wait for the end of the connection after the end of the answer: a connection that was read
/// to its end can be used again.
const END_TIMEOUT: Duration = Duration::from_millis(20);

/// A streamed answer. Dropping it ends the call.
pub struct EventStream {
    source: Source,
    decoder: Box<dyn Decoder>,
    key: Option<Secret>,
    filter: StreamFilter,
    deadline: Pin<Box<Sleep>>,
    bytes: usize,
    /// Whether the first word has come.
    begun: bool,
    /// Events up to the batch of the first word, until they are taken.
    first: Vec<StreamEvent>,
    /// Bytes that came with the first word, not decoded yet.
    rest: Bytes,
    phase: Phase,
    dropped: Vec<String>,
    /// Whether the request was passed on as it came.
    passes: bool,
}

enum Source {
    Remote(Body),
    Local(std::vec::IntoIter<Bytes>),
}

enum Phase {
    Reading,
    /// The answer is complete; the connection may not be.
    Ending,
    /// The error that is still to be handed over.
    Failed(Error),
    Over,
}

impl EventStream {
    pub(crate) fn remote(body: Body, decoder: Box<dyn Decoder>, attempt: &Attempt<'_>) -> Self {
        Self::new(Source::Remote(body), decoder, attempt)
    }

    pub(crate) fn local(
        pieces: Vec<Bytes>,
        decoder: Box<dyn Decoder>,
        attempt: &Attempt<'_>,
    ) -> Self {
        Self::new(Source::Local(pieces.into_iter()), decoder, attempt)
    }

    fn new(source: Source, decoder: Box<dyn Decoder>, attempt: &Attempt<'_>) -> Self {
        Self {
            source,
            decoder,
            key: attempt.model.api_key.clone(),
            filter: StreamFilter::new(attempt.model.api_key.as_ref()),
            deadline: Box::pin(sleep_until(attempt.deadline)),
            bytes: 0,
            begun: false,
            first: Vec::new(),
            rest: Bytes::new(),
            phase: Phase::Reading,
            dropped: Vec::new(),
            passes: false,
        }
    }

    /// Waits for the first byte, until `head` at the latest, and up to [`FIRST_WORD_TIMEOUT`] for the first
    /// word. A stream without any byte by then, or with an error, has not begun: another model can
    /// still be asked.
    pub(crate) async fn begin(mut self, head: Instant) -> Result<Self, Error> {
        let soon = Instant::now() + FIRST_WORD_TIMEOUT;
        let mut wait = pin!(sleep_until(head));
        let (mut first, mut is_silent) = (Vec::new(), true);
        let begun = poll_fn(|cx| {
            while !self.begun {
                match self.poll_next(cx) {
                    Poll::Ready(Some(Ok(events))) => {
                        keep(events, &mut first);
                        if first.len() > MOST_FIRST_EVENTS {
                            let error =
                                Error::malformed("the stream does not come to a first word");
                            return Poll::Ready(Err(error));
                        }
                    }
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                    Poll::Ready(None) => break,
                    Poll::Pending => {
                        // A provider that sends any bytes is at work.
                        if is_silent && self.bytes > 0 {
                            is_silent = false;
                            wait.as_mut().reset(soon);
                        }
                        ready!(wait.as_mut().poll(cx));
                        return Poll::Ready(if is_silent { Err(Error::late()) } else { Ok(()) });
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
        .await;
        if let Err(error) = begun {
            return Err(paid(error, &first));
        }
        self.first = first;
        Ok(self)
    }

    /// Notes which parameters were left out of the request.
    pub(crate) fn without(self, dropped: Vec<String>) -> Self {
        Self { dropped, ..self }
    }

    /// Notes whether the request was passed on as it came.
    pub(crate) fn passing(mut self, passes: bool) -> Self {
        self.passes = passes;
        if passes {
            self.filter.clean_sources(self.key.as_ref());
        }
        self
    }

    /// Whether the request was passed on as it came: the provider's own events are among the events.
    pub fn passes(&self) -> bool {
        self.passes
    }

    /// Whether the first word of the answer has come.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Returns the names of the parameters that the model lacks and that were left out.
    pub fn dropped(&self) -> &[String] {
        &self.dropped
    }

    /// Returns the next batch of events, never empty: all that have come, except those more than
    /// [`FIRST_PIECE_BYTES`] bytes behind the first word. `None` at the clean end; an error is the last item. May
    /// be dropped between reads without loss.
    pub async fn next(&mut self) -> Option<Result<Vec<StreamEvent>, Error>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls [`EventStream::next`], for callers that are polled themselves.
    pub fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Vec<StreamEvent>, Error>>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.first))));
        }
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Over => Poll::Ready(None),
            Phase::Failed(error) => Poll::Ready(Some(Err(error))),
            Phase::Ending => {
                self.phase = Phase::Ending;
                ready!(self.poll_end(cx));
                self.phase = Phase::Over;
                Poll::Ready(None)
            }
            Phase::Reading => {
                self.phase = Phase::Reading;
                self.poll_events(cx)
            }
        }
    }

    fn poll_events(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Vec<StreamEvent>, Error>>> {
        // Bytes that have come are not late, whenever they are asked for.
        if self.rest.is_empty() && self.deadline.as_mut().poll(cx).is_ready() {
            let error = Error::broke_off("The provider's answer took too long").timed_out();
            return self.fail(Vec::new(), error);
        }
        let mut events = Vec::new();
        for _ in 0..MOST_READS {
            let read = match self.poll_read(cx) {
                Poll::Pending if events.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(Some(Ok(events))),
                Poll::Ready(read) => read,
            };
            let was_begun = self.begun;
            if let Err(error) = self.take(read, &mut events) {
                return self.fail(events, error);
            }
            let more = matches!(self.phase, Phase::Reading);
            let enough = self.begun != was_begun || self.is_local() || events.len() >= BATCH_EVENTS;
            if !events.is_empty() && (!more || enough) {
                return Poll::Ready(Some(Ok(events)));
            }
            if !more {
                return self.poll_next(cx);
            }
        }
        if events.is_empty() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(events)))
    }

    /// Returns the rest of an earlier read, or the next one.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.rest))));
        }
        let read = ready!(self.source.poll_read(cx));
        if let Some(Ok(bytes)) = &read {
            self.bytes += bytes.len();
            if self.bytes > MOST_STREAM_BYTES {
                let error = Error::malformed("the stream is longer than 128 MiB");
                return Poll::Ready(Some(Err(error)));
            }
        }
        Poll::Ready(read)
    }

    /// Decodes a read, up to the first word or all of it, and detects the end.
    fn take(
        &mut self,
        read: Option<Result<Bytes, Error>>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        let Some(bytes) = read else {
            self.phase = Phase::Over;
            let known = events.len();
            let ended = self.decoder.end(events);
            let passed = self.filter.pass(events, known);
            ended?;
            passed?;
            self.filter.end(events);
            return Ok(());
        };
        let mut bytes = bytes?;
        let was_begun = self.begun;
        while self.begun == was_begun && !bytes.is_empty() {
            let piece = if was_begun { bytes.len() } else { FIRST_PIECE_BYTES.min(bytes.len()) };
            let known = events.len();
            let fed = self.decoder.feed(&bytes.split_to(piece), events);
            let passed = self.filter.pass(events, known);
            fed?;
            passed?;
            self.begun |= events[known..].iter().any(is_a_word);
        }
        self.rest = bytes;
        if self.decoder.is_done() {
            self.deadline.as_mut().reset(Instant::now() + END_TIMEOUT);
            self.phase = Phase::Ending;
        }
        Ok(())
    }

    /// Ends the stream with an error. The events before it are handed over first.
    fn fail(
        &mut self,
        mut events: Vec<StreamEvent>,
        error: Error,
    ) -> Poll<Option<Result<Vec<StreamEvent>, Error>>> {
        self.filter.end(&mut events);
        let error = error.sealed(self.key.as_ref());
        if events.is_empty() {
            self.phase = Phase::Over;
            return Poll::Ready(Some(Err(error)));
        }
        self.phase = Phase::Failed(error);
        Poll::Ready(Some(Ok(events)))
    }

    /// Ready when the connection is at its end, or the time to wait for it is over.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        for _ in 0..MOST_READS {
            match self.source.poll_read(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => return self.deadline.as_mut().poll(cx),
            }
        }
        Poll::Ready(())
    }

    fn is_local(&self) -> bool {
        matches!(self.source, Source::Local(_))
    }
}

/// Adds the events before the first word. Consecutive usage reports are merged: a stream may consist of
/// nothing else.
fn keep(events: Vec<StreamEvent>, first: &mut Vec<StreamEvent>) {
    for event in events {
        let is_usage = |event: &StreamEvent| matches!(event, StreamEvent::Usage(_));
        match first.last_mut().filter(|last| is_usage(last)) {
            Some(StreamEvent::Usage(last)) if is_usage(&event) => {
                if let StreamEvent::Usage(later) = event {
                    *last = last.followed_by(later);
                }
            }
            _ => first.push(event),
        }
    }
}

/// Returns the error of a stream that has not begun, with its usage so far: that is paid for.
fn paid(error: Error, told: &[StreamEvent]) -> Error {
    let used = told.iter().rev().find_map(|event| match event {
        StreamEvent::Usage(usage) => Some(*usage),
        _ => None,
    });
    let prompt = told.iter().find_map(|event| match event {
        StreamEvent::Prompt(usage) if usage.prompt > 0 => {
            Some(Usage { completion: 0, reasoning: 0, ..*usage })
        }
        _ => None,
    });
    match (used, prompt) {
        // The error has a usage of its own.
        _ if error.usage().is_some() => error,
        (None, Some(prompt)) => error.after(Some(prompt)),
        (used, _) => error.having_used(used),
    }
}

/// Whether an event carries a part of the answer: text, reasoning, or a call of a tool.
fn is_a_word(event: &StreamEvent) -> bool {
    match event {
        StreamEvent::Text(text) => !text.is_empty(),
        StreamEvent::Native { .. } => true,
        // The vendor's own tools have no canonical form.
        StreamEvent::Source(event) => {
            event.begins_call || event.pieces.iter().any(|piece| !piece.text.is_empty())
        }
        _ => false,
    }
}

impl Source {
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let body = match self {
            Self::Local(pieces) => return Poll::Ready(pieces.next().map(Ok)),
            Self::Remote(body) => body,
        };
        loop {
            return Poll::Ready(match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                None => None,
                Some(Err(error)) => Some(Err(error.into())),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Some(Ok(data)),
                    // Trailers.
                    Err(_) => continue,
                },
            });
        }
    }
}

#[cfg(test)]
#[path = "event_stream_tests.rs"]
pub(crate) mod tests;
