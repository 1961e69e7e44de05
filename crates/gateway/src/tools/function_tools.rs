//! Tools: declared in any of the usual forms, called by a model, answered by the caller.

use std::collections::{HashMap, HashSet};

use domain::conversation::{Body, CACHE_BREAKPOINT, CACHE_CONTROL, Message, Role};
use domain::json_weight::InnerJson;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::tools::mcp::entries;

/// More than any provider takes.
const MOST_TOOLS: usize = 256;
/// The names under which the forms give the schema of a tool's arguments.
const SCHEMAS: [&str; 3] = ["parameters", "inputSchema", "input_schema"];

/// The other fields of a flat declaration that belong to its function.
const FLAT: [&str; 3] = ["name", "description", "strict"];
/// Members beside the function that stay: the end of the part of a prompt to cache, in the
/// gateway's form and in that of callers.
const BESIDE: [&str; 2] = [CACHE_BREAKPOINT, CACHE_CONTROL];

/// A call that a model asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments; text that is no JSON object stands under `_raw`.
    pub arguments: Map<String, Value>,
}

/// The result of a tool.
#[derive(Clone, Debug)]
pub struct ToolResult {
    /// The call that it answers.
    pub call: String,
    /// The answer.
    pub content: String,
    /// The tool.
    pub name: Option<String>,
}

/// Brings declarations into the function-calling form. The others are that of MCP (`inputSchema`)
/// and a flat hash (`name`, `description`, `parameters`). A declaration of another type than
/// `function` stays as it is: a provider may support it.
pub(crate) fn normalise(tools: &mut [Value]) -> Result<()> {
    check_number(tools)?;
    for (index, tool) in tools.iter_mut().enumerate() {
        let fault = |what: &str| Error::invalid(format!("tools[{index}]: {what}"));
        let Value::Object(given) = tool else { return Err(fault("it must be an object")) };
        match given.get("type").map(Value::as_str) {
            Some(Some("function")) | None => {}
            _ => continue,
        }
        let beside = BESIDE.map(|name| given.remove(name));
        let mut function = match given.remove("function") {
            Some(Value::Object(function)) => function,
            Some(_) => return Err(fault("function must be an object")),
            None => {
                let mut flat = std::mem::take(given);
                // The other fields of a server's tools are not for a model.
                flat.retain(|name, _| {
                    FLAT.contains(&name.as_str()) || SCHEMAS.contains(&name.as_str())
                });
                flat
            }
        };
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.trim().is_empty() {
            return Err(fault("its function needs a name"));
        }
        let schemas = SCHEMAS.map(|name| function.remove(name));
        match schemas.into_iter().flatten().find(|schema| !schema.is_null()) {
            None => {}
            Some(Value::Object(schema)) => {
                function.insert("parameters".to_owned(), schema_of(schema));
            }
            Some(_) => return Err(fault("its parameters must be a JSON Schema object")),
        }
        *tool = json!({"type": "function", "function": function});
        for (name, value) in BESIDE.iter().zip(beside) {
            if let Some(value) = value {
                tool[*name] = value;
            }
        }
    }
    Ok(())
}

/// The name of a function, in the form that [`normalise`] gives it.
pub(crate) fn name(tool: &Value) -> Option<&str> {
    tool.get("function")?.get("name")?.as_str()
}

/// Refuses more tools than a provider takes.
pub(crate) fn check_number(tools: &[Value]) -> Result<()> {
    if tools.len() > MOST_TOOLS {
        return Err(Error::invalid(format!("tools: at most {MOST_TOOLS} are allowed")));
    }
    Ok(())
}

/// Refuses tools that are neither a function nor an MCP server: the gateway's own endpoints support
/// no others.
pub(crate) fn check_known(tools: &[Value]) -> Result<()> {
    let is_known = |tool: &Value| tool.get("function").is_some() || entries::is_entry(tool);
    match tools.iter().position(|tool| !is_known(tool)) {
        None => Ok(()),
        Some(index) => {
            let kind = tools[index].get("type").and_then(Value::as_str).unwrap_or_default();
            let kind = kind.chars().take(40).collect::<String>();
            Err(Error::invalid(format!("tools[{index}]: the type '{kind}' is not supported")))
        }
    }
}

/// A schema as it is, or around what is only a list of properties.
fn schema_of(given: Map<String, Value>) -> Value {
    let is_property =
        |value: &Value| value.get("type").is_some_and(|kind| kind.is_string() || kind.is_array());
    let is_list = !given.is_empty()
        && !given.get("type").is_some_and(Value::is_string)
        && given.values().all(is_property);
    if is_list { json!({"type": "object", "properties": given}) } else { Value::Object(given) }
}

/// The calls of an assistant's message.
pub(crate) fn calls(message: &Value) -> Vec<ToolCall> {
    let listed = message.get("tool_calls").and_then(Value::as_array);
    let mut inner = InnerJson::default();
    listed.into_iter().flatten().map(|listed| call(listed, &mut inner)).collect()
}

fn call(call: &Value, inner: &mut InnerJson) -> ToolCall {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let function = call.get("function");
    let arguments = text(function.and_then(|function| function.get("arguments")));
    ToolCall {
        id: text(call.get("id")),
        name: text(function.and_then(|function| function.get("name"))),
        arguments: match inner.read(&arguments) {
            Some(Value::Object(arguments)) => arguments,
            _ if arguments.trim().is_empty() => Map::new(),
            _ => Map::from_iter([("_raw".to_owned(), arguments.into())]),
        },
    }
}

/// The messages that answer a round of calls, in the order of the calls. Every call is answered
/// once, and nothing else is.
pub(crate) fn answers(calls: &[ToolCall], results: Vec<ToolResult>) -> Result<Vec<Message>> {
    let asked: HashSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    let mut given = HashMap::with_capacity(results.len());
    for result in results {
        let id = result.call.clone();
        if !asked.contains(id.as_str()) {
            return Err(Error::invalid(format!("tool_results: unknown tool_call_id: {id}")));
        }
        if given.insert(id.clone(), result).is_some() {
            return Err(Error::invalid(format!("tool_results: {id} is answered twice")));
        }
    }
    let mut missing: Vec<&str> = asked.into_iter().filter(|id| !given.contains_key(*id)).collect();
    if !missing.is_empty() {
        missing.sort_unstable();
        let missing = missing.join(", ");
        return Err(Error::invalid(format!("tool_results: no result for tool_call_id {missing}")));
    }
    let answered = calls.iter().filter_map(|call| Some((call, given.remove(&call.id)?)));
    Ok(answered.map(|(call, result)| answer(call, result)).collect())
}

/// The message that answers a call.
pub(crate) fn answer(call: &ToolCall, result: ToolResult) -> Message {
    let name = result.name.unwrap_or_else(|| call.name.clone());
    let extra = [("tool_call_id".to_owned(), result.call.into()), ("name".to_owned(), name.into())];
    Message { role: Role::Tool, body: Body::Text(result.content), extra: Map::from_iter(extra) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments of all calls take no more than the answer that they came in may.
    #[test]
    fn arguments_out_of_proportion_stay_texts() {
        let call =
            |arguments: &str| json!({"id": "a", "function": {"name": "f", "arguments": arguments}});
        let dense = format!(r#"{{"a":[{}]}}"#, vec!["[]"; 100_000].join(","));
        let message = json!({"tool_calls": vec![call(&dense); 20]});
        let read = calls(&message);
        let as_text = read.iter().filter(|call| call.arguments.contains_key("_raw")).count();
        assert!((10..20).contains(&as_text), "{as_text}");
        let plain = json!({"tool_calls": vec![call(r#"{"city":"Oslo"}"#); 5_000]});
        assert!(calls(&plain).iter().all(|call| call.arguments["city"] == "Oslo"));
    }

    fn normalised(tool: Value) -> Result<Value> {
        let mut tools = [tool];
        normalise(&mut tools)?;
        let [tool] = tools;
        Ok(tool)
    }

    #[test]
    fn every_form_becomes_a_function() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let wanted = json!({"type": "function",
            "function": {"name": "weather", "description": "Tells.", "parameters": schema}});
        for tool in [
            wanted.clone(),
            json!({"name": "weather", "description": "Tells.", "inputSchema": schema}),
            json!({"name": "weather", "description": "Tells.", "input_schema": schema}),
            json!({"name": "weather", "description": "Tells.", "parameters": schema}),
            json!({"type": "function", "name": "weather", "description": "Tells.", "parameters": schema}),
            json!({"name": "weather", "description": "Tells.",
                "parameters": {"city": {"type": "string"}}}),
        ] {
            assert_eq!(normalised(tool.clone()).unwrap(), wanted, "{tool}");
        }
        let bare = json!({"type": "function", "function": {"name": "now"}});
        assert_eq!(normalised(json!({"name": "now", "parameters": null})).unwrap(), bare);
        let kept = json!({"name": "now", "cache_breakpoint": "5m"});
        let expected = json!({"type": "function", "function": {"name": "now"},
            "cache_breakpoint": "5m"});
        assert_eq!(normalised(kept).unwrap(), expected);
        let control = json!({"type": "ephemeral"});
        let kept =
            json!({"type": "function", "function": {"name": "now"}, "cache_control": control});
        assert_eq!(normalised(kept.clone()).unwrap(), kept);
        let other = json!({"type": "custom", "custom": {"name": "sql"}});
        assert_eq!(normalised(other.clone()).unwrap(), other);
    }

    #[test]
    fn what_is_no_tool_is_named() {
        for (tool, fault) in [
            (json!("weather"), "tools[0]: it must be an object"),
            (json!({"type": "function"}), "tools[0]: its function needs a name"),
            (json!({"function": {"name": " "}}), "tools[0]: its function needs a name"),
            (json!({"function": []}), "tools[0]: function must be an object"),
            (
                json!({"name": "a", "parameters": []}),
                "tools[0]: its parameters must be a JSON Schema object",
            ),
        ] {
            assert_eq!(normalised(tool).unwrap_err().to_string(), fault);
        }
        let mut many = vec![json!({"name": "a"}); MOST_TOOLS + 1];
        normalise(&mut many).unwrap_err();
    }

    fn asked(ids: &[&str]) -> Vec<ToolCall> {
        let call = |id: &&str| ToolCall {
            id: (*id).to_owned(),
            name: format!("tool_{id}"),
            arguments: Map::new(),
        };
        ids.iter().map(call).collect()
    }

    fn result(id: &str) -> ToolResult {
        ToolResult { call: id.to_owned(), content: format!("answer {id}"), name: None }
    }

    #[test]
    fn results_come_in_the_order_of_the_calls() {
        let messages = answers(&asked(&["a", "b"]), vec![result("b"), result("a")]).unwrap();
        assert_eq!(
            serde_json::to_value(messages).unwrap(),
            json!([
                {"role": "tool", "content": "answer a", "tool_call_id": "a", "name": "tool_a"},
                {"role": "tool", "content": "answer b", "tool_call_id": "b", "name": "tool_b"},
            ])
        );
    }

    #[test]
    fn a_round_is_answered_whole_and_once() {
        let fault = |ids: &[&str]| {
            let results = ids.iter().map(|id| result(id)).collect();
            answers(&asked(&["a", "b"]), results).unwrap_err().to_string()
        };
        assert_eq!(fault(&["a"]), "tool_results: no result for tool_call_id b");
        assert_eq!(fault(&[]), "tool_results: no result for tool_call_id a, b");
        assert_eq!(fault(&["a", "b", "c"]), "tool_results: unknown tool_call_id: c");
        assert_eq!(fault(&["a", "b", "a"]), "tool_results: a is answered twice");
    }

    #[test]
    fn arguments_are_an_object_whatever_the_model_wrote() {
        let of = |arguments: &str| {
            let message = json!({"tool_calls": [{"id": "1", "function": {"name": "a", "arguments": arguments}}]});
            Value::Object(calls(&message).remove(0).arguments)
        };
        assert_eq!(of(r#"{"city":"Bonn"}"#), json!({"city": "Bonn"}));
        assert_eq!(of(""), json!({}));
        assert_eq!(of("{\"city\":"), json!({"_raw": "{\"city\":"}));
        assert_eq!(of("[1]"), json!({"_raw": "[1]"}));
    }
}
