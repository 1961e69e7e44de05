//! Streamed answers: pieces leave as they come, the record is on disk before the last one.

#[cfg(test)]
mod agreement_tests;
mod by_path;
mod fragments;
mod outbound_filter;
pub(crate) mod piece;
mod relay;
mod source_filter;
mod string_filter;
mod vendor_blocks;

use checks::Placeholders;
use domain::step::ApiEndpoint;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::pipeline::choose::Routed;
use crate::request_id;
use crate::state::caller::Caller;
use crate::streaming::piece::{Mode, Started, Streamed};
use domain::conversation::Prompt;
use outbound_filter::OutboundFilter;
use relay::Relay;
use source_filter::SourceFilter;
use string_filter::Judging;

impl Gateway {
    /// Executes and streams the answer.
    pub fn execute_stream<'a>(
        &'a self,
        caller: &'a Caller,
        trace_id: &'a str,
        input: String,
    ) -> BoxFuture<'a, Result<Streamed>> {
        Box::pin(async move {
            let context = self.request_context(caller, trace_id, None, ApiEndpoint::Stream).await?;
            match self.route(context, Prompt::question(input)).await? {
                Ok(routed) => self.relay(*routed).await,
                Err(refusal) => Ok(Streamed::Blocked(refusal)),
            }
        })
    }

    /// Calls a model and relays its answer.
    pub(crate) async fn relay(&self, routed: Routed) -> Result<Streamed> {
        let began = Instant::now();
        let (mut flight, upstream) = self.call_stream(routed).await?;
        let funded = flight.funded()?;
        let screened = funded.routed().screened();
        let project = &screened.context().caller.project;
        let restores = project.policy.safety().pii_restore && !screened.placeholders().is_empty();
        let judging = if project.policy.acts_on_outputs() {
            Some(Judging::new(project.clone(), crate::safety::nonce::nonce()?))
        } else {
            None
        };
        let placeholders =
            if restores { screened.placeholders().clone() } else { Placeholders::default() };
        // An answer that is judged on its way is written anew: parts of it are cut out of the text.
        let has_sources = upstream.passes() && judging.is_none();
        let sources = has_sources.then(|| SourceFilter::new(funded.model(), &placeholders));
        let refusals_as_text = screened.context().api_endpoint == ApiEndpoint::Stream;
        let started = Started {
            step: funded.step(),
            trace: screened.context().trace.id(),
            model: funded.model().identifier.clone(),
            created: funded.started_at(),
            dropped: upstream.dropped().to_vec(),
            mode: Mode::of(upstream.passes()),
            has_sources,
        };
        flight.outcome.passes = upstream.passes();
        // If an answer is judged on its way, the part that has left is stored.
        flight.outcome.instead = judging.is_some().then(String::new);
        let filters = !has_sources && (restores || judging.is_some());
        let outbound = filters.then(|| OutboundFilter::new(&placeholders, judging));
        // Boxed: each piece would move it.
        let relay = Box::new(Relay::new(
            flight,
            upstream,
            outbound,
            sources,
            refusals_as_text,
            began,
            started.model.clone(),
        ));
        // The stream is polled by the task that writes the answer, not by the request's own task.
        let request = request_id::served();
        let pieces = stream::unfold(relay, move |mut relay| {
            let request = request.clone();
            async move {
                let pieces = request_id::under(request, relay.next()).await?;
                Some((pieces, relay))
            }
        });
        Ok(Streamed::Pieces(started, pieces.boxed()))
    }
}
