//! Responses that providers store, for the project whose calls they answered: requests that continue one,
//! and those that read or delete it.

use std::collections::{BTreeMap, BTreeSet};

use checks::{Placeholders, Redactor};
use domain::ids::StepId;
use domain::joined_texts::{JoinedTexts, joined};
use domain::json_text::{Edit, Token, edited, quoted, rewrite};
use domain::step::ApiEndpoint;
use domain::stored_responses::{Continuation, StoredKind};
use futures_util::future::BoxFuture;
use providers::{StoredResponseAction, StoredResponseCall};
use serde_json::Value;
use store::StoredResource;

use crate::bounded_read::bounded;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::inference::chat::ChatRequest;
use crate::inference::external_access;
use crate::inference::recorded::PlaceholdersPart;
use crate::safety::as_it_came::{answer_beside, restored};
use crate::safety::nonce::nonce;
use crate::safety::output_check::{AnswerString, Verdict, judge};
use crate::state::caller::Caller;

/// The most responses that one request refers to by itself or by their items: the record of each is
/// opened.
const MOST_RESPONSES: usize = 64;

impl Gateway {
    /// Whether a provider stores a response with this id for the project.
    pub async fn has_stored_response(&self, caller: &Caller, id: &str) -> Result<bool> {
        let found = bounded(self.store.stored_resources(caller.project.id(), &[id])).await?;
        Ok(found.iter().any(|stored| stored.id == stored.response))
    }

    /// Finds what a request continues, and binds the request to the account that stores it. Responses
    /// and items of other projects are not found.
    pub(super) async fn find_stored(
        &self,
        caller: &Caller,
        request: &mut ChatRequest,
    ) -> Result<()> {
        let Some(original) = &mut request.prompt.original else { return Ok(()) };
        let continuation = &mut original.continuation;
        if continuation.references.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> =
            continuation.references.iter().map(|reference| &*reference.id).collect();
        let found = bounded(self.store.stored_resources(caller.project.id(), &ids)).await?;
        let referred = match Referred::of(continuation, &found) {
            Err(Error::NotStored(StoredKind::Container, id)) => {
                return Err(external_access::strange_container(original, &id));
            }
            referred => referred?,
        };
        let Some(referred) = referred else {
            // An optional item that the project does not have is sent to nobody: the request is translated.
            original.body = None;
            continuation.references.clear();
            return Ok(());
        };
        if referred.opened.len() > MOST_RESPONSES {
            return Err(Error::invalid(format!(
                "The request refers to items of more than {MOST_RESPONSES} responses: send the items \
                 themselves, or continue a response with previous_response_id"
            )));
        }
        for step in referred.opened.values() {
            continuation.placeholders.extend(self.placeholders_of(caller, *step).await?);
        }
        let has_response =
            continuation.references.iter().any(|other| other.kind == StoredKind::Response);
        let at = if has_response { "previous_response_id" } else { "input" };
        let tools = providers::lasting_tools(&referred.tools).into_iter();
        original.added_tools.extend(tools.map(|tool| (at.to_owned(), tool)));
        continuation.tokens = referred.tokens.unwrap_or(0);
        let models = referred.models;
        let is_counted = referred.tokens.is_some() && models.len() == 1;
        continuation.counted_by = models.first().filter(|_| is_counted).cloned();
        continuation.account = Some(referred.account);
        if continuation.has_contents() {
            continuation.session = Some(referred.session);
        }
        if continuation.is_bound() {
            request.model.get_or_insert(referred.model);
        }
        Ok(())
    }

    /// The placeholders in what the provider has of a response, with their originals, as far as its
    /// step has them.
    async fn placeholders_of(
        &self,
        caller: &Caller,
        step: StepId,
    ) -> Result<Vec<(String, String)>> {
        let part = self.recorded_part::<PlaceholdersPart>(caller, step).await?;
        let originals = part.and_then(|part| part.placeholders);
        let originals = originals.and_then(|originals| serde_json::from_value(originals).ok());
        Ok(originals.map_or_else(Vec::new, |originals: BTreeMap<String, String>| {
            originals.into_iter().collect()
        }))
    }

    /// Reads, cancels or deletes a response that a provider stores for the project: the provider's own
    /// answer, with originals put back. `None` if the project knows no such response.
    pub fn stored_response<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a str,
        action: StoredResponseAction,
        query: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async move {
            let project = &caller.project;
            caller.check_endpoint(ApiEndpoint::Responses)?;
            let found = bounded(self.store.stored_resources(project.id(), &[id])).await?;
            let Some(stored) = found.into_iter().find(|stored| stored.id == stored.response) else {
                return Ok(None);
            };
            if !caller.key.key.may_call(&stored.model) {
                return Err(Error::ModelNotAllowed);
            }
            if matches!(action, StoredResponseAction::Cancel | StoredResponseAction::Delete) {
                project.check_active()?;
            }
            let call = StoredResponseCall { id, action, query };
            let answer = match self.call_about_stored(caller, &stored, call).await {
                Ok(Some(answer)) => answer,
                Ok(None) => return Ok(None),
                // The provider has it no longer.
                Err(Error::ProviderRefusedAccount { status: 404, .. }) => {
                    if action == StoredResponseAction::Delete {
                        bounded(self.store.forget_stored(project.id(), id)).await?;
                    }
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            if action == StoredResponseAction::Delete {
                bounded(self.store.forget_stored(project.id(), id)).await?;
                return Ok(Some(answer.body));
            }
            self.check_stored(caller, &answer.body).await?;
            let mut placeholders = Placeholders::default();
            placeholders.extend(&self.placeholders_of(caller, stored.step).await?);
            let mut body = answer.body;
            if project.policy.safety().pii_restore && !placeholders.is_empty() {
                let restore = |text: &str| placeholders.restore(text);
                let joined = JoinedTexts::default().replaced("", &body, restore);
                let joined = joined.unwrap_or_default();
                let new = rewrite(&body, |place, token| match token {
                    Token::Text(text) => {
                        let joined = joined.get(&place.range.start).cloned();
                        joined.or_else(|| restored(&placeholders, place, text))
                    }
                    Token::Name(_) | Token::Number(_) => None,
                });
                body = new.ok().flatten().unwrap_or(body);
            }
            if answer.has_model {
                let named = edited(&body, &[("model", Edit::Set(&quoted(&stored.model)))]);
                body = named.unwrap_or(body);
            }
            Ok(Some(body))
        })
    }

    /// Refuses an answer that must not leave as it is, by the project's rules of today. It was
    /// answered once already; the rules may have changed since.
    async fn check_stored(&self, caller: &Caller, body: &str) -> Result<()> {
        let project = &caller.project;
        if !project.policy.acts_on_outputs() {
            return Ok(());
        }
        let strings = answer_beside(body, None, std::iter::empty());
        let mut strings = strings.map_err(|_| Error::ProviderUnreachable)?;
        strings.extend(joined(body).map_err(|_| Error::ProviderUnreachable)?);
        let strings: Vec<AnswerString<'_>> =
            strings.iter().map(|text| AnswerString::text(text)).collect();
        let judged = judge(project, &strings, &mut Redactor::of_answer(nonce()?)).await;
        match judged.verdict {
            Verdict::Fine => Ok(()),
            Verdict::Blocked(reason) => Err(Error::invalid(reason)),
            Verdict::Redacted(_) => Err(Error::invalid(
                "The project redacts answers, and this one has findings: the provider's copy of it \
                 cannot be read here",
            )),
        }
    }
}

/// The stored responses and items that the references of a request name.
struct Referred {
    account: i64,
    model: String,
    session: [u8; 16],
    /// The tokens of all of it; `None` if some are not known.
    tokens: Option<u64>,
    /// The models that counted them.
    models: BTreeSet<String>,
    /// The tools that it adds to those of the request.
    tools: Vec<Value>,
    /// The steps of the responses whose words the request does not send itself.
    opened: BTreeMap<String, StepId>,
}

impl Referred {
    /// `None` if an optional item is not known.
    fn of(continuation: &Continuation, found: &[StoredResource]) -> Result<Option<Self>> {
        let by_id: BTreeMap<&str, &StoredResource> =
            found.iter().map(|stored| (&*stored.id, stored)).collect();
        let (mut all, mut is_lacking): (Option<Self>, bool) = (None, false);
        // The tokens of a response, or of all its items, and how often each id is referred to.
        let mut times: BTreeMap<(&str, bool), BTreeMap<&str, u64>> = BTreeMap::new();
        for reference in &continuation.references {
            let is_response = reference.kind == StoredKind::Response;
            let stored = by_id.get(&*reference.id).copied();
            let stored = stored.filter(|stored| !is_response || stored.id == stored.response);
            let Some(stored) = stored else {
                if reference.kind == StoredKind::OptionalItem {
                    is_lacking = true;
                    continue;
                }
                let id = match reference.kind {
                    StoredKind::Container => reference.id.clone(),
                    _ => shown(&reference.id),
                };
                return Err(Error::NotStored(reference.kind, id));
            };
            let known = all.get_or_insert_with(|| Self {
                account: stored.account,
                model: stored.model.clone(),
                session: stored.session,
                tokens: Some(0),
                models: BTreeSet::new(),
                tools: Vec::new(),
                opened: BTreeMap::new(),
            });
            if known.account != stored.account {
                return Err(Error::invalid(
                    "The request refers to items that different accounts keep: send the items \
                     themselves",
                ));
            }
            // A container adds nothing to the prompt.
            if reference.kind == StoredKind::Container {
                continue;
            }
            known.models.insert(stored.model.clone());
            known.tools.extend(stored.tools.iter().cloned());
            if reference.kind != StoredKind::OptionalItem {
                known.opened.insert(stored.response.clone(), stored.step);
            }
            let ids = times.entry((&stored.response, is_response)).or_default();
            *ids.entry(&stored.id).or_default() += 1;
        }
        if is_lacking && continuation.has_contents() {
            let references = continuation.references.iter();
            let lacking =
                references.map(|reference| &reference.id).find(|id| !by_id.contains_key(&***id));
            let id = lacking.map(|id| shown(id)).unwrap_or_default();
            return Err(Error::NotStored(StoredKind::Item, id));
        }
        if is_lacking {
            return Ok(None);
        }
        for ids in times.into_values() {
            // The items of a response have no more tokens together than each row has.
            let most = ids.values().copied().max().unwrap_or(1);
            let tokens = ids.keys().next().and_then(|id| by_id.get(id)?.tokens);
            if let Some(all) = &mut all {
                let sum = all.tokens.zip(tokens);
                all.tokens =
                    sum.map(|(sum, tokens)| sum.saturating_add(tokens.saturating_mul(most)));
            }
        }
        Ok(all)
    }
}

/// The beginning of an id of the caller's.
fn shown(id: &str) -> String {
    id.chars().take(64).collect()
}
