//! Screen: nothing reaches a router or a provider that safety has not judged.

use std::borrow::Cow;

use checks::{Finding, GiveUp, Placeholders, Redactor, Report};
use domain::conversation::{Body, Message, Prompt};
use domain::ids::StepId;
use domain::safety::{Action, Category, Safety};
use domain::step::{Routing, Security};
use serde_json::Value;

use crate::error::Result;
use crate::pipeline::context::RequestContext;
use crate::pipeline::pricing_basis::PricingBasis;
use crate::pipeline::refusal::UnrecordedRefusal;
use crate::safety::inspection::security;
use crate::safety::location::{cause, locate};
use crate::safety::{as_it_came, inspection, prompt_strings};
use crate::tools::mcp::round::{Round, lists};

/// The treatment of personal data by an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PiiRule {
    /// The input stays as it is and the route decides (executions).
    Route,
    /// Placeholders go to the provider (chat completions).
    Redact,
    /// As `settings.safety.pii.action` requires (direct runs).
    Settings,
}

/// A prompt to be judged.
pub(crate) struct ScreeningRequest {
    pub(crate) prompt: Prompt,
    pub(crate) pii: PiiRule,
}

/// A prompt that safety has let through.
#[derive(Debug)]
pub struct Screened {
    prompt: Prompt,
    security: Security,
    placeholders: Placeholders,
    sensitive: bool,
    leaks: Leaks,
    /// The bytes of the prompt that are judged.
    length: usize,
    context: RequestContext,
}

/// Sensitive data that is still in a prompt when it leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leaks {
    /// A credential.
    pub(crate) secret: bool,
    /// Personal data of any kind.
    pub(crate) personal: bool,
    /// Payment, bank, government, tax or health numbers.
    pub(crate) high_sensitivity: bool,
}

impl Leaks {
    /// The data of a report that is not replaced.
    pub(crate) fn of(report: &Report, replaces: Replaces) -> Self {
        Self {
            secret: report.secret_leaked() && !replaces.secrets,
            personal: report.pii_detected() && !replaces.pii,
            high_sensitivity: report.high_sensitivity_pii() && !replaces.pii,
        }
    }
}

/// The safety verdict on a prompt.
pub(crate) enum Screening {
    Clear(Box<Screened>),
    Blocked(Box<UnrecordedRefusal>),
}

impl RequestContext {
    /// Judges all texts of a prompt, and redacts as the endpoint's rule and the project's settings
    /// require.
    pub(crate) fn screen(&self, request: ScreeningRequest, give_up: GiveUp<'_>) -> Screening {
        let project = &self.caller.project;
        // A server that is asked for its tools is no part of the application.
        let servers = self.servers().unwrap_or_default();
        let is_listed = |tool: &Value| lists(servers, tool);
        let mut prompt = request.prompt;
        as_it_came::find_beside(&mut prompt);
        let report = project.inspect(&prompt, &is_listed, give_up);
        let located = locate(&prompt, &report);
        let security = security(&report, &located);
        if let Some(block) = &report.block {
            let cause = cause(&report, &located);
            let category = cause.as_ref().map_or("policy", |cause| cause.category.as_str());
            return Screening::Blocked(Box::new(UnrecordedRefusal {
                prompt,
                reason: block.reason.clone(),
                category,
                security,
                routing: None,
                cause,
            }));
        }
        let replaces = Replaces::of(project.policy.safety(), request.pii);
        let redacted = replaces.these(&report);
        // Counted here, beside the threads that serve requests: distinguishing files from texts
        // takes a pass.
        let (mut length, imitates) = prompt_strings::length_and_imitation(&prompt);
        let recorded = self.recorded.as_ref().map(|recorded| &recorded.placeholders);
        // Text that looks like a placeholder is replaced in every request of a conversation, or the
        // prompt would change where it was sent before, once a later message needs a placeholder. A
        // recorded prompt has its placeholders already.
        let escapes = recorded.is_none() && imitates && replaces.any();
        let mut placeholders = if redacted.is_empty() && !escapes {
            Placeholders::default()
        } else {
            let redactor = self.redactor(&prompt);
            let placeholders = redact(&mut prompt, &redacted, redactor);
            length = prompt_strings::length(&prompt);
            placeholders
        };
        if let Some(original) = &prompt.original {
            // The provider has those of what is continued.
            placeholders.extend(&original.continuation.placeholders);
        }
        let placeholders = match recorded {
            Some(recorded) => placeholders.and(recorded),
            None => placeholders,
        };
        let sensitive = security.pii && request.pii == PiiRule::Route;
        let leaks = Leaks::of(&report, replaces);
        let context = self.clone();
        let screened =
            Screened { prompt, security, placeholders, sensitive, leaks, length, context };
        Screening::Clear(Box::new(screened))
    }

    /// Judges the arguments and the result of a call of an MCP tool, and redacts them as a prompt
    /// of executions: for the record, before the next prompt that holds them is screened.
    pub(crate) fn judge_tool(&self, message: Message) -> Result<JudgedTool> {
        let project = &self.caller.project;
        let mut prompt = Prompt { messages: vec![message], ..Prompt::default() };
        let report = inspection::inspect(&project.policy, &prompt);
        let located = locate(&prompt, &report);
        let security = security(&report, &located);
        let redacted = Replaces::of(project.policy.safety(), PiiRule::Route).these(&report);
        let placeholders = if redacted.is_empty() {
            Placeholders::default()
        } else {
            let redactor = self.redactor(&prompt);
            redact(&mut prompt, &redacted, redactor)
        };
        let Some(message) = prompt.messages.pop() else {
            return Err(crate::error::Error::Internal("a message vanished".to_owned()));
        };
        Ok(JudgedTool { message, security, placeholders })
    }

    /// A redactor whose placeholders are those of the session.
    fn redactor(&self, prompt: &Prompt) -> Redactor {
        let (session, key) = (self.session(prompt), self.caller.project.session_key.clone());
        let redactor = Redactor::keyed(move |kind, value| key.tag(session, kind, value));
        if self.recorded.is_some() { redactor.without_escapes() } else { redactor }
    }
}

/// The arguments and the result of a tool call, as they may be kept.
pub(crate) struct JudgedTool {
    pub(super) message: Message,
    pub(super) security: Security,
    pub(super) placeholders: Placeholders,
}

impl Screened {
    /// Refuses the prompt after all, for a reason that is not a finding.
    pub(crate) fn refused(
        self,
        reason: String,
        category: &'static str,
        routing: Option<Routing>,
    ) -> UnrecordedRefusal {
        let Self { prompt, security, .. } = self;
        UnrecordedRefusal { prompt, reason, category, security, routing, cause: None }
    }

    /// The prompt that may go to a provider.
    pub(crate) fn prompt(&self) -> &Prompt {
        &self.prompt
    }

    /// The findings.
    pub(crate) fn security(&self) -> &Security {
        &self.security
    }

    /// The placeholders and their originals.
    pub(crate) fn placeholders(&self) -> &Placeholders {
        &self.placeholders
    }

    /// Whether it holds personal data that a public model must not see.
    pub(crate) fn is_sensitive(&self) -> bool {
        self.sensitive
    }

    /// The sensitive data that is still in it.
    pub(crate) fn leaks(&self) -> Leaks {
        self.leaks
    }

    /// Whether a public model may be asked beside the one that the request was sent to: nothing sensitive
    /// is left in the prompt, and nobody has called it so.
    pub(super) fn may_go_public(&self) -> bool {
        let vpc_only = self.context.mcp.as_ref().is_some_and(Round::vpc_only);
        let Leaks { secret, personal, high_sensitivity } = self.leaks;
        !(secret || personal || high_sensitivity || vpc_only || self.context.trace.is_sensitive())
    }

    /// The prompt for a shadow call beside a step of it. It is translated: the body as it came may ask for
    /// a stream, for an answer that the vendor stores, and for tools that the vendor has run already.
    pub(super) fn of_shadow(&self, step: StepId) -> Self {
        let mut prompt = self.prompt.clone();
        if let Some(original) = &mut prompt.original {
            original.body = None;
        }
        Self {
            prompt,
            security: self.security.clone(),
            placeholders: self.placeholders.clone(),
            context: self.context.of_shadow(step),
            ..*self
        }
    }

    /// The basis on which a call with it is charged.
    pub(super) fn pricing_basis(&self) -> PricingBasis {
        PricingBasis::of(self.context.api_endpoint, &self.prompt)
    }

    pub(crate) fn context(&self) -> &RequestContext {
        &self.context
    }

    /// The text by which it is classified.
    pub(crate) fn question(&self) -> Cow<'_, str> {
        question(&self.prompt, &self.placeholders)
    }

    /// The length of the whole conversation, in bytes.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

/// The text by which a prompt is classified: the last text of a user. Placeholders are taken out: their
/// digits are random and would move the verdict.
pub(crate) fn question<'p>(prompt: &'p Prompt, placeholders: &Placeholders) -> Cow<'p, str> {
    let text = last_text(prompt);
    if placeholders.is_empty() {
        return text;
    }
    placeholders.replaced_by("it", &text).into()
}

fn last_text(prompt: &Prompt) -> Cow<'_, str> {
    use domain::conversation::Role;
    let messages = &prompt.messages;
    let last = messages.iter().rev().find(|message| message.role == Role::User);
    match last.or(messages.last()).map(|message| &message.body) {
        Some(Body::Text(text)) => text.as_str().into(),
        Some(Body::Parts(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n").into()
        }
        Some(Body::Empty) | None => "".into(),
    }
}

/// The kinds of findings that are replaced before a prompt leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaces {
    pii: bool,
    secrets: bool,
}

impl Replaces {
    /// The kinds of findings by the rule of an endpoint and the settings of a project.
    pub(crate) fn of(safety: &Safety, rule: PiiRule) -> Self {
        let pii = match rule {
            PiiRule::Route => false,
            PiiRule::Redact => true,
            PiiRule::Settings => safety.pii == Action::Redact,
        };
        Self { pii, secrets: safety.secrets == Action::Redact }
    }

    /// Whether anything is replaced.
    fn any(self) -> bool {
        self.pii || self.secrets
    }

    /// The findings of a report that are to be replaced.
    pub(crate) fn these(self, report: &Report) -> Vec<&Finding> {
        let is_replaced = |finding: &&Finding| match finding.category {
            Category::Pii => self.pii,
            Category::Secret => self.secrets,
            Category::Injection | Category::Policy => false,
        };
        report.findings.iter().filter(is_replaced).collect()
    }
}

/// The findings in a request and in its answer, together.
pub(super) fn merged(input: &Security, output: &Security) -> Security {
    if input.findings.is_none() && output.findings.is_none() {
        return input.clone();
    }
    let mut findings: Vec<Value> = Vec::new();
    for (found, within) in [(&input.findings, "input"), (&output.findings, "output")] {
        for finding in found.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let mut finding = finding.clone();
            finding["within"] = within.into();
            findings.push(finding);
        }
    }
    Security {
        pii: input.pii || output.pii,
        injection: input.injection || output.injection,
        secret: input.secret || output.secret,
        review: input.review || output.review,
        risk_score: input.risk_score.max(output.risk_score),
        findings: (!findings.is_empty()).then_some(Value::Array(findings)),
    }
}

/// Replaces findings, which are ordered by part, with placeholders.
pub(crate) fn redact(
    prompt: &mut Prompt,
    findings: &[&Finding],
    mut redactor: Redactor,
) -> Placeholders {
    let mut rest = findings;
    let mut part = 0;
    let mut all_replaced = Vec::new();
    prompt_strings::each_mut(prompt, |slot| {
        let here = rest.partition_point(|finding| finding.part == part);
        let (now, later) = rest.split_at(here);
        all_replaced.extend(slot.redact(&mut redactor, now));
        rest = later;
        part += 1;
    });
    if let Some(original) = &mut prompt.original {
        as_it_came::replace(original, &all_replaced);
    }
    redactor.into_placeholders()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use domain::conversation::Role;
    use domain::step::ApiEndpoint;
    use serde_json::{Map, json};

    use super::*;
    use crate::testing::Fresh;

    /// Text that looks like a placeholder goes out alike in every turn, whether or not a later message
    /// needs a placeholder: else a provider's cache of the turns before it is lost.
    #[tokio::test]
    async fn what_looks_like_a_placeholder_is_replaced_in_every_turn() {
        let fresh = Fresh::with(json!({})).await;
        let trace = fresh.trace().await;
        let (gateway, endpoint) = (&fresh.gateway, ApiEndpoint::Executions);
        let context = gateway.request_context(&fresh.caller, &trace, None, endpoint).await.unwrap();
        let said = |body| Message { role: Role::User, body, extra: Map::new() };
        let url = |text: &str| format!("data:text/plain;base64,{}", STANDARD.encode(text));
        let file = |text: &str| {
            let file = json!({"filename": "a.txt", "file_data": url(text)});
            said(Body::Parts(vec![json!({"type": "file", "file": file})]))
        };
        let call = |arguments: &str| {
            let call = json!([{"id": "c", "type": "function",
                "function": {"name": "f", "arguments": arguments}}]);
            let extra = Map::from_iter([("tool_calls".to_owned(), call)]);
            Message { role: Role::Assistant, body: Body::Empty, extra }
        };
        for first in [
            file("Is [EMAIL_1_12345678] a placeholder?"),
            call(r#"{"a": "[EMAIL_1_12345678]"}"#),
            call(r#"{"a": "\u005bEMAIL_1_12345678]"}"#),
        ] {
            let later = said(Body::Text("Write to jane@acme.org.".to_owned()));
            let sent = [vec![first.clone()], vec![first.clone(), later]].map(|messages| {
                let prompt = Prompt { messages, ..Prompt::default() };
                let request = ScreeningRequest { prompt, pii: PiiRule::Redact };
                let Screening::Clear(screened) = context.screen(request, GiveUp::Never) else {
                    panic!("it holds nothing that blocks");
                };
                screened.prompt().messages[0].clone()
            });
            assert_ne!(sent[0], first, "it is replaced at once");
            assert_eq!(sent[0], sent[1], "and stays as it was sent");
        }
    }

    /// The length is counted once, of the prompt as it leaves: without the bytes of pictures.
    #[tokio::test]
    async fn the_length_is_that_of_what_is_judged() {
        let fresh = Fresh::with(json!({})).await;
        let trace = fresh.trace().await;
        let context = fresh
            .gateway
            .request_context(&fresh.caller, &trace, None, ApiEndpoint::Executions)
            .await;
        let picture = format!("data:image/png;base64,iVBORw0KGgo{}", "A".repeat(100_001));
        let parts = vec![
            json!({"type": "text", "text": "Write to jane@acme.org, please."}),
            json!({"type": "image_url", "image_url": {"url": picture}}),
        ];
        let message = Message { role: Role::User, body: Body::Parts(parts), extra: Map::new() };
        let prompt = Prompt { messages: vec![message], ..Prompt::default() };
        let before = prompt_strings::length(&prompt);
        let Screening::Clear(screened) = context
            .unwrap()
            .screen(ScreeningRequest { prompt, pii: PiiRule::Redact }, GiveUp::Never)
        else {
            panic!("it holds nothing that blocks");
        };
        assert!(!screened.placeholders().is_empty());
        assert_ne!(screened.length(), before, "it is that of the redacted prompt");
        assert_eq!(screened.length(), prompt_strings::length(screened.prompt()));
        assert!(screened.length() < 200);
    }
}
