//! The reasoning effort of requests that came in another format: models without one refuse a request
//! that names it, and no two generations have the same efforts.

use crate::adapter::request::Attempt;
use crate::chat_form::effort::{Effort, Thinking};
use crate::chat_form::text;

/// The parameter of Anthropic's format that becomes an effort.
pub(super) const THINKING: &str = "thinking";

/// The parameter of this format.
pub(super) const EFFORT: &str = "reasoning_effort";

/// The effort that a request is sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// The caller's, if there is one.
    AsAsked,
    /// None.
    Nothing,
    /// This one.
    Instead(Effort),
}

/// Chooses the effort; an effort of the caller's own goes before Anthropic's `thinking`. Settings that the
/// model cannot be asked for are dropped.
pub(super) fn choose(attempt: &Attempt<'_>, dropped: &mut Vec<String>) -> Chosen {
    let Attempt { prompt, model, .. } = *attempt;
    if !prompt.is_translated {
        return Chosen::AsAsked;
    }
    let taken = efforts(model.upstream_name(), prompt.params.contains_key("tools"));
    let (asked, name) = match (prompt.params.get(EFFORT), prompt.params.get(THINKING)) {
        // Below `/api/v1` it goes as asked.
        (Some(_), _) if !prompt.is_lenient => return Chosen::AsAsked,
        (Some(word), _) => match (Effort::read(text(Some(word))), taken) {
            // The server knows its own efforts.
            (None, _) | (_, None) => return Chosen::AsAsked,
            (asked, _) => (asked, EFFORT),
        },
        (None, Some(thinking)) => match Thinking::read(thinking) {
            Thinking::Off => return Chosen::AsAsked,
            asked => (asked.effort(), THINKING),
        },
        (None, None) => return Chosen::AsAsked,
    };
    let taken = taken.unwrap_or_default();
    if taken.is_empty() {
        dropped.push(name.to_owned());
        return Chosen::Nothing;
    }
    asked.and_then(|asked| asked.nearest(taken)).map_or(Chosen::Nothing, Chosen::Instead)
}

/// Returns the efforts of a model, least first; `None` if the model is not known. `o1` and later ones
/// of its kind have them, GPT from 5 on, and the open models; GPT refuses them beside tools from 5.2
/// on.
fn efforts(name: &str, has_tools: bool) -> Option<&'static [Effort]> {
    use Effort::{High, Low, Medium, Minimal, None as Off, Xhigh};
    let name = name.rsplit('/').next().unwrap_or_default();
    let name = name.strip_prefix("ft:").unwrap_or(name);
    if let Some(rest) = name.strip_prefix("gpt-") {
        let version = rest.split(['-', '@', ':']).next().unwrap_or_default();
        let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0_u32));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        return Some(if rest.starts_with("oss") {
            &Effort::USUAL
        } else if version < (5, 0) || rest.contains("chat") || (has_tools && version >= (5, 2)) {
            &[]
        } else if rest.contains("-pro") {
            &[High]
        } else if version < (5, 1) {
            &[Minimal, Low, Medium, High]
        } else if version < (5, 2) {
            &[Off, Low, Medium, High]
        } else {
            &[Off, Low, Medium, High, Xhigh]
        });
    }
    if name.starts_with("chatgpt-") {
        return Some(&[]);
    }
    let kind = name.strip_prefix('o').and_then(|rest| rest.split('-').next());
    let is_numbered = kind.is_some_and(|kind| kind.parse::<u8>().is_ok());
    let has_none = name.starts_with("o1-mini") || name.starts_with("o1-preview");
    is_numbered.then_some(if has_none { &[] } else { &Effort::USUAL })
}

#[cfg(test)]
mod tests {
    use domain::model::Provider;
    use serde_json::{Value, json};

    use crate::adapter::Adapter as _;
    use crate::testing::{attempt, model, prompt};
    use crate::vendors::openai::Openai;
    use crate::vendors::openai::effort::{Chosen, choose};

    /// The effort that is sent, and what is dropped.
    fn sent(name: &str, params: Value, is_translated: bool) -> (Value, Vec<String>) {
        let mut model = model(Provider::Openai, None);
        model.config.upstream_model = Some(name.to_owned());
        let mut prompt = prompt(params);
        (prompt.is_translated, prompt.is_lenient) = (is_translated, is_translated);
        let encoded = Openai.encode(&attempt(&model, &prompt)).unwrap();
        let body: Value = serde_json::from_slice(&encoded.body).unwrap();
        (body.get("reasoning_effort").cloned().unwrap_or_default(), encoded.dropped)
    }

    #[test]
    fn an_effort_of_another_format_is_fitted_to_the_model() {
        let tools = json!([{"type": "function", "function": {"name": "f"}}]);
        for (name, asked, expected) in [
            ("gpt-5", "none", "minimal"),
            ("gpt-5", "max", "high"),
            ("gpt-5.1", "minimal", "none"),
            ("gpt-5.4-mini", "max", "xhigh"),
            ("gpt-5-pro", "low", "high"),
            ("o3", "none", "low"),
            ("o4-mini-2025-04-16", "xhigh", "high"),
            ("ft:o4-mini:acme", "xhigh", "high"),
            ("openai/gpt-oss-20b", "minimal", "low"),
            ("qwen3", "xhigh", "xhigh"),
            ("gpt-5", "of_tomorrow", "of_tomorrow"),
        ] {
            let (effort, dropped) = sent(name, json!({"reasoning_effort": asked}), true);
            assert_eq!((effort, dropped.len()), (expected.into(), 0), "{name} {asked}");
        }
        for (name, params) in [
            ("gpt-4o", json!({"reasoning_effort": "low"})),
            ("chatgpt-4o-latest", json!({"reasoning_effort": "low"})),
            ("o1-mini", json!({"reasoning_effort": "low"})),
            ("gpt-5.4", json!({"reasoning_effort": "low", "tools": tools})),
        ] {
            let lost = (Value::Null, vec!["reasoning_effort".to_owned()]);
            assert_eq!(sent(name, params, true), lost, "{name}");
        }
        let own = sent("gpt-4o", json!({"reasoning_effort": "low"}), false);
        assert_eq!(own, ("low".into(), vec![]), "chat completions go as they are");
        let mut prompt = prompt(json!({"reasoning_effort": "none"}));
        prompt.is_translated = true;
        let chosen = choose(&attempt(&model(Provider::Openai, None), &prompt), &mut Vec::new());
        assert_eq!(chosen, Chosen::AsAsked, "the doors below /api/v1 send it as asked");
    }
}
