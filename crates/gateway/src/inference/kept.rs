//! What providers keep of answers, for the project whose calls they answered: requests that continue a
//! response, and those that read or delete it.

use std::collections::BTreeMap;

use checks::{Placeholders, Redactor};
use domain::json_text::{Edit, Token, edited, quoted, rewrite};
use domain::kept::KeptKind;
use futures_util::future::BoxFuture;
use providers::{KeptAction, KeptCall};
use store::Kept;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::inference::chat::ChatRequest;
use crate::safety::as_it_came::{answer_beside, restored};
use crate::safety::nonce::nonce;
use crate::safety::output_check::{AnswerString, Verdict, judge};
use crate::state::caller::Caller;

/// The most responses that one request continues at once: the record of each is opened.
const MOST_RESPONSES: usize = 16;

impl Gateway {
    /// Finds what a request continues, and binds the request to the account that keeps it. What is not
    /// known to the project is not found, whoever else may know it.
    pub(super) async fn find_kept(&self, caller: &Caller, request: &mut ChatRequest) -> Result<()> {
        let Some(original) = &mut request.prompt.original else { return Ok(()) };
        if original.continuation.references.is_empty() {
            return Ok(());
        }
        let project = &caller.project;
        let mut responses: BTreeMap<String, Kept> = BTreeMap::new();
        for reference in &original.continuation.references {
            let found = self.store.kept(project.id(), &reference.id).await?;
            let is_meant =
                |kept: &Kept| reference.kind != KeptKind::Response || kept.id == kept.response;
            let Some(kept) = found.filter(is_meant) else {
                return Err(Error::NotKept(reference.kind, shown(&reference.id)));
            };
            responses.entry(kept.response.clone()).or_insert(kept);
        }
        let Some(first) = responses.values().next().cloned() else { return Ok(()) };
        if responses.values().any(|kept| kept.account != first.account) {
            return Err(Error::invalid(
                "The request refers to items that different accounts keep: send the items themselves",
            ));
        }
        if responses.len() > MOST_RESPONSES {
            return Err(Error::invalid(format!(
                "The request refers to items of more than {MOST_RESPONSES} responses: send the items \
                 themselves, or continue a response with previous_response_id"
            )));
        }
        let continuation = &mut original.continuation;
        for kept in responses.values() {
            continuation.tokens = continuation.tokens.saturating_add(kept.tokens);
            continuation.placeholders.extend(self.placeholders_of(caller, kept).await?);
        }
        continuation.account = Some(first.account);
        continuation.session = Some(first.session);
        request.model.get_or_insert(first.model);
        Ok(())
    }

    /// The placeholders in what the provider has of a response, with their originals, as far as its
    /// step has them.
    async fn placeholders_of(&self, caller: &Caller, kept: &Kept) -> Result<Vec<(String, String)>> {
        let content = self.store.content(kept.step, &caller.project.sealing).await?;
        let originals = content.and_then(|content| content.placeholders);
        let originals = originals.and_then(|originals| serde_json::from_value(originals).ok());
        Ok(originals.map_or_else(Vec::new, |originals: BTreeMap<String, String>| {
            originals.into_iter().collect()
        }))
    }

    /// Reads, cancels or deletes a response that a provider keeps for the project: the provider's own
    /// answer, with originals put back. `None` if the project knows no such response.
    pub fn kept_response<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a str,
        action: KeptAction,
        query: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async move {
            let project = &caller.project;
            let found = self.store.kept(project.id(), id).await?;
            let Some(kept) = found.filter(|kept| kept.id == kept.response) else {
                return Ok(None);
            };
            let call = KeptCall { id, action, query };
            let Some(answer) = self.call_about_kept(caller, &kept, call).await? else {
                return Ok(None);
            };
            if action == KeptAction::Delete {
                self.store.forget_kept(project.id(), id).await?;
                return Ok(Some(answer.body));
            }
            self.check_kept(caller, &answer.body).await?;
            let mut placeholders = Placeholders::default();
            placeholders.extend(&self.placeholders_of(caller, &kept).await?);
            let mut body = answer.body;
            if project.policy.safety().pii_restore && !placeholders.is_empty() {
                let new = rewrite(&body, |place, token| match token {
                    Token::Text(text) => restored(&placeholders, place, text),
                    Token::Name(_) | Token::Number(_) => None,
                });
                body = new.ok().flatten().unwrap_or(body);
            }
            if answer.has_model {
                let named = edited(&body, &[("model", Edit::Set(&quoted(&kept.model)))]);
                body = named.unwrap_or(body);
            }
            Ok(Some(body))
        })
    }

    /// Refuses an answer that must not leave as it is, by the project's rules of today. What is kept
    /// left once already; the rules may have changed since.
    async fn check_kept(&self, caller: &Caller, body: &str) -> Result<()> {
        let project = &caller.project;
        if !project.policy.acts_on_outputs() {
            return Ok(());
        }
        let strings = answer_beside(body, None, std::iter::empty());
        let strings = strings.map_err(|_| Error::ProviderUnreachable)?;
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

/// The beginning of an id of the caller's.
fn shown(id: &str) -> String {
    id.chars().take(64).collect()
}
