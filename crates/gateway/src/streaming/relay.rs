//! A stream between a provider and a caller.
//!
//! The states of a relay:
//!
//! ```text
//!            +--+ events: pieces leave
//!            |  v
//! start --> relaying --- end of the stream: `End` --------------------> recorded
//!              |  |                                                       ^   ^
//!              |  +----- an error, or too much: `Broken`, failed step ----+   |
//!              |                                                              |
//!              +-- blocked --> withheld --- `End` with the reason ------------+
//! ```
//!
//! Once an answer is blocked its provider is no longer read. If the record cannot be written, the
//! last piece is `Broken` in any case. A relay that is dropped before it is recorded is recorded by
//! a task of the gateway's.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use checks::Redactor;
use domain::conversation::StreamEvent;
use domain::json_weight::tree_bytes;
use domain::step::{FinishReason, StepStatus};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::call_metrics::{self, TOO_LARGE};
use crate::error::{Error, Result};
use crate::pipeline::call::{failure_text, to_gateway_error};
use crate::pipeline::in_flight::InFlight;
use crate::pipeline::monitored_stream::MonitoredStream;
use crate::safety::answer_strings;
use crate::safety::chunk_parts;
use crate::safety::output_check::{self, Verdict};
use crate::streaming::fragments::{
    Fragments, MAX_OUTPUT_BYTES, MAX_WITHHELD_BYTES, MAX_WITHHELD_CHUNKS, TooMany,
};
use crate::streaming::outbound_filter::OutboundFilter;
use crate::streaming::piece::Piece;
use crate::streaming::source_filter::SourceFilter;
use crate::streaming::string_filter::Judging;

/// A stream between a provider and a caller. Dropping it records the answer received so far.
pub(super) struct Relay {
    /// Taken when the call is recorded; nothing follows then.
    flight: Option<InFlight>,
    /// Taken when the answer must not go on.
    upstream: Option<MonitoredStream>,
    /// Set if the answer has to be judged or restored.
    outbound: Option<OutboundFilter>,
    /// Set if the provider's own events leave; the canonical ones are then only recorded.
    sources: Option<SourceFilter>,
    /// The parts that are judged as a whole at the end of the answer: see
    /// [`chunk_parts::split_indivisible`].
    withheld: Vec<Map<String, Value>>,
    withheld_bytes: usize,
    /// The choices that have a part in `withheld`.
    split_choices: BTreeSet<u64>,
    /// The answer beside the text.
    fragments: Fragments,
    /// Whether its caller reads only text: a refusal is then sent as text.
    refusals_as_text: bool,
    /// Whether the text is such a refusal.
    refuses: bool,
    began: Instant,
    /// The number of times that pieces were handed over.
    batches: usize,
    /// For metrics and the log.
    model: String,
}

impl Relay {
    /// A relay that has passed nothing on yet; with an outbound filter if the answer has to be
    /// judged or restored.
    pub(super) fn new(
        flight: InFlight,
        upstream: MonitoredStream,
        outbound: Option<OutboundFilter>,
        sources: Option<SourceFilter>,
        refusals_as_text: bool,
        began: Instant,
        model: String,
    ) -> Self {
        Self {
            outbound,
            sources,
            flight: Some(flight),
            withheld: Vec::new(),
            withheld_bytes: 0,
            split_choices: BTreeSet::new(),
            fragments: Fragments::default(),
            upstream: Some(upstream),
            refusals_as_text,
            refuses: false,
            began,
            batches: 0,
            model,
        }
    }

    /// The next pieces, at least one; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Vec<Piece>> {
        if self.batches == 1 {
            // The first words are written before the work on the others.
            pause().await;
        }
        loop {
            self.flight.as_ref()?;
            let Some(upstream) = &mut self.upstream else { return Some(self.end().await) };
            // All that the provider has sent so far leaves in one write.
            let mut pieces = Vec::new();
            match upstream.next().await {
                Some(Ok(events)) => {
                    let outcome = events
                        .into_iter()
                        .try_for_each(|event| self.note_event(event, &mut pieces));
                    self.note_left();
                    if let Err(too_many) = outcome {
                        self.upstream = None;
                        let what = too_many.to_string();
                        let error = Error::ProviderUnreachable;
                        pieces.append(&mut self.broken(what, TOO_LARGE, error).await);
                        return Some(pieces);
                    }
                }
                Some(Err(error)) => {
                    if let Some(flight) = &mut self.flight {
                        flight.outcome.failure_status = error.provider_status();
                        if let Some(used) = error.usage() {
                            flight.outcome.note_usage(used);
                        }
                    }
                    let (what, class) = (failure_text(&error), error.class());
                    return Some(self.broken(what, class, to_gateway_error(&error)).await);
                }
                None => {
                    // The pieces passed on leave before the work at the end.
                    pause().await;
                    return Some(self.end().await);
                }
            }
            if self.outbound.as_ref().is_some_and(|outbound| outbound.blocked().is_some()) {
                self.record_received();
                // No more of the answer leaves: the provider may stop.
                self.upstream = None;
            }
            if !pieces.is_empty() {
                self.batches += 1;
                return Some(pieces);
            }
        }
    }

    /// Notes the events that arrived with the first words, if no more will leave: they are paid for
    /// too.
    fn record_received(&mut self) {
        if self.batches > 1 {
            return;
        }
        let Some(upstream) = &mut self.upstream else { return };
        let mut nobody = Context::from_waker(Waker::noop());
        if let Poll::Ready(Some(Ok(events))) = upstream.poll_next(&mut nobody) {
            let mut unsent = Vec::new();
            // Events beyond the bounds are not judged, and do not leave either.
            let _ = events.into_iter().try_for_each(|event| self.note_event(event, &mut unsent));
        }
    }

    fn note_event(
        &mut self,
        event: StreamEvent,
        pieces: &mut Vec<Piece>,
    ) -> std::result::Result<(), TooMany> {
        let Some(flight) = &mut self.flight else { return Ok(()) };
        let outcome = &mut flight.outcome;
        if let StreamEvent::Text(text) | StreamEvent::Native { text, .. } = &event {
            outcome.first_token.get_or_insert_with(|| first_token(self.began, &self.model));
            // A count from before the last word is not complete.
            if let Some(known) = &mut outcome.usage {
                known.open.completion |= !text.is_empty();
            }
        }
        match event {
            StreamEvent::Text(text) => self.say(text, pieces),
            StreamEvent::Native { text, mut chunk } => {
                outcome.text.push_str(&text);
                let in_text = self.refusals_as_text && (self.refuses || outcome.text.is_empty());
                let refusal = if in_text { chunk_parts::take_refusal(&mut chunk) } else { None };
                let added = self.fragments.add(&mut chunk)?;
                outcome.beside += added.bytes;
                if let Some(known) = &mut outcome.usage {
                    known.open.completion |= added.continues;
                }
                if outcome.instead.is_none()
                    && let Some(refusal) = answer_strings::refusal(&chunk)
                {
                    outcome.refusal.push_str(refusal);
                }
                self.pass(chunk, pieces)?;
                if let Some(refusal) = refusal {
                    self.refuses = true;
                    self.say(refusal, pieces);
                }
            }
            StreamEvent::Source(event) => {
                if let Some(sources) = &mut self.sources {
                    self.fragments.add_source(&event)?;
                    sources.pass(event, pieces)?;
                }
            }
            StreamEvent::Finish(finish) => outcome.finish = Some(finish),
            StreamEvent::Usage(usage) => {
                outcome.usage = Some(outcome.usage.map_or(usage, |known| known.followed_by(usage)));
            }
            StreamEvent::Prompt(usage) => outcome.prompt_usage = Some(usage),
            StreamEvent::Model(model) => outcome.upstream_model = Some(model),
            // An answer that is written anew has an id of ours.
            StreamEvent::Stored(stored) => {
                outcome.stored = Some(stored).filter(|_| self.sources.is_some());
            }
            StreamEvent::Done => {}
        }
        if self.flight.as_ref().is_some_and(|flight| flight.outcome.text.len() > MAX_OUTPUT_BYTES) {
            return Err(TooMany::Bytes);
        }
        Ok(())
    }

    /// Passes on text of choice 0.
    fn say(&mut self, text: String, pieces: &mut Vec<Piece>) {
        if let Some(flight) = &mut self.flight {
            flight.outcome.text.push_str(&text);
        }
        match &mut self.outbound {
            Some(outbound) => outbound.text(&text, pieces),
            None if !text.is_empty() && self.sources.is_none() => pieces.push(Piece::Text(text)),
            None => {}
        }
    }

    /// Notes the part that has left of an answer that is judged on its way: it may be the last.
    fn note_left(&mut self) {
        if let (Some(flight), Some(outbound)) = (&mut self.flight, &mut self.outbound)
            && let Some(left) = &mut flight.outcome.instead
        {
            left.push_str(&outbound.left());
            flight.outcome.refusal.push_str(&outbound.refused());
        }
    }

    /// Passes on a chunk that holds more than text.
    fn pass(
        &mut self,
        mut chunk: Map<String, Value>,
        pieces: &mut Vec<Piece>,
    ) -> std::result::Result<(), TooMany> {
        if self.outbound.as_ref().is_some_and(|outbound| outbound.judging.is_some()) {
            // They may reveal text that is held back.
            chunk_parts::clear_logprobs(&mut chunk);
            if let Some(withheld) =
                chunk_parts::split_indivisible(&mut chunk, &mut self.split_choices)
            {
                self.withheld_bytes += withheld.values().map(tree_bytes).sum::<usize>();
                self.withheld.push(withheld);
            }
            if self.withheld_bytes > MAX_WITHHELD_BYTES {
                return Err(TooMany::WithheldBytes);
            }
            if self.withheld.len() > MAX_WITHHELD_CHUNKS {
                return Err(TooMany::WithheldChunks);
            }
        }
        // The end of choice 0 is sent once, when it is on disk.
        let is_left = chunk_parts::hold_end(&mut chunk);
        match &mut self.outbound {
            _ if !is_left => {}
            Some(outbound) => outbound.native(chunk, pieces),
            None if self.sources.is_some() => {}
            None => pieces.push(Piece::Native(chunk)),
        }
        Ok(())
    }

    /// Records the whole answer, and sends its end only when that is on disk.
    async fn end(&mut self) -> Vec<Piece> {
        let Some(mut flight) = self.flight.take() else { return Vec::new() };
        let mut pieces = Vec::new();
        let blocked = match self.pass_rest(&mut flight, &mut pieces).await {
            Ok(blocked) => blocked,
            Err(error) => return vec![Piece::Broken(flight.fault(error))],
        };
        let finish = match &blocked {
            Some(_) => FinishReason::ContentFilter,
            None => flight.outcome.finish.unwrap_or(FinishReason::Stop),
        };
        match flight.finish().await {
            Ok(recorded) => {
                if let Some(sources) = &mut self.sources {
                    sources.end(&mut pieces);
                }
                pieces.push(Piece::End { finish, usage: recorded.usage, blocked });
            }
            Err(error) => pieces.push(Piece::Broken(error)),
        }
        pieces
    }

    /// Passes on the text that was held back, and judges the whole answer for its step. Returns the
    /// reason if the rest must not leave.
    async fn pass_rest(
        &mut self,
        flight: &mut InFlight,
        pieces: &mut Vec<Piece>,
    ) -> Result<Option<String>> {
        let mut outbound = self.outbound.take();
        let judging = outbound.as_mut().and_then(|outbound| {
            outbound.finish(pieces);
            outbound.judging.take()
        });
        if let (Some(outbound), Some(judging)) = (outbound, judging) {
            return self.pass_judged(flight, outbound, judging, pieces).await;
        }
        let mut redactor = Redactor::of_answer(crate::safety::nonce::nonce()?);
        flight.outcome.passed = self.fragments.take_vendor_events();
        flight.outcome.output = self.fragments.judge(flight, &mut redactor).await?.security;
        flight.outcome.message = self.fragments.message(&flight.outcome.text);
        Ok(None)
    }

    /// Ends an answer that was judged on its way: judges it as a whole, and passes on the parts
    /// that were held for that. Returns the reason if they must not leave.
    async fn pass_judged(
        &mut self,
        flight: &mut InFlight,
        mut outbound: OutboundFilter,
        mut judging: Judging,
        pieces: &mut Vec<Piece>,
    ) -> Result<Option<String>> {
        let mut left = flight.outcome.instead.take().unwrap_or_default();
        left.push_str(&outbound.left());
        flight.outcome.instead = Some(left.clone());
        flight.outcome.refusal.push_str(&outbound.refused());
        let judged = self.fragments.judge(flight, &mut judging.redactor).await?;
        let outcome = &mut flight.outcome;
        outcome.output = judged.security;
        let (new, blocked) = match judged.verdict {
            Verdict::Fine => (Vec::new(), None),
            Verdict::Redacted(new) => (new, None),
            Verdict::Blocked(reason) => (Vec::new(), Some(reason)),
        };
        let blocked = judging.blocked.or(blocked);
        if blocked.is_some() {
            outcome.finish = Some(FinishReason::ContentFilter);
        } else {
            if judging.redactor.into_placeholders().is_empty() {
                outcome.message = self.fragments.message(&left);
            } else {
                outcome.message = self.fragments.redacted_message(&left, &new);
                let mut replacement = self.fragments.replaced_by(&new);
                for chunk in &mut self.withheld {
                    replacement.apply(chunk);
                }
            }
            for chunk in self.withheld.drain(..) {
                outbound.native(chunk, pieces);
            }
            outbound.finish(pieces);
        }
        Ok(blocked)
    }

    /// Notes the vendor's own events of an answer that is left, for its record.
    fn keep_passed(&mut self) {
        if let (Some(flight), true) = (&mut self.flight, self.sources.is_some()) {
            flight.outcome.passed = self.fragments.take_vendor_events();
        }
    }

    /// Records why the answer breaks off, and reports it to the caller.
    async fn broken(&mut self, what: String, class: &'static str, error: Error) -> Vec<Piece> {
        let Some(mut flight) = self.flight.take() else { return Vec::new() };
        if let Ok(funded) = flight.funded() {
            let provider = funded.model().provider;
            call_metrics::of_model(&self.model).count_failure(provider, class);
        }
        tracing::info!(model = %self.model, %what, "a stream broke");
        flight.outcome.status = StepStatus::Failed;
        flight.outcome.error = Some(what);
        if self.sources.is_some() {
            flight.outcome.passed = self.fragments.take_vendor_events();
        }
        let mut pieces = Vec::new();
        if let Some(outbound) = &mut self.outbound {
            // Half a word was not judged, and does not leave.
            outbound.judging = None;
            outbound.finish(&mut pieces);
        }
        if let Some(sources) = &mut self.sources {
            sources.release(&mut pieces);
        }
        pieces.push(Piece::Broken(match flight.finish().await {
            Ok(_) => error,
            Err(error) => error,
        }));
        pieces
    }
}

impl Fragments {
    /// Judges all strings of an answer.
    async fn judge(
        &self,
        flight: &InFlight,
        redactor: &mut Redactor,
    ) -> Result<output_check::Judged> {
        let context = flight.funded()?.routed().screened().context();
        let strings = self.judged_strings(&flight.outcome.text);
        Ok(output_check::judge(&context.caller.project, &strings, redactor).await)
    }
}

/// A caller who leaves after the first words pays for the events that have come with them.
impl Drop for Relay {
    fn drop(&mut self) {
        if self.flight.is_some() && !std::thread::panicking() {
            self.record_received();
            self.keep_passed();
        }
    }
}

/// Lets the connection that carries the answer write the pieces passed on.
async fn pause() {
    let mut paused = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn first_token(began: Instant, model: &str) -> i64 {
    let elapsed = began.elapsed();
    call_metrics::of_model(model).first_token_took(elapsed);
    domain::time::micros(elapsed)
}
