//! What a model has said, judged before it leaves and put back into the caller's own words.

use checks::{Placeholders, Redactor};
use domain::conversation::Reply;
use domain::safety::{Action, Category};
use domain::step::{FinishReason, Security};
use serde_json::{Map, Value};

use crate::error::Result;
use crate::flow::{InFlight, security};
use crate::registry::ProjectState;

/// The verdict on an answer.
pub(crate) struct Judged {
    /// For the step.
    pub(crate) security: Security,
    /// What takes the answer's place; `None` leaves it as it is.
    pub(crate) instead: Option<Instead>,
}

/// What takes an answer's place.
pub(crate) enum Instead {
    /// The answer with what was found covered.
    Redacted(String),
    /// Nothing: the reason says why.
    Blocked(String),
}

/// Whether answers have to be whole before they may leave.
pub(crate) fn holds_answers(project: &ProjectState) -> bool {
    let safety = project.policy.safety();
    safety.output_secrets != Action::Flag || safety.output_pii != Action::Flag
}

/// Judges an answer by `settings.safety.output`.
pub(crate) fn judge(project: &ProjectState, text: &str, nonce: u64) -> Judged {
    let policy = &project.policy;
    let report = policy.inspect_output(&[text]);
    if report.is_clean() {
        return Judged { security: Security::default(), instead: None };
    }
    let action = |category| match category {
        Category::Secret => policy.safety().output_secrets,
        Category::Pii => policy.safety().output_pii,
        Category::Injection | Category::Policy => Action::Flag,
    };
    let with = |wanted: Action| {
        report.findings.iter().filter(move |finding| action(finding.category) == wanted)
    };
    let instead = if let Some(finding) = with(Action::Block).next() {
        let what = match finding.category {
            Category::Secret => "a credential",
            _ => "personal data",
        };
        Some(Instead::Blocked(format!(
            "Blocked by output check: the answer contains {what} ({})",
            finding.kind
        )))
    } else {
        let covered: Vec<_> = with(Action::Redact).collect();
        let mut redactor = Redactor::of_answer(nonce);
        redactor.redact(text, &covered).map(Instead::Redacted)
    };
    Judged { security: security(&report), instead }
}

/// Applies a verdict to a whole answer. The provider's own form goes when the text has changed.
pub(crate) fn apply(reply: &mut Reply, instead: Option<Instead>) -> Option<String> {
    match instead {
        None => None,
        Some(Instead::Redacted(text)) => {
            reply.native = None;
            reply.text = text;
            None
        }
        Some(Instead::Blocked(reason)) => {
            reply.native = None;
            reply.text = String::new();
            reply.finish = Some(FinishReason::ContentFilter);
            Some(reason)
        }
    }
}

/// Puts back what placeholders stand for, in the text and in the provider's own form.
pub(crate) fn restore(reply: &mut Reply, placeholders: &Placeholders) {
    if placeholders.is_empty() {
        return;
    }
    reply.text = placeholders.restore(&reply.text);
    if let Some(choices) = reply.native.as_mut().and_then(|native| native.get_mut("choices")) {
        restore_value(choices, placeholders);
    }
}

fn restore_value(value: &mut Value, placeholders: &Placeholders) {
    match value {
        Value::String(text) => *text = placeholders.restore(text),
        Value::Array(items) => items.iter_mut().for_each(|item| restore_value(item, placeholders)),
        Value::Object(map) => restore_object(map, placeholders),
        _ => {}
    }
}

fn restore_object(map: &mut Map<String, Value>, placeholders: &Placeholders) {
    for (key, value) in map {
        match value {
            // Arguments are JSON inside a string: what is put back has to be escaped in there.
            Value::String(text) if key == "arguments" => {
                if let Ok(mut arguments) = serde_json::from_str::<Value>(text) {
                    restore_value(&mut arguments, placeholders);
                    *text = arguments.to_string();
                }
            }
            value => restore_value(value, placeholders),
        }
    }
}

impl InFlight {
    /// Judges a whole answer, notes the verdict on its step, and puts placeholders back. Returns
    /// the reason when the answer must not leave.
    pub(crate) fn present(&mut self, reply: &mut Reply) -> Result<Option<String>> {
        let nonce = crate::nonce().map_err(|error| self.fault(error))?;
        let (placeholders, judged) = {
            let screened = self.funded()?.routed().screened();
            let project = &screened.turn().caller.project;
            let judged = judge(project, &reply.text, nonce);
            let restores = project.policy.safety().pii_restore;
            (restores.then(|| screened.placeholders().clone()), judged)
        };
        self.heard.output = judged.security;
        self.heard.instead = judged.instead.as_ref().map(|instead| match instead {
            Instead::Redacted(text) => text.clone(),
            Instead::Blocked(_) => String::new(),
        });
        let reason = apply(reply, judged.instead);
        if let Some(placeholders) = placeholders {
            restore(reply, &placeholders);
        }
        Ok(reason)
    }
}
