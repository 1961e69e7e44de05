//! Responses that providers store: the account that stores one, its record, and the calls that read or
//! delete it there.

use std::sync::Arc;

use aws_lc_rs::hmac::Key;
use domain::model::Model;
use domain::original::WireFormat;
use domain::stored_responses::{Continuation, StoredItem};
use domain::usage::Usage;
use providers::{StoredResponseAction, StoredResponseBody, StoredResponseCall};
use routing::allows_region;
use store::StoredResource;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::call::to_gateway_error;
use crate::pipeline::call_outcome::CallOutcome;
use crate::pipeline::choose::Routed;
use crate::pipeline::fund::Funded;
use crate::state::caller::Caller;
use crate::tools::fingerprint;

/// The longest time in which a provider answers about a stored response.
const TIMEOUT: std::time::Duration = std::time::Duration::from_mins(1);

/// The fingerprint of the account that a model is called with: its address and its credential.
fn account(key: &Key, model: &Model) -> i64 {
    let address = model.base_url.as_deref().unwrap_or_default();
    let credential = model.api_key.as_ref().map_or("", |credential| credential.expose());
    let parts = [model.provider.as_str(), address.trim_end_matches('/'), credential];
    fingerprint::text(key, &parts.join("\n"))
}

/// The model as it is called at each of its endpoints.
fn endpoints(model: &Arc<Model>) -> impl Iterator<Item = &Arc<Model>> {
    let own = model.config.endpoints.is_empty().then_some(model);
    own.into_iter().chain(model.config.endpoints.iter().map(|endpoint| &endpoint.model))
}

impl Routed {
    fn key(&self) -> &Key {
        &self.screened().context().caller.project.print_key
    }

    /// The account that stores what the request continues.
    fn required_account(&self) -> Option<i64> {
        self.continuation()?.account
    }

    fn regions(&self) -> Option<&[String]> {
        self.screened().context().caller.project.settings.allowed_regions.as_deref()
    }

    /// Whether the request may go to a model as it is called at an endpoint. If the stored items are
    /// optional, the storing account is preferred where the model has it; else any account will do. So will
    /// any for a translation, which names no container.
    pub(super) fn can_serve(&self, model: &Arc<Model>, endpoint: &Model) -> bool {
        let Some(account) = self.required_account() else { return true };
        let stores = |endpoint: &Model| account == self::account(self.key(), endpoint);
        if stores(endpoint) {
            return true;
        }
        let is_allowed = |endpoint: &Model| allows_region(self.regions(), &endpoint.region);
        match self.continuation() {
            Some(continuation) if continuation.has_contents() => false,
            Some(continuation) if continuation.is_bound() => !providers::keeps_answers(endpoint),
            _ => !endpoints(model).any(|endpoint| stores(endpoint) && is_allowed(endpoint)),
        }
    }

    fn continuation(&self) -> Option<&Continuation> {
        Some(&self.screened().prompt().original.as_ref()?.continuation)
    }

    /// The error for a model that is called with another account than the one that stores what the
    /// request continues, or with that in none of the allowed regions.
    pub(super) fn stored_elsewhere(&self, model: &Arc<Model>) -> Option<Error> {
        self.required_account()?;
        let mut serving =
            endpoints(model).filter(|endpoint| self.can_serve(model, endpoint)).peekable();
        let identifier = &model.identifier;
        if serving.peek().is_none() {
            return Some(Error::invalid(format!(
                "The request continues a response that another account keeps than that of model \
                 {identifier}: name the model that answered before"
            )));
        }
        if serving.any(|endpoint| allows_region(self.regions(), &endpoint.region)) {
            return None;
        }
        Some(Error::invalid(format!(
            "The request continues a response that is kept in a region outside settings.allowed_regions, \
             by model {identifier}: send the conversation itself in input"
        )))
    }

    /// The account that stores what the answer of a model leaves behind.
    pub(super) fn storing_account(&self, endpoint: &Model) -> Option<i64> {
        let original = self.screened().prompt().original.as_ref()?;
        let may_store = original.format == WireFormat::Responses && original.body.is_some();
        may_store.then(|| account(self.key(), endpoint))
    }
}

/// The tokens of a stored response; each is `None` if it is not known.
struct StoredTokens {
    /// The tokens of the response, its prompt included.
    response: Option<u64>,
    /// The tokens of all items of its output together. The results of the vendor's own tools are among
    /// the items, and count as tokens of the prompt.
    items: Option<u64>,
}

fn tokens(funded: &Funded, outcome: &CallOutcome, usage: &Usage) -> StoredTokens {
    let reported = outcome.usage.filter(|usage| !usage.open.is_doubtful() && usage.prompt > 0);
    let response = reported.map(|_| usage.prompt.saturating_add(usage.completion));
    let prompt = funded.routed().screened().prompt();
    let has_tools = !providers::charges(funded.model(), prompt).tools.is_empty();
    let items = if has_tools { response } else { reported.map(|_| usage.completion) };
    StoredTokens { response, items }
}

/// The rows of an answer that its provider stores, of its items and of its containers.
pub(super) fn stored_rows(
    funded: &Funded,
    outcome: &CallOutcome,
    usage: &Usage,
) -> Option<Vec<StoredResource>> {
    let (stored, account) = (outcome.stored.as_ref()?, outcome.account?);
    let screened = funded.routed().screened();
    let context = screened.context();
    let tokens = tokens(funded, outcome, usage);
    let original = screened.prompt().original.as_ref()?;
    let is_stored = stored.is_stored && original.continuation.asks_to_store;
    // A container outlives the response that made it: it belongs to none.
    let added = original.added_tools.iter().map(|(_, tool)| tool);
    let found = stored.items.iter().flat_map(|item| &item.tools);
    let tools = providers::lasting_tools(added.chain(found));
    let row = |id: &String, response: &str| StoredResource {
        project: context.caller.project.id(),
        id: id.clone(),
        response: response.to_owned(),
        step: funded.step(),
        model: funded.model().identifier.clone(),
        account,
        tokens: if *id == stored.id { tokens.response } else { tokens.items },
        session: context.session(screened.prompt()).bytes(),
        tools: Vec::new(),
    };
    let response = StoredResource { tools, ..row(&stored.id, &stored.id) };
    let item = |item: &StoredItem| StoredResource {
        tools: item.tools.clone(),
        ..row(&item.id, &stored.id)
    };
    let own = std::iter::once(response).chain(stored.items.iter().map(item));
    let own = own.filter(|_| is_stored);
    Some(own.chain(stored.containers.iter().map(|id| row(id, ""))).collect())
}

impl Gateway {
    /// Waits for the record of a call, and writes the rows of its stored answer in the same commit.
    pub(super) async fn record_with_stored<T>(
        &self,
        recorded: impl Future<Output = Result<T>>,
        resources: Vec<StoredResource>,
    ) -> Result<T> {
        let stored =
            async { self.store.writer().stored_resources(resources).await.map_err(Error::from) };
        let (recorded, ()) = tokio::try_join!(recorded, stored)?;
        Ok(recorded)
    }

    /// Asks the account that stores a response about it; `None` if the project has no model with that
    /// account any more. Nothing is charged for it, and no model answers.
    pub(crate) async fn call_about_stored(
        &self,
        caller: &Caller,
        stored: &StoredResource,
        call: StoredResponseCall<'_>,
    ) -> Result<Option<StoredResponseBody>> {
        let project = &caller.project;
        let own = project.model(&stored.model).ok();
        let all = own.into_iter().chain(project.all_models());
        // Responses outside the allowed regions can still be deleted there.
        let regions = match call.action {
            StoredResponseAction::Delete => None,
            _ => project.settings.allowed_regions.as_deref(),
        };
        let mut endpoints =
            all.flat_map(endpoints).filter(|endpoint| allows_region(regions, &endpoint.region));
        let endpoint =
            endpoints.find(|endpoint| account(&project.print_key, endpoint) == stored.account);
        let Some(endpoint) = endpoint else { return Ok(None) };
        let deadline = Instant::now() + TIMEOUT;
        let answer = Box::pin(self.upstream.client.stored_response(endpoint, call, deadline)).await;
        answer.map(Some).map_err(|error| to_gateway_error(&error))
    }
}
