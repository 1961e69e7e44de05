//! From a request to a routed prompt: its trace, the screening, and the choice of models.

use domain::conversation::Prompt;
use domain::ids::StepId;
use domain::step::ApiEndpoint;

use crate::capacity::offload::offload_judging;
use crate::error::Result;
use crate::gateway::Gateway;
use crate::pipeline::choose::{Choice, Fallbacks, Routed};
use crate::pipeline::context::RequestContext;
use crate::pipeline::record::BlockedBy;
use crate::pipeline::screen::{PiiRule, Screened, Screening, ScreeningRequest, Stopped};
use crate::safety::location::Located;
use crate::safety::prompt_strings::raw_size;
use crate::state::caller::Caller;

/// Why a request was refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    /// The step that records it.
    pub(crate) step: StepId,
    /// The finding and its location, if safety refused it.
    pub(crate) cause: Option<Box<Located>>,
}

/// A request on its way to a provider, or refused.
pub(crate) enum Gone {
    On(Box<Routed>),
    Blocked(Refusal),
}

impl Gateway {
    /// The context of a request: its trace is the caller's own and open, its parent is of that
    /// trace.
    pub(crate) async fn request_context(
        &self,
        caller: &Caller,
        trace_id: &str,
        parent: Option<i64>,
        api_endpoint: ApiEndpoint,
    ) -> Result<RequestContext> {
        let trace = self.find_open_trace(caller, trace_id).await?;
        let parent = self.find_parent(&trace, parent).await?;
        Ok(RequestContext {
            caller: caller.clone(),
            trace,
            parent,
            api_endpoint,
            own: None,
            mcp: None,
        })
    }

    /// Screens and routes an input of executions.
    pub(crate) async fn route(&self, context: RequestContext, prompt: Prompt) -> Result<Gone> {
        self.route_with(&context, ScreeningRequest { prompt, pii: PiiRule::Route }).await
    }

    /// Screens and routes; a refusal is recorded.
    pub(crate) async fn route_with(
        &self,
        context: &RequestContext,
        ask: ScreeningRequest,
    ) -> Result<Gone> {
        let screened = match self.screened(context, ask).await? {
            Ok(screened) => screened,
            Err(refusal) => return Ok(Gone::Blocked(refusal)),
        };
        match screened.choose() {
            Choice::Route(routed) => Ok(Gone::On(routed)),
            Choice::Blocked(reason, routing, screened) => {
                let blocked = BlockedBy {
                    reason: reason.clone(),
                    security: screened.security().clone(),
                    routing: Some(*routing),
                    why: "routing",
                };
                let step = Box::pin(self.record_block(context, screened.prompt(), blocked)).await?;
                Ok(Gone::Blocked(Refusal { reason, step, cause: None }))
            }
        }
    }

    /// Screens, and takes the model that the caller named; a refusal is recorded.
    pub(crate) async fn direct_with(
        &self,
        context: &RequestContext,
        ask: ScreeningRequest,
        model: &str,
        fallbacks: Fallbacks,
    ) -> Result<Gone> {
        // An unknown model is the caller's mistake, whatever the text holds.
        context.caller.project.model(model)?;
        match self.screened(context, ask).await? {
            Ok(screened) => {
                screened.direct(model, fallbacks).map(|routed| Gone::On(Box::new(routed)))
            }
            Err(refusal) => Ok(Gone::Blocked(refusal)),
        }
    }

    /// Screens; a refusal is recorded.
    pub(crate) async fn screened(
        &self,
        context: &RequestContext,
        ask: ScreeningRequest,
    ) -> Result<std::result::Result<Screened, Refusal>> {
        // Finding the judged parts of the prompt takes a pass of its own, which belongs to the
        // work.
        let bytes = context.caller.project.policy.effort(raw_size(&ask.prompt));
        match offload_judging(context.caller.share(), bytes, |give_up| context.screen(ask, give_up))
            .await??
        {
            Screening::Clear(screened) => Ok(Ok(*screened)),
            Screening::Blocked(stopped) => {
                let Stopped { reason, cause, security, prompt } = *stopped;
                let why = cause.as_ref().map_or("policy", |cause| cause.category.as_str());
                let blocked = BlockedBy { reason: reason.clone(), security, routing: None, why };
                let step = Box::pin(self.record_block(context, &prompt, blocked)).await?;
                Ok(Err(Refusal { reason, step, cause }))
            }
        }
    }
}
