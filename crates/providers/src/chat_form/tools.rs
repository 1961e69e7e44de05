//! The tools of a prompt.

use serde_json::{Map, Value, json};

use crate::adapter::request::Attempt;
use crate::chat_form::cache::{self, Keep};
use crate::chat_form::params::Params;
use crate::error::Error;

/// Most characters of a refused name in an error.
const MOST_SHOWN_CHARS: usize = 130;

/// The tools that a model may call, and whether it has to.
#[derive(Debug, Default)]
pub(crate) struct Tools<'a> {
    pub(crate) list: Vec<Tool<'a>>,
    /// `None` leaves it to the provider's default, which is the model's own choice.
    pub(crate) choice: Option<Choice<'a>>,
    /// Whether the model may ask for one call at a time only.
    pub(crate) one_at_a_time: bool,
}

/// A function that the model may call.
#[derive(Debug)]
pub(crate) struct Tool<'a> {
    pub(crate) name: &'a str,
    /// Never empty.
    pub(crate) description: Option<&'a str>,
    /// A JSON Schema of type `object`.
    pub(crate) schema: Value,
    pub(crate) strict: bool,
    /// The breakpoint after it.
    pub(crate) kept: Option<Keep>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    Auto,
    None,
    Required,
    Named(&'a str),
}

impl<'a> Tools<'a> {
    /// Takes the tools out of the parameters. They are in the function-calling form: prompts are
    /// normalised when they are received.
    pub(crate) fn take(params: &mut Params<'a>) -> Result<Self, Error> {
        let list = match params.take("tools") {
            None => Vec::new(),
            Some(Value::Array(tools)) => tools.iter().map(tool).collect::<Result<_, _>>()?,
            Some(_) => return Err(params.unfit("tools must be an array")),
        };
        let choice = params.take("tool_choice").map(|asked| choice(asked, params)).transpose()?;
        let parallel = params.take("parallel_tool_calls");
        let one_at_a_time = parallel == Some(&Value::Bool(false));
        // Without tools there is nothing to choose from.
        let choice = choice.filter(|_| !list.is_empty());
        Ok(Self { list, choice, one_at_a_time })
    }

    /// Whether calls of any tool must fit its schema.
    pub(crate) fn is_strict(&self) -> bool {
        self.list.iter().any(|tool| tool.strict)
    }

    /// Whether there is a breakpoint among the tools.
    pub(crate) fn is_marked(&self) -> bool {
        self.list.iter().any(|tool| tool.kept.is_some())
    }
}

/// The names that a provider allows for functions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Naming {
    /// ASCII letters, digits, `_` and `-`, at most this many.
    Plain(usize),
    /// Google's rule: also `.` and `:`, at most 128, a letter or `_` in front.
    Google,
}

impl Naming {
    /// Refuses a prompt that offers a function with any other name: the provider would refuse all of
    /// it.
    pub(crate) fn check(self, attempt: &Attempt<'_>) -> Result<(), Error> {
        let tools = attempt.prompt.params.get("tools").and_then(Value::as_array);
        let names =
            tools.into_iter().flatten().filter_map(|tool| tool.get("function")?.get("name"));
        let Some(name) = names.filter_map(Value::as_str).find(|name| !self.allows(name)) else {
            return Ok(());
        };
        let shown: String = name.chars().take(MOST_SHOWN_CHARS).collect();
        let rule = match self {
            Self::Plain(most) => format!("1 to {most} letters, digits, _ and -"),
            Self::Google => "a letter or _, then at most 127 letters, digits, _, -, . and :".into(),
        };
        let model = &attempt.model.identifier;
        Err(Error::unsupported(format!(
            "The tool name '{shown}' is not supported by model {model}: it takes {rule}"
        )))
    }

    fn allows(self, name: &str) -> bool {
        let (most, signs) = match self {
            Self::Plain(most) => (most, "_-"),
            Self::Google => (128, "_-.:"),
        };
        let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
        (1..=most).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || signs.contains(c))
            && (matches!(self, Self::Plain(_)) || name.starts_with(begins))
    }
}

fn tool(tool: &Value) -> Result<Tool<'_>, Error> {
    let function = tool.get("function").filter(|function| function.is_object());
    let function = function.ok_or_else(|| Error::unsupported("A tool has no function"))?;
    let text = |name: &str| function.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
    let name = text("name").ok_or_else(|| Error::unsupported("A tool has no name"))?;
    let mut schema = match function.get("parameters") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(schema)) => schema.clone(),
        Some(_) => {
            return Err(Error::unsupported(format!("The parameters of tool {name} are no object")));
        }
    };
    // Every provider but OpenAI insists on both.
    schema.entry("type").or_insert_with(|| "object".into());
    schema.entry("properties").or_insert_with(|| json!({}));
    let strict = function.get("strict") == Some(&Value::Bool(true));
    let kept = tool.as_object().and_then(cache::breakpoint);
    Ok(Tool { name, description: text("description"), schema: Value::Object(schema), strict, kept })
}

fn choice<'a>(value: &'a Value, params: &Params<'_>) -> Result<Choice<'a>, Error> {
    let named = || value.get("function")?.get("name")?.as_str();
    match value.as_str() {
        Some("auto") => Ok(Choice::Auto),
        Some("none") => Ok(Choice::None),
        Some("required" | "any") => Ok(Choice::Required),
        _ => named().map(Choice::Named).ok_or_else(|| {
            params.unfit("tool_choice must be auto, none, required or name a function")
        }),
    }
}

#[cfg(test)]
mod tests {
    use domain::model::Provider;

    use super::*;
    use crate::error::ErrorKind;
    use crate::testing::{attempt, model, prompt};
    use crate::vendors::adapter;

    /// Sends a provider a prompt that offers a function of this name.
    fn takes(provider: Provider, name: &str) -> Result<(), Error> {
        let base = matches!(provider, Provider::Internal | Provider::Azure);
        let model = model(provider, base.then_some("http://127.0.0.1/v1"));
        let prompt = prompt(json!({"tools": [
            {"type": "function", "function": {"name": "fine"}},
            {"type": "function", "function": {"name": name}}]}));
        adapter(provider).encode(&attempt(&model, &prompt)).map(drop)
    }

    #[test]
    fn names_that_a_provider_would_refuse_are_not_sent() {
        use Provider::{Anthropic, Azure, Bedrock, Gemini, Internal, Openai};
        let long = |length: usize| "x".repeat(length);
        for (name, takers) in [
            ("get_weather-2", &[Openai, Azure, Anthropic, Gemini, Bedrock, Internal][..]),
            ("get weather", &[Internal]),
            ("wetter_für", &[Internal]),
            ("files.read", &[Gemini, Internal]),
            ("2d", &[Openai, Azure, Anthropic, Bedrock, Internal]),
            (&long(64), &[Openai, Azure, Anthropic, Gemini, Bedrock, Internal]),
            (&long(65), &[Anthropic, Gemini, Internal]),
            (&long(128), &[Anthropic, Gemini, Internal]),
            (&long(129), &[Internal]),
        ] {
            for provider in [Openai, Azure, Anthropic, Gemini, Bedrock, Internal] {
                let taken = takes(provider, name);
                assert_eq!(taken.is_ok(), takers.contains(&provider), "{provider:?} {name}");
                if let Err(error) = taken {
                    assert!(matches!(error.kind, ErrorKind::Unsupported(_)), "{error}");
                    assert!(error.to_string().contains(name), "{error}");
                }
            }
        }
    }
}
