//! A stream whose end is reported to the circuit breaker of its endpoint.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use domain::conversation::StreamEvent;
use domain::time::{Clock, SECOND, Timestamp};
use providers::{Error, EventStream, Permit};

use crate::pipeline::endpoint_attempts::report;

/// A stream that its caller reads, and an endpoint that is judged by it: by its first word, if the
/// call was the probe of an open circuit, and by its end. A stream that is dropped before that
/// gives no verdict, nor does one that breaks off after its caller was slow to read it.
pub(crate) struct MonitoredStream {
    stream: EventStream,
    /// The permit, until the result of the stream is known.
    permit: Option<Permit>,
    reader: Reader,
    clock: Clock,
}

impl MonitoredStream {
    pub(super) fn new(stream: EventStream, permit: Option<Permit>, clock: Clock) -> Self {
        let now = clock.now();
        let mut watched = Self { stream, permit, reader: Reader::new(now), clock };
        watched.note_begin(now);
        watched
    }

    /// Parameters that the model does not have and that were left out, by name.
    pub(crate) fn dropped(&self) -> &[String] {
        self.stream.dropped()
    }

    /// Whether the request was passed on as it came.
    pub(crate) fn passes(&self) -> bool {
        self.stream.passes()
    }

    /// The next batch of events; see [`EventStream::next`].
    pub(crate) async fn next(&mut self) -> Option<Result<Vec<StreamEvent>, Error>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// [`MonitoredStream::next`] for callers that are polled themselves.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Vec<StreamEvent>, Error>>> {
        self.reader.asks(&self.clock);
        let read = self.stream.poll_next(cx);
        if read.is_pending() {
            self.reader.waits();
        }
        let read = ready!(read);
        let now = self.clock.now();
        match &read {
            Some(Ok(_)) => self.note_begin(now),
            Some(Err(_)) if self.reader.is_to_blame(now) => drop(self.permit.take()),
            Some(Err(error)) => self.report(Some(error), now),
            None => self.report(None, now),
        }
        self.reader.is_given(now);
        Poll::Ready(read)
    }

    fn note_begin(&mut self, now: Timestamp) {
        if self.stream.has_begun() {
            self.permit = self.permit.take().map(|permit| permit.begun(now));
        }
    }

    fn report(&mut self, error: Option<&Error>, now: Timestamp) {
        if let Some(permit) = self.permit.take() {
            report(permit, error, now);
        }
    }
}

/// A reader that has kept the stream waiting for this long, in microseconds, since it last waited
/// for the provider may be the cause of its break: the gateway's time was up, or the provider gave
/// up writing.
const READER_PAUSE_MICROS: i64 = 5 * SECOND;

/// The reader of a stream, and how long it kept the stream waiting.
#[derive(Debug)]
struct Reader {
    began: Timestamp,
    /// The time of the last batch, until more is requested.
    given: Option<Timestamp>,
    /// Whether more was requested before there was any.
    waited: bool,
    /// Microseconds in which the reader did not ask: since the last wait for the provider, and in
    /// all.
    lately: i64,
    in_all: i64,
}

impl Reader {
    fn new(now: Timestamp) -> Self {
        Self { began: now, given: Some(now), waited: false, lately: 0, in_all: 0 }
    }

    fn asks(&mut self, clock: &Clock) {
        if let Some(given) = self.given.take() {
            let idle = clock.now().since(given).max(0);
            self.lately = self.lately.saturating_add(idle);
            self.in_all = self.in_all.saturating_add(idle);
        }
    }

    fn waits(&mut self) {
        self.waited = true;
    }

    fn is_given(&mut self, now: Timestamp) {
        self.given = Some(now);
        if std::mem::take(&mut self.waited) {
            self.lately = 0;
        }
    }

    /// Whether a stream that breaks off now may do so because of its reader: for a pause just before, or
    /// for pauses that took most of its time.
    fn is_to_blame(&self, now: Timestamp) -> bool {
        let time = now.since(self.began);
        self.lately > READER_PAUSE_MICROS
            || (self.in_all > READER_PAUSE_MICROS && self.in_all * 2 > time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that received a batch and asked for more after each pause in seconds; the flag is
    /// whether the provider then let it wait for a second.
    fn after(pauses: &[(i64, bool)]) -> (Reader, Timestamp) {
        let mut now = Timestamp(1_790_000_000_000_000);
        let mut reader = Reader::new(now);
        for (pause, waits) in pauses {
            now = Timestamp(now.0 + pause * SECOND);
            reader.asks(&Clock::fixed(now));
            if *waits {
                reader.waits();
                now = Timestamp(now.0 + SECOND);
            }
            reader.is_given(now);
        }
        (reader, now)
    }

    #[test]
    fn whoever_reads_as_it_comes_is_not_to_blame() {
        for pauses in
            [&[][..], &[(0, true); 20], &[(1, true), (1, false), (2, true)], &[(4, false)]]
        {
            let (reader, now) = after(pauses);
            assert!(!reader.is_to_blame(now), "{pauses:?}");
        }
        // A little slow for a long time, and the provider slower.
        let (reader, now) = after(&[(1, true); 30]);
        assert!(!reader.is_to_blame(Timestamp(now.0 + SECOND)));
    }

    #[test]
    fn whoever_pauses_may_be_to_blame() {
        for pauses in
            [&[(0, true), (30, false)][..], &[(3, false), (3, false)], &[(60, true), (0, true)]]
        {
            let (reader, now) = after(pauses);
            assert!(reader.is_to_blame(now), "{pauses:?}");
        }
    }
}
