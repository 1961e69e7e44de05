//! What providers keep of answers: the account that keeps it, its record, and the calls that read or
//! delete it there.

use std::sync::Arc;

use aws_lc_rs::hmac::Key;
use domain::model::Model;
use domain::usage::Usage;
use providers::{KeptCall, KeptResource};
use store::Kept;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::call::to_gateway_error;
use crate::pipeline::call_outcome::CallOutcome;
use crate::pipeline::choose::Routed;
use crate::pipeline::fund::Funded;
use crate::state::caller::Caller;
use crate::tools::fingerprint;

/// The longest time in which a provider answers about what it keeps.
const TIMEOUT: std::time::Duration = std::time::Duration::from_mins(1);

/// The fingerprint of the account that a model is called with: its address and its credential.
fn account(key: &Key, model: &Model) -> i64 {
    let address = model.base_url.as_deref().unwrap_or_default();
    let credential = model.api_key.as_ref().map_or("", |credential| credential.expose());
    let parts = [model.provider.as_str(), address.trim_end_matches('/'), credential];
    fingerprint::text(key, &parts.join("\n"))
}

/// The model as it is called at each of its endpoints.
fn places(model: &Arc<Model>) -> impl Iterator<Item = &Arc<Model>> {
    let own = model.config.endpoints.is_empty().then_some(model);
    own.into_iter().chain(model.config.endpoints.iter().map(|endpoint| &endpoint.model))
}

impl Routed {
    fn key(&self) -> &Key {
        &self.screened().context().caller.project.print_key
    }

    /// The account that the request is bound to, because that keeps what it continues.
    fn bound_to(&self) -> Option<i64> {
        self.screened().prompt().original.as_ref()?.continuation.account
    }

    /// Whether the request may go to a model as it is called at an endpoint. One that can do without
    /// what is kept goes to the account that keeps it only if the model has that.
    pub(super) fn may_call(&self, model: &Arc<Model>, at: &Model) -> bool {
        let Some(account) = self.bound_to() else { return true };
        let keeps = |at: &Model| account == self::account(self.key(), at);
        keeps(at) || !self.is_bound() && !places(model).any(|at| keeps(at))
    }

    /// Whether the request cannot do without what is kept.
    fn is_bound(&self) -> bool {
        let original = self.screened().prompt().original.as_ref();
        original.is_some_and(|original| original.continuation.is_bound())
    }

    /// The error for a model that is called with another account than the one that keeps what the
    /// request continues.
    pub(super) fn keeps_elsewhere(&self, model: &Arc<Model>) -> Option<Error> {
        if self.bound_to().is_none() || places(model).any(|at| self.may_call(model, at)) {
            return None;
        }
        Some(Error::invalid(format!(
            "The request continues a response that another account keeps than that of model {}: name \
             the model that answered before",
            model.identifier
        )))
    }

    /// The account that keeps the answer of a model, if the request lets it.
    pub(super) fn account_that_keeps(&self, at: &Model) -> Option<i64> {
        let original = self.screened().prompt().original.as_ref()?;
        let stores = original.continuation.stores && original.body.is_some();
        stores.then(|| account(self.key(), at))
    }
}

/// The tokens of a response and of the items of its output, as far as they are known. The results of the
/// vendor's own tools are among the items, and count as tokens of the prompt.
fn tokens(funded: &Funded, outcome: &CallOutcome, usage: &Usage) -> (Option<u64>, Option<u64>) {
    let reported = outcome.usage.filter(|usage| !usage.open.is_doubtful() && usage.prompt > 0);
    let all = reported.map(|_| usage.prompt.saturating_add(usage.completion));
    let prompt = funded.routed().screened().prompt();
    let has_tools = !providers::charges(funded.model(), prompt).tools.is_empty();
    (all, if has_tools { all } else { reported.map(|_| usage.completion) })
}

/// The rows of what a provider keeps of an answer.
pub(super) fn kept_rows(
    funded: &Funded,
    outcome: &CallOutcome,
    usage: &Usage,
) -> Option<Vec<Kept>> {
    let (kept, account) = (outcome.kept.as_ref()?, outcome.account?);
    let screened = funded.routed().screened();
    let context = screened.context();
    let (of_response, of_items) = tokens(funded, outcome, usage);
    let row = |id: &String| Kept {
        project: context.caller.project.id(),
        id: id.clone(),
        response: kept.id.clone(),
        step: funded.step(),
        model: funded.model().identifier.clone(),
        account,
        tokens: if *id == kept.id { of_response } else { of_items },
        session: context.session(screened.prompt()).bytes(),
    };
    Some(std::iter::once(&kept.id).chain(&kept.items).map(row).collect())
}

impl Gateway {
    /// Waits for the record of a call, and stores what its provider keeps in the same commit.
    pub(super) async fn stored_and_kept<T>(
        &self,
        stored: impl Future<Output = Result<T>>,
        kept: Vec<Kept>,
    ) -> Result<T> {
        let kept = async { self.store.writer().kept(kept).await.map_err(Error::from) };
        let (stored, ()) = tokio::try_join!(stored, kept)?;
        Ok(stored)
    }

    /// Asks the account that keeps a response about it; `None` if the project has no model with that
    /// account any more. Nothing is charged for it, and no model answers.
    pub(crate) async fn call_about_kept(
        &self,
        caller: &Caller,
        kept: &Kept,
        call: KeptCall<'_>,
    ) -> Result<Option<KeptResource>> {
        let project = &caller.project;
        let own = project.model(&kept.model).ok();
        let all = own.into_iter().chain(project.all_models());
        let mut places = all.flat_map(places);
        let at = places.find(|at| account(&project.print_key, at) == kept.account);
        let Some(at) = at else { return Ok(None) };
        let deadline = Instant::now() + TIMEOUT;
        let answer = Box::pin(self.upstream.client.about_kept(at, call, deadline)).await;
        answer.map(Some).map_err(|error| to_gateway_error(&error))
    }
}
