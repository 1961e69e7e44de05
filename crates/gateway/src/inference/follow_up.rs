//! A conversation that continues after its tools were run, rebuilt from the contents of its steps.

use std::collections::HashMap;

use checks::Placeholders;
use domain::conversation::{Message, Prompt};
use domain::ids::StepId;
use domain::step::{Content, StepKind};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::context::RequestContext;
use crate::pipeline::in_flight::InFlight;
use crate::safety::answer_fields::STATE;
use crate::tools::function_tools::{self, ToolCall, ToolResult};
use crate::tools::mcp::round::Server;

impl Gateway {
    /// The prompt that carries the results of the tools that the parent step has asked for: the
    /// conversation as the provider received it, its answer exactly as received, and the results.
    /// The tools that were offered of MCP servers go with it.
    pub(crate) async fn follow_up(
        &self,
        context: &RequestContext,
        results: Vec<ToolResult>,
    ) -> Result<(Prompt, Option<Vec<Server>>)> {
        let Some(parent) = context.parent else {
            return Err(Error::invalid("parent_step_id is required when tool_results is sent"));
        };
        let tools_step =
            crate::bounded_read::bounded(self.store.step(parent, context.trace.id())).await?;
        let run =
            tools_step.filter(|step| step.kind == StepKind::ToolCall).and_then(|step| step.parent);
        let run = run.ok_or_else(|| Error::invalid("parent_step_id is not a tool_call step"))?;
        let sealing = &context.caller.project.sealing;
        let content = crate::bounded_read::bounded(self.store.content(run, sealing)).await?;
        let content = content.ok_or_else(|| {
            Error::invalid(
                "parent_step_id: nothing of that conversation is stored (store_content is off)",
            )
        })?;
        let unreadable = || Error::Internal("a stored conversation cannot be read".to_owned());
        let mut content = content;
        let servers = content.mcp.take().map(serde_json::from_value::<Vec<Server>>).transpose();
        let servers = servers.map_err(|_| unreadable())?;
        let (mut prompt, answer) = conversation(content).ok_or_else(unreadable)?;
        let calls = function_tools::calls(&answer);
        let answered = match &servers {
            None => function_tools::answers(&calls, results)?,
            Some(_) => self.answers_with_finished(context, parent, calls, results).await?,
        };
        prompt.messages.extend(Message::read(answer));
        prompt.messages.extend(answered);
        Ok((prompt, servers))
    }

    /// The messages that answer a round of which the gateway has run some calls: their results are
    /// in steps of their own.
    async fn answers_with_finished(
        &self,
        context: &RequestContext,
        tools_step: StepId,
        calls: Vec<ToolCall>,
        results: Vec<ToolResult>,
    ) -> Result<Vec<Message>> {
        let sealing = &context.caller.project.sealing;
        let content = crate::bounded_read::bounded(self.store.content(tools_step, sealing)).await?;
        let tools = content.and_then(|content| content.output).unwrap_or_default();
        if tools.get("tool_calls").is_none() {
            let fault = "parent_step_id is a tool that the gateway has run: it waits for nothing";
            return Err(Error::invalid(fault));
        }
        let mut finished = HashMap::new();
        for ran in tools.get("finished").and_then(Value::as_array).into_iter().flatten() {
            let of = |name: &str| ran.get(name);
            let (Some(call), Some(step)) =
                (of("id").and_then(Value::as_str), of("step_id").and_then(Value::as_i64))
            else {
                continue;
            };
            let content =
                crate::bounded_read::bounded(self.store.content(StepId(step), sealing)).await?;
            let output = content.and_then(tool_output).ok_or_else(|| {
                Error::invalid("parent_step_id: the results of that round are not stored any more")
            })?;
            finished.insert(call.to_owned(), output);
        }
        let pending: Vec<ToolCall> =
            calls.iter().filter(|call| !finished.contains_key(&call.id)).cloned().collect();
        let mut pending = function_tools::answers(&pending, results)?.into_iter();
        // In the order of the calls, as the provider expects them.
        let answers = calls.iter().map_while(|call| match finished.get(&call.id).cloned() {
            None => pending.next(),
            Some(content) => {
                let result = ToolResult { call: call.id.clone(), content, name: None };
                Some(function_tools::answer(call, result))
            }
        });
        Ok(answers.collect())
    }
}

/// The whole message of an answer that asks for tools, in the caller's own words.
pub(crate) fn answer(flight: &InFlight) -> Result<Option<Value>> {
    let placeholders = flight.funded()?.routed().screened().placeholders();
    let mut answer = flight.outcome.message.clone();
    if let Some(answer) = &mut answer {
        restore(answer, placeholders, false);
    }
    Ok(answer)
}

/// The placeholders of a stored content and their originals.
fn placeholders(stored: Option<Value>) -> Option<Placeholders> {
    stored
        .map_or_else(|| Some(Placeholders::default()), |stored| serde_json::from_value(stored).ok())
}

/// The output of a tool, in its own words.
fn tool_output(content: Content) -> Option<String> {
    let placeholders = placeholders(content.placeholders)?;
    Some(placeholders.restore(content.output?.as_str()?))
}

/// The answer of a run, in the caller's own words.
pub(super) fn restored_answer(mut answer: Value, stored: Option<Value>) -> Option<Value> {
    restore(&mut answer, &placeholders(stored)?, false);
    Some(answer)
}

/// The prompt and the answer of a run, in the caller's own words: the next call redacts them anew.
pub(super) fn conversation(content: Content) -> Option<(Prompt, Value)> {
    let placeholders = placeholders(content.placeholders)?;
    let mut input = content.input?;
    let mut answer = content.output?;
    restore(&mut input, &placeholders, false);
    restore(&mut answer, &placeholders, false);
    let messages = match input {
        Value::String(text) => vec![Message::user(text)],
        Value::Array(messages) => messages.into_iter().map(Message::read).collect::<Option<_>>()?,
        _ => return None,
    };
    let mut params = Value::Object(content.params.unwrap_or_default());
    restore(&mut params, &placeholders, false);
    let Value::Object(mut params) = params else { return None };
    // A choice that forced the first call would force another one.
    params.shift_remove("tool_choice");
    Some((Prompt { messages, params, ..Prompt::default() }, answer))
}

/// Puts originals back into every string except those that a provider requires unchanged. The
/// strings in `arguments` are JSON themselves.
fn restore(value: &mut Value, placeholders: &Placeholders, is_json: bool) {
    if placeholders.is_empty() {
        return;
    }
    match value {
        Value::String(text) if is_json => *text = placeholders.restore_json(text),
        Value::String(text) => *text = placeholders.restore(text),
        Value::Array(list) => {
            for value in list {
                restore(value, placeholders, is_json);
            }
        }
        Value::Object(object) => {
            for (name, value) in object.iter_mut().filter(|(name, _)| *name != STATE) {
                restore(value, placeholders, name == "arguments");
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use checks::Redactor;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_provider_wants_back_stays_as_it_came() {
        let mut redactor = Redactor::new(1);
        let name = redactor.replace_whole("EMAIL", "jane@acme.org");
        let state = json!({"content": [{"thinking": name, "signature": "c2ln"}]});
        let call = json!({"id": "a", "function": {"name": "mail",
            "arguments": format!("{{\"to\": \"{name}\"}}")}});
        let content = Content {
            input: Some(json!([{"role": "assistant", "content": name, "provider_state": state}])),
            output: Some(json!({"role": "assistant", "content": format!("To {name}."),
                "tool_calls": [call], "provider_state": state})),
            placeholders: serde_json::to_value(redactor.into_placeholders()).ok(),
            ..Content::default()
        };
        let (prompt, answer) = conversation(content).unwrap();
        assert_eq!(answer["content"], "To jane@acme.org.");
        let arguments = &answer["tool_calls"][0]["function"]["arguments"];
        assert_eq!(arguments, "{\"to\": \"jane@acme.org\"}");
        assert_eq!(answer["provider_state"], state);
        assert_eq!(prompt.texts().collect::<Vec<_>>(), ["jane@acme.org"]);
        assert_eq!(prompt.messages[0].extra["provider_state"], state);
    }
}
