//! A recorded call: its conversation as its provider received it.

use checks::Placeholders;
use domain::conversation::{
    Body, CACHE_BREAKPOINT, CACHE_CONTROL, Message, PROVIDER_STATE, Prompt, Role,
};
use domain::step::{ApiEndpoint, Content, Step};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::pipeline::screen::PiiRule;
use crate::tools::mcp::round::Server;

/// Members that permit a provider to cache a prompt, or name a cache.
const CACHE_MEMBERS: [&str; 3] = [CACHE_BREAKPOINT, CACHE_CONTROL, "prompt_cache_key"];
/// Members of an assistant's message that only the model that wrote it, or its vendor, can read.
const MODEL_BOUND_MEMBERS: [&str; 3] = [PROVIDER_STATE, "reasoning_content", "audio"];

/// The conversation of a call, and what there is to know of it.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) prompt: Prompt,
    pub(crate) placeholders: Placeholders,
    /// The reason why the conversation is not the one that its provider received, if it is not.
    pub(crate) untranslatable: Option<String>,
    /// The MCP servers that have listed some of its tools.
    pub(crate) servers: Vec<Server>,
}

impl Recorded {
    /// Reads the content of a call; `None` if it holds no conversation.
    pub(crate) fn read(content: Content, api_endpoint: ApiEndpoint) -> Option<Self> {
        let messages = match content.input? {
            Value::String(text) => vec![Message::user(text)],
            Value::Array(messages) => {
                messages.into_iter().map(Message::read).collect::<Option<Vec<_>>>()?
            }
            _ => return None,
        };
        let placeholders = stored(content.placeholders)?;
        let servers = stored(content.mcp)?;
        let prompt = Prompt {
            messages,
            max_output_tokens: content.max_output_tokens,
            is_translated: is_translated(api_endpoint),
            // Parameters that the model lacks and the comparison does not need are dropped.
            is_lenient: true,
            params: content.params.unwrap_or_default(),
            original: None,
        };
        Some(Self { prompt, placeholders, untranslatable: content.untranslatable, servers })
    }

    /// Drops the members that only the model can use that the call was sent to.
    pub(crate) fn drop_provider_state(&mut self) {
        let prompt = &mut self.prompt;
        drop_cache(&mut prompt.params);
        if let Some(Value::Array(tools)) = prompt.params.get_mut("tools") {
            tools.iter_mut().filter_map(Value::as_object_mut).for_each(drop_cache);
        }
        for message in &mut prompt.messages {
            drop_cache(&mut message.extra);
            if message.role == Role::Assistant {
                message.extra.retain(|name, _| !MODEL_BOUND_MEMBERS.contains(&name.as_str()));
            }
            if let Body::Parts(parts) = &mut message.body {
                parts.iter_mut().filter_map(Value::as_object_mut).for_each(drop_cache);
            }
            if let Some(Value::Array(calls)) = message.extra.get_mut("tool_calls") {
                calls.iter_mut().filter_map(Value::as_object_mut).for_each(drop_cache);
            }
        }
    }
}

/// Reads a part of a content, which is empty if it was not stored; `None` if it is something else.
fn stored<T: DeserializeOwned + Default>(part: Option<Value>) -> Option<T> {
    part.map_or_else(|| Some(T::default()), |part| serde_json::from_value(part).ok())
}

fn drop_cache(members: &mut Map<String, Value>) {
    members.retain(|name, _| !CACHE_MEMBERS.contains(&name.as_str()));
}

/// Whether requests of an endpoint come in another format than chat completions.
fn is_translated(api_endpoint: ApiEndpoint) -> bool {
    api_endpoint.is_conversation() && api_endpoint != ApiEndpoint::Chat
}

/// The treatment of personal data in a repeated call: that of the endpoint by which it came in. Text that was
/// redacted then stays redacted. In the replay of a replay, personal data stays with private models.
pub(crate) fn pii_rule(step: &Step) -> PiiRule {
    let is_routed = step.routing.as_ref().is_some_and(|routing| routing.tier.is_some());
    match step.api_endpoint {
        endpoint if endpoint.is_conversation() => PiiRule::Redact,
        ApiEndpoint::Runs => PiiRule::Settings,
        ApiEndpoint::Assistants if !is_routed => PiiRule::Settings,
        _ => PiiRule::Route,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_conversation_is_read_as_it_was_sent() {
        let content = json!({"input": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Write to [EMAIL_1_01020304]."}],
            "params": {"temperature": 0.5}, "max_output_tokens": 9, "output": "Done.",
            "placeholders": {"[EMAIL_1_01020304]": "jane@acme.org"},
            "mcp": [{"label": "home", "url": "https://mcp.example", "runs": true,
                "vpc_only": false, "functions": {"weather": "weather"}}]});
        let content: Content = serde_json::from_value(content).unwrap();
        let read = Recorded::read(content, ApiEndpoint::Messages).unwrap();
        let texts: Vec<_> = read.prompt.texts().collect();
        assert_eq!(texts, ["Be brief.", "Write to [EMAIL_1_01020304]."]);
        assert_eq!(read.prompt.params["temperature"], 0.5);
        assert_eq!(read.prompt.max_output_tokens, Some(9));
        assert!(read.prompt.is_translated);
        assert_eq!(read.placeholders.restore("[EMAIL_1_01020304]"), "jane@acme.org");
        let labels: Vec<_> = read.servers.iter().map(|server| server.label.as_str()).collect();
        assert_eq!(labels, ["home"]);
        let plain = Content { input: Some("Hello.".into()), ..Content::default() };
        let read = Recorded::read(plain, ApiEndpoint::Executions).unwrap();
        assert_eq!(read.prompt.messages, [Message::user("Hello.")]);
        assert!(read.servers.is_empty());
        for none in [
            json!({}),
            json!({"input": 5}),
            json!({"input": [{"content": "x"}]}),
            json!({"input": "Hello.", "mcp": [{}]}),
        ] {
            let content: Content = serde_json::from_value(none).unwrap();
            assert!(Recorded::read(content, ApiEndpoint::Chat).is_none());
        }
    }

    #[test]
    fn what_only_its_model_reads_is_dropped() {
        let call = json!({"id": "a", "type": "function", "cache_breakpoint": "5m",
            "function": {"name": "f", "arguments": "{}"}});
        let kept = json!({"id": "a", "type": "function",
            "function": {"name": "f", "arguments": "{}"}});
        let content = json!({"input": [
                {"role": "user", "cache_breakpoint": "1h",
                    "content": [{"type": "text", "text": "Hi.", "cache_control": {"type": "ephemeral"}}]},
                {"role": "assistant", "content": null, "tool_calls": [call],
                    "reasoning_content": "Hm.", "provider_state": {"provider": "p"}},
                {"role": "tool", "tool_call_id": "a", "content": "1"}],
            "params": {"tools": [{"type": "function", "cache_breakpoint": "5m"}], "seed": 1,
                "cache_breakpoint": "5m", "prompt_cache_key": "s"}});
        let content: Content = serde_json::from_value(content).unwrap();
        let mut read = Recorded::read(content, ApiEndpoint::Chat).unwrap();
        read.drop_provider_state();
        let messages = serde_json::to_value(&read.prompt.messages).unwrap();
        assert_eq!(
            messages,
            json!([
                {"role": "user", "content": [{"type": "text", "text": "Hi."}]},
                {"role": "assistant", "content": null, "tool_calls": [kept]},
                {"role": "tool", "content": "1", "tool_call_id": "a"},
            ])
        );
        let params = json!({"tools": [{"type": "function"}], "seed": 1});
        assert_eq!(Value::Object(read.prompt.params), params);
    }
}
