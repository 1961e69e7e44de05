//! The sandbox's answers in the chat-completions format.

use std::hash::{DefaultHasher, Hasher as _};

use bytes::Bytes;
use domain::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::sandbox::answer::{Answer, Output};
use crate::sandbox::tokens;

/// Most answers to one request.
const MOST_CHOICES: u64 = 128;

/// The common members of every object of one answer.
pub(super) struct Frame<'a> {
    id: String,
    model: &'a str,
    created: i64,
    choices: u64,
    with_usage: bool,
}

impl<'a> Frame<'a> {
    /// Derives the ids from the request, so that the same request has the same answer.
    pub(super) fn new(bytes: &[u8], request: &'a Map<String, Value>, now: Timestamp) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        let options = request.get("stream_options");
        Self {
            id: format!("{:016x}", hasher.finish()),
            model: request.get("model").and_then(Value::as_str).unwrap_or("sandbox"),
            created: now.unix_seconds(),
            choices: request.get("n").and_then(Value::as_u64).unwrap_or(1).clamp(1, MOST_CHOICES),
            with_usage: options.and_then(|o| o.get("include_usage")?.as_bool()).unwrap_or(false),
        }
    }

    /// Returns the beginning of every object, up to its choices.
    fn begin(&self, kind: &str) -> String {
        let (id, created, model) = (&self.id, self.created, json!(self.model));
        format!(
            r#"{{"id":"chatcmpl-sandbox-{id}","object":"{kind}","created":{created},"model":{model},"choices":"#
        )
    }

    fn call_id(&self, choice: u64) -> String {
        format!("call_{}{choice}", self.id)
    }

    fn usage(&self, answer: &Answer) -> Value {
        let completion = answer.completion_tokens * self.choices;
        json!({
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": answer.prompt_tokens + completion,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        })
    }
}

fn finish(answer: &Answer) -> &'static str {
    match answer.output {
        Output::Call { .. } => "tool_calls",
        Output::Text(_) if answer.cut => "length",
        Output::Text(_) => "stop",
    }
}

pub(super) fn whole(frame: &Frame<'_>, answer: &Answer) -> Vec<u8> {
    let message = |choice: u64| match &answer.output {
        Output::Text(text) => json!({"role": "assistant", "content": text, "refusal": null}),
        Output::Call { name, arguments } => json!({
            "role": "assistant",
            "content": null,
            "refusal": null,
            "tool_calls": [{
                "id": frame.call_id(choice),
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }],
        }),
    };
    let choices = (0..frame.choices).map(|index| {
        json!({
            "index": index,
            "message": message(index),
            "logprobs": null,
            "finish_reason": finish(answer),
        })
    });
    let choices: Value = choices.collect();
    let (begin, usage) = (frame.begin("chat.completion"), frame.usage(answer));
    format!(r#"{begin}{choices},"usage":{usage},"system_fingerprint":"sandbox"}}"#).into_bytes()
}

pub(super) fn stream(frame: &Frame<'_>, answer: &Answer) -> Vec<Bytes> {
    let begin = frame.begin("chat.completion.chunk");
    let mut events = Vec::new();
    for choice in 0..frame.choices {
        let mut push = |delta: &str, reason: Option<&str>| {
            let reason = json!(reason);
            events.push(event(&format!(
                r#"{begin}[{{"index":{choice},"delta":{delta},"finish_reason":{reason}}}]}}"#
            )));
        };
        for delta in deltas(frame, answer, choice) {
            push(&delta, None);
        }
        push("{}", Some(finish(answer)));
    }
    if frame.with_usage {
        events.push(event(&format!(r#"{begin}[],"usage":{}}}"#, frame.usage(answer))));
    }
    events.push(event("[DONE]"));
    events
}

/// Returns the additions of each chunk to a choice.
fn deltas(frame: &Frame<'_>, answer: &Answer, choice: u64) -> Vec<String> {
    let mut deltas = Vec::new();
    match &answer.output {
        Output::Text(text) => {
            deltas.push(json!({"role": "assistant", "content": ""}).to_string());
            deltas.extend(
                tokens::tokens(text).map(|token| format!(r#"{{"content":{}}}"#, json!(token))),
            );
        }
        Output::Call { name, arguments } => {
            let call = json!({
                "index": 0,
                "id": frame.call_id(choice),
                "type": "function",
                "function": {"name": name, "arguments": ""},
            });
            let first = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            deltas.push(first.to_string());
            deltas.extend(tokens::tokens(arguments).map(|token| {
                let piece = json!({"index": 0, "function": {"arguments": token}});
                json!({ "tool_calls": [piece] }).to_string()
            }));
        }
    }
    deltas
}

fn event(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}
