//! Streamed answers: pieces leave as they come, the record is on disk before the last one.

mod fragments;
mod restorer;

use std::future::poll_fn;
use std::task::Poll;

use domain::conversation::StreamEvent;
use domain::ids::{StepId, TraceId};
use domain::step::{Door, FinishReason, StepStatus};
use domain::time::Timestamp;
use domain::usage::Usage;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use providers::EventStream;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::Gateway;
use crate::admit::Caller;
use crate::error::{Error, Result};
use crate::execute::{self, Gone, Refusal};
use crate::flow::{InFlight, Located, Routed, neutral};
use crate::labels;
use crate::leaves;
use crate::output::{self, Verdict};
use fragments::Fragments;
use restorer::Restorer;

/// What is known of a stream before its first piece.
#[derive(Clone, Debug)]
pub struct Started {
    /// The step that will record it.
    pub step: StepId,
    /// Its trace.
    pub trace: TraceId,
    /// The identifier of the model that answers.
    pub model: String,
    /// When it began.
    pub created: Timestamp,
    /// Parameters that the model has not and that were left out, by name.
    pub dropped: Vec<String>,
}

/// One piece of a streamed answer.
#[derive(Debug)]
pub enum Piece {
    /// More text.
    Text(String),
    /// A chunk in the chat-completions format that says more than text.
    Native(Map<String, Value>),
    /// The end, recorded.
    End {
        /// Why the model stopped.
        finish: FinishReason,
        /// What was used, if the provider said.
        usage: Option<Usage>,
        /// Why the answer was withheld, if it was.
        blocked: Option<String>,
    },
    /// The stream broke; what came before it is recorded.
    Broken(Error),
}

/// A streamed answer, or a refusal.
pub enum Streamed {
    /// Pieces follow, several at a time when they came together.
    Pieces(Started, BoxStream<'static, Vec<Piece>>),
    /// Refused by safety or routing, at no cost.
    Blocked {
        /// Why.
        reason: String,
        /// The step that records it.
        step: StepId,
        /// Its trace.
        trace: TraceId,
        /// What was found and where, if safety refused it.
        cause: Option<Box<Located>>,
    },
}

impl Streamed {
    pub(crate) fn refused(refusal: Refusal, trace: TraceId) -> Self {
        let Refusal { reason, step, cause } = refusal;
        Self::Blocked { reason, step, trace, cause }
    }
}

impl Gateway {
    /// Executes and streams the answer.
    pub async fn execute_stream(
        &self,
        caller: &Caller,
        trace_id: &str,
        input: String,
    ) -> Result<Streamed> {
        let turn = self.turn(caller, trace_id, None, Door::Stream).await?;
        let trace = turn.trace.id();
        match self.route(turn, execute::prompt(input)).await? {
            Gone::On(routed) => self.relay(*routed).await,
            Gone::Blocked(refusal) => Ok(Streamed::refused(refusal, trace)),
        }
    }

    /// Calls a model and passes on what it says.
    pub(crate) async fn relay(&self, routed: Routed) -> Result<Streamed> {
        let began = Instant::now();
        let (flight, upstream) = self.call_stream(routed).await?;
        let funded = flight.funded()?;
        let screened = funded.routed().screened();
        let project = &screened.turn().caller.project;
        let restores = project.policy.safety().pii_restore && !screened.placeholders().is_empty();
        let started = Started {
            step: funded.step(),
            trace: screened.turn().trace.id(),
            model: funded.model().identifier.clone(),
            created: funded.started_at(),
            dropped: upstream.dropped().to_vec(),
        };
        let relay = Relay {
            restorer: restores.then(|| Restorer::new(screened.placeholders())),
            holds: output::holds_answers(project),
            flight: Some(flight),
            held: Vec::new(),
            fragments: Fragments::default(),
            upstream,
            began,
            model: started.model.clone(),
        };
        let pieces = stream::unfold(relay, |mut relay| async move {
            let pieces = relay.next().await?;
            Some((pieces, relay))
        });
        Ok(Streamed::Pieces(started, pieces.boxed()))
    }
}

/// A stream between a provider and a caller. Dropping it records what was heard so far.
struct Relay {
    /// Taken when the call is recorded; nothing follows then.
    flight: Option<InFlight>,
    upstream: EventStream,
    restorer: Option<Restorer>,
    /// Whether the answer must be whole before it may leave.
    holds: bool,
    held: Vec<StreamEvent>,
    /// What it says beside the text.
    fragments: Fragments,
    began: Instant,
    /// For metrics.
    model: String,
}

impl Relay {
    /// The next pieces, at least one; `None` after the last.
    async fn next(&mut self) -> Option<Vec<Piece>> {
        loop {
            let flight = self.flight.as_ref()?;
            // All that the provider has sent so far leaves in one write.
            let mut pieces = Vec::new();
            match flight.wait(self.upstream.next()).await {
                Some(Ok(events)) => {
                    for event in events {
                        self.hear(event, &mut pieces);
                    }
                }
                Some(Err(error)) => return Some(self.broken(&error).await),
                None => {
                    // What was passed on leaves before the work that the end is.
                    pause().await;
                    return Some(self.end().await);
                }
            }
            if !pieces.is_empty() {
                return Some(pieces);
            }
        }
    }

    fn hear(&mut self, mut event: StreamEvent, pieces: &mut Vec<Piece>) {
        let Some(flight) = &mut self.flight else { return };
        let heard = &mut flight.heard;
        match &mut event {
            StreamEvent::Text(text) => heard.text.push_str(text),
            StreamEvent::Native { text, chunk } => {
                heard.text.push_str(text);
                heard.beside += self.fragments.add(chunk);
            }
            StreamEvent::Finish(finish) => return heard.finish = Some(*finish),
            StreamEvent::Usage(usage) => return heard.usage = Some(*usage),
            StreamEvent::Model(model) => {
                return heard.upstream_model = Some(std::mem::take(model));
            }
            StreamEvent::Done => return,
        }
        heard.first_token.get_or_insert_with(|| first_token(self.began, &self.model));
        if self.holds {
            self.held.push(event);
        } else {
            self.pass(event, pieces);
        }
    }

    /// Passes on what the model has said, with what placeholders stand for.
    fn pass(&mut self, event: StreamEvent, pieces: &mut Vec<Piece>) {
        match (event, &mut self.restorer) {
            (StreamEvent::Text(text), Some(restorer)) => restorer.text(&text, pieces),
            (StreamEvent::Text(text), None) if !text.is_empty() => pieces.push(Piece::Text(text)),
            (StreamEvent::Native { mut chunk, .. }, restorer) => {
                // The end of choice 0 is told once, when it is on disk.
                let says = leaves::hold_end(&mut chunk);
                match restorer {
                    _ if !says => {}
                    Some(restorer) => restorer.native(chunk, pieces),
                    None => pieces.push(Piece::Native(chunk)),
                }
            }
            _ => {}
        }
    }

    /// Passes on what was held until the answer was whole, and what may still have become a
    /// placeholder.
    fn pass_rest(&mut self, pieces: &mut Vec<Piece>) {
        for event in std::mem::take(&mut self.held) {
            self.pass(event, pieces);
        }
        if let Some(mut restorer) = self.restorer.take() {
            restorer.finish(pieces);
        }
    }

    /// Records the whole answer, and says so only when that is on disk.
    async fn end(&mut self) -> Vec<Piece> {
        let Some(mut flight) = self.flight.take() else { return Vec::new() };
        let judged = match self.judge(&flight) {
            Ok(judged) => judged,
            Err(error) => return vec![Piece::Broken(flight.fault(error))],
        };
        flight.heard.output = judged.security;
        flight.heard.message = self.fragments.message(&flight.heard.text);
        let mut finish = flight.heard.finish.unwrap_or(FinishReason::Stop);
        let usage = flight.heard.usage;
        let mut blocked = None;
        match judged.verdict {
            // Only held answers can still be changed.
            Verdict::Redacted(new) if self.holds => {
                flight.heard.message = None;
                let mut replacement = std::mem::take(&mut self.fragments).replaced_by(new);
                flight.heard.instead = replacement.text();
                self.held.iter_mut().for_each(|event| replacement.apply(event));
            }
            Verdict::Blocked(reason) if self.holds => {
                flight.heard.message = None;
                flight.heard.instead = Some(String::new());
                self.held.clear();
                finish = FinishReason::ContentFilter;
                blocked = Some(reason);
            }
            _ => {}
        }
        let mut pieces = Vec::new();
        self.pass_rest(&mut pieces);
        match flight.finish().await {
            Ok(_) => pieces.push(Piece::End { finish, usage, blocked }),
            Err(error) => pieces.push(Piece::Broken(error)),
        }
        pieces
    }

    async fn broken(&mut self, error: &providers::Error) -> Vec<Piece> {
        let Some(mut flight) = self.flight.take() else { return Vec::new() };
        let what = neutral(error);
        tracing::info!(%what, "a stream broke");
        flight.heard.status = StepStatus::Failed;
        flight.heard.error = Some(what);
        let mut pieces = Vec::new();
        // What was not judged does not leave.
        self.held.clear();
        self.pass_rest(&mut pieces);
        pieces.push(Piece::Broken(match flight.finish().await {
            Ok(_) => Error::ProviderUnreachable,
            Err(error) => error,
        }));
        pieces
    }

    fn judge(&self, flight: &InFlight) -> Result<output::Judged> {
        let turn = flight.funded()?.routed().screened().turn();
        let said = self.fragments.said(&flight.heard.text);
        Ok(output::judge(&turn.caller.project, &said, crate::nonce()?))
    }
}

/// Lets the connection that carries the answer write what it has.
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
    metrics::histogram!("sluice_first_token_seconds", "model" => labels::model(model))
        .record(elapsed.as_secs_f64());
    domain::time::micros(elapsed)
}
