//! Streamed answers: pieces leave as they come, the record is on disk before the last one.

use std::collections::VecDeque;

use checks::StreamRestorer;
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
use crate::execute::{self, Gone};
use crate::flow::{InFlight, Routed, neutral};
use crate::labels;
use crate::output::{self, Instead};

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
    },
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
            Gone::Blocked(reason, step) => Ok(Streamed::Blocked { reason, step, trace }),
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
        };
        let relay = Relay {
            restorer: restores.then(|| screened.placeholders().stream()),
            holds: output::holds_answers(project),
            flight: Some(flight),
            held: VecDeque::new(),
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
    restorer: Option<StreamRestorer>,
    /// Whether the answer must be whole before it may leave.
    holds: bool,
    held: VecDeque<Piece>,
    began: Instant,
    /// For metrics.
    model: String,
}

impl Relay {
    /// The next pieces, at least one; `None` after the last.
    async fn next(&mut self) -> Option<Vec<Piece>> {
        loop {
            self.flight.as_ref()?;
            // All that the provider has sent so far leaves in one write.
            let mut pieces = Vec::new();
            match self.upstream.next().await {
                Some(Ok(events)) => {
                    for event in events {
                        self.hear(event, &mut pieces);
                    }
                    if self.holds {
                        self.held.extend(pieces.drain(..));
                    }
                }
                Some(Err(error)) => return Some(self.broken(&error).await),
                None => return Some(self.end().await),
            }
            if !pieces.is_empty() {
                return Some(pieces);
            }
        }
    }

    fn hear(&mut self, event: StreamEvent, pieces: &mut Vec<Piece>) {
        let Some(flight) = &mut self.flight else { return };
        let heard = &mut flight.heard;
        match event {
            StreamEvent::Text(text) => {
                heard.first_token.get_or_insert_with(|| first_token(self.began, &self.model));
                heard.text.push_str(&text);
                let text = match &mut self.restorer {
                    Some(restorer) => restorer.push(&text),
                    None => text,
                };
                if !text.is_empty() {
                    pieces.push(Piece::Text(text));
                }
            }
            StreamEvent::Native { text, chunk } => {
                heard.first_token.get_or_insert_with(|| first_token(self.began, &self.model));
                heard.text.push_str(&text);
                pieces.push(Piece::Native(chunk));
            }
            StreamEvent::Finish(finish) => heard.finish = Some(finish),
            StreamEvent::Usage(usage) => heard.usage = Some(usage),
            StreamEvent::Model(model) => heard.upstream_model = Some(model),
            StreamEvent::Done => {}
        }
    }

    /// Records the whole answer, and says so only when that is on disk.
    async fn end(&mut self) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = self.held.drain(..).collect();
        if let Some(restorer) = self.restorer.take() {
            let rest = restorer.finish();
            if !rest.is_empty() {
                pieces.push(Piece::Text(rest));
            }
        }
        let Some(mut flight) = self.flight.take() else { return pieces };
        let judged = match judge(&flight) {
            Ok(judged) => judged,
            Err(error) => return vec![Piece::Broken(flight.fault(error))],
        };
        flight.heard.output = judged.security;
        let mut finish = flight.heard.finish.unwrap_or(FinishReason::Stop);
        let usage = flight.heard.usage;
        let mut blocked = None;
        match judged.instead {
            // Only held answers can still be changed.
            Some(Instead::Redacted(text)) if self.holds => {
                flight.heard.instead = Some(text.clone());
                pieces = vec![Piece::Text(text)];
            }
            Some(Instead::Blocked(reason)) if self.holds => {
                flight.heard.instead = Some(String::new());
                pieces.clear();
                finish = FinishReason::ContentFilter;
                blocked = Some(reason);
            }
            _ => {}
        }
        match flight.finish().await {
            Ok(()) => pieces.push(Piece::End { finish, usage, blocked }),
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
        let mut pieces: Vec<Piece> =
            if self.holds { Vec::new() } else { self.held.drain(..).collect() };
        pieces.push(Piece::Broken(match flight.finish().await {
            Ok(()) => Error::ProviderUnreachable,
            Err(error) => error,
        }));
        pieces
    }
}

fn judge(flight: &InFlight) -> Result<output::Judged> {
    let turn = flight.funded()?.routed().screened().turn();
    Ok(output::judge(&turn.caller.project, &flight.heard.text, crate::nonce()?))
}

fn first_token(began: Instant, model: &str) -> i64 {
    let elapsed = began.elapsed();
    metrics::histogram!("sluice_first_token_seconds", "model" => labels::model(model))
        .record(elapsed.as_secs_f64());
    domain::time::micros(elapsed)
}
