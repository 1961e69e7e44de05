//! The tools of a prompt.

use serde_json::{Map, Value, json};

use super::{Keep, Params, cache};
use crate::error::Error;

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
    /// Takes the tools out of the parameters. They are in the function-calling form: whoever lets a
    /// prompt in has normalised them.
    pub(crate) fn take(params: &mut Params<'a>) -> Result<Self, Error> {
        let list = match params.take("tools") {
            None => Vec::new(),
            Some(Value::Array(tools)) => tools.iter().map(tool).collect::<Result<_, _>>()?,
            Some(_) => return Err(Error::unsupported("tools must be an array")),
        };
        let choice = params.take("tool_choice").map(choice).transpose()?;
        let parallel = params.take("parallel_tool_calls");
        let one_at_a_time = parallel == Some(&Value::Bool(false));
        // Without tools there is nothing to choose from.
        let choice = choice.filter(|_| !list.is_empty());
        Ok(Self { list, choice, one_at_a_time })
    }

    /// Whether there is a breakpoint among them.
    pub(crate) fn is_marked(&self) -> bool {
        self.list.iter().any(|tool| tool.kept.is_some())
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

fn choice(value: &Value) -> Result<Choice<'_>, Error> {
    let named = || value.get("function")?.get("name")?.as_str();
    match value.as_str() {
        Some("auto") => Ok(Choice::Auto),
        Some("none") => Ok(Choice::None),
        Some("required" | "any") => Ok(Choice::Required),
        _ => named().map(Choice::Named).ok_or_else(|| {
            Error::unsupported("tool_choice must be auto, none, required or name a function")
        }),
    }
}
