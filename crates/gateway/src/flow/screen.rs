//! Screen: nothing reaches a router or a provider that safety has not judged.

use std::borrow::Cow;

use checks::{Finding, Part, Placeholders, Policy, Redactor, Report};
use domain::conversation::{Body, Prompt};
use domain::safety::{Action, Category};
use domain::step::Security;

use super::{Turn, strings};
use crate::error::Result;

/// What an endpoint does with personal data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PiiRule {
    /// The input stays as it is and the route decides (executions).
    Route,
    /// Placeholders go to the provider (chat completions).
    Redact,
    /// As `settings.safety.pii.action` says (direct runs).
    Settings,
}

/// A prompt that wants to be judged.
pub(crate) struct Ask {
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
    turn: Turn,
}

/// What safety says.
pub(crate) enum Screening {
    Clear(Box<Screened>),
    /// The reason, what was found, and the prompt for the record.
    Blocked(String, Box<Security>, Box<Prompt>),
}

impl Turn {
    /// Judges everything that a prompt says, and redacts what the endpoint's rule and the project's
    /// settings ask for.
    pub(crate) fn screen(&self, ask: Ask) -> Result<Screening> {
        let policy = &self.caller.project.policy;
        let report = inspect(policy, &ask.prompt);
        let security = security(&report);
        if let Some(block) = report.block {
            return Ok(Screening::Blocked(block.reason, Box::new(security), Box::new(ask.prompt)));
        }
        let redact_pii = match ask.pii {
            PiiRule::Route => false,
            PiiRule::Redact => true,
            PiiRule::Settings => policy.safety().pii == Action::Redact,
        };
        let redact_secrets = policy.safety().secrets == Action::Redact;
        let redacted: Vec<&Finding> = report
            .findings
            .iter()
            .filter(|finding| match finding.category {
                Category::Pii => redact_pii,
                Category::Secret => redact_secrets,
                Category::Injection | Category::Policy => false,
            })
            .collect();
        let mut prompt = ask.prompt;
        let placeholders = if redacted.is_empty() {
            Placeholders::default()
        } else {
            redact(&mut prompt, &redacted, crate::nonce()?)
        };
        let sensitive = security.pii && ask.pii == PiiRule::Route;
        let turn = self.clone();
        let screened = Screened { prompt, security, placeholders, sensitive, turn };
        Ok(Screening::Clear(Box::new(screened)))
    }
}

impl Screened {
    /// What may go to a provider.
    pub(crate) fn prompt(&self) -> &Prompt {
        &self.prompt
    }

    /// What was found.
    pub(crate) fn security(&self) -> &Security {
        &self.security
    }

    /// What stands for what.
    pub(crate) fn placeholders(&self) -> &Placeholders {
        &self.placeholders
    }

    /// Whether it holds personal data that a public model must not see.
    pub(crate) fn is_sensitive(&self) -> bool {
        self.sensitive
    }

    pub(crate) fn turn(&self) -> &Turn {
        &self.turn
    }

    /// The text by which it is classified: the last thing a user said. Placeholders are taken out:
    /// their digits are random and would move the verdict.
    pub(crate) fn question(&self) -> Cow<'_, str> {
        let said = self.last_said();
        if self.placeholders.is_empty() {
            return said;
        }
        let mut text = said.into_owned();
        for placeholder in self.placeholders.names() {
            text = text.replace(placeholder, "it");
        }
        text.into()
    }

    fn last_said(&self) -> Cow<'_, str> {
        use domain::conversation::Role;
        let messages = &self.prompt.messages;
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

    /// How many characters (bytes, in fact) the whole conversation has.
    pub(crate) fn length(&self) -> usize {
        let mut length = 0;
        strings::each(&self.prompt, |_, said| length += said.length());
        length
    }
}

/// What a step keeps of a report.
pub(crate) fn security(report: &Report) -> Security {
    if report.is_clean() {
        return Security { risk_score: report.risk_score, ..Security::default() };
    }
    Security {
        pii: report.pii_detected(),
        injection: report.injection_attempt(),
        secret: report.secret_leaked(),
        review: report.review,
        risk_score: report.risk_score,
        findings: serde_json::to_value(&report.findings).ok(),
    }
}

fn inspect(policy: &Policy, prompt: &Prompt) -> Report {
    let mut read = Vec::with_capacity(prompt.messages.len());
    strings::each(prompt, |origin, said| read.push((origin, said.reading())));
    let parts = read.iter().map(|(origin, said)| Part { origin: *origin, text: said.text() });
    policy.inspect(&parts.collect::<Vec<_>>())
}

fn redact(prompt: &mut Prompt, findings: &[&Finding], nonce: u64) -> Placeholders {
    let mut redactor = Redactor::new(nonce);
    let mut part = 0;
    strings::each_mut(prompt, |slot| {
        let here: Vec<&Finding> =
            findings.iter().copied().filter(|finding| finding.part == part).collect();
        slot.redact(&mut redactor, &here);
        part += 1;
    });
    redactor.into_placeholders()
}
