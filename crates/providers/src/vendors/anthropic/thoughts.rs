//! How much Claude is asked to think, also where others serve it, and what it refuses beside thinking.

use std::borrow::Cow;

use domain::model::Model;
use serde_json::{Value, json};

use crate::adapter::request::Attempt;
use crate::chat_form::conversation::Conversation;
use crate::chat_form::effort::Effort;
use crate::chat_form::params::Params;
use crate::chat_form::parts::{Part, Speaker};
use crate::chat_form::text;
use crate::chat_form::tools::{Choice, Tools};
use crate::error::Error;
use crate::vendors::anthropic::rules::{efforts, takes_effort, thinks_by_budget};

const EFFORT: &str = "reasoning_effort";
const THINKING: &str = "thinking";

/// The least budget of thinking tokens.
const LEAST_BUDGET: u64 = 1024;

/// How much a model is asked to think.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Thoughts<'a> {
    pub(crate) effort: Option<&'a str>,
    /// In the vendor's own form.
    pub(crate) thinking: Option<Cow<'a, Value>>,
}

impl<'a> Thoughts<'a> {
    /// Takes `reasoning_effort` and `thinking`, and where requests are fitted to models, whatever the
    /// model refuses beside thinking.
    pub(crate) fn take(
        params: &mut Params<'a>,
        attempt: &Attempt<'_>,
        conversation: &Conversation<'_>,
        tools: &Tools<'_>,
    ) -> Result<Self, Error> {
        let name = attempt.model.upstream_name();
        let asked = params.text(EFFORT)?;
        let own = params.take(THINKING).map(Cow::Borrowed);
        if !params.is_lenient() {
            return Ok(Self { effort: strict(asked, attempt.model)?, thinking: own });
        }
        let level = asked.and_then(Effort::read);
        let effort = level.and_then(|asked| asked.nearest(&efforts(name))).map(Effort::word);
        let is_own = own.is_some();
        let mut thinking = own;
        let thinks_instead = effort.is_none() && !is_own && thinks_by_budget(name);
        if let Some(level) = level.filter(|level| thinks_instead && *level > Effort::None) {
            let budget = level.budget();
            thinking = Some(Cow::Owned(json!({"type": "enabled", "budget_tokens": budget})));
        }
        let fits = !forces_call(tools) && (is_own || is_thought_through(conversation));
        let fitted = thinking.filter(|_| fits).and_then(|thinking| within(thinking, attempt));
        // An effort of `none` is met by a model that does not think by itself.
        let is_met = thinks_instead && level == Some(Effort::None);
        if asked.is_some() && effort.is_none() && fitted.is_none() && !is_met {
            params.lose(EFFORT);
        }
        if is_own && fitted.is_none() {
            params.lose(THINKING);
        }
        if fitted.as_deref().is_some_and(is_on) {
            without_sampling(params);
        }
        Ok(Self { effort, thinking: fitted })
    }

    /// The budget of thinking tokens, if there is one.
    pub(crate) fn budget(&self) -> Option<u64> {
        let thinking = self.thinking.as_deref().filter(|thinking| is_enabled(thinking))?;
        thinking.get("budget_tokens").and_then(Value::as_u64)
    }
}

/// Returns the effort as it was asked for; the vendor has none for other vendors' levels below `low`.
fn strict<'a>(asked: Option<&'a str>, model: &Model) -> Result<Option<&'a str>, Error> {
    let takes = |effort| {
        Effort::read(effort).is_some_and(|effort| effort >= Effort::Low)
            && takes_effort(model.upstream_name(), effort)
    };
    match asked {
        Some(effort) if !takes(effort) => {
            let effort: String = effort.chars().take(16).collect();
            Err(Error::lacking(model, format_args!("reasoning_effort {effort}")))
        }
        effort => Ok(effort),
    }
}

fn is_enabled(thinking: &Value) -> bool {
    text(thinking.get("type")) == "enabled"
}

fn is_on(thinking: &Value) -> bool {
    text(thinking.get("type")) != "disabled"
}

/// Whether the model has to call a tool, which it refuses to do while it thinks.
fn forces_call(tools: &Tools<'_>) -> bool {
    matches!(tools.choice, Some(Choice::Required | Choice::Named(_)))
}

/// Whether the model's turns since the user's last words begin with its thoughts, which the vendor
/// insists on while the model thinks.
fn is_thought_through(conversation: &Conversation<'_>) -> bool {
    let is_result = |part: &Part<'_>| matches!(part, Part::Result(_));
    let turns = conversation.turns.iter().rev();
    let round = turns.take_while(|turn| {
        turn.speaker == Speaker::Model || turn.parts.first().is_some_and(is_result)
    });
    let mut models = round.filter(|turn| turn.speaker == Speaker::Model);
    models.all(|turn| matches!(turn.parts.first(), Some(Part::ProviderBlock(..))))
}

/// Returns the thinking with a budget that leaves room for an answer; `None` if there is no room.
fn within<'a>(thinking: Cow<'a, Value>, attempt: &Attempt<'_>) -> Option<Cow<'a, Value>> {
    let budget = thinking.get("budget_tokens").and_then(Value::as_u64);
    let Some(budget) = budget.filter(|_| is_enabled(&thinking)) else { return Some(thinking) };
    // It comes on top of an answer if nothing bounds both.
    let Some(bound) = attempt.max_output_tokens else { return Some(thinking) };
    if budget < bound && matches!(thinking, Cow::Borrowed(_)) {
        return Some(thinking);
    }
    let budget = budget.min(bound / 2);
    (budget >= LEAST_BUDGET).then(|| {
        let mut fitted = thinking.into_owned();
        fitted["budget_tokens"] = budget.into();
        Cow::Owned(fitted)
    })
}

/// Leaves out how the model chooses between words: beside thinking it takes a temperature of 1 alone,
/// and a `top_p` from 0.95 on.
fn without_sampling(params: &mut Params<'_>) {
    let near = |value: &Value, least: f64| value.as_f64().is_some_and(|number| number >= least);
    for (name, least) in [("temperature", 1.0), ("top_p", 0.95), ("top_k", f64::INFINITY)] {
        if params.take_if(name, |value| !near(value, least)) {
            params.lose(name);
        }
    }
}
