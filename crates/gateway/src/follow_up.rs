//! A conversation that goes on after its tools were run, put together from what its steps hold.

use checks::Placeholders;
use domain::conversation::{Message, Prompt};
use domain::step::{Content, StepKind};
use serde_json::Value;

use crate::Gateway;
use crate::error::{Error, Result};
use crate::flow::Turn;
use crate::tools::{self, ToolResult};

impl Gateway {
    /// The prompt that carries the results of the tools that the turn's parent has asked for: the
    /// conversation as the provider saw it, its answer exactly as received, and the results.
    pub(crate) async fn follow_up(&self, turn: &Turn, results: Vec<ToolResult>) -> Result<Prompt> {
        let Some(parent) = turn.parent else {
            return Err(Error::invalid("parent_step_id is required when tool_results is sent"));
        };
        let asked = crate::bounded(self.store.step(parent, turn.trace.id())).await?;
        let run = asked.filter(|step| step.kind == StepKind::ToolCall).and_then(|step| step.parent);
        let run = run.ok_or_else(|| Error::invalid("parent_step_id is not a tool_call step"))?;
        let sealing = &turn.caller.project.sealing;
        let content = crate::bounded(self.store.content(run, sealing)).await?;
        let content = content.ok_or_else(|| {
            Error::invalid(
                "parent_step_id: nothing of that conversation is stored (store_content is off)",
            )
        })?;
        let (mut prompt, answer) = conversation(content)
            .ok_or_else(|| Error::Internal("a stored conversation cannot be read".to_owned()))?;
        let answered = tools::answers(&tools::calls(&answer), results)?;
        prompt.messages.extend(Message::read(answer));
        prompt.messages.extend(answered);
        Ok(prompt)
    }
}

/// What a run was asked and what it answered, in the caller's own words: the next call redacts them
/// anew.
fn conversation(content: Content) -> Option<(Prompt, Value)> {
    let placeholders = content.placeholders.map(serde_json::from_value).transpose().ok()?;
    let placeholders: Placeholders = placeholders.unwrap_or_default();
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
    Some((Prompt { messages, max_output_tokens: None, params }, answer))
}

/// Puts originals back into every string. What `arguments` hold is JSON itself.
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
            for (name, value) in object {
                restore(value, placeholders, name == "arguments");
            }
        }
        _ => {}
    }
}
