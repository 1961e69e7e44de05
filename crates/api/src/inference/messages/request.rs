//! A request in Anthropic's format as a canonical prompt.

use std::collections::BTreeSet;

use domain::conversation::{CACHE_BREAKPOINT, CACHE_CONTROL, Message, Prompt, Role, TOOL_FAILED};
use domain::original::Original;
use domain::step::ApiEndpoint;
use gateway::ChatRequest;
use serde_json::{Map, Value, json};

use crate::http::error::Result;
use crate::inference::canonical::members::{self, MCP_SERVERS, Offered, Vendor};
use crate::inference::canonical::prompt::{
    State, States, assistant, function, marked, plain, result, text_alone, text_part,
};
use crate::inference::canonical::read::{Node, invalid};
use crate::inference::canonical::translation_gaps::TranslationGaps;
use crate::inference::format::ParsedRequest;
use crate::inference::message_names::MessageNames;
use crate::inference::messages::blocks::{blocks, document, image, is_of_vendors_tool, tool_use};
use crate::inference::messages::body::{AnthropicMessageBody, MessagesBody};
use crate::inference::messages::settings::{is_thinking, response_format, tool_choice};

/// Parses the body into a canonical request.
///
/// If the request may go on as it came, the parts that have no canonical form are noted in `original`:
/// they keep it from being translated, and are no fault otherwise.
pub fn parse(
    body: MessagesBody,
    trace: Option<String>,
    mut original: Option<Original>,
) -> Result<ParsedRequest<()>> {
    let mut reader = Reader { gaps: TranslationGaps::of(original.as_ref()), ..Reader::default() };
    if let Some(original) = &mut original {
        original.external_access = body.external_access();
    }
    if body.messages.is_empty() {
        return Err(invalid("messages must not be empty"));
    }
    if body.max_tokens == 0 {
        return Err(invalid("max_tokens must be at least 1"));
    }
    for (name, value) in &body.others {
        let fate = members::leave_out(Vendor::Anthropic, name, value);
        let fate = if name == MCP_SERVERS { reader.gaps.allow(fate)? } else { Some(fate?) };
        reader.dropped.extend(fate.flatten());
    }
    let mut messages = Vec::with_capacity(body.messages.len() + 1);
    if let Some(system) = body.system {
        messages.push(match system {
            Value::String(text) => text_alone(Role::System, text),
            blocks => plain(Role::System, reader.texts("system", blocks)?),
        });
    }
    // The index of the message that each is made of; none for `system`.
    let mut sources = vec![None; messages.len()];
    for (index, message) in body.messages.into_iter().enumerate() {
        let read = reader.message(&format!("messages[{index}]"), message, &mut messages);
        reader.gaps.allow(read)?;
        sources.resize(messages.len(), Some(index));
    }
    let mut params = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            params.insert(name.to_owned(), value);
        }
    };
    set(CACHE_BREAKPOINT, body.cache_control.and_then(|kept| reader.kept(&kept)).map(Value::from));
    set("temperature", body.temperature.map(Value::Number));
    set("top_p", body.top_p.map(Value::Number));
    set("top_k", body.top_k.map(Value::from));
    set("stop", body.stop_sequences.filter(|stops| !stops.is_empty()).map(Value::from));
    let choice = match body.tool_choice {
        Some(choice) => reader.gaps.allow(tool_choice(choice))?,
        None => None,
    };
    let mut has_tools = true;
    if let Some(tools) = body.tools {
        let choice = choice.as_ref().map(|(choice, _)| choice);
        let offered = reader.tools(tools)?;
        let (tools, left_out) = offered.choose_if_possible(choice, &mut reader.gaps)?;
        // Vendors refuse a choice among no tools.
        has_tools = left_out.is_empty() || !tools.is_empty();
        if !left_out.is_empty() {
            reader.gaps.record_omitted_tools();
        }
        reader.dropped.extend(left_out);
        set("tools", has_tools.then(|| tools.into()));
    }
    if let Some((choice, one_at_a_time)) = choice.filter(|_| has_tools) {
        set("tool_choice", Some(choice));
        set("parallel_tool_calls", one_at_a_time.then_some(Value::Bool(false)));
    }
    set("inference_geo", body.inference_geo.map(Value::from));
    set("thinking", body.thinking.filter(is_thinking).map(Value::Object));
    set("user", body.metadata.and_then(|mut metadata| metadata.remove("user_id")));
    if let Some(config) = body.output_config {
        let mut config = Node::of("output_config".to_owned(), Value::Object(config))?;
        set("reasoning_effort", config.maybe_text("effort")?.map(Value::from));
        if let Some(format) = config.maybe_node("format")? {
            set("response_format", reader.gaps.allow(response_format(format))?);
        }
        // The bill depends on it.
        reader.gaps.allow(config.idle("task_budget", &Value::Null))?;
        reader.end(config)?;
    }
    let request = ChatRequest {
        api_endpoint: ApiEndpoint::Messages,
        trace_id: body.trace_id.or(trace),
        model: body.model.filter(|model| !model.is_empty()),
        prompt: Prompt {
            messages,
            max_output_tokens: Some(body.max_tokens),
            is_translated: true,
            is_lenient: false,
            params,
            original: original.map(|mut original| {
                reader.gaps.note_in(&mut original);
                Box::new(original)
            }),
        },
        metadata: None,
    };
    Ok(ParsedRequest {
        request,
        streams: body.stream.unwrap_or(false),
        names: Some(MessageNames { list: "messages", beside: "system", sources }),
        dropped: reader.dropped.into_iter().collect(),
        options: (),
    })
}

/// The block that names a tool which a search of the caller's own has found.
const TOOL_REFERENCE: &str = "tool_reference";

/// Reads the conversation, and records what has no canonical form.
#[derive(Default)]
struct Reader {
    dropped: BTreeSet<String>,
    states: States,
    gaps: TranslationGaps,
}

impl Reader {
    /// Ends the reading of an object: a member that is left is refused or, if the request may go on
    /// as it came, left out on the way to another vendor's model, and named.
    fn end(&mut self, object: Node) -> Result<()> {
        if !self.gaps.may_pass_through() {
            return object.end();
        }
        self.dropped.extend(object.left().map(|name| members::shown(&name)));
        Ok(())
    }

    /// Leaves a part of the conversation out of the canonical form, and names it.
    fn omit(&mut self, part: String) {
        self.gaps.record_omission();
        self.dropped.insert(part);
    }

    fn leave_out(&mut self, name: &'static str, value: &Value) {
        if !value.is_null() {
            self.dropped.insert(name.to_owned());
        }
    }

    /// Takes hints out of a block that are lost.
    fn lose(&mut self, block: &mut Node, names: &[&'static str]) {
        for name in names {
            if let Some(value) = block.take(name) {
                let is_idle = value == false
                    || value.as_array().is_some_and(Vec::is_empty)
                    || value.get("enabled") == Some(&Value::Bool(false));
                self.leave_out(name, if is_idle { &Value::Null } else { &value });
            }
        }
    }

    /// Takes the breakpoint of a cache. An unknown one is a hint that is lost.
    fn breakpoint(&mut self, block: &mut Node) -> Option<&'static str> {
        block.take(CACHE_CONTROL).and_then(|control| self.kept(&control))
    }

    fn kept(&mut self, control: &Value) -> Option<&'static str> {
        let of = |name: &str| control.get(name).map(Value::as_str);
        match (of("type"), of("ttl")) {
            (Some(Some("ephemeral")), None | Some(Some("5m"))) => Some("5m"),
            (Some(Some("ephemeral")), Some(Some("1h"))) => Some("1h"),
            _ => {
                self.leave_out(CACHE_CONTROL, control);
                None
            }
        }
    }

    fn message(
        &mut self,
        at: &str,
        body: AnthropicMessageBody,
        all: &mut Vec<Message>,
    ) -> Result<()> {
        let content = format!("{at}.content");
        let mut others = Node::of(at.to_owned(), Value::Object(body.others))?;
        if body.role == "system" {
            self.lose(&mut others, &["clear_at", "output_config"]);
        }
        self.end(others)?;
        let role = match body.role.as_str() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            other => {
                let other: String = other.chars().take(40).collect();
                let fault = format!("{at}.role must be user, assistant or system, not '{other}'");
                return Err(invalid(fault));
            }
        };
        if let Value::String(text) = body.content {
            all.push(text_alone(role, text));
            return Ok(());
        }
        if role == Role::System {
            all.push(plain(role, self.texts(&content, body.content)?));
            return Ok(());
        }
        let blocks = blocks(&content, body.content)?;
        let blocks = Node::all(&content, blocks);
        if role == Role::User {
            return self.user(blocks, all);
        }
        all.push(self.assistant(blocks)?);
        Ok(())
    }

    /// Results of tools are messages of their own, which come before the user's content.
    fn user(
        &mut self,
        blocks: impl Iterator<Item = Result<Node>>,
        all: &mut Vec<Message>,
    ) -> Result<()> {
        let mut parts = Vec::new();
        let before = all.len();
        for block in blocks {
            let mut block = block?;
            let kind = block.text("type")?;
            if kind != "tool_result" {
                let part = self.part(block, &kind);
                parts.extend(self.gaps.allow(part)?);
                continue;
            }
            let failed = block.take("is_error") == Some(Value::Bool(true));
            self.lose(&mut block, &["toolset_name"]);
            let kept = self.breakpoint(&mut block);
            let id = block.text("tool_use_id")?;
            let (mut message, images) = result(id, self.result_parts(&mut block)?);
            self.end(block)?;
            message.extra.extend(kept.map(|kept| (CACHE_BREAKPOINT.to_owned(), kept.into())));
            message.extra.extend(failed.then(|| (TOOL_FAILED.to_owned(), true.into())));
            all.push(message);
            parts.extend(images);
        }
        if !parts.is_empty() || all.len() == before {
            all.push(plain(Role::User, parts));
        }
        Ok(())
    }

    fn result_parts(&mut self, block: &mut Node) -> Result<Vec<Value>> {
        let Some(content) = block.take("content") else { return Ok(Vec::new()) };
        let at = block.path("content");
        let blocks = blocks(&at, content)?;
        let parts = Node::all(&at, blocks).map(|block| {
            let mut block = block?;
            let kind = block.text("type")?;
            // All tools are offered: none has to be found.
            if self.gaps.may_pass_through() && kind == TOOL_REFERENCE {
                self.omit(kind);
                return Ok(None);
            }
            let part = self.part(block, &kind);
            self.gaps.allow(part)
        });
        parts.filter_map(Result::transpose).collect()
    }

    fn assistant(&mut self, blocks: impl Iterator<Item = Result<Node>>) -> Result<Message> {
        let (mut parts, mut calls, mut state) = (Vec::new(), Vec::new(), None);
        for block in blocks {
            let mut block = block?;
            let kind = block.text("type")?;
            match kind.as_str() {
                "tool_use" => {
                    self.lose(&mut block, &["toolset_name"]);
                    let kept = self.breakpoint(&mut block);
                    let call = tool_use(&mut block)?;
                    self.end(block)?;
                    calls.push(marked(call, kept));
                }
                // The thinking itself is in the state, if it can be used at all.
                "thinking" => {
                    self.find_state(block.maybe_text("signature")?, &mut state);
                    block.pass_over(&["thinking"]);
                    self.end(block)?;
                }
                "redacted_thinking" => {
                    self.find_state(block.maybe_text("data")?, &mut state);
                    self.end(block)?;
                }
                // The vendor has run these tools itself: what they found is in what it says next.
                kind if self.gaps.may_pass_through() && is_of_vendors_tool(kind) => {
                    self.omit(kind.to_owned());
                }
                _ => {
                    let part = self.part(block, &kind);
                    parts.extend(self.gaps.allow(part)?);
                }
            }
        }
        Ok(assistant(parts, calls, state))
    }

    fn find_state(&mut self, token: Option<String>, state: &mut Option<State>) {
        let Some(token) = token.filter(|token| !token.is_empty()) else { return };
        match self.states.of(&token) {
            Some(found) => *state = Some(found),
            None => {
                self.dropped.insert("thinking".to_owned());
            }
        }
    }

    /// Text, an image or a document.
    fn part(&mut self, mut block: Node, kind: &str) -> Result<Value> {
        self.lose(&mut block, &["citations"]);
        let kept = self.breakpoint(&mut block);
        let part = match kind {
            "text" => {
                block.pass_over(&["parsed_output"]);
                text_part(block.text("text")?)
            }
            "image" => {
                self.lose(&mut block, &["transformations"]);
                image(&mut block)?
            }
            "document" => {
                let (part, loses_context) = document(&mut block)?;
                if loses_context {
                    self.omit("context".to_owned());
                }
                part
            }
            _ => return Err(block.unsupported("a block", kind)),
        };
        self.end(block)?;
        Ok(marked(part, kept))
    }

    /// Text blocks alone.
    fn texts(&mut self, at: &str, content: Value) -> Result<Vec<Value>> {
        let blocks = blocks(at, content)?;
        let texts = Node::all(at, blocks).map(|block| {
            let mut block = block?;
            let kind = block.text("type")?;
            let part = if kind == "text" {
                self.part(block, &kind)
            } else {
                Err(block.unsupported("a block", &kind))
            };
            self.gaps.allow(part)
        });
        texts.filter_map(Result::transpose).collect()
    }

    fn tools(&mut self, tools: Vec<Value>) -> Result<Offered> {
        let mut offered = Offered::default();
        for tool in Node::all("tools", tools) {
            let mut tool = tool?;
            let kind = tool.maybe_text("type")?.unwrap_or_else(|| "custom".to_owned());
            if kind != "custom" {
                let left_out = offered.leave_out(tool, kind);
                self.gaps.allow(left_out)?;
                continue;
            }
            let kept = self.breakpoint(&mut tool);
            let name = tool.text("name")?;
            let description = tool.maybe_text("description")?;
            let function =
                function(name, description, tool.take("input_schema"), tool.take("strict"));
            self.lose(&mut tool, &["input_examples", "eager_input_streaming"]);
            // A value that only confirms the default is accepted. Any other is a hint where the
            // request comes in by the vendor's root: the tool is offered to every model at once.
            for (name, idle) in
                [("allowed_callers", json!(["direct"])), ("defer_loading", false.into())]
            {
                if self.gaps.may_pass_through() && tool.idle(name, &idle).is_err() {
                    self.dropped.insert(name.to_owned());
                }
                tool.idle(name, &idle)?;
            }
            self.end(tool)?;
            offered.add(marked(function, kept));
        }
        Ok(offered)
    }
}

#[cfg(test)]
#[path = "passing_tests.rs"]
mod passing_tests;
#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
