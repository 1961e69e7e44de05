//! From a request to a routed prompt: its trace, the screening, and the choice of models.

use checks::GiveUp;
use domain::conversation::Prompt;
use domain::step::ApiEndpoint;

use crate::capacity::offload::offload_judging;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::attributes::{self, NamedInBody};
use crate::pipeline::auto_trace::{AutoTrace, AutoTracing, OpenedTrace, Unanswered, unanswered};
use crate::pipeline::choose::{Choice, Fallbacks, Routed};
use crate::pipeline::context::RequestContext;
use crate::pipeline::refusal::OrRefusal;
use crate::pipeline::screen::{PiiRule, Screened, Screening, ScreeningRequest};
use crate::pipeline::session;
use crate::safety::prompt_strings::raw_size;
use crate::state::caller::Caller;

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
        let body = NamedInBody::default();
        self.named_context(caller, trace_id, parent, api_endpoint, body).await
    }

    /// The context of a request whose body may name whom it is for.
    async fn named_context(
        &self,
        caller: &Caller,
        trace_id: &str,
        parent: Option<i64>,
        api_endpoint: ApiEndpoint,
        body: NamedInBody<'_>,
    ) -> Result<RequestContext> {
        caller.check_endpoint(api_endpoint)?;
        let trace = self.find_open_trace(caller, trace_id).await?;
        let parent = self.find_parent(&trace, parent).await?;
        let attributes = attributes::gather(caller, Some(&trace), body);
        if api_endpoint.calls_models() {
            caller.project.check_attributes(attributes.as_deref())?;
        }
        let mut context = RequestContext::new(caller.clone(), trace, parent, api_endpoint);
        context.attributes = attributes;
        Ok(context)
    }

    /// The context of a call: on the trace that it names, on that of its session, or on one that is
    /// opened for it.
    pub(crate) async fn traced_context(
        &self,
        caller: &Caller,
        trace_id: Option<&str>,
        api_endpoint: ApiEndpoint,
        auto_tracing: AutoTracing,
        body: NamedInBody<'_>,
    ) -> std::result::Result<RequestContext, Unanswered> {
        caller.check_endpoint(api_endpoint)?;
        if let Some(id) = trace_id {
            return Ok(self.named_context(caller, id, None, api_endpoint, body).await?);
        }
        if auto_tracing == AutoTracing::BySettings && !caller.project.settings.auto_trace {
            let missing = "Missing required parameter: trace_id".to_owned();
            return Err(Error::Malformed(missing).into());
        }
        // A call that is refused for them opens no trace.
        let attributes = attributes::gather(caller, None, body);
        caller.project.check_attributes(attributes.as_deref())?;
        if auto_tracing == AutoTracing::BySession
            && let Some(session) = session::shown(caller, api_endpoint, body.prompt)
        {
            let mut context = self.session_context(caller, session, api_endpoint).await?;
            context.attributes = attributes;
            return Ok(context);
        }
        let auto_trace = AutoTrace::open(self, caller).await?;
        let id = auto_trace.id().to_string();
        let opened = OpenedTrace::Own(auto_trace);
        let trace = self.find_open_trace(caller, &id).await;
        let context =
            trace.map(|trace| RequestContext::new(caller.clone(), trace, None, api_endpoint));
        let mut context = context.map_err(unanswered(Some(&opened)))?;
        (context.opened, context.attributes) = (Some(opened), attributes);
        Ok(context)
    }

    /// Screens and routes an input of executions.
    pub(crate) async fn route(
        &self,
        context: RequestContext,
        prompt: Prompt,
    ) -> Result<OrRefusal<Box<Routed>>> {
        self.route_with(&context, ScreeningRequest { prompt, pii: PiiRule::Route }).await
    }

    /// Screens and routes; a refusal is recorded.
    pub(crate) async fn route_with(
        &self,
        context: &RequestContext,
        request: ScreeningRequest,
    ) -> Result<OrRefusal<Box<Routed>>> {
        let screened = match self.screened(context, request).await? {
            Ok(screened) => screened,
            Err(refusal) => return Ok(Err(refusal)),
        };
        match screened.choose(self)? {
            Choice::Route(routed) => Ok(Ok(routed)),
            Choice::Blocked(refused) => self.refuse(context, *refused).await.map(Err),
        }
    }

    /// Screens, and takes the model that the caller named; a refusal is recorded.
    pub(crate) async fn direct_with(
        &self,
        context: &RequestContext,
        request: ScreeningRequest,
        model: &str,
        fallbacks: Fallbacks,
    ) -> Result<OrRefusal<Box<Routed>>> {
        // An unknown model is the caller's mistake, whatever the text holds.
        context.caller.check_model(context.caller.project.model(model)?)?;
        match self.screened(context, request).await? {
            Ok(screened) => screened.direct(model, fallbacks).map(|routed| Ok(Box::new(routed))),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Screens; a refusal is recorded.
    pub(crate) async fn screened(
        &self,
        context: &RequestContext,
        request: ScreeningRequest,
    ) -> Result<OrRefusal<Screened>> {
        // Finding the judged parts of the prompt takes a pass of its own, which belongs to the
        // work.
        let bytes = context.caller.project.policy.effort(raw_size(&request.prompt));
        let judge = |give_up: GiveUp<'_>| context.screen(request, give_up);
        match offload_judging(context.caller.share(), bytes, judge).await? {
            Screening::Clear(screened) => Ok(Ok(*screened)),
            Screening::Blocked(refused) => self.refuse(context, *refused).await.map(Err),
        }
    }
}
