//! One step of a replay: a call that is repeated, or a step that is copied.

use std::sync::Arc;

use domain::attributes::Attributes;
use domain::ids::StepId;
use domain::job::Progress;
use domain::model::Model;
use domain::money::Usd;
use domain::step::{ApiEndpoint, Call, Content, Routing, Step};
use domain::tier::Tier;

use crate::bounded_read::read_again;
use crate::capacity::body_memory::{BodyCharge, HeldCharge, json_bytes, plain_bytes};
use crate::capacity::offload::offload;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::inference::simulate;
use crate::job_queue::running::RunningJob;
use crate::lock::lock;
use crate::pipeline::choose::Fallbacks;
use crate::pipeline::context::{MadeStep, RecordedCall, RequestContext};
use crate::pipeline::screen::{Leaks, Screened, ScreeningRequest};
use crate::pipeline::tokens;
use crate::replay::recorded::{Recorded, pii_rule};
use crate::replay::result::Skip;
use crate::safety::prompt_strings::raw_size;
use crate::state::caller::Caller;
use crate::state::known_traces::TraceHandle;
use crate::state::registry::ProjectState;

/// The error of a replay whose source has no contents.
pub(super) const NOT_STORED: &str = "The contents of this trace are not stored: store_content is off, or their retention is over. It cannot be replayed";

/// The reason why a replay ends early.
#[derive(Debug)]
pub(super) enum ReplayError {
    /// It cannot be continued; the message is for the one who requested it.
    Failed(Error),
    /// It must not be continued on this node, or not now.
    Interrupted,
}

impl From<Error> for ReplayError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<store::Error> for ReplayError {
    fn from(error: store::Error) -> Self {
        Error::from(error).into()
    }
}

/// The result of a repeated call.
#[derive(Debug)]
pub(super) enum CallResult {
    /// A step records the call, or its refusal.
    Recorded {
        step: StepId,
        /// The step of the tools that the model called.
        tools: Option<StepId>,
    },
    /// The call is not made.
    Skipped(Skip),
    /// The call has no answer.
    Failed {
        error: String,
        /// The step that records it, if its provider was called.
        step: Option<StepId>,
    },
}

/// A call of the source that a replay repeats.
pub(super) struct RepeatedCall<'a> {
    /// Its step in the source.
    pub(super) source: &'a Step,
    /// The model that repeats it.
    pub(super) model: Arc<Model>,
    /// The trace that it belongs to.
    pub(super) trace: Arc<TraceHandle>,
    /// The step of that trace that it follows from.
    pub(super) parent: Option<StepId>,
    /// The estimated cost above which it is not made.
    pub(super) max_cost: Option<Usd>,
    /// The attributes of its step.
    pub(super) attributes: Option<Arc<Attributes>>,
    /// The progress of the job before it.
    pub(super) progress: Progress,
}

impl RepeatedCall<'_> {
    /// Makes the call, for a caller who pays for it.
    pub(super) async fn run(
        &self,
        job: &RunningJob,
        caller: &Caller,
    ) -> std::result::Result<CallResult, ReplayError> {
        let gateway = &job.gateway;
        let model = &self.model;
        if self.is_secure() && !model.is_private() {
            return Ok(CallResult::Skipped(Skip::Secure));
        }
        let (mut recorded, charge) = gateway.recorded_call(job, caller, self.source).await?;
        let caller = Caller { charge: HeldCharge::default(), ..caller.clone() };
        caller.charge.hold(charge);
        if let Some(what) = &recorded.untranslatable {
            let fault =
                "This call went to its provider as it came, and cannot be made in another form";
            return Ok(CallResult::Failed { error: format!("{fault}: {what}"), step: None });
        }
        let was = self.source.call.as_ref().map(|call| &call.model);
        if was != Some(&model.identifier) {
            recorded.drop_provider_state();
        }
        if let Some(most) = self.max_cost
            && estimate(&caller, model, &recorded).await?.is_none_or(|cost| cost > most)
        {
            return Ok(CallResult::Skipped(Skip::MaxCost));
        }
        let made = MadeStep::default();
        let called = self.call(job, caller.clone(), recorded, made.clone()).await;
        let step = *lock(&made);
        // A call that has left is not made again for want of money or memory.
        let is_retried =
            |error: &Error| step.is_none() && may_pass(error, &caller, job.gateway.fleet.is_some());
        match called {
            Ok(result) => result.ok_or(ReplayError::Interrupted),
            Err(error) if ends_replay(&error) || is_retried(&error) => Err(error.into()),
            Err(error) => Ok(CallResult::Failed { error: error.to_string(), step }),
        }
    }

    /// Whether only a private model may receive it.
    fn is_secure(&self) -> bool {
        // The steps of a replay have no tier: they keep the classification of what they repeat.
        let is_secure = |routing: &Routing| {
            routing.classified == Tier::Secure || routing.tier == Some(Tier::Secure)
        };
        self.source.routing.as_ref().is_some_and(is_secure) || self.trace.is_sensitive()
    }

    /// Whether only a private model may receive its prompt, for the personal data and the credentials that are found
    /// in it now. No route decided over a call that named its model: if a private one answered, nothing of it has left
    /// yet.
    fn holds_private_data(&self, screened: &Screened) -> bool {
        let was_private = self.source.call.as_ref().is_none_or(Call::was_private);
        let Leaks { secret, personal, .. } = screened.leaks();
        screened.is_sensitive() || (was_private && (secret || personal))
    }

    /// Screens, funds, calls and records. `None` if the gateway stops meanwhile.
    async fn call(
        &self,
        job: &RunningJob,
        caller: Caller,
        recorded: Recorded,
        made: MadeStep,
    ) -> Result<Option<CallResult>> {
        let gateway = &job.gateway;
        let (trace, endpoint) = (self.trace.clone(), ApiEndpoint::Replay);
        let mut context = RequestContext::new(caller, trace, self.parent, endpoint);
        let Recorded { prompt, placeholders, servers, .. } = recorded;
        context.attributes.clone_from(&self.attributes);
        let recorded = RecordedCall { step: self.source.id, placeholders, servers, made };
        context.recorded = Some(Arc::new(recorded));
        let request = ScreeningRequest { prompt, pii: pii_rule(self.source) };
        let screened = match gateway.screened(&context, request).await? {
            Ok(screened) => screened,
            Err(refusal) => {
                return Ok(Some(CallResult::Recorded { step: refusal.step, tools: None }));
            }
        };
        if self.holds_private_data(&screened) && !self.model.is_private() {
            return Ok(Some(CallResult::Skipped(Skip::Secure)));
        }
        let mut routed = screened.direct(&self.model.identifier, Fallbacks::No)?;
        if let Some(routing) = &self.source.routing {
            routed = routed.classified(routing.clone());
        }
        // Memory and screening may take longer than it takes for a node to count as gone, and another to make
        // this call.
        if !job.checkpoint(self.progress).await? {
            return Ok(None);
        }
        let Some(called) = job.until_stop(Box::pin(gateway.call_and_judge(routed))).await else {
            return Ok(None);
        };
        let (flight, _) = called?;
        let step = flight.funded()?.step();
        let tools = flight.finish().await?.tools_step;
        Ok(Some(CallResult::Recorded { step, tools }))
    }
}

/// Whether an error would meet every further call as well.
fn ends_replay(error: &Error) -> bool {
    matches!(
        error,
        Error::BudgetExceeded { .. }
            | Error::BudgetReserved
            | Error::SpendCapped { .. }
            | Error::SpendReserved { .. }
            | Error::LoopDetected
            | Error::LimitsUnavailable
            | Error::Unavailable(_)
            | Error::Internal(_)
    )
}

/// The estimated cost of a call on a model, as a simulation gives it; `None` if the model has no price.
async fn estimate(caller: &Caller, model: &Model, recorded: &Recorded) -> Result<Option<Usd>> {
    let prompt = &recorded.prompt;
    let count = || tokens::count(prompt, "", model.config.context_window).prompt;
    let tokens = offload(caller.share(), raw_size(prompt), count).await?;
    Ok(simulate::estimate(model, tokens))
}

/// Whether an error lies in money or memory that other calls hold now, and give back. Those of other gateways of a
/// fleet may as well.
pub(super) fn may_pass(error: &Error, caller: &Caller, is_fleet: bool) -> bool {
    match error {
        Error::Busy { .. } | Error::BudgetReserved | Error::LimitsUnavailable => true,
        // It is also the error of a call that fits into no more than is left for it.
        Error::SpendReserved { .. } => {
            is_fleet || lock(&caller.key.windows).set_aside.total() > Usd::ZERO
        }
        _ => false,
    }
}

/// A step that is copied: it called no model.
pub(super) struct CopiedStep<'a> {
    /// The step of the source.
    pub(super) source: &'a Step,
    /// The trace of its copy.
    pub(super) trace: &'a TraceHandle,
    /// The step of that trace that it follows from.
    pub(super) parent: Option<StepId>,
    /// The attributes of the copy.
    pub(super) attributes: Option<Arc<Attributes>>,
}

impl CopiedStep<'_> {
    /// Copies it with its content, and returns the copy. It takes no time.
    pub(super) async fn copy(
        self,
        job: &RunningJob,
        caller: &Caller,
    ) -> std::result::Result<StepId, ReplayError> {
        let (store, now) = (&job.gateway.store, job.gateway.clock.now());
        let api_endpoint = match self.source.api_endpoint {
            // The statistics count a blocked step of this endpoint as a request. A copy is none.
            ApiEndpoint::Replay => ApiEndpoint::Checks,
            other => other,
        };
        let is_stored = !caller.project.settings.discard_content;
        let content =
            if is_stored { content(job, &caller.project, self.source.id).await? } else { None };
        let step = Step {
            id: store.step_id().await?,
            trace: self.trace.id(),
            key: Some(caller.key.key.id),
            parent: self.parent,
            source: Some(self.source.id),
            trace_context: None,
            attributes: self.attributes,
            api_endpoint,
            started_at: now,
            finished_at: now,
            ..self.source.clone()
        };
        let id = step.id;
        let content = content.as_ref().map(|(json, _)| (&**json, &caller.project.sealing));
        store.writer().step(step, content).await?;
        Ok(id)
    }
}

impl Gateway {
    /// Reads a recorded call, with memory for it.
    async fn recorded_call(
        &self,
        job: &RunningJob,
        caller: &Caller,
        source: &Step,
    ) -> std::result::Result<(Recorded, BodyCharge), ReplayError> {
        let found = content(job, &caller.project, source.id).await?;
        let (json, mut charge) = found.ok_or_else(|| Error::invalid(NOT_STORED))?;
        if !job.raise(&mut charge, json_bytes(&json, true)?).await? {
            return Err(ReplayError::Interrupted);
        }
        let content = serde_json::from_slice::<Content>(&json).ok();
        let recorded = content.and_then(|content| Recorded::read(content, source.api_endpoint));
        let unreadable = || {
            let sentence = "The recorded conversation of step";
            Error::invalid(format!("{sentence} {} cannot be read", source.id))
        };
        Ok((recorded.ok_or_else(unreadable)?, charge))
    }
}

/// The content of a step as it is stored, opened, with memory for it, which is taken before it is unpacked.
async fn content(
    job: &RunningJob,
    project: &ProjectState,
    step: StepId,
) -> std::result::Result<Option<(Vec<u8>, BodyCharge)>, ReplayError> {
    let ids = [step];
    let Some(sealed) = read_again(|| job.gateway.store.sealed_contents(&ids)).await?.pop() else {
        return Ok(None);
    };
    let packed = sealed.open_packed(&project.sealing)?;
    let charge = job.memory(plain_bytes(packed.size())).await?.ok_or(ReplayError::Interrupted)?;
    Ok(Some((packed.unpack()?, charge)))
}
