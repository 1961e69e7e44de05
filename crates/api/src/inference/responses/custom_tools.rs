//! Custom tools: their input is a text of the model's instead of JSON. Only OpenAI's newest models
//! have them. Others are offered a function with that text as its one argument, and its calls are
//! answered as those of the tool.

use std::collections::HashSet;

use domain::json_weight::InnerJson;
use serde_json::{Map, Value, json};

use crate::http::error::{Failure, Result};
use crate::inference::canonical::prompt::function;
use crate::inference::canonical::read::{Node, invalid};
use crate::inference::responses::request::Hints;

/// The type of such a tool.
pub(super) const CUSTOM: &str = "custom";

/// The argument that stands for the input.
const INPUT: &str = "input";

/// The most characters of a tool's name that an error quotes.
const LONGEST_QUOTE: usize = 64;

/// The names of a request's custom tools, and of its functions: no name is that of both, or a call
/// could be of either.
#[derive(Clone, Debug, Default)]
pub(crate) struct CustomTools {
    custom: HashSet<String>,
    functions: HashSet<String>,
}

impl CustomTools {
    /// Whether calls of this name are of a custom tool.
    pub(super) fn has(&self, name: &str) -> bool {
        self.custom.contains(name)
    }

    /// Takes note of a function that is offered beside custom tools.
    pub(super) fn beside(&mut self, function: Value) -> Result<Value> {
        if let Some(name) = function["function"]["name"].as_str() {
            if self.custom.contains(name) {
                return Err(shared(name));
            }
            self.functions.insert(name.to_owned());
        }
        Ok(function)
    }

    /// Reads a tool; the function that stands for it.
    pub(super) fn read(&mut self, mut tool: Node, hints: &mut Hints<'_>) -> Result<Value> {
        let name = tool.text("name")?;
        if self.functions.contains(&name) {
            return Err(shared(&name));
        }
        let mut description = tool.maybe_text("description")?.unwrap_or_default();
        if let Some(mut format) = tool.maybe_node("format")? {
            let kind = format.text("type")?;
            match kind.as_str() {
                "text" => {}
                "grammar" => {
                    let (syntax, grammar) = (format.text("syntax")?, format.text("definition")?);
                    if !description.is_empty() {
                        description.push_str("\n\n");
                    }
                    for piece in ["The input follows this ", &syntax, " grammar:\n", &grammar] {
                        description.push_str(piece);
                    }
                }
                _ => return Err(format.unsupported("a format", &kind)),
            }
            format.end()?;
        }
        hints.end(tool)?;
        self.custom.insert(name.clone());
        let parameters = json!({"type": "object", "properties": {INPUT: {"type": "string"}},
            "required": [INPUT], "additionalProperties": false});
        let description = Some(description).filter(|text| !text.is_empty());
        Ok(function(name, description, Some(parameters), None))
    }
}

/// The refusal of a name that a function and a custom tool share.
fn shared(name: &str) -> Failure {
    let name: String = name.chars().take(LONGEST_QUOTE).collect();
    invalid(format!(
        "tools: '{name}' is the name of a function and of a custom tool; give each a name of its own"
    ))
}

/// The input in the arguments of the function. Arguments of another form are the input themselves:
/// some models write the text at once.
pub(super) fn input_of(arguments: &str) -> String {
    let read: Option<Map<String, Value>> = InnerJson::default().read(arguments);
    match read.and_then(|mut read| read.remove(INPUT)) {
        Some(Value::String(input)) => input,
        _ => arguments.to_owned(),
    }
}

/// The arguments of the function for an input.
pub(super) fn arguments_of(input: &str) -> String {
    json!({INPUT: input}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_the_same_there_and_back() {
        for input in ["", "*** Begin Patch\n+a \"b\"\\\n", "{\"input\": 1}", "\u{1f600}"] {
            assert_eq!(input_of(&arguments_of(input)), input);
        }
        assert_eq!(input_of("*** Begin Patch"), "*** Begin Patch");
        assert_eq!(input_of("{\"patch\": \"x\"}"), "{\"patch\": \"x\"}");
    }

    #[test]
    fn a_grammar_is_told_in_words() {
        let tool = json!({"name": "apply_patch", "description": "Edits files.", "format":
            {"type": "grammar", "syntax": "lark", "definition": "start: \"x\""}});
        let mut tools = CustomTools::default();
        let tool = Node::of("tools[0]".to_owned(), tool).unwrap();
        let function = tools.read(tool, &mut Hints::new(false, &mut Vec::new())).unwrap();
        let function = &function["function"];
        assert_eq!(
            function["description"],
            "Edits files.\n\nThe input follows this lark grammar:\nstart: \"x\""
        );
        assert_eq!(function["parameters"]["required"], json!(["input"]));
        assert!(tools.has("apply_patch") && !tools.has("other"));
    }
}
